//! Unit tests of `borrowed`.

use std::sync::{Barrier, Mutex, mpsc};
use std::time::{Duration, Instant};

use super::*;
use crate::executor::job_queue::tests::Callbacks;

const TIMEOUT: Duration = Duration::from_secs(20);

fn pool_of(threads: usize) -> Arc<rayon::ThreadPool> {
    Arc::new(rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap())
}

/// Returns a batch of one callback.
fn once(call: impl Fn() + Clone + Send + Sync + 'static) -> Arc<Callbacks> {
    Arc::new(Callbacks::of(1, call))
}

fn push(queue: &JobQueue, batch: Arc<Callbacks>) {
    queue.push(batch, Instant::now());
}

/// Adds a batch to the queue of a pool.
fn dispatch(pool: &BorrowedPool, batch: Arc<Callbacks>) {
    push(&pool.queue, batch);
    pool.spawn_tickets(1);
}

fn check(pool: &BorrowedPool, at: Instant) {
    pool.spawn_tickets(pool.queue.check(at, |_| 0));
}

/// Adds a batch that writes to the log.
fn push_logging(queue: &JobQueue, log: &Arc<Mutex<Vec<&'static str>>>, text: &'static str) {
    let log = log.clone();
    push(queue, once(move || log.lock().unwrap().push(text)));
}

#[test]
fn a_ticket_inside_a_callback_runs_when_the_callback_has_returned() {
    let queue = Arc::new(JobQueue::new(0));
    let log = Arc::<Mutex<Vec<_>>>::default();
    // On the only thread of a pool, so no other thread takes the ticket.
    pool_of(1).install(|| {
        let (inside, outer) = (queue.clone(), log.clone());
        let takes_a_ticket = once(move || {
            push_logging(&inside, &outer, "deferred");
            run_ticket(inside.clone());
            outer.lock().unwrap().push("returns");
        });
        push(&queue, takes_a_ticket);
        run_ticket(queue.clone());
        assert_eq!(*log.lock().unwrap(), ["returns", "deferred"]);
        push_logging(&queue, &log, "at once");
        run_ticket(queue.clone());
        assert_eq!(log.lock().unwrap().last(), Some(&"at once"), "no callback is running any more");
    });
}

#[test]
fn a_ticket_inside_a_callback_wakes_other_threads() {
    let queue = Arc::new(JobQueue::new(0));
    let (sender, receiver) = mpsc::channel();
    let receiver = Arc::new(Mutex::new(receiver));
    pool_of(2).install(|| {
        let inside = queue.clone();
        let waits = once(move || {
            let sender = sender.clone();
            push(&inside, once(move || sender.send(()).unwrap()));
            run_ticket(inside.clone());
            receiver.lock().unwrap().recv_timeout(TIMEOUT).expect("the other thread is idle");
        });
        push(&queue, waits);
        run_ticket(queue);
    });
}

/// Both threads are inside callbacks when one defers a ticket. The other is free first.
#[test]
fn a_thread_that_returns_from_a_callback_runs_what_another_has_deferred() {
    let queue = Arc::new(JobQueue::new(0));
    let inside = Arc::new(Barrier::new(2));
    let (spawn, spawned) = mpsc::channel();
    let (run, has_run) = mpsc::channel();
    let (spawned, has_run) = (Arc::new(Mutex::new(spawned)), Arc::new(Mutex::new(has_run)));
    let (its, met) = (queue.clone(), inside.clone());
    let defers = once(move || {
        met.wait();
        let run = run.clone();
        push(&its, once(move || run.send(()).unwrap()));
        run_ticket(its.clone());
        spawn.send(()).unwrap();
        has_run.lock().unwrap().recv_timeout(TIMEOUT).expect("the other thread is idle");
    });
    let returns = once(move || {
        inside.wait();
        spawned.lock().unwrap().recv_timeout(TIMEOUT).unwrap();
        while rayon::yield_now() != Some(rayon::Yield::Executed) {}
    });
    push(&queue, defers);
    push(&queue, returns);
    pool_of(2).broadcast(|_| run_ticket(queue.clone()));
}

#[test]
fn all_idle_threads_assist_with_a_late_batch() {
    const THREADS: usize = 3;
    let pool = BorrowedPool::new(Some(pool_of(THREADS)));
    let meeting = Arc::new(Barrier::new(THREADS));
    let (sender, receiver) = mpsc::channel();
    let batch = Arc::new(Callbacks::of(THREADS, move || {
        sender.send(false).unwrap();
        meeting.wait();
        sender.send(true).unwrap();
    }));
    dispatch(&pool, batch);
    receiver.recv_timeout(TIMEOUT).unwrap();
    // No check follows the one that calls one more thread, which calls the next.
    while pool.queue.next_check().is_some() {
        thread::sleep(Duration::from_millis(1));
        check(&pool, Instant::now());
    }
    let met = std::iter::from_fn(|| Some(receiver.recv_timeout(TIMEOUT).expect("each has a thread")));
    assert_eq!(met.filter(|&met| met).take(THREADS).count(), THREADS);
}

#[test]
fn a_check_adds_no_ticket_for_a_batch_that_no_worker_has_started() {
    let pool = BorrowedPool::new(Some(pool_of(1)));
    let (begin, begun) = mpsc::channel();
    let (sender, receiver) = mpsc::channel::<()>();
    let receiver = Arc::new(Mutex::new(receiver));
    let blocks = once(move || {
        begin.send(()).unwrap();
        _ = receiver.lock().unwrap().recv();
    });
    dispatch(&pool, blocks);
    begun.recv_timeout(TIMEOUT).unwrap();
    dispatch(&pool, once(|| ()));
    let checks = std::iter::from_fn(|| pool.queue.next_check()).inspect(|&at| check(&pool, at)).take(10).count();
    assert!((2..10).contains(&checks), "the second may be taken in time, and the only thread is busy");
    drop(sender);
}

/// The queue refers to no pool, and a ticket to the queue alone.
#[test]
fn a_ticket_does_not_keep_the_pool_alive() {
    let threads = pool_of(1);
    let (sender, receiver) = mpsc::channel::<()>();
    let receiver = Arc::new(Mutex::new(receiver));
    let pool = BorrowedPool::new(Some(threads.clone()));
    (0..2).for_each(|_| {
        let receiver = receiver.clone();
        dispatch(&pool, once(move || _ = receiver.lock().unwrap().recv()));
    });
    drop(pool);
    assert_eq!(Arc::strong_count(&threads), 1);
    drop(sender);
}

//! Unit tests of `borrowed`.

use std::sync::{Barrier, mpsc};
use std::time::Duration;

use super::super::batch::tests::Callbacks;
use super::*;

const TIMEOUT: Duration = Duration::from_secs(20);

fn pool_of(threads: usize) -> Arc<rayon::ThreadPool> {
    Arc::new(rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap())
}

/// Returns a batch of one callback.
fn once(call: impl Fn() + Clone + Send + Sync + 'static) -> Arc<Callbacks> {
    Arc::new(Callbacks::of(1, call))
}

fn logging(log: &Arc<Mutex<Vec<&'static str>>>, text: &'static str) -> Job {
    let log = log.clone();
    Job { batch: once(move || log.lock().unwrap().push(text)), is_straggler: false }
}

#[test]
fn stragglers_come_before_batches_that_no_worker_has_started() {
    let (queue, log) = (Queue::default(), Arc::default());
    for (text, is_straggler) in [("third", false), ("first", true), ("fourth", false), ("second", true)] {
        enqueue(&queue, Job { is_straggler, ..logging(&log, text) });
    }
    while let Some(job) = lock(&queue).pop_front() {
        job.batch.run();
    }
    assert_eq!(*log.lock().unwrap(), ["first", "second", "third", "fourth"]);
}

#[test]
fn a_ticket_inside_a_callback_runs_when_the_callback_has_returned() {
    let (queue, log) = (Arc::<Queue>::default(), Arc::<Mutex<Vec<_>>>::default());
    // On the only thread of a pool, so no other thread takes the ticket.
    pool_of(1).install(|| {
        let (inside, outer) = (queue.clone(), log.clone());
        let takes_a_ticket = once(move || {
            enqueue(&inside, logging(&outer, "deferred"));
            run_ticket(inside.clone());
            outer.lock().unwrap().push("returns");
        });
        enqueue(&queue, Job { batch: takes_a_ticket, is_straggler: false });
        run_ticket(queue.clone());
        assert_eq!(*log.lock().unwrap(), ["returns", "deferred"]);
        enqueue(&queue, logging(&log, "at once"));
        run_ticket(queue.clone());
        assert_eq!(log.lock().unwrap().last(), Some(&"at once"), "no callback is running any more");
    });
}

#[test]
fn a_ticket_inside_a_callback_wakes_other_threads() {
    let (queue, (sender, receiver)) = (Arc::<Queue>::default(), mpsc::channel());
    let receiver = Arc::new(Mutex::new(receiver));
    pool_of(2).install(|| {
        let inside = queue.clone();
        let waits = once(move || {
            let sender = sender.clone();
            let batch = once(move || sender.send(()).unwrap());
            enqueue(&inside, Job { batch, is_straggler: false });
            run_ticket(inside.clone());
            receiver.lock().unwrap().recv_timeout(TIMEOUT).expect("the other thread is idle");
        });
        enqueue(&queue, Job { batch: waits, is_straggler: false });
        run_ticket(queue);
    });
}

#[test]
fn all_idle_threads_assist_with_a_straggler() {
    const THREADS: usize = 3;
    let pool = BorrowedPool::new(pool_of(THREADS));
    let (meeting, (sender, receiver)) = (Arc::new(Barrier::new(THREADS)), mpsc::channel());
    let batch = Arc::new(Callbacks::of(THREADS, move || {
        sender.send(false).unwrap();
        meeting.wait();
        sender.send(true).unwrap();
    }));
    pool.push(batch.clone());
    receiver.recv_timeout(TIMEOUT).unwrap();
    assert!(pool.assist(batch), "it has started");
    let met = std::iter::from_fn(|| Some(receiver.recv_timeout(TIMEOUT).expect("each has a thread")));
    assert_eq!(met.filter(|&met| met).take(THREADS).count(), THREADS);
}

#[test]
fn a_batch_that_no_worker_has_started_is_in_the_queue_once() {
    let pool = BorrowedPool::new(pool_of(1));
    let (sender, receiver) = mpsc::channel::<()>();
    let receiver = Arc::new(Mutex::new(receiver));
    pool.push(once(move || _ = receiver.lock().unwrap().recv()));
    let batch = once(|| ());
    pool.push(batch.clone());
    assert!(!pool.assist(batch.clone()) && !pool.assist(batch), "the only thread is busy");
    assert!(lock(&pool.queue).len() <= 2, "it is there once, beside the job that the thread may not have taken yet");
    drop(sender);
}

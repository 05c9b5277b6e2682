//! A rayon pool that belongs to the user: one of the user's own, or the global one.
//!
//! Batches lie in a queue, and for each a *ticket* is spawned into the pool: a small job that runs the first batch of the
//! queue. A worker that waits inside `rayon::join` takes tickets like any other job. Where that worker is inside a
//! callback, the ticket runs nothing: the callback may hold a lock that the next one needs. It is *deferred*: the thread
//! uses it as soon as the callback that it is inside of has returned, together with the rest of its batch. And as other
//! threads may be idle meanwhile, which rayon woke for no ticket, the thread spawns one more on each thread of the pool.
//!
//! So there is a ticket for each batch in the queue at any time: in rayon's queues, or deferred. One that finds the queue
//! empty does nothing.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use super::batch::Batch;
use crate::error::BuildError;

pub(crate) struct BorrowedPool {
    /// `None`: the global pool.
    pool: Option<Arc<rayon::ThreadPool>>,
    /// Tickets hold this, and not the pool, which they may outlive the timer in.
    queue: Arc<Queue>,
}

type Queue = Mutex<VecDeque<Job>>;

struct Job {
    batch: Arc<dyn Batch>,
    /// Another worker has begun the batch, and takes long.
    is_straggler: bool,
}

thread_local! {
    /// A ticket is being used on this thread.
    static IN_USE: Cell<bool> = const { Cell::new(false) };
    /// Queues whose tickets were deferred on this thread.
    static DEFERRED: RefCell<Vec<Arc<Queue>>> = const { RefCell::new(Vec::new()) };
}

impl BorrowedPool {
    pub(crate) fn new(pool: Arc<rayon::ThreadPool>) -> Self {
        Self { pool: Some(pool), queue: Arc::default() }
    }

    /// Starts the global pool, unless that has been done.
    pub(crate) fn global() -> Result<Self, BuildError> {
        start_global_pool().map_err(BuildError::ThreadStart)?;
        Ok(Self { pool: None, queue: Arc::default() })
    }

    /// Has a worker run the batch. To be called on a thread that belongs to no pool.
    pub(crate) fn put(&self, batch: Arc<dyn Batch>) {
        self.put_job(Job { batch, is_straggler: false });
    }

    /// Has more workers run what is left of a batch, if one has begun it. False if none has.
    pub(crate) fn assist(&self, batch: Arc<dyn Batch>) -> bool {
        let begun = batch.is_begun();
        if begun && !batch.is_spent() {
            self.put_job(Job { batch, is_straggler: true });
        }
        begun
    }

    /// Whether the calling thread is the only one of the pool. Of the global pool it is not known.
    pub(crate) fn needs_this_thread(&self) -> bool {
        let needs = |pool: &rayon::ThreadPool| pool.current_num_threads() == 1 && pool.current_thread_index().is_some();
        self.pool.as_ref().is_some_and(|pool| needs(pool))
    }

    fn put_job(&self, job: Job) {
        push(&self.queue, job);
        let queue = self.queue.clone();
        let ticket = move || use_ticket(queue);
        match &self.pool {
            Some(pool) => pool.spawn(ticket),
            None => rayon::spawn(ticket),
        }
    }
}

fn use_ticket(queue: Arc<Queue>) {
    if IN_USE.get() {
        DEFERRED.with_borrow_mut(|deferred| deferred.push(queue.clone()));
        rayon::spawn_broadcast(move |_| {
            if !IN_USE.get() {
                run_jobs(&queue);
            }
        });
    } else {
        run_jobs(&queue);
    }
}

/// Runs the first job, and one for each ticket that is deferred meanwhile.
fn run_jobs(queue: &Arc<Queue>) {
    IN_USE.set(true);
    run_job(queue);
    while let Some(queue) = DEFERRED.with_borrow_mut(Vec::pop) {
        run_job(&queue);
    }
    IN_USE.set(false);
}

/// Runs the first job. Batches do not unwind.
fn run_job(queue: &Arc<Queue>) {
    let job = lock(queue).pop_front();
    let Some(Job { batch, is_straggler }) = job else { return };
    if is_straggler && !batch.is_spent() {
        // Each that finds callbacks left calls for one more before it begins.
        push(queue, Job { batch: batch.clone(), is_straggler });
        let queue = queue.clone();
        rayon::spawn(move || use_ticket(queue));
    }
    batch.run();
}

/// Stragglers go before batches that nobody has begun: their callbacks were due before.
fn push(queue: &Queue, job: Job) {
    let mut jobs = lock(queue);
    let place = if job.is_straggler { jobs.iter().take_while(|job| job.is_straggler).count() } else { jobs.len() };
    jobs.insert(place, job);
}

fn lock(queue: &Queue) -> MutexGuard<'_, VecDeque<Job>> {
    queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Starts rayon's global pool, where rayon would panic if it cannot be started.
fn start_global_pool() -> io::Result<()> {
    let Err(error) = rayon::ThreadPoolBuilder::new().build_global() else { return Ok(()) };
    if let Some(cause) = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<io::Error>()) {
        return Err(cause.raw_os_error().map_or_else(|| cause.kind().into(), io::Error::from_raw_os_error));
    }
    // It was started before, or could not be: then it panics whenever it is used.
    // On a thread of its own, as another pool's thread would not ask the global one.
    let asked = thread::Builder::new().spawn(rayon::current_num_threads)?.join();
    asked.map(drop).map_err(|_| io::Error::other("the global rayon pool could not be started before"))
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, mpsc};
    use std::time::Duration;

    use super::super::batch::tests::Callbacks;
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn pool_of(threads: usize) -> Arc<rayon::ThreadPool> {
        Arc::new(rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap())
    }

    /// A batch of one callback.
    fn once(call: impl Fn() + Clone + Send + Sync + 'static) -> Arc<Callbacks> {
        Arc::new(Callbacks::of(1, call))
    }

    fn logging(log: &Arc<Mutex<Vec<&'static str>>>, text: &'static str) -> Job {
        let log = log.clone();
        Job { batch: once(move || log.lock().unwrap().push(text)), is_straggler: false }
    }

    #[test]
    fn stragglers_go_before_what_nobody_has_begun() {
        let (queue, log) = (Queue::default(), Arc::default());
        for (text, is_straggler) in [("third", false), ("first", true), ("fourth", false), ("second", true)] {
            push(&queue, Job { is_straggler, ..logging(&log, text) });
        }
        while let Some(job) = lock(&queue).pop_front() {
            job.batch.run();
        }
        assert_eq!(*log.lock().unwrap(), ["first", "second", "third", "fourth"]);
    }

    #[test]
    fn a_ticket_inside_a_callback_is_used_when_the_callback_has_returned() {
        let (queue, log) = (Arc::<Queue>::default(), Arc::<Mutex<Vec<_>>>::default());
        // On the only thread of a pool, which takes no other ticket meanwhile.
        pool_of(1).install(|| {
            let (inside, outer) = (queue.clone(), log.clone());
            let uses_a_ticket = once(move || {
                push(&inside, logging(&outer, "deferred"));
                use_ticket(inside.clone());
                outer.lock().unwrap().push("returns");
            });
            push(&queue, Job { batch: uses_a_ticket, is_straggler: false });
            use_ticket(queue.clone());
            assert_eq!(*log.lock().unwrap(), ["returns", "deferred"]);
            push(&queue, logging(&log, "at once"));
            use_ticket(queue.clone());
            assert_eq!(log.lock().unwrap().last(), Some(&"at once"), "no callback is in progress any more");
        });
    }

    #[test]
    fn a_ticket_inside_a_callback_calls_other_threads() {
        let (queue, (sender, receiver)) = (Arc::<Queue>::default(), mpsc::channel());
        let receiver = Arc::new(Mutex::new(receiver));
        pool_of(2).install(|| {
            let inside = queue.clone();
            let waits = once(move || {
                let sender = sender.clone();
                let batch = once(move || sender.send(()).unwrap());
                push(&inside, Job { batch, is_straggler: false });
                use_ticket(inside.clone());
                receiver.lock().unwrap().recv_timeout(PATIENCE).expect("the other thread is idle");
            });
            push(&queue, Job { batch: waits, is_straggler: false });
            use_ticket(queue);
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
        pool.put(batch.clone());
        receiver.recv_timeout(PATIENCE).unwrap();
        assert!(pool.assist(batch), "it has begun");
        let met = std::iter::from_fn(|| Some(receiver.recv_timeout(PATIENCE).expect("each has a thread")));
        assert_eq!(met.filter(|&met| met).take(THREADS).count(), THREADS);
    }

    #[test]
    fn a_batch_that_nobody_has_begun_stays_in_the_queue_once() {
        let pool = BorrowedPool::new(pool_of(1));
        let (sender, receiver) = mpsc::channel::<()>();
        let receiver = Arc::new(Mutex::new(receiver));
        pool.put(once(move || _ = receiver.lock().unwrap().recv()));
        let batch = once(|| ());
        pool.put(batch.clone());
        assert!(!pool.assist(batch.clone()) && !pool.assist(batch), "the only thread is busy");
        assert!(lock(&pool.queue).len() <= 2, "it is there once, beside what may be on its way to the thread");
        drop(sender);
    }
}

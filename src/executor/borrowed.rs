//! A rayon pool of the program: one that its user passes, or the global one.
//!
//! Batches wait in a queue. For each of them a *ticket* is spawned into the pool: a small job that runs the first batch
//! of the queue. A worker that waits inside `rayon::join` takes tickets like any other job.
//!
//! If that worker is inside a callback, it must not run another callback on top of it: the waiting one may hold a lock
//! that the other needs. So it *defers* the ticket. It runs the ticket once the outer callback and the rest of its
//! batch have returned. Meanwhile other threads may be idle, which rayon has not woken for the ticket. So the worker
//! also spawns one ticket on each thread of the pool.
//!
//! **Invariant.** There is a ticket for each batch in the queue at any time, in rayon's queues or deferred. A ticket
//! that finds the queue empty does nothing.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use std::thread;

use super::batch::Batch;
use crate::error::BuildError;
use crate::sync::lock;

/// A rayon pool of the program, and the queue of the batches for it.
pub(crate) struct BorrowedPool {
    /// `None` for the global pool.
    pool: Option<Arc<rayon::ThreadPool>>,
    /// Tickets refer to the queue alone. They may outlive the timer in the pool, and must not keep the pool alive.
    queue: Arc<Queue>,
}

type Queue = Mutex<VecDeque<Job>>;

struct Job {
    batch: Arc<dyn Batch>,
    /// A worker has started the batch, and takes long.
    is_straggler: bool,
}

thread_local! {
    /// This thread runs a ticket.
    static IN_TICKET: Cell<bool> = const { Cell::new(false) };
    /// The queues of the tickets that this thread has deferred.
    static DEFERRED: RefCell<Vec<Arc<Queue>>> = const { RefCell::new(Vec::new()) };
}

impl BorrowedPool {
    pub(crate) fn new(pool: Arc<rayon::ThreadPool>) -> Self {
        Self { pool: Some(pool), queue: Arc::default() }
    }

    /// Uses the global pool, and starts it if the program has not.
    pub(crate) fn global() -> Result<Self, BuildError> {
        start_global_pool().map_err(BuildError::ThreadStart)?;
        Ok(Self { pool: None, queue: Arc::default() })
    }

    /// Submits a batch. The calling thread must belong to no rayon pool.
    pub(super) fn push(&self, batch: Arc<dyn Batch>) {
        self.submit(Job { batch, is_straggler: false });
    }

    /// Makes more workers run the rest of a batch. Returns false, without effect, if no worker has started it.
    pub(super) fn assist(&self, batch: Arc<dyn Batch>) -> bool {
        let started = batch.is_started();
        if started && !batch.is_exhausted() {
            self.submit(Job { batch, is_straggler: true });
        }
        started
    }

    /// Returns whether the calling thread is the only one of the pool. False for the global pool, of which this is
    /// unknown.
    pub(super) fn needs_this_thread(&self) -> bool {
        let needs = |pool: &rayon::ThreadPool| pool.current_num_threads() == 1 && pool.current_thread_index().is_some();
        self.pool.as_ref().is_some_and(|pool| needs(pool))
    }

    fn submit(&self, job: Job) {
        enqueue(&self.queue, job);
        let queue = self.queue.clone();
        let ticket = move || run_ticket(queue);
        match &self.pool {
            Some(pool) => pool.spawn(ticket),
            None => rayon::spawn(ticket),
        }
    }
}

/// Runs the first job of the queue or, inside a callback, defers the ticket.
fn run_ticket(queue: Arc<Queue>) {
    if IN_TICKET.get() {
        DEFERRED.with_borrow_mut(|deferred| deferred.push(queue.clone()));
        rayon::spawn_broadcast(move |_| {
            if !IN_TICKET.get() {
                run_jobs(&queue);
            }
        });
    } else {
        run_jobs(&queue);
    }
}

/// Runs the first job of the queue, and then one for each ticket that is deferred meanwhile.
fn run_jobs(queue: &Arc<Queue>) {
    IN_TICKET.set(true);
    run_job(queue);
    while let Some(queue) = DEFERRED.with_borrow_mut(Vec::pop) {
        run_job(&queue);
    }
    IN_TICKET.set(false);
}

/// Runs the first job of the queue. Batches do not unwind.
fn run_job(queue: &Arc<Queue>) {
    let job = lock(queue).pop_front();
    let Some(Job { batch, is_straggler }) = job else { return };
    if is_straggler && !batch.is_exhausted() {
        // Each worker that finds callbacks left calls one more before it starts.
        enqueue(queue, Job { batch: batch.clone(), is_straggler });
        let queue = queue.clone();
        rayon::spawn(move || run_ticket(queue));
    }
    batch.run();
}

/// Adds a job. Stragglers come before batches that no worker has started, as their callbacks expired earlier.
fn enqueue(queue: &Queue, job: Job) {
    let mut jobs = lock(queue);
    let index = if job.is_straggler { jobs.iter().take_while(|job| job.is_straggler).count() } else { jobs.len() };
    jobs.insert(index, job);
}

/// Starts rayon's global pool. Returns an error where rayon would panic.
fn start_global_pool() -> io::Result<()> {
    let Err(error) = rayon::ThreadPoolBuilder::new().build_global() else { return Ok(()) };
    if let Some(cause) = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<io::Error>()) {
        return Err(cause.raw_os_error().map_or_else(|| cause.kind().into(), io::Error::from_raw_os_error));
    }
    // Either the pool was started before, or an earlier start failed: each use panics then. A new thread tries it,
    // because the calling thread may belong to another pool.
    let tried = thread::Builder::new().spawn(rayon::current_num_threads)?.join();
    tried.map(drop).map_err(|_| io::Error::other("the global rayon pool could not be started before"))
}

#[cfg(test)]
#[path = "borrowed_tests.rs"]
mod tests;

//! A rayon pool of the program: one that its user passes, or the global one.
//!
//! Its threads are no workers of ours. So for each job of the [queue](super::job_queue), a *ticket* is spawned into
//! the pool: a small job of rayon's that runs the first job of the queue. A worker that waits inside `rayon::join` takes
//! tickets like any other job.
//!
//! If that worker is inside a callback, it must not run another callback on top of it: the waiting one may hold a lock
//! that the other needs. So it *defers* the ticket. It runs the ticket once the outer callback and the rest of its
//! batch have returned. Meanwhile other threads may be idle, which rayon has not woken for the ticket. So the worker
//! also spawns one ticket on each thread of the pool. A thread that is inside a callback itself defers that ticket, too,
//! because it may be idle before the first worker. The queue of a thread that is blocked grows meanwhile: only
//! the thread itself can take what is broadcast to it.
//!
//! This protects only the thread that runs the outer callback. A worker that has stolen one half of a `join` of that
//! callback does not know whose half it is, and runs tickets while it waits inside that half. [`Executor::Rayon`] says
//! what follows for callbacks.
//!
//! **Invariant.** There is a ticket for each job in the queue at any time: in rayon's queues, deferred, or about to be
//! spawned by the thread that added the job. *Proof:* each thread that adds a job spawns a ticket afterwards. A dispatch
//! and a check do so for the jobs that they add, and a ticket for the late job that it puts back. Each ticket removes at
//! least one job before it ends, unless it finds none. A ticket that is deferred stays so until its thread runs it, or
//! leaves a job to the tickets that it has spawned.
//!
//! [`Executor::Rayon`]: super::Executor::Rayon

use std::cell::{Cell, RefCell};
use std::io;
use std::sync::Arc;
use std::thread;

use super::job_queue::JobQueue;
use crate::error::BuildError;

/// A rayon pool of the program, and the queue of the batches for it.
pub(crate) struct BorrowedPool {
    /// `None` for the global pool.
    pool: Option<Arc<rayon::ThreadPool>>,
    /// Tickets refer to the queue alone. They may outlive the timer in the pool, and must not keep the pool alive.
    pub(super) queue: Arc<JobQueue>,
}

thread_local! {
    /// This thread runs a ticket.
    static IN_TICKET: Cell<bool> = const { Cell::new(false) };
    /// The queues of the tickets that this thread has to run.
    static TICKETS: RefCell<Vec<Arc<JobQueue>>> = const { RefCell::new(Vec::new()) };
}

impl BorrowedPool {
    pub(crate) fn new(pool: Option<Arc<rayon::ThreadPool>>) -> Self {
        // It has tickets instead of workers.
        Self { pool, queue: Arc::new(JobQueue::new(0)) }
    }

    /// Uses the global pool, and starts it if the program has not.
    pub(crate) fn global() -> Result<Self, BuildError> {
        start_global_pool().map_err(BuildError::ThreadStart)?;
        Ok(Self::new(None))
    }

    /// Returns whether the calling thread belongs to the pool. False for the global pool, of which this is unknown.
    pub(super) fn has_this_thread(&self) -> bool {
        self.pool.as_ref().is_some_and(|pool| pool.current_thread_index().is_some())
    }

    /// Spawns a number of tickets. The calling thread must belong to no rayon pool.
    pub(super) fn spawn_tickets(&self, count: usize) {
        for _ in 0..count {
            let queue = self.queue.clone();
            let ticket = move || run_ticket(queue);
            match &self.pool {
                Some(pool) => pool.spawn(ticket),
                None => rayon::spawn(ticket),
            }
        }
    }
}

/// Runs the first job of the queue or, inside a callback, defers the ticket.
fn run_ticket(queue: Arc<JobQueue>) {
    if run_or_defer(&queue) {
        rayon::spawn_broadcast(move |_| _ = run_or_defer(&queue));
    }
}

/// Runs the ticket, and then those that are deferred meanwhile. Inside a callback, defers it and returns true.
fn run_or_defer(queue: &Arc<JobQueue>) -> bool {
    TICKETS.with_borrow_mut(|tickets| tickets.push(queue.clone()));
    if IN_TICKET.replace(true) {
        return true;
    }
    while let Some(queue) = TICKETS.with_borrow_mut(Vec::pop) {
        let again = queue.clone();
        // Batches do not unwind.
        queue.run_ticket(|| rayon::spawn(move || run_ticket(again)));
    }
    IN_TICKET.set(false);
    false
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

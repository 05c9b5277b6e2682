//! `JobQueue`, and the loop of its workers: see the [head](super) of the room.

use std::time::{Duration, Instant};

use super::growth::IDLE;
use super::jobs::Jobs;
use super::worker::{WorkerStatus, WorkerThread};
use crate::executor::batch::Batch;
use crate::sync::thread;
use crate::sync::{Arc, Mutex, lock};

/// The queue of batches of one pool.
pub(crate) struct JobQueue {
    pub(super) jobs: Mutex<Jobs>,
}

impl JobQueue {
    /// Creates the queue of a pool whose threads [`work`](Self::work). While they are blocked, up
    /// to `max_extra` extra ones do, if a thread [checks](Self::check) the queue. A borrowed pool has no such threads:
    /// it runs tickets.
    pub(crate) fn new(max_extra: usize) -> Self {
        let mut jobs = Jobs::default();
        jobs.growth.limit = max_extra;
        Self { jobs: Mutex::new(jobs) }
    }

    /// Adds a batch, and wakes a worker for it. A borrowed pool must run one more ticket then. Drops the batch if the
    /// queue is closed.
    pub(crate) fn push(&self, batch: Arc<dyn Batch>, now: Instant) {
        let mut jobs = lock(&self.jobs);
        if jobs.closed {
            // The parameter `batch` is dropped after the guard.
            return;
        }
        let woken = jobs.dispatch(batch, now);
        drop(jobs);
        if let Some(thread) = woken {
            thread.unpark();
        }
    }

    /// Runs the first job, as a ticket of a borrowed pool. Before that, calls `spawn` if one more ticket is needed.
    pub(crate) fn run_ticket(&self, spawn: impl FnOnce()) {
        let mut exhausted = Vec::new();
        let taken = lock(&self.jobs).take(Instant::now(), None, &mut exhausted);
        let Some((batch, place, is_late)) = taken else { return };
        if is_late {
            spawn();
        }
        drop(exhausted);
        batch.run(&|| ());
        let _ended = lock(&self.jobs).end(place);
    }

    /// Closes the queue: the workers end once no job is left.
    pub(crate) fn close(&self) {
        let mut jobs = lock(&self.jobs);
        jobs.closed = true;
        let Jobs { idle, growth, .. } = &mut *jobs;
        idle.drain(..).chain(growth.idle.drain(..)).for_each(|thread| thread.unpark());
    }

    /// Makes the calling thread a worker until the queue is closed. An extra one also returns after some idle seconds.
    /// Must be called at the bottom of the thread's stack. No batch unwinds, nor what callbacks leave to rayon.
    pub(crate) fn work<T: WorkerThread>(&self, thread: &T, is_extra: bool) {
        let status = WorkerStatus::new(T::sample());
        let mut worker = Worker { queue: self, thread, is_extra, status, busy: None };
        while let Some(batch) = worker.next() {
            worker.status.run_foreign(|| {
                batch.run(&|| thread.after_callback());
                thread.after_batch();
            });
        }
        lock(&self.jobs).growth.extras -= usize::from(is_extra);
    }
}

/// The calling thread, as a worker.
struct Worker<'a, T> {
    queue: &'a JobQueue,
    thread: &'a T,
    is_extra: bool,
    status: Arc<WorkerStatus>,
    /// Its place among the busy ones.
    busy: Option<usize>,
}

impl<T: WorkerThread> Worker<'_, T> {
    /// Returns the batch that the worker runs next. `None`: the queue is closed and empty, or an idle extra thread ends.
    fn next(&mut self) -> Option<Arc<dyn Batch>> {
        loop {
            let now = self.thread.now();
            // Declared before the lock, so dropped after it.
            let mut exhausted = Vec::new();
            let mut _ended = None;
            let mut jobs = lock(&self.queue.jobs);
            _ended = self.busy.take().map(|place| jobs.end(place));
            let may_run = !self.is_extra || jobs.room().is_some();
            let taken = may_run.then(|| jobs.take(now, Some(&self.status), &mut exhausted));
            if let Some((batch, place, _)) = taken.flatten() {
                self.busy = Some(place);
                return Some(batch);
            }
            if jobs.closed {
                return None;
            }
            jobs.idle_list(self.is_extra).push(thread::current());
            drop((jobs, exhausted, _ended));
            if !self.wait(self.is_extra.then_some(IDLE)) {
                return None;
            }
        }
    }

    /// Waits until another thread removes this one from the list of the idle ones, for `timeout` at most. Returns false
    /// if that has not happened; then the thread is no longer in the list, either.
    fn wait(&self, timeout: Option<Duration>) -> bool {
        let ends = timeout.map(|timeout| self.thread.now() + timeout);
        loop {
            let left = ends.map(|ends| ends.saturating_duration_since(self.thread.now()));
            let mut jobs = lock(&self.queue.jobs);
            let list = jobs.idle_list(self.is_extra);
            let this = thread::current().id();
            let Some(index) = list.iter().position(|thread| thread.id() == this) else { return true };
            if left == Some(Duration::ZERO) {
                list.remove(index);
                return false;
            }
            drop(jobs);
            self.thread.park(left);
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "queue_tests.rs"]
mod tests;

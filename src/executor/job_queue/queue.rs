//! `JobQueue`, and the loop of its workers: see the [head](super) of the room.

use std::time::{Duration, Instant};

use super::growth::IDLE;
use super::state::{Job, State};
use super::worker_probe::WorkerProbe;
use super::worker_thread::WorkerThread;
use crate::executor::batch::Batch;
use crate::sync::thread;
use crate::sync::{Arc, Mutex, lock};

/// The queue of batches of one pool.
pub(crate) struct JobQueue {
    pub(super) state: Mutex<State>,
}

impl JobQueue {
    /// Creates the queue of a pool whose threads run the [`worker_loop`](Self::worker_loop). While they are blocked, up
    /// to `max_extra` extra ones do, if a thread [checks](Self::check) the queue. A borrowed pool has no such threads:
    /// it runs tickets.
    pub(crate) fn new(max_extra: usize) -> Self {
        let mut state = State::default();
        state.growth.limit = max_extra;
        Self { state: Mutex::new(state) }
    }

    /// Adds a batch, and wakes a worker for it. A borrowed pool must run one more ticket then. Drops the batch if the
    /// queue is closed.
    pub(crate) fn push(&self, batch: Arc<dyn Batch>, now: Instant) {
        let mut state = lock(&self.state);
        if state.closed {
            // The parameter `batch` is dropped after the guard.
            return;
        }
        let woken = state.dispatch(Job { batch, since: now });
        drop(state);
        if let Some(thread) = woken {
            thread.unpark();
        }
    }

    /// Runs the first job, as a ticket of a borrowed pool. Before that, calls `spawn` if one more ticket is needed.
    pub(crate) fn run_ticket(&self, spawn: impl FnOnce()) {
        let mut exhausted = Vec::new();
        let taken = lock(&self.state).take(Instant::now(), None, &mut exhausted);
        let Some((batch, run, is_late)) = taken else { return };
        if is_late {
            spawn();
        }
        drop(exhausted);
        batch.run(&|| ());
        let ended = lock(&self.state).end(run);
        drop(ended);
    }

    /// Closes the queue: the workers end once no job is left.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        let State { parked, growth, .. } = &mut *state;
        parked.drain(..).chain(growth.idle.drain(..)).for_each(|thread| thread.unpark());
    }

    /// Makes the calling thread a worker until the queue is closed. An extra worker also returns after some idle
    /// seconds. Must be called at the bottom of the thread's stack. Batches and rayon's work do not unwind.
    pub(crate) fn worker_loop(&self, thread: &impl WorkerThread, is_extra: bool) {
        let probe = WorkerProbe::new(thread.sleep_probe());
        let mut worker = Worker { queue: self, thread, is_extra, probe, run: None };
        while let Some(batch) = worker.next() {
            worker.probe.run_foreign(|| {
                batch.run(&|| thread.after_callback());
                thread.after_batch();
            });
        }
        lock(&self.state).growth.extras -= usize::from(is_extra);
    }
}

/// The calling thread, as a worker.
struct Worker<'a, T> {
    queue: &'a JobQueue,
    thread: &'a T,
    is_extra: bool,
    probe: Arc<WorkerProbe>,
    /// What it is doing.
    run: Option<usize>,
}

impl<T: WorkerThread> Worker<'_, T> {
    /// Returns the batch that the worker runs next. `None`: the queue is closed and empty, or an idle extra worker ends.
    fn next(&mut self) -> Option<Arc<dyn Batch>> {
        loop {
            let now = self.thread.now();
            // Declared before the lock, so dropped after it.
            let (mut exhausted, mut _ended) = (Vec::new(), None);
            let mut state = lock(&self.queue.state);
            _ended = self.run.take().map(|run| state.end(run));
            let may_run = !self.is_extra || state.room().is_some();
            let taken = may_run.then(|| state.take(now, Some(&self.probe), &mut exhausted));
            if let Some((batch, run, _)) = taken.flatten() {
                self.run = Some(run);
                return Some(batch);
            }
            if state.closed {
                return None;
            }
            state.waiting(self.is_extra).push(thread::current());
            drop((state, exhausted, _ended));
            if !self.wait(self.is_extra.then_some(IDLE)) {
                return None;
            }
        }
    }

    /// Waits until another thread removes this one from the list of parked or of idle workers, for `timeout` at most.
    /// Returns false if that has not happened; then the thread is no longer in the list, either.
    fn wait(&self, timeout: Option<Duration>) -> bool {
        let ends = timeout.map(|timeout| self.thread.now() + timeout);
        loop {
            let left = ends.map(|ends| ends.saturating_duration_since(self.thread.now()));
            let mut state = lock(&self.queue.state);
            let list = state.waiting(self.is_extra);
            let this = thread::current().id();
            let Some(index) = list.iter().position(|thread| thread.id() == this) else { return true };
            if left == Some(Duration::ZERO) {
                list.remove(index);
                return false;
            }
            drop(state);
            self.thread.park(left);
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "queue_tests.rs"]
mod tests;

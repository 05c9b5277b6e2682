//! `JobQueue`, and the loop of its workers: see the [head](super) of the room.

use std::mem;
use std::time::{Duration, Instant};

use super::growth::{Growth, IDLE};
use super::probe::WorkerProbe;
use super::state::{Job, Parked, State};
use super::thread::WorkerThread;
use crate::executor::batch::Batch;
use crate::sync::thread::{self, Thread};
use crate::sync::{Arc, Mutex, MutexGuard, lock};

/// Maximum time for which a worker does only rayon's work. Also the minimum time between two searches of a worker for
/// which jobs wait.
const MAX_STINT: Duration = Duration::from_millis(10);

/// The queue of batches of one pool.
pub(crate) struct JobQueue {
    pub(super) state: Mutex<State>,
}

impl JobQueue {
    /// Creates the queue of a pool whose `threads` run the [`worker_loop`](Self::worker_loop). While they are blocked, up
    /// to `max_extra` extra ones do, if a thread [watches](Self::watch). A borrowed pool has no such threads: it
    /// runs tickets.
    pub(crate) fn new(threads: usize, max_extra: usize) -> Self {
        Self { state: Mutex::new(State::new(Growth::new(threads, max_extra))) }
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
        woken.iter().for_each(Thread::unpark);
    }

    /// Runs the first job, as a ticket of a borrowed pool. Before that, calls `spawn` if one more ticket is needed.
    pub(crate) fn run_ticket(&self, spawn: impl FnOnce()) {
        let mut exhausted = Vec::new();
        let mut state = lock(&self.state);
        // Under the lock: no look follows the one that finds the job late, so the ticket must find that, too.
        let taken = state.take(Instant::now(), None, &mut exhausted);
        drop(state);
        let Some((job, run, is_late)) = taken else { return };
        if is_late {
            spawn();
        }
        drop(exhausted);
        job.batch.run();
        let ended = lock(&self.state).end(run);
        drop(ended);
    }

    /// Closes the queue: the workers end once no job is left.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        state.parked.drain(..).for_each(Parked::unpark);
        state.growth.idle.drain(..).for_each(Parked::unpark);
    }

    /// Makes the calling thread a worker until the queue is closed. An extra worker also returns after some idle
    /// seconds. Must be called at the bottom of the thread's stack. Batches and rayon's work do not unwind.
    pub(crate) fn worker_loop(&self, thread: &impl WorkerThread, is_extra: bool) {
        let mut worker = Worker::new(self, thread, is_extra);
        while let Some(action) = worker.next() {
            worker.act(action);
        }
        let mut state = lock(&self.state);
        let workers = if is_extra { &mut state.growth.extras } else { &mut state.workers };
        *workers -= 1;
    }
}

/// What a worker does next.
enum Action {
    Run(Arc<dyn Batch>),
    /// Searches all queues of the pool for rayon's work.
    Search,
}

/// The calling thread, as a worker.
struct Worker<'a, T> {
    queue: &'a JobQueue,
    thread: &'a T,
    is_extra: bool,
    probe: WorkerProbe,
    /// What it is doing.
    run: Option<u64>,
    /// It has found rayon's work in this run.
    found: bool,
    /// Number of calls to search when it last began a search.
    calls: u64,
    /// Time from which it searches even if jobs wait, while any run takes long: [`MAX_STINT`] after it has searched, or
    /// has left the parked workers.
    search_at: Instant,
}

impl<'a, T: WorkerThread> Worker<'a, T> {
    fn new(queue: &'a JobQueue, thread: &'a T, is_extra: bool) -> Self {
        let (probe, search_at) = (WorkerProbe::new(thread.sleep_probe()), thread.now() + MAX_STINT);
        lock(&queue.state).workers += usize::from(!is_extra);
        // A call that came before the worker counts: its rayon queue may have work already.
        Self { queue, thread, is_extra, probe, run: None, found: false, calls: 0, search_at }
    }

    /// Returns what the worker does next. `None`: the queue is closed and empty, or an idle extra worker ends.
    fn next(&mut self) -> Option<Action> {
        loop {
            let now = self.thread.now();
            // Declared before the lock, so dropped after it.
            let (mut exhausted, mut ended) = (Vec::new(), None);
            let mut state = lock(&self.queue.state);
            if let Some(run) = self.run.take() {
                ended = state.end(run);
                ended.iter().for_each(|run| state.record_search(run, mem::take(&mut self.found), now));
            }
            // Another worker may wait for rayon's work.
            if !self.is_extra && now >= self.search_at && state.has_late_run(now) {
                return Some(self.search(state, now));
            }
            let may_run = !self.is_extra || !state.exceeds_target();
            let taken = may_run.then(|| state.take(now, Some(&self.probe), &mut exhausted));
            if let Some((job, run, _)) = taken.flatten() {
                self.run = Some(run);
                return Some(Action::Run(job.batch));
            }
            if state.closed {
                return None;
            }
            if self.is_extra {
                state.growth.idle.push(Parked::here(0));
            } else if self.calls == state.calls {
                state.park(now);
            } else {
                return Some(self.search(state, now));
            }
            drop((state, exhausted, ended));
            if !self.wait(self.is_extra.then_some(IDLE)) {
                return None;
            }
            // Not before the job that it was woken for: rayon's work may take long. A call makes it search before it parks.
            self.search_at = self.thread.now() + MAX_STINT;
        }
    }

    /// Begins to search.
    fn search(&mut self, mut state: MutexGuard<'_, State>, now: Instant) -> Action {
        self.run = Some(state.begin(None, now, false, Some(&self.probe)));
        self.calls = state.calls;
        Action::Search
    }

    /// Waits until another thread removes this one from the list of parked or of idle workers, for `timeout` at most.
    /// Returns false if that has not happened; then the thread is no longer in the list, either.
    fn wait(&self, timeout: Option<Duration>) -> bool {
        let ends = timeout.map(|timeout| self.thread.now() + timeout);
        loop {
            let left = ends.map(|ends| ends.saturating_duration_since(self.thread.now()));
            let mut state = lock(&self.queue.state);
            let list = if self.is_extra { &mut state.growth.idle } else { &mut state.parked };
            let this = thread::current().id();
            let Some(index) = list.iter().position(|parked| parked.thread.id() == this) else { return true };
            if left == Some(Duration::ZERO) {
                list.remove(index);
                return false;
            }
            drop(state);
            self.thread.park(left);
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Run(batch) => {
                self.probe.run_foreign(|| batch.run());
                // An extra worker does not search. Its companion may wait for what it has spawned itself.
                self.run_tasks(if self.is_extra { T::run_any_task } else { T::run_own_task });
            }
            Action::Search => {
                self.run_tasks(T::run_any_task);
                self.search_at = self.thread.now() + MAX_STINT;
            }
        }
    }

    /// Does rayon's work.
    fn run_tasks(&mut self, run_task: impl Fn(&T) -> bool) {
        let mut ends = None;
        self.probe.run_foreign(|| {
            while run_task(self.thread) {
                let now = self.thread.now();
                // An extra worker does all of it now.
                if now >= *ends.get_or_insert(now + MAX_STINT) && !self.is_extra {
                    break;
                }
            }
        });
        self.found = ends.is_some() && !self.is_extra;
    }
}

#[cfg(all(test, not(loom)))]
#[path = "queue_tests.rs"]
mod tests;

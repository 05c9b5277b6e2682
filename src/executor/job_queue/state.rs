//! The state behind the queue's lock: see the [head](super) of the room.

use std::collections::VecDeque;
use std::mem;
use std::time::{Duration, Instant};

use super::growth::Growth;
use super::probe::{SleepSample, WorkerProbe};
use super::watch::{FIRST_CHECK, Watch};
use crate::executor::batch::Batch;
use crate::sync::Arc;
use crate::sync::thread::{self, Thread};

/// Time after its dispatch or its start at which a batch is late. It is the default tick: a driver that wakes for the
/// next tick then checks the batch without a wake-up of its own.
pub(super) const LATE_AFTER: Duration = Duration::from_millis(1);
/// Time after its start at which a worker searches for work that a run has given to rayon. Longer than most runs take.
const SEARCH_AFTER: Duration = Duration::from_micros(40);
/// Interval between two searches for rayon's work, at first.
const MIN_INTERVAL: Duration = Duration::from_millis(1);
/// Maximum interval between two searches. Beside a callback that blocks for long, a worker wakes 16 times a second.
const MAX_INTERVAL: Duration = Duration::from_millis(64);

/// Number of jobs for which the queue always retains memory: 8 KiB.
const RETAINED_JOBS: usize = 1 << 8;

/// What the queue's lock protects.
#[derive(Default)]
pub(super) struct State {
    pub(super) jobs: VecDeque<Job>,
    /// What the busy workers do.
    pub(super) running: Vec<Run>,
    /// The parked workers, in the order in which they parked.
    pub(super) parked: Vec<Parked>,
    /// Number of workers that serve the queue, without extra ones.
    pub(super) workers: usize,
    /// Number of runs so far, which gives each its id.
    runs: u64,
    /// Number of calls to search for rayon's work.
    pub(super) calls: u64,
    /// A callback has given work to rayon.
    uses_rayon: bool,
    /// Time of the next call by a look, and the interval after it.
    search_at: Option<Instant>,
    interval: Duration,
    /// Time of the last dispatch.
    dispatched_at: Option<Instant>,
    checked_at: Option<Instant>,
    pub(super) watch: Watch,
    pub(super) growth: Growth,
    pub(super) closed: bool,
}

/// A batch that waits for a worker.
pub(super) struct Job {
    pub(super) batch: Arc<dyn Batch>,
    /// When the batch was dispatched, or when a worker started it.
    pub(super) since: Instant,
}

/// What a busy worker does: it runs a batch, or rayon's work.
pub(super) struct Run {
    pub(super) id: u64,
    pub(super) since: Instant,
    /// `None` for rayon's work.
    pub(super) batch: Option<Arc<dyn Batch>>,
    /// The batch was put back into the queue.
    pub(super) assisted: bool,
    /// `None` on a borrowed pool.
    pub(super) probe: Option<WorkerProbe>,
    pub(super) sample: SleepSample,
}

/// A worker that waits until another thread removes it from a list.
pub(super) struct Parked {
    pub(super) thread: Thread,
    /// Number of runs that had begun when it parked.
    at: u64,
}

/// Returns whether what began at `since` is late.
pub(super) fn is_late(since: Instant, now: Instant) -> bool {
    since + LATE_AFTER <= now
}

impl State {
    pub(super) fn new(growth: Growth) -> Self {
        Self { growth, interval: MIN_INTERVAL, ..Self::default() }
    }

    /// Adds a job that a thread dispatches at its `since`. Returns the worker to wake for it.
    pub(super) fn dispatch(&mut self, job: Job) -> Option<Thread> {
        // Another thread may have read the clock later, and have come first.
        self.dispatched_at = self.dispatched_at.max(Some(job.since));
        let first = if self.uses_rayon { FIRST_CHECK } else { LATE_AFTER };
        self.watch.look_by(job.since + first);
        self.jobs.push_back(job);
        self.call_worker()
    }

    /// Chooses the worker that parked last, whose caches are warm, or else an idle extra one.
    fn call_worker(&mut self) -> Option<Thread> {
        let last = self.parked.pop();
        if last.is_none() {
            self.wake_extra();
        }
        last.map(|parked| parked.thread)
    }

    /// Takes the next job, and begins its run. A late job is put back, and another worker woken for it. Returns the job,
    /// the id of the run, and whether it is late. The caller drops `exhausted` without the lock.
    pub(super) fn take(
        &mut self,
        now: Instant,
        probe: Option<&WorkerProbe>,
        exhausted: &mut Vec<Job>,
    ) -> Option<(Job, u64, bool)> {
        if !self.has_job(now, exhausted) {
            return None;
        }
        let job = self.jobs.pop_front()?;
        let is_late = is_late(job.since, now);
        if is_late {
            self.add_late(job.batch.clone(), job.since);
        }
        let run = self.begin(Some(job.batch.clone()), now, is_late, probe);
        Some((job, run, is_late))
    }

    /// Adds a job that is late, and wakes a worker for it.
    fn add_late(&mut self, batch: Arc<dyn Batch>, since: Instant) {
        self.jobs.push_back(Job { batch, since });
        self.call_worker().iter().for_each(Thread::unpark);
    }

    /// Removes jobs of which nothing is left to start from the front of the queue. Returns whether a job waits. The caller
    /// drops `exhausted` without the lock.
    pub(super) fn has_job(&mut self, now: Instant, exhausted: &mut Vec<Job>) -> bool {
        // A young batch is not read: no worker has started it.
        let is_over = |job: &Job| is_late(job.since, now) && job.batch.is_exhausted();
        while self.jobs.front().is_some_and(is_over) {
            exhausted.extend(self.jobs.pop_front());
        }
        let capacity = self.jobs.capacity();
        if capacity > RETAINED_JOBS && self.jobs.len() < capacity / 4 {
            self.jobs.shrink_to(capacity / 2);
        }
        !self.jobs.is_empty()
    }

    /// Records that a worker starts a batch or, with `None`, rayon's work.
    pub(super) fn begin(
        &mut self,
        batch: Option<Arc<dyn Batch>>,
        now: Instant,
        assisted: bool,
        probe: Option<&WorkerProbe>,
    ) -> u64 {
        self.runs += 1;
        let (id, probe) = (self.runs, probe.cloned());
        self.running.push(Run { id, since: now, batch, assisted, probe, sample: SleepSample::default() });
        id
    }

    /// Records the end of a run. The caller drops it without the lock.
    pub(super) fn end(&mut self, id: u64) -> Option<Run> {
        let index = self.running.iter().position(|run| run.id == id)?;
        Some(self.running.swap_remove(index))
    }

    /// Adds the calling thread to those that are parked.
    pub(super) fn park(&mut self, now: Instant) {
        self.parked.push(Parked::here(self.runs));
        if self.watch.at.is_none() && self.parked.len() < self.workers {
            self.watch.look_by(now);
        }
    }

    /// Returns whether any run takes long.
    pub(super) fn has_late_run(&self, now: Instant) -> bool {
        self.running.iter().any(|run| is_late(run.since, now))
    }

    /// Records whether a worker has found rayon's work in a run. Calls others to search if it has.
    pub(super) fn record_search(&mut self, run: &Run, found: bool, now: Instant) {
        if found {
            self.uses_rayon = true;
            (self.search_at, self.interval) = (Some(now + MIN_INTERVAL), MIN_INTERVAL);
            if self.call_searchers(run.id) || self.watch.at.is_some() {
                self.watch.look_by(now + MIN_INTERVAL);
            }
        } else if run.batch.is_none() {
            self.interval = (2 * self.interval).min(MAX_INTERVAL);
        }
    }

    /// Wakes the worker that parked first, and those that have parked since the run began. Returns whether there is one.
    fn call_searchers(&mut self, run: u64) -> bool {
        self.calls += 1;
        let mut is_first = true;
        self.parked.retain(|parked| {
            let is_called = mem::take(&mut is_first) || parked.at >= run;
            if is_called {
                parked.thread.unpark();
            }
            !is_called
        });
        !is_first
    }

    /// Looks at the jobs and the busy workers, and sets the time of the next look. Returns the number of jobs that it
    /// has added. The caller drops `exhausted` without the lock.
    pub(super) fn check(&mut self, now: Instant, exhausted: &mut Vec<Job>) -> usize {
        let has_job = self.has_job(now, exhausted);
        let dispatched_at = self.dispatched_at.filter(|_| has_job);
        let starts = dispatched_at.into_iter().chain(self.running.iter().map(|run| run.since));
        let late_at = starts.map(|since| since + LATE_AFTER).filter(|&at| at > now).min();
        let mut late = Vec::new();
        for run in self.running.iter_mut().filter(|run| is_late(run.since, now)) {
            if self.checked_at.is_none_or(|at| !is_late(run.since, at)) {
                (self.search_at, self.interval) = (Some(now), MIN_INTERVAL);
            }
            if let Some(batch) = run.batch.as_ref().filter(|batch| !run.assisted && !batch.is_exhausted()) {
                run.assisted = true;
                late.push((batch.clone(), run.since));
            }
        }
        let added = late.len();
        late.into_iter().for_each(|(batch, since)| self.add_late(batch, since));
        let search_at = self.check_search(now);
        self.checked_at = Some(now);
        let grows_at = self.check_growth(now);
        let at = [late_at, search_at, grows_at].into_iter().flatten().min();
        // What a worker that was woken does once it has come may need a look, for which no other event asks.
        let matters = !self.jobs.is_empty() || at.is_none();
        let comes_at = (matters && self.awaits_worker()).then(|| now + LATE_AFTER);
        self.watch.set(at.into_iter().chain(comes_at).min());
        added
    }

    /// Calls a worker to search for rayon's work, if it is time. Returns the time of the next call.
    fn check_search(&mut self, now: Instant) -> Option<Instant> {
        if self.parked.len() >= self.workers || self.parked.is_empty() {
            return None;
        }
        let first = self.running.iter().map(|run| run.since + SEARCH_AFTER).min()?;
        if first > now {
            return Some(first);
        }
        if self.search_at.is_none_or(|at| at <= now) {
            self.search_at = Some(now + self.interval);
            self.call_searchers(u64::MAX);
        }
        self.search_at
    }
}

impl Parked {
    /// The calling thread.
    pub(super) fn here(at: u64) -> Self {
        Self { thread: thread::current(), at }
    }

    pub(super) fn unpark(self) {
        self.thread.unpark();
    }
}

#[cfg(all(test, not(loom)))]
#[path = "state_tests.rs"]
mod tests;

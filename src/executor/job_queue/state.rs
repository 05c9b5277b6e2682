//! The state behind the queue's lock: see the [head](super) of the room.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use slab::Slab;

use super::check::NextCheck;
use super::growth::Growth;
use super::worker_probe::WorkerProbe;
use crate::executor::batch::Batch;
use crate::sync::Arc;
use crate::sync::thread::Thread;

/// Time after its dispatch or its start at which a batch is late. It is the default tick: a leader that wakes for the
/// next tick then checks the batch without a wake-up of its own.
pub(super) const LATE_AFTER: Duration = Duration::from_millis(1);
/// Number of jobs for which the queue always retains memory: 8 KiB.
const RETAINED_JOBS: usize = 1 << 8;

/// What the queue's lock protects.
#[derive(Default)]
pub(super) struct State {
    pub(super) jobs: VecDeque<Job>,
    /// What the busy workers do.
    pub(super) running: Slab<Run>,
    /// The parked workers, in the order in which they parked.
    pub(super) parked: Vec<Thread>,
    /// Time of the last dispatch.
    dispatched_at: Option<Instant>,
    pub(super) next_check: NextCheck,
    pub(super) growth: Growth,
    pub(super) closed: bool,
}

/// A batch that waits for a worker.
pub(super) struct Job {
    pub(super) batch: Arc<dyn Batch>,
    /// When the batch was dispatched, or when a worker started it.
    pub(super) since: Instant,
}

/// A busy worker.
pub(super) struct Run {
    pub(super) since: Instant,
    pub(super) batch: Arc<dyn Batch>,
    /// The batch was put back into the queue.
    pub(super) assisted: bool,
    /// `None` on a borrowed pool.
    pub(super) probe: Option<Arc<WorkerProbe>>,
    /// The last sample: how often the worker had gone to sleep. `None` if it was not asleep inside foreign code.
    pub(super) asleep: Option<u64>,
    pub(super) is_blocked: bool,
}

/// Returns whether what began at `since` is late.
pub(super) fn is_late(since: Instant, now: Instant) -> bool {
    since + LATE_AFTER <= now
}

impl State {
    /// Adds a job that a thread dispatches at its `since`. Returns the worker to wake for it.
    pub(super) fn dispatch(&mut self, job: Job) -> Option<Thread> {
        // Another thread may have read the clock later, and have come first.
        self.dispatched_at = self.dispatched_at.max(Some(job.since));
        self.next_check.check_by(job.since + LATE_AFTER);
        self.jobs.push_back(job);
        self.call_worker()
    }

    /// Chooses the worker that parked last, whose caches are warm, or else an idle extra one.
    fn call_worker(&mut self) -> Option<Thread> {
        let last = self.parked.pop();
        if last.is_none() {
            self.wake_extra();
        }
        last
    }

    /// Returns the list of the workers, or of the extra ones, that wait until another thread removes them.
    pub(super) fn waiting(&mut self, extra: bool) -> &mut Vec<Thread> {
        if extra { &mut self.growth.idle } else { &mut self.parked }
    }

    /// Takes the next job, and begins its run. A late job is put back, and another worker woken for it. Returns the
    /// batch, the place of the run, and whether it is late. The caller drops `exhausted` without the lock.
    pub(super) fn take(
        &mut self,
        now: Instant,
        probe: Option<&Arc<WorkerProbe>>,
        exhausted: &mut Vec<Job>,
    ) -> Option<(Arc<dyn Batch>, usize, bool)> {
        if !self.has_job(now, exhausted) {
            return None;
        }
        let Job { batch, since } = self.jobs.pop_front()?;
        let is_late = is_late(since, now);
        if is_late {
            self.add_late(batch.clone(), since);
        }
        self.next_check.check_by(now + LATE_AFTER);
        let run = self.begin(batch.clone(), now, is_late, probe);
        Some((batch, run, is_late))
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

    /// Records that a worker starts a batch. Returns the place of the run.
    pub(super) fn begin(
        &mut self,
        batch: Arc<dyn Batch>,
        now: Instant,
        assisted: bool,
        probe: Option<&Arc<WorkerProbe>>,
    ) -> usize {
        let probe = probe.cloned();
        self.running.insert(Run { since: now, batch, assisted, probe, asleep: None, is_blocked: false })
    }

    /// Records the end of a run. The caller drops it without the lock.
    pub(super) fn end(&mut self, place: usize) -> Run {
        let run = self.running.remove(place);
        self.growth.blocked -= usize::from(run.is_blocked);
        run
    }

    /// Checks the jobs and the busy workers, and sets the time of the next check. Returns the number of jobs that it
    /// has added. The caller drops `exhausted` without the lock.
    pub(super) fn check(&mut self, now: Instant, exhausted: &mut Vec<Job>) -> usize {
        let has_job = self.has_job(now, exhausted);
        let dispatched_at = self.dispatched_at.filter(|_| has_job);
        let starts = dispatched_at.into_iter().chain(self.running.iter().map(|(_, run)| run.since));
        let late_at = starts.map(|since| since + LATE_AFTER).filter(|&at| at > now).min();
        let assist = |(_, run): (usize, &mut Run)| {
            let must = is_late(run.since, now) && !run.assisted && !run.batch.is_exhausted();
            run.assisted |= must;
            must.then(|| (run.batch.clone(), run.since))
        };
        let late: Vec<_> = self.running.iter_mut().filter_map(assist).collect();
        let added = late.len();
        late.into_iter().for_each(|(batch, since)| self.add_late(batch, since));
        let at = late_at.into_iter().chain(self.check_growth(now)).min();
        self.next_check.set(at);
        added
    }
}

#[cfg(all(test, not(loom)))]
#[path = "state_tests.rs"]
mod tests;

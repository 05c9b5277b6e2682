//! What the queue's lock protects: see the [head](super) of the room.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use slab::Slab;

use super::growth::Growth;
use super::worker::WorkerStatus;
use crate::executor::batch::Batch;
use crate::sync::Arc;
use crate::sync::thread::Thread;

/// Time after its dispatch or its start at which a batch is late. It is as long as the default slack: a leader that wakes
/// once in a slack then checks the batch without a wake-up of its own.
pub(super) const LATE_AFTER: Duration = Duration::from_millis(1);
/// Number of jobs for which the queue always retains memory: 8 KiB.
const RETAINED_JOBS: usize = 1 << 8;

/// What the queue's lock protects.
#[derive(Default)]
pub(super) struct Jobs {
    /// Batches that wait for a worker, each with the time of its dispatch or of its start.
    pub(super) waiting: VecDeque<(Arc<dyn Batch>, Instant)>,
    pub(super) busy: Slab<BusyWorker>,
    /// The idle workers of the pool; the last one became idle last.
    pub(super) idle: Vec<Thread>,
    /// Time of the last dispatch.
    dispatched_at: Option<Instant>,
    /// When the leader checks the queue. `None`: nothing could need a check.
    pub(super) check_at: Option<Instant>,
    /// Wakes the leader.
    pub(super) wake_leader: Option<Box<dyn Fn() + Send + Sync>>,
    pub(super) growth: Growth,
    pub(super) closed: bool,
}

/// A worker that runs a batch.
pub(super) struct BusyWorker {
    /// When it started the batch.
    pub(super) since: Instant,
    pub(super) batch: Arc<dyn Batch>,
    /// The batch was put back into the queue.
    pub(super) assisted: bool,
    /// `None` on a borrowed pool.
    pub(super) status: Option<Arc<WorkerStatus>>,
    /// The last sample: how often the worker had gone to sleep. `None` if it was not asleep inside foreign code.
    pub(super) asleep: Option<u64>,
    pub(super) is_blocked: bool,
}

/// Returns whether what began at `since` is late.
pub(super) fn is_late(since: Instant, now: Instant) -> bool {
    since + LATE_AFTER <= now
}

impl Jobs {
    /// Adds a batch that a thread dispatches. Returns the worker to wake for it.
    pub(super) fn dispatch(&mut self, batch: Arc<dyn Batch>, now: Instant) -> Option<Thread> {
        // Another thread may have read the clock later, and have come first.
        self.dispatched_at = self.dispatched_at.max(Some(now));
        self.check_by(now + LATE_AFTER);
        self.waiting.push_back((batch, now));
        self.call_worker()
    }

    /// Chooses the worker that became idle last, whose caches are warm, or else wakes an idle extra thread.
    fn call_worker(&mut self) -> Option<Thread> {
        let last = self.idle.pop();
        if last.is_none() {
            self.wake_extra();
        }
        last
    }

    /// Returns the list of idle workers, or of idle extra threads, which wait until another thread removes them.
    pub(super) fn idle_list(&mut self, extra: bool) -> &mut Vec<Thread> {
        if extra { &mut self.growth.idle } else { &mut self.idle }
    }

    /// Takes the next job. A late job is put back, and another worker woken for it. Returns the batch, the place of the
    /// worker among the busy ones, and whether the batch is late. The caller drops `exhausted` without the lock.
    pub(super) fn take(
        &mut self,
        now: Instant,
        status: Option<&Arc<WorkerStatus>>,
        exhausted: &mut Vec<Arc<dyn Batch>>,
    ) -> Option<(Arc<dyn Batch>, usize, bool)> {
        if !self.has_job(now, exhausted) {
            return None;
        }
        let (batch, since) = self.waiting.pop_front()?;
        let is_late = is_late(since, now);
        if is_late {
            self.add_late(batch.clone(), since);
        }
        self.check_by(now + LATE_AFTER);
        let place = self.begin(batch.clone(), now, is_late, status);
        Some((batch, place, is_late))
    }

    /// Adds a job that is late, and wakes a worker for it.
    fn add_late(&mut self, batch: Arc<dyn Batch>, since: Instant) {
        self.waiting.push_back((batch, since));
        if let Some(worker) = self.call_worker() {
            worker.unpark();
        }
    }

    /// Removes jobs of which nothing is left to start from the front of the queue. Returns whether a job waits. The caller
    /// drops `exhausted` without the lock.
    pub(super) fn has_job(&mut self, now: Instant, exhausted: &mut Vec<Arc<dyn Batch>>) -> bool {
        // A young batch is not read: no worker has started it.
        while self.waiting.front().is_some_and(|(batch, since)| is_late(*since, now) && batch.is_exhausted()) {
            exhausted.extend(self.waiting.pop_front().map(|(batch, _)| batch));
        }
        let capacity = self.waiting.capacity();
        if capacity > RETAINED_JOBS && self.waiting.len() < capacity / 4 {
            self.waiting.shrink_to(capacity / 2);
        }
        !self.waiting.is_empty()
    }

    /// Records that a worker starts a batch. Returns its place among the busy ones.
    pub(super) fn begin(
        &mut self,
        batch: Arc<dyn Batch>,
        now: Instant,
        assisted: bool,
        status: Option<&Arc<WorkerStatus>>,
    ) -> usize {
        let status = status.cloned();
        self.busy.insert(BusyWorker { since: now, batch, assisted, status, asleep: None, is_blocked: false })
    }

    /// Records that a worker has run its batch, which the caller drops without the lock.
    pub(super) fn end(&mut self, place: usize) -> Arc<dyn Batch> {
        let worker = self.busy.remove(place);
        self.growth.blocked -= usize::from(worker.is_blocked);
        worker.batch
    }

    /// Checks the jobs and the busy workers, and sets the time of the next check. Returns the number of jobs that it
    /// has added. The caller drops `exhausted` without the lock.
    pub(super) fn check(&mut self, now: Instant, exhausted: &mut Vec<Arc<dyn Batch>>) -> usize {
        let has_job = self.has_job(now, exhausted);
        let dispatched_at = self.dispatched_at.filter(|_| has_job);
        let starts = dispatched_at.into_iter().chain(self.busy.iter().map(|(_, worker)| worker.since));
        let late_at = starts.map(|since| since + LATE_AFTER).filter(|&at| at > now).min();
        let assist = |(_, worker): (usize, &mut BusyWorker)| {
            let must = is_late(worker.since, now) && !worker.assisted && !worker.batch.is_exhausted();
            worker.assisted |= must;
            must.then(|| (worker.batch.clone(), worker.since))
        };
        let late: Vec<_> = self.busy.iter_mut().filter_map(assist).collect();
        let added = late.len();
        late.into_iter().for_each(|(batch, since)| self.add_late(batch, since));
        let at = late_at.into_iter().chain(self.check_growth(now)).min();
        self.set_check(at);
        added
    }
}

#[cfg(all(test, not(loom)))]
#[path = "jobs_tests.rs"]
mod tests;

//! The state behind the queue's lock, and the choice of a worker's next action: see the [head](super) of the room.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::probe::{SleepSample, WorkerProbe};
use super::thread::WorkerThread;
use crate::executor::batch::{Batch, Loan};
use crate::sync::{Arc, Condvar, MutexGuard, Weak, unpoisoned};

/// Time after which a batch gets more workers. It is the default tick: a driver that wakes for the next tick then
/// checks the batch without a wake-up of its own.
pub(crate) const STRAGGLER_AFTER: Duration = Duration::from_millis(1);
/// Maximum time for which a busy worker serves only jobs, on alert, or only rayon's work.
pub(super) const MAX_STINT: Duration = Duration::from_millis(10);
/// Interval between two searches of the lookout, at first.
const MIN_INTERVAL: Duration = Duration::from_millis(1);
/// Maximum interval between two searches. Beside a callback that blocks for long, one thread wakes 16 times a second.
pub(super) const MAX_INTERVAL: Duration = Duration::from_millis(64);

/// What the queue's lock protects.
pub(super) struct State {
    /// Batches that no worker has started, in the order in which they were pushed.
    pub(super) jobs: VecDeque<Job>,
    /// Loans that have not ended.
    pub(super) loans: Vec<Arc<dyn Loan>>,
    /// What the busy workers do, in the order in which they started it.
    pub(super) active: Vec<Activity>,
    /// The parked workers, in the order in which they parked. On alert the first is the lookout.
    pub(super) parked: Vec<Parked>,
    pub(super) alert: Option<Alert>,
    pub(super) growth: Growth,
    /// Number of workers so far, which gives each its id.
    pub(super) workers: usize,
    /// Number of activities so far, which gives each its id.
    pub(super) activities: u64,
    pub(super) closed: bool,
}

/// The part of the queue's state that is about its growth.
pub(super) struct Growth {
    /// Number of the pool's own threads.
    pub(super) own: usize,
    /// Maximum number of extra workers.
    pub(super) limit: usize,
    /// Number of extra workers, including those that are being started.
    pub(super) extras: usize,
    /// Number of times that an extra worker was woken or started.
    pub(super) needed: u64,
    /// Idle extra workers; the last one became idle last.
    pub(super) idle: Vec<Parked>,
    /// Wakes the monitor.
    pub(super) monitor: Arc<Condvar>,
    pub(super) has_monitor: bool,
    /// The monitor waits without a timeout.
    pub(super) monitor_is_parked: bool,
}

/// A batch that no worker has started, and the shard that its worker drives afterwards.
pub(super) struct Job {
    pub(super) batch: Arc<dyn Batch>,
    pub(super) loan: Option<Arc<dyn Loan>>,
}

/// What a busy worker does: it runs a batch or rayon's work.
pub(super) struct Activity {
    pub(super) worker: usize,
    pub(super) id: u64,
    pub(super) since: Instant,
    /// `None` for rayon's work.
    pub(super) batch: Option<Arc<dyn Batch>>,
    pub(super) probe: WorkerProbe,
    pub(super) sample: SleepSample,
}

/// A worker that waits on its condition variable.
pub(super) struct Parked {
    pub(super) worker: usize,
    pub(super) condvar: Arc<Condvar>,
}

/// A batch takes long, so workers wake to assist and to search: see the [head](super#the-alert) of the room.
pub(super) struct Alert {
    /// Time of the lookout's next search.
    pub(super) search_at: Instant,
    pub(super) interval: Duration,
    /// Rayon's work was found since the last search by all workers.
    pub(super) found: bool,
    /// Batches for which the alert was raised. A worker that drives may have one before it is busy with it.
    pub(super) late: Vec<Weak<dyn Batch>>,
}

/// The part of a worker's state that only the worker uses.
pub(super) struct Worker {
    pub(super) id: usize,
    pub(super) is_extra: bool,
    pub(super) condvar: Arc<Condvar>,
    pub(super) probe: WorkerProbe,
    /// Time from which it searches for rayon's work, on alert or while it drives, even if jobs wait.
    pub(super) search_at: Instant,
    /// It has searched for rayon's work since it last ran a batch or was woken.
    pub(super) has_searched: bool,
    /// Its next search is the lookout's.
    pub(super) is_lookout: bool,
    /// Its last action was to assist.
    just_assisted: bool,
}

/// What a worker does next.
pub(super) enum Action {
    Run(Job),
    /// Runs callbacks of a straggler for a while.
    Assist(Arc<dyn Batch>),
    /// Searches all queues of the pool for rayon's work.
    Search,
}

impl State {
    /// Adds a worker.
    pub(super) fn register(&mut self, thread: &impl WorkerThread, is_extra: bool) -> Worker {
        self.workers += 1;
        Worker {
            id: self.workers,
            is_extra,
            condvar: Arc::new(Condvar::new()),
            probe: WorkerProbe::new(thread.sleep_probe()),
            search_at: thread.now() + MAX_STINT,
            has_searched: true,
            is_lookout: false,
            just_assisted: false,
        }
    }

    /// Records that the worker starts a batch or, with `None`, rayon's work.
    pub(super) fn begin_activity(
        &mut self,
        worker: &mut Worker,
        batch: Option<Arc<dyn Batch>>,
        assists: bool,
        now: Instant,
    ) {
        worker.just_assisted = assists;
        worker.has_searched &= batch.is_none();
        worker.is_lookout &= batch.is_none();
        self.activities += 1;
        let (id, probe) = (self.activities, worker.probe.clone());
        self.active.push(Activity { worker: worker.id, id, since: now, batch, probe, sample: SleepSample::default() });
        self.wake_monitor();
    }

    pub(super) fn end_activity(&mut self, worker: usize) {
        if let Some(index) = self.active.iter().position(|activity| activity.worker == worker) {
            self.active.remove(index);
        }
    }

    /// Returns the worker's next action, by the list in the [head](super#a-workers-next-action) of the room. `None`: it
    /// parks.
    pub(super) fn choose(&mut self, worker: &Worker, now: Instant) -> Option<Action> {
        if (!worker.just_assisted || self.jobs.is_empty())
            && let Some(batch) = self.straggler(now)
        {
            return Some(Action::Assist(batch.clone()));
        }
        let on_alert = self.alert.is_some() && !self.closed;
        if on_alert && now >= worker.search_at {
            return Some(Action::Search);
        }
        if let Some(job) = self.jobs.pop_front() {
            return Some(Action::Run(job));
        }
        (on_alert && !worker.has_searched).then_some(Action::Search)
    }

    /// Returns the first unexhausted batch that a worker started at least [`STRAGGLER_AFTER`] ago.
    pub(super) fn straggler(&self, now: Instant) -> Option<&Arc<dyn Batch>> {
        // Younger batches are not read: their cursors are hot in the caches of other workers.
        let old = self.active.iter().take_while(|activity| activity.takes_long(now));
        old.filter_map(|activity| activity.batch.as_ref()).find(|batch| !batch.is_exhausted())
    }

    /// Returns whether a worker may drive one of the `shards`.
    ///
    /// There must be a worker for each shard, so that no batch of another shard waits for a worker that drives. The
    /// worker must also start soon, because the shard has no driver until then. So at most one job for each of the
    /// pool's threads may wait.
    pub(super) fn may_lend(&self, shards: usize, now: Instant) -> bool {
        let busy_for_long = self.active.iter().filter(|activity| activity.takes_long(now)).count();
        let workers = self.growth.own.saturating_sub(busy_for_long);
        !self.closed && self.jobs.len() <= self.growth.own && workers >= shards
    }

    /// Returns whether a worker must search for rayon's work before it drives on. Another worker may wait for that work.
    pub(super) fn must_search(&self, worker: &Worker, now: Instant) -> bool {
        let other_takes_long = |activity: &Activity| activity.worker != worker.id && activity.takes_long(now);
        now >= worker.search_at && self.active.iter().any(other_takes_long)
    }

    /// Returns when the lookout must wake, on alert: for the next straggler or for its next search.
    pub(super) fn lookout_deadline(&self) -> Option<Instant> {
        let alert = self.alert.as_ref()?;
        let has_more = |activity: &&Activity| activity.batch.as_ref().is_some_and(|batch| !batch.is_exhausted());
        let straggler = self.active.iter().find(has_more).map(|activity| activity.since + STRAGGLER_AFTER);
        straggler.into_iter().chain([alert.search_at]).min()
    }

    /// Raises the alert, or resets its interval: the lookout searches now. The alert lasts until the batch `late` is
    /// finished.
    pub(super) fn raise_alert(&mut self, now: Instant, found: bool, late: Option<Weak<dyn Batch>>) {
        let alert = self.alert.get_or_insert(Alert { search_at: now, interval: MIN_INTERVAL, found, late: Vec::new() });
        (alert.search_at, alert.interval) = (now, MIN_INTERVAL);
        alert.found |= found;
        alert.late.retain(is_unfinished);
        alert.late.extend(late);
        self.wake_lookout();
    }

    /// Schedules the next search, for the next lookout. Called by the lookout once it has left the list.
    fn hand_over_lookout(&mut self, now: Instant) {
        let Some(alert) = &mut self.alert else { return };
        alert.search_at = now + alert.interval;
        if self.active.is_empty() && alert.interval == MAX_INTERVAL {
            // Before the alert ends, all workers search: `rayon::spawn_broadcast` leaves work with each of them.
            alert.found = false;
            self.parked.drain(..).for_each(Parked::unpark);
        }
        self.wake_lookout();
    }

    /// Ends the alert if nothing is left to run, and the parked workers have searched in vain. Returns whether it ended.
    fn try_end_alert(&mut self) -> bool {
        self.end_alert(|alert| !alert.found)
    }

    /// Ends the alert if every worker drives and nothing is left to run: no lookout could end it. Workers that drive need no
    /// alert: after each batch they do the work in their own rayon queues.
    pub(super) fn end_alert_if_all_drive(&mut self) {
        if self.parked.is_empty() {
            self.end_alert(|_| true);
        }
    }

    /// Ends the alert if no job waits, no worker is busy, each late batch is finished, and the condition holds.
    fn end_alert(&mut self, condition: impl Fn(&Alert) -> bool) -> bool {
        let is_over = |alert: &mut Alert| condition(alert) && !alert.late.iter().any(is_unfinished);
        self.active.is_empty() && self.jobs.is_empty() && self.alert.take_if(is_over).is_some()
    }

    /// Wakes the lookout, which then computes its timeout anew. If no worker is parked, recalls the workers that drive,
    /// where callbacks are left to start, and wakes the monitor, where it is needed.
    fn wake_lookout(&mut self) {
        if let Some(lookout) = self.parked.first() {
            return lookout.condvar.notify_one();
        }
        if self.has_unstarted_callbacks() {
            self.loans.drain(..).for_each(|loan| loan.recall());
        }
        self.wake_monitor();
    }
}

impl Activity {
    /// Returns whether it began at least [`STRAGGLER_AFTER`] ago.
    fn takes_long(&self, now: Instant) -> bool {
        self.since + STRAGGLER_AFTER <= now
    }
}

impl Growth {
    pub(super) fn new(own: usize, limit: usize) -> Self {
        Self {
            own,
            limit,
            extras: 0,
            needed: 0,
            idle: Vec::new(),
            monitor: Arc::new(Condvar::new()),
            has_monitor: false,
            monitor_is_parked: false,
        }
    }

    /// Removes an extra worker, which ends.
    pub(super) fn remove_extra(&mut self) {
        self.extras -= 1;
    }

    /// Wakes the idle extra workers and the monitor, all of which then end.
    pub(super) fn close(&mut self) {
        self.idle.drain(..).for_each(Parked::unpark);
        self.monitor.notify_one();
    }
}

impl Worker {
    pub(super) fn parked(&self) -> Parked {
        Parked { worker: self.id, condvar: self.condvar.clone() }
    }
}

impl Parked {
    pub(super) fn unpark(self) {
        self.condvar.notify_one();
    }
}

/// Returns whether a driver, a queue or a worker still has the batch.
fn is_unfinished(batch: &Weak<dyn Batch>) -> bool {
    batch.strong_count() > 0
}

/// Parks the worker until it is woken or, as the lookout, has something to do.
pub(super) fn park<'a>(
    mut state: MutexGuard<'a, State>,
    worker: &mut Worker,
    thread: &impl WorkerThread,
) -> MutexGuard<'a, State> {
    state.parked.push(worker.parked());
    loop {
        // Only a wake-up removes the worker from the list, so a spurious one leaves it there.
        let Some(index) = state.parked.iter().position(|parked| parked.worker == worker.id) else {
            worker.has_searched = false;
            return state;
        };
        let timeout = match state.lookout_deadline().filter(|_| index == 0) {
            None => None,
            Some(at) => {
                let now = thread.now();
                if at <= now {
                    if state.try_end_alert() {
                        continue;
                    }
                    state.parked.remove(index);
                    worker.is_lookout = true;
                    worker.has_searched = false;
                    state.hand_over_lookout(now);
                    return state;
                }
                Some(at - now)
            }
        };
        state = match timeout {
            None => unpoisoned(worker.condvar.wait(state)),
            Some(timeout) => thread.wait_timeout(&worker.condvar, state, timeout),
        };
    }
}

#[cfg(all(test, not(loom)))]
#[path = "state_tests.rs"]
mod tests;

//! Growth: extra workers run while workers of the pool are blocked.
//!
//! A callback may block: on a lock, on a disk, on an answer. Once each worker of the pool is blocked, other timers
//! would wait. So *extra* workers run the same loop meanwhile, up to a limit.
//!
//! # Blocked, or waiting for a core
//!
//! A *monitor* thread samples the busy workers. A worker is *blocked* if two samples,
//! [`MIN_INTERVAL`](super::monitor::MIN_INTERVAL) or more apart, find it in the same activity and asleep throughout.
//! The system counts how often a thread has gone to sleep: if that count is the same in both samples, the thread has
//! not run in between. A worker that waits for a core is not asleep, so overload starts no extra worker. A flag says
//! whether the worker is inside foreign code, which is a callback or rayon's work. So a worker that waits for the lock
//! of the queue does not count as blocked.
//!
//! # How many workers may run
//!
//! Workers that are not blocked count as running. Their target is the number of the pool's threads, plus one for each
//! blocked worker. That surplus is for callbacks to come: where many callbacks block, the next ones probably block,
//! too, and would each need two samples before another worker runs. So while all workers are blocked, their number
//! doubles.
//!
//! The target never holds back the pool's own workers. An extra worker takes a job only while the target has *room* for
//! it, and waits idle otherwise. After [`IDLE`] without a job it ends.
//!
//! # What wakes or starts an extra worker
//!
//! - `push` wakes an idle one, if no worker of the pool is parked and the target has room.
//! - The monitor takes the place of the [lookout](super#the-alert) while the alert is on and no worker is parked. It
//!   sleeps until a batch is a straggler or a job waits. Then it samples the busy workers, wakes idle extra workers,
//!   and starts new ones, until no callback waits. The longer it has started none, the longer its interval becomes, up
//!   to [`MAX_INTERVAL`](super::monitor::MAX_INTERVAL). While all workers stay busy, that costs some 20 µs every 8 ms.
//!
//! Two kinds of steps may make the monitor necessary: an alert, and a step that leaves no worker parked during one.
//! Each of them wakes the monitor if it is needed. A job that finds neither a worker nor an idle extra waits for the
//! alert of its driver.

use std::time::Duration;

use super::probe::{SleepSample, WorkerProbe};
use super::state::{Activity, Growth, Parked, State, Worker};
use super::thread::TimedWait;
use crate::sync::MutexGuard;

/// Time without a job after which an extra worker ends.
const IDLE: Duration = Duration::from_secs(5);
/// A worker that is known to be blocked is sampled once in this number of rounds.
const RESAMPLED: u64 = 8;

/// Statistics of a pool's extra workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExtraThreads {
    /// Number of extra workers now.
    pub(crate) threads: u64,
    /// Number of times that one was woken or started.
    pub(crate) needed: u64,
}

impl State {
    /// Returns whether more workers run than should.
    pub(super) fn exceeds_target(&self) -> bool {
        let (running, target) = self.running();
        running > target
    }

    /// Returns the number of workers that are neither blocked nor parked nor idle, and the most that should run.
    fn running(&self) -> (usize, usize) {
        let Growth { own, extras, idle, .. } = &self.growth;
        let blocked = self.active.iter().filter(|activity| activity.sample.is_blocked).count();
        // This counts workers that were woken or started, but have not taken the lock yet.
        (own + extras - self.parked.len() - idle.len() - blocked, own + blocked)
    }

    /// Wakes an idle extra worker for a job, if there is room for it.
    pub(super) fn wake_extra(&mut self) {
        if !self.growth.idle.is_empty() {
            let (running, target) = self.running();
            self.wake_extras(target.saturating_sub(running).min(1));
        }
    }

    /// Wakes at most `max` idle extra workers. Returns the number that it woke.
    fn wake_extras(&mut self, max: usize) -> usize {
        let growth = &mut self.growth;
        let woken = max.min(growth.idle.len());
        let first = growth.idle.len() - woken;
        growth.idle.drain(first..).for_each(Parked::unpark);
        growth.needed += woken as u64;
        woken
    }

    /// Wakes the monitor if it is needed. Must be called after each step that may make it necessary.
    pub(super) fn wake_monitor(&mut self) {
        if self.growth.monitor_is_parked && self.needs_monitor() {
            self.growth.monitor_is_parked = false;
            self.growth.monitor.notify_one();
        }
    }

    /// Returns whether there are callbacks left to start, an alert, and no lookout.
    pub(super) fn needs_monitor(&self) -> bool {
        self.alert.is_some() && self.parked.is_empty() && self.has_unstarted_callbacks()
    }

    /// Returns whether callbacks are left to start, in a job or in a batch that a worker runs.
    pub(super) fn has_unstarted_callbacks(&self) -> bool {
        let has_more = |activity: &Activity| activity.batch.as_ref().is_some_and(|batch| !batch.is_exhausted());
        !self.jobs.is_empty() || self.active.iter().any(has_more)
    }

    /// Wakes idle extra workers for which there is room. Returns the number that the caller must start.
    pub(super) fn grow(&mut self) -> usize {
        let (running, target) = self.running();
        let room = target.saturating_sub(running);
        let woken = self.wake_extras(room);
        let growth = &mut self.growth;
        let starting = (room - woken).min(growth.limit - growth.extras);
        growth.extras += starting;
        growth.needed += starting as u64;
        starting
    }

    /// Corrects the counts for `count` workers that [`grow`](Self::grow) requested and the system refused to start.
    pub(super) fn not_started(&mut self, count: usize) {
        self.growth.extras -= count;
        self.growth.needed -= count as u64;
    }

    /// Returns the busy workers to sample in this round, each with the id of its activity.
    pub(super) fn to_sample(&self, round: u64) -> Vec<(u64, WorkerProbe)> {
        let is_due =
            |activity: &&Activity| !activity.sample.is_blocked || (activity.id + round).is_multiple_of(RESAMPLED);
        self.active.iter().filter(is_due).map(|activity| (activity.id, activity.probe.clone())).collect()
    }

    pub(super) fn record_samples(&mut self, samples: &[(u64, Option<u64>)]) {
        for activity in &mut self.active {
            if let Some(&(_, asleep)) = samples.iter().find(|(id, _)| *id == activity.id) {
                let is_blocked = asleep.is_some() && asleep == activity.sample.asleep;
                activity.sample = SleepSample { asleep, is_blocked };
            }
        }
    }
}

/// Waits until the extra worker is woken. Returns `Err` if it was idle for [`IDLE`] and should end.
pub(super) fn wait_idle<'a>(
    mut state: MutexGuard<'a, State>,
    worker: &Worker,
    thread: &impl TimedWait,
) -> Result<MutexGuard<'a, State>, MutexGuard<'a, State>> {
    let ends = thread.now() + IDLE;
    state.growth.idle.push(worker.parked());
    loop {
        // Only a wake-up removes the worker from the list, so a spurious one leaves it there.
        let Some(index) = state.growth.idle.iter().position(|parked| parked.worker == worker.id) else {
            return Ok(state);
        };
        let left = ends.saturating_duration_since(thread.now());
        if left.is_zero() {
            state.growth.idle.remove(index);
            return Err(state);
        }
        state = thread.wait_timeout(&worker.condvar, state, left);
    }
}

#[cfg(all(test, not(loom)))]
#[path = "growth_tests.rs"]
mod tests;

//! Growth: extra workers run while workers of the pool are blocked.
//!
//! A callback may block: on a lock, on a disk, on an answer. Once each worker of the pool is blocked, other timers
//! would wait. So *extra* workers run the same loop meanwhile, up to a limit.
//!
//! # Blocked, or waiting for a core
//!
//! The timer samples the busy workers. A worker is *blocked* if two samples,
//! [`MIN_INTERVAL`] or more apart, find it in the same run and asleep throughout.
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
//! - A dispatch wakes an idle one, if no worker of the pool is parked and the target has room. So does a worker that
//!   puts a late batch back.
//! - From a [check](super::check) that finds a late job and no parked worker, checks follow every [`MIN_INTERVAL`] at
//!   first. Each samples busy workers, wakes idle extra workers, and starts new ones, until no late job waits or a
//!   worker is parked. The longer none was started, the longer the interval becomes, up to [`MAX_INTERVAL`]. While all
//!   workers stay busy, that costs some 20 µs every 8 ms. The leader, which checks, has timers to expire. So one check
//!   samples, wakes and starts a bounded number.

use std::time::{Duration, Instant};

use super::queue::JobQueue;
use super::state::{State, is_late};
use super::worker_probe::WorkerProbe;
use crate::sync::thread::Thread;
use crate::sync::{Arc, lock};

/// Time without a job after which an extra worker ends.
pub(super) const IDLE: Duration = Duration::from_secs(5);
/// Maximum number of workers that one check samples, each in some 10 µs.
const MAX_SAMPLES: usize = 32;
/// Maximum number of workers that one check wakes, each in some microseconds under the lock.
const MAX_WOKEN: usize = 32;
/// Maximum number of workers that one check starts, each in some 100 µs.
const MAX_STARTS: usize = 8;
/// Minimum time between two samples of the same worker. A callback that naps for less is not blocked.
const MIN_INTERVAL: Duration = Duration::from_micros(600);
/// Maximum time between two samples while callbacks wait.
const MAX_INTERVAL: Duration = Duration::from_millis(8);

/// The part of the queue's state that is about its growth.
#[derive(Default)]
pub(super) struct Growth {
    /// Maximum number of extra workers.
    pub(super) limit: usize,
    /// Number of blocked workers.
    pub(super) blocked: usize,
    /// Number of extra workers, including those that are being started.
    pub(super) extras: usize,
    /// Number of times that an extra worker was woken or started.
    needed: u64,
    /// Idle extra workers; the last one became idle last.
    pub(super) idle: Vec<Thread>,
    /// When a check last started a worker or began to sample. `None` while none need sample.
    since: Option<Instant>,
    /// Time of the next sample.
    sample_at: Option<Instant>,
    /// Place of the run from which the next check samples.
    next: usize,
}

impl State {
    /// Returns how many workers more should run. `None` if too many run.
    ///
    /// The threads of the pool that are not extra are in both numbers. Those that were woken or started, but have not
    /// taken the lock yet, count as running.
    pub(super) fn room(&self) -> Option<usize> {
        let Growth { extras, idle, blocked, .. } = &self.growth;
        (self.parked.len() + idle.len() + 2 * blocked).checked_sub(*extras)
    }

    /// Wakes an idle extra worker for a job, if there is room for it.
    pub(super) fn wake_extra(&mut self) {
        self.wake_extras(self.room().unwrap_or(0).min(1));
    }

    /// Wakes at most `max` idle extra workers. Returns the number that it woke.
    fn wake_extras(&mut self, max: usize) -> usize {
        let growth = &mut self.growth;
        let woken = max.min(growth.idle.len());
        let first = growth.idle.len() - woken;
        growth.idle.drain(first..).for_each(|thread| thread.unpark());
        growth.needed += woken as u64;
        woken
    }

    /// Returns whether the busy workers must be sampled, because callbacks wait for them.
    fn must_sample(&mut self, now: Instant) -> bool {
        let has_late_job = self.jobs.front().is_some_and(|job| is_late(job.since, now));
        let must = has_late_job && self.parked.is_empty() && self.growth.limit > 0 && !self.closed;
        self.growth.since = must.then(|| self.growth.since.unwrap_or(now));
        must
    }

    /// Returns when the growth needs the next check.
    pub(super) fn check_growth(&mut self, now: Instant) -> Option<Instant> {
        self.must_sample(now).then(|| self.growth.sample_at.unwrap_or(now))
    }

    /// Wakes idle extra workers for which there is room. Returns the number that the caller must start.
    fn make_room(&mut self) -> usize {
        let room = self.room().unwrap_or(0).min(MAX_WOKEN);
        let woken = self.wake_extras(room);
        let growth = &mut self.growth;
        let starting = (room - woken).min(growth.limit - growth.extras).min(MAX_STARTS);
        growth.extras += starting;
        growth.needed += starting as u64;
        starting
    }

    /// Returns the busy workers to sample next, each with the place and the start of its run.
    fn next_to_sample(&mut self) -> Vec<(usize, Instant, Arc<WorkerProbe>)> {
        let next = self.growth.next;
        let places = self.running.capacity();
        let due = (next..next + places).map(|place| place % places).filter_map(|place| {
            let run = self.running.get(place)?;
            Some((place, run.since, run.probe.clone()?))
        });
        let due: Vec<_> = due.take(MAX_SAMPLES).collect();
        self.growth.next = due.last().map_or(0, |(place, ..)| place + 1);
        due
    }

    /// Records samples, but not that of a run whose place another has taken meanwhile. A later check samples it.
    fn record_samples(&mut self, samples: &[(usize, Instant, Option<u64>)]) {
        for &(place, since, asleep) in samples {
            if let Some(run) = self.running.get_mut(place).filter(|run| run.since == since) {
                let is_blocked = asleep.is_some() && asleep == run.asleep;
                self.growth.blocked += usize::from(is_blocked);
                self.growth.blocked -= usize::from(run.is_blocked);
                (run.asleep, run.is_blocked) = (asleep, is_blocked);
            }
        }
    }
}

impl JobQueue {
    /// Returns the number of extra workers, and how often one was woken or started.
    pub(crate) fn extra_threads(&self) -> (u64, u64) {
        let Growth { extras, needed, .. } = lock(&self.state).growth;
        (extras as u64, needed)
    }

    /// Samples the busy workers, and wakes or starts extra ones, if it is time.
    pub(super) fn grow(&self, now: Instant, start: impl FnOnce(usize) -> usize) {
        let mut state = lock(&self.state);
        let growth = &mut state.growth;
        if growth.since.is_none() || growth.sample_at.is_some_and(|at| at > now) {
            return;
        }
        let workers = state.next_to_sample();
        drop(state);
        let samples: Vec<_> = workers.into_iter().map(|(place, since, probe)| (place, since, probe.sample())).collect();
        let mut state = lock(&self.state);
        state.record_samples(&samples);
        let starting = if state.must_sample(now) { state.make_room() } else { 0 };
        drop(state);
        let started = if starting > 0 { start(starting) } else { 0 };
        let mut state = lock(&self.state);
        let growth = &mut state.growth;
        // The system has refused to start the others.
        growth.extras -= starting - started;
        growth.needed -= (starting - started) as u64;
        if let Some(since) = &mut growth.since {
            if started > 0 {
                *since = now;
            }
            let interval = ((now - *since) / 4).clamp(MIN_INTERVAL, MAX_INTERVAL);
            growth.sample_at = Some(now + interval);
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "growth_tests.rs"]
mod tests;

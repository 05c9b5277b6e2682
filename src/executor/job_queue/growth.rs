//! Growth: extra threads run while workers of the pool are blocked.
//!
//! A callback may block: on a lock, on a disk, on an answer. Once each worker of the pool is blocked, other timers
//! would wait. So *extra* threads run the same loop meanwhile, up to a limit.
//!
//! # Blocked, or waiting for a core
//!
//! The timer samples the busy workers. A worker is *blocked* if two samples,
//! [`MIN_INTERVAL`] or more apart, find it inside the same batch and asleep throughout.
//! The system counts how often a thread has gone to sleep: if that count is the same in both samples, the thread has
//! not run in between. A worker that waits for a core is not asleep, so overload starts no extra thread. A flag says
//! whether the worker is inside foreign code, which is a callback or what it has left to rayon. So a worker that waits
//! for the lock of the queue does not count as blocked.
//!
//! # How many workers may run
//!
//! There is *room* for as many threads that are not blocked as the pool has workers, plus one for each blocked thread.
//! That surplus is for callbacks to come: where many callbacks block, the next ones probably block, too, and would each
//! need two samples before another thread runs. So while all threads are blocked, their number doubles.
//!
//! The pool's own workers need no room. An extra thread takes a job only while there is room for it, and is idle
//! otherwise. After [`IDLE`] without a job it ends.
//!
//! # What wakes or starts an extra thread
//!
//! - A dispatch wakes an idle one, if no worker is idle and there is room. So does a worker that
//!   puts a late batch back.
//! - From a [check](super::check) that finds a late job and no idle worker, checks follow every [`MIN_INTERVAL`] at
//!   first. Each samples busy workers, wakes idle extra threads, and starts new ones, until no late job waits or a
//!   worker is idle. The longer none was started, the longer the interval becomes, up to [`MAX_INTERVAL`]. While all
//!   workers stay busy, that costs some 20 µs every 8 ms. The leader, which checks, has timers to expire. So one check
//!   samples, wakes and starts a bounded number.

use std::time::{Duration, Instant};

use super::jobs::{Jobs, is_late};
use super::queue::JobQueue;
use super::worker::WorkerStatus;
use crate::sync::thread::Thread;
use crate::sync::{Arc, lock};

/// Time without a job after which an extra thread ends.
pub(super) const IDLE: Duration = Duration::from_secs(5);
/// Maximum number of workers that one check samples, each in some 10 µs.
const MAX_SAMPLES: usize = 32;
/// Maximum number of extra threads that one check wakes, each in some microseconds under the lock.
const MAX_WOKEN: usize = 32;
/// Maximum number of extra threads that one check starts, each in some 100 µs.
const MAX_STARTS: usize = 8;
/// Minimum time between two samples of the same worker. A callback that naps for less is not blocked.
const MIN_INTERVAL: Duration = Duration::from_micros(600);
/// Maximum time between two samples while callbacks wait.
const MAX_INTERVAL: Duration = Duration::from_millis(8);

/// What the queue's lock protects for its growth.
#[derive(Default)]
pub(super) struct Growth {
    /// Maximum number of extra threads.
    pub(super) limit: usize,
    /// Number of blocked workers, extra threads among them.
    pub(super) blocked: usize,
    /// Number of extra threads, including those that are being started.
    pub(super) extras: usize,
    /// Number of times that an extra thread was woken or started.
    needed: u64,
    /// Idle extra threads; the last one became idle last.
    pub(super) idle: Vec<Thread>,
    /// When a check last started a worker or began to sample. `None` while none need sample.
    since: Option<Instant>,
    /// Time of the next sample.
    sample_at: Option<Instant>,
    /// Place of the busy worker from which the next check samples.
    next: usize,
}

impl Jobs {
    /// Returns how many workers more should run. `None` if too many run.
    ///
    /// The threads of the pool that are not extra are in both numbers. Those that were woken or started, but have not
    /// taken the lock yet, count as running.
    pub(super) fn room(&self) -> Option<usize> {
        let Growth { extras, idle, blocked, .. } = &self.growth;
        (self.idle.len() + idle.len() + 2 * blocked).checked_sub(*extras)
    }

    /// Wakes an idle extra thread for a job, if there is room for it.
    pub(super) fn wake_extra(&mut self) {
        self.wake_extras(self.room().unwrap_or(0).min(1));
    }

    /// Wakes at most `max` idle extra threads. Returns the number that it woke.
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
        let has_late_job = self.waiting.front().is_some_and(|&(_, since)| is_late(since, now));
        let must = has_late_job && self.idle.is_empty() && self.growth.limit > 0 && !self.closed;
        self.growth.since = must.then(|| self.growth.since.unwrap_or(now));
        must
    }

    /// Returns when the growth needs the next check.
    pub(super) fn check_growth(&mut self, now: Instant) -> Option<Instant> {
        self.must_sample(now).then(|| self.growth.sample_at.unwrap_or(now))
    }

    /// Wakes idle extra threads for which there is room. Returns the number that the caller must start.
    fn make_room(&mut self) -> usize {
        let room = self.room().unwrap_or(0).min(MAX_WOKEN);
        let woken = self.wake_extras(room);
        let growth = &mut self.growth;
        let starting = (room - woken).min(growth.limit - growth.extras).min(MAX_STARTS);
        growth.extras += starting;
        growth.needed += starting as u64;
        starting
    }

    /// Returns the busy workers to sample next, each with its place and the start of its batch.
    fn next_to_sample(&mut self) -> Vec<(usize, Instant, Arc<WorkerStatus>)> {
        let next = self.growth.next;
        let places = self.busy.capacity();
        let due = (next..next + places).map(|place| place % places).filter_map(|place| {
            let worker = self.busy.get(place)?;
            Some((place, worker.since, worker.status.clone()?))
        });
        let due: Vec<_> = due.take(MAX_SAMPLES).collect();
        self.growth.next = due.last().map_or(0, |(place, ..)| place + 1);
        due
    }

    /// Records samples, but not that of a batch whose place another has taken meanwhile. A later check samples it.
    fn record_samples(&mut self, samples: &[(usize, Instant, Option<u64>)]) {
        for &(place, since, asleep) in samples {
            if let Some(worker) = self.busy.get_mut(place).filter(|worker| worker.since == since) {
                let is_blocked = asleep.is_some() && asleep == worker.asleep;
                self.growth.blocked += usize::from(is_blocked);
                self.growth.blocked -= usize::from(worker.is_blocked);
                worker.asleep = asleep;
                worker.is_blocked = is_blocked;
            }
        }
    }
}

impl JobQueue {
    /// Returns the number of extra threads, and how often one was woken or started.
    pub(crate) fn extra_threads(&self) -> (u64, u64) {
        let Growth { extras, needed, .. } = lock(&self.jobs).growth;
        (extras as u64, needed)
    }

    /// Samples the busy workers, and wakes or starts extra ones, if it is time.
    pub(super) fn grow(&self, now: Instant, start: impl FnOnce(usize) -> usize) {
        let mut jobs = lock(&self.jobs);
        let growth = &mut jobs.growth;
        if growth.since.is_none() || growth.sample_at.is_some_and(|at| at > now) {
            return;
        }
        let workers = jobs.next_to_sample();
        drop(jobs);
        let samples: Vec<_> =
            workers.into_iter().map(|(place, since, status)| (place, since, status.sample())).collect();
        let mut jobs = lock(&self.jobs);
        jobs.record_samples(&samples);
        let starting = if jobs.must_sample(now) { jobs.make_room() } else { 0 };
        drop(jobs);
        let started = if starting > 0 { start(starting) } else { 0 };
        let mut jobs = lock(&self.jobs);
        let growth = &mut jobs.growth;
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

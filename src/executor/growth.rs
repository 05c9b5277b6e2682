//! Growth: extra threads run while workers of the pool are blocked.
//!
//! A callback may block: on a lock, on a disk, on an answer. Once each worker of the pool is blocked, other timers
//! would wait. So *extra* threads run the same loop meanwhile, up to a limit.
//!
//! # Blocked, or waiting for a core
//!
//! The timer samples the busy workers. A worker is *blocked* if two samples, [`MIN_INTERVAL`] or more apart, find it inside
//! the same batch and asleep throughout. The system counts how often a thread has gone to sleep: if that count is the same
//! in both samples, the thread has not run in between. A worker that waits for a core is not asleep, so overload starts no extra thread. A flag says
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
//! - A dispatch wakes an idle one, if no worker is idle and there is room. So does a worker that puts a late batch back.
//! - From a [check](super::job_queue) that finds a late job and no idle worker, checks follow every [`MIN_INTERVAL`] at
//!   first. Each samples busy workers, wakes idle extra threads, and starts new ones, until no late job waits or a
//!   worker is idle. The longer none was started, the longer the interval becomes, up to [`MAX_INTERVAL`]. While all
//!   workers stay busy, that costs some 20 µs every 8 ms. The leader, which checks, has timers to expire. So one check
//!   samples, wakes and starts a bounded number.

use std::time::{Duration, Instant};

use slab::Slab;

use super::job_queue::BusyWorker;
use crate::sync::thread::Thread;
use crate::sync::{Arc, AtomicBool, Ordering};

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
    /// The workers that run a batch.
    pub(super) busy: Slab<BusyWorker>,
    /// Maximum number of extra threads.
    pub(super) limit: usize,
    /// Number of blocked workers, extra threads among them.
    pub(super) blocked: usize,
    /// Number of extra threads, including those that are being started.
    pub(super) extras: usize,
    /// Number of times that an extra thread was woken or started.
    pub(super) needed: u64,
    /// Idle extra threads; the last one became idle last.
    pub(super) idle: Vec<Thread>,
    /// When a check last started a worker or began to sample. `None` while none need sample.
    since: Option<Instant>,
    /// Time of the next sample.
    pub(super) sample_at: Option<Instant>,
    /// Place of the busy worker from which the next check samples.
    next: usize,
}

impl Growth {
    /// Returns how many workers more should run, beside `idle` ones of the pool. `None` if too many run.
    ///
    /// The threads of the pool that are not extra are in both numbers. Those that were woken or started, but have not
    /// taken the lock yet, count as running.
    pub(super) fn room(&self, idle: usize) -> Option<usize> {
        (idle + self.idle.len() + 2 * self.blocked).checked_sub(self.extras)
    }

    /// Wakes at most `max` idle extra threads, for which there is room. Returns for how many more, of `max`, there is room.
    /// No worker of the pool is idle.
    pub(super) fn wake_extras(&mut self, max: usize) -> usize {
        let room = self.room(0).unwrap_or(0).min(max);
        let left = self.idle.len().saturating_sub(room);
        let woken = self.idle.drain(left..).map(|thread| thread.unpark()).count();
        self.needed += woken as u64;
        room - woken
    }

    /// Returns whether the busy workers must be sampled, if `callbacks_wait` for them.
    pub(super) fn must_sample(&mut self, callbacks_wait: bool, now: Instant) -> bool {
        let must = callbacks_wait && self.limit > 0;
        self.since = must.then(|| self.since.unwrap_or(now));
        must
    }

    /// Returns the busy workers to sample next, each with its place and the start of its batch, if it is time.
    pub(super) fn next_to_sample(&mut self, now: Instant) -> Option<Vec<(usize, Instant, Arc<WorkerStatus>)>> {
        if self.since.is_none() || self.sample_at.is_some_and(|at| at > now) {
            return None;
        }
        let places = self.busy.capacity();
        let due = (self.next..self.next + places).map(|place| place % places).filter_map(|place| {
            let worker = self.busy.get(place)?;
            Some((place, worker.since, worker.status.clone()?))
        });
        let due: Vec<_> = due.take(MAX_SAMPLES).collect();
        self.next = due.last().map_or(0, |(place, ..)| place + 1);
        Some(due)
    }

    /// Records samples, but not that of a batch whose place another has taken meanwhile. A later check samples it.
    pub(super) fn record_samples(&mut self, samples: &[(usize, Instant, Option<u64>)]) {
        for &(place, since, asleep) in samples {
            if let Some(worker) = self.busy.get_mut(place).filter(|worker| worker.since == since) {
                let is_blocked = asleep.is_some() && asleep == worker.asleep;
                self.blocked += usize::from(is_blocked);
                self.blocked -= usize::from(worker.is_blocked);
                worker.asleep = asleep;
                worker.is_blocked = is_blocked;
            }
        }
    }

    /// Wakes idle extra threads for which there is room. Returns the number that the caller must start. No worker of the
    /// pool is idle.
    pub(super) fn make_room(&mut self) -> usize {
        let starting = self.wake_extras(MAX_WOKEN).min(self.limit - self.extras).min(MAX_STARTS);
        self.extras += starting;
        self.needed += starting as u64;
        starting
    }

    /// Sets the time of the next sample. Of the threads that were `starting`, the system has `started` some.
    pub(super) fn end_check(&mut self, starting: usize, started: usize, now: Instant) {
        self.extras -= starting - started;
        self.needed -= (starting - started) as u64;
        if let Some(since) = &mut self.since {
            if started > 0 {
                *since = now;
            }
            let interval = ((now - *since) / 4).clamp(MIN_INTERVAL, MAX_INTERVAL);
            self.sample_at = Some(now + interval);
        }
    }
}

/// What a check samples of a worker.
pub(super) struct WorkerStatus {
    /// See [`WorkerThread::sample`](super::job_queue::WorkerThread::sample).
    sample: Box<dyn Fn() -> Option<u64> + Send + Sync>,
    /// The worker is inside a callback, or runs what callbacks have left to rayon.
    in_foreign_code: AtomicBool,
}

impl WorkerStatus {
    pub(super) fn new(sample: impl Fn() -> Option<u64> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { sample: Box::new(sample), in_foreign_code: AtomicBool::new(false) })
    }

    /// Runs `f`, which is foreign code.
    pub(super) fn run_foreign(&self, f: impl FnOnce()) {
        // Relaxed, as in `sample`: a hint. A stale value costs at most one extra thread too many or too few.
        self.in_foreign_code.store(true, Ordering::Relaxed);
        f();
        self.in_foreign_code.store(false, Ordering::Relaxed);
    }

    /// Returns how often the thread has gone to sleep, if it is asleep inside foreign code.
    pub(super) fn sample(&self) -> Option<u64> {
        let is_inside = || self.in_foreign_code.load(Ordering::Relaxed);
        is_inside().then(|| (self.sample)()).flatten().filter(|_| is_inside())
    }
}

#[cfg(all(test, not(loom)))]
#[path = "growth_tests.rs"]
mod tests;

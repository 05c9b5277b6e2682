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
//! - A [check](JobQueue::check) that finds a late job and no parked worker calls the *grower*, a thread of the timer's.
//!   Every [`MIN_INTERVAL`] at first, it samples the busy workers, wakes idle extra workers, and starts new ones, until
//!   no late job waits or a worker is parked. The longer it has started none, the longer its interval becomes, up to
//!   [`MAX_INTERVAL`]. While all workers stay busy, that costs some 20 µs every 8 ms.
//!
//! The grower also checks the queue where no driver does: see the [head](super#the-check) of the room.

use std::time::{Duration, Instant};

use super::probe::{SleepSample, WorkerProbe};
use super::queue::JobQueue;
use super::state::{Parked, Run, State, is_late};
use crate::sync::thread::{self, Thread};
use crate::sync::{Arc, AtomicBool, Ordering, lock};

/// Time without a job after which an extra worker ends.
pub(super) const IDLE: Duration = Duration::from_secs(5);
/// A worker that is known to be blocked is sampled once in this number of rounds.
const RESAMPLED: u64 = 8;
/// Minimum time between two samples of the same worker. A callback that naps for less is not blocked.
const MIN_INTERVAL: Duration = Duration::from_micros(600);
/// Maximum time between two samples while callbacks wait.
const MAX_INTERVAL: Duration = Duration::from_millis(8);

/// The part of the queue's state that is about its growth.
#[derive(Default)]
pub(super) struct Growth {
    /// Number of the pool's own threads.
    own: usize,
    /// Maximum number of extra workers.
    pub(super) limit: usize,
    /// Number of extra workers, including those that are being started.
    pub(super) extras: usize,
    /// Number of times that an extra worker was woken or started.
    needed: u64,
    /// Idle extra workers; the last one became idle last.
    pub(super) idle: Vec<Parked>,
    /// When the grower last started a worker or began to sample. `None` while it need not sample.
    since: Option<Instant>,
    /// Time of the next sample.
    sample_at: Option<Instant>,
    round: u64,
    grower: Option<Thread>,
    /// The grower should call [`JobQueue::grow`].
    pub(super) is_called: Arc<AtomicBool>,
}

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
        let blocked = self.running.iter().filter(|run| run.sample.is_blocked).count();
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

    /// Returns whether the grower samples the busy workers. Calls it if it should begin.
    pub(super) fn check_growth(&mut self, now: Instant) -> bool {
        let has_late_job = self.jobs.front().is_some_and(|job| is_late(job.since, now));
        if !has_late_job || !self.parked.is_empty() || self.growth.limit == 0 || self.closed {
            self.growth.since = None;
        } else if self.growth.since.is_none() {
            self.growth.since = Some(now);
            self.growth.call_grower();
        }
        self.growth.since.is_some()
    }

    /// Returns whether a job waits for a worker that was woken and has not come. Once it has, all workers may be blocked,
    /// and no other event would lead to a check.
    pub(super) fn awaits_worker(&self) -> bool {
        let Growth { own, extras, idle, .. } = &self.growth;
        let here = self.parked.len() + idle.len() + self.running.len();
        !self.jobs.is_empty() && here < own + extras
    }

    /// Wakes idle extra workers for which there is room. Returns the number that the caller must start.
    fn make_room(&mut self) -> usize {
        let (running, target) = self.running();
        let room = target.saturating_sub(running);
        let woken = self.wake_extras(room);
        let growth = &mut self.growth;
        let starting = (room - woken).min(growth.limit - growth.extras);
        growth.extras += starting;
        growth.needed += starting as u64;
        starting
    }

    /// Corrects the counts for `count` workers that [`make_room`](Self::make_room) requested and the system refused to start.
    fn not_started(&mut self, count: usize) {
        self.growth.extras -= count;
        self.growth.needed -= count as u64;
    }

    /// Returns the busy workers to sample in this round, each with the id of its run.
    fn to_sample(&self, round: u64) -> Vec<(u64, WorkerProbe)> {
        let is_due = |run: &&Run| !run.sample.is_blocked || (run.id + round) % RESAMPLED == 0;
        let due = self.running.iter().filter(is_due);
        due.filter_map(|run| Some((run.id, run.probe.clone()?))).collect()
    }

    fn record_samples(&mut self, samples: &[(u64, Option<u64>)]) {
        for run in &mut self.running {
            if let Some(&(_, asleep)) = samples.iter().find(|(id, _)| *id == run.id) {
                let is_blocked = asleep.is_some() && asleep == run.sample.asleep;
                run.sample = SleepSample { asleep, is_blocked };
            }
        }
    }
}

impl Growth {
    pub(super) fn new(own: usize, limit: usize) -> Self {
        Self { own, limit, ..Self::default() }
    }

    /// Makes the grower call [`JobQueue::grow`].
    pub(super) fn call_grower(&self) {
        // Relaxed: the unpark publishes it to the grower's next call.
        self.is_called.store(true, Ordering::Relaxed);
        self.grower.iter().for_each(Thread::unpark);
    }
}

impl JobQueue {
    /// Makes the thread the grower: it must call [`grow`](Self::grow) each time it is unparked.
    pub(crate) fn set_grower(&self, thread: Thread) {
        lock(&self.state).growth.grower = Some(thread);
    }

    /// Makes the grower call [`grow`](Self::grow).
    pub(crate) fn call_grower(&self) {
        lock(&self.state).growth.call_grower();
    }

    /// Returns whether the grower was called.
    pub(crate) fn wants_growth(&self) -> bool {
        // Relaxed: see `call_grower`.
        self.is_called.load(Ordering::Relaxed)
    }

    /// Returns the statistics of the extra workers.
    pub(crate) fn extra_threads(&self) -> ExtraThreads {
        let state = lock(&self.state);
        ExtraThreads { threads: state.growth.extras as u64, needed: state.growth.needed }
    }

    /// Does the grower's work. Returns when to call it again; it must also be called whenever the grower is unparked.
    ///
    /// `start` starts a number of threads that run the worker loop as extra workers. It returns how many the system has
    /// started. `has_ending` returns whether it should be called again, because extra threads are about to end.
    pub(crate) fn grow(
        &self,
        now: Instant,
        start: impl FnOnce(usize) -> usize,
        has_ending: impl FnOnce() -> bool,
    ) -> Option<Duration> {
        // Relaxed: see `call_grower`. This may overwrite a later call. But that call is made under the lock, so what it is
        // for is seen below.
        if !self.is_called.load(Ordering::Relaxed) {
            return None;
        }
        self.is_called.store(false, Ordering::Relaxed);
        let has_ending = has_ending().then_some(MAX_INTERVAL);
        // The check comes last: a worker may take a job while this samples, and then nobody else would check it.
        let next = self.sample(now, start).into_iter().chain(self.check(now).0).chain(has_ending).min();
        if next.is_some() {
            // Relaxed: only the grower reads it.
            self.is_called.store(true, Ordering::Relaxed);
            // Another thread may have become the grower meanwhile, and this one does not come again.
            let others = |grower: &&Thread| grower.id() != thread::current().id();
            lock(&self.state).growth.grower.iter().filter(others).for_each(Thread::unpark);
        }
        next
    }

    /// Samples the busy workers, and wakes or starts extra workers, if a late job waits and no worker is parked.
    fn sample(&self, now: Instant, start: impl FnOnce(usize) -> usize) -> Option<Duration> {
        let mut state = lock(&self.state);
        let growth = &mut state.growth;
        growth.since?;
        if let Some(sample_at) = growth.sample_at.filter(|&at| at > now) {
            return Some(sample_at - now);
        }
        growth.round += 1;
        let workers = state.to_sample(state.growth.round);
        drop(state);
        let samples: Vec<_> = workers.into_iter().map(|(id, probe)| (id, probe.sample())).collect();
        let mut state = lock(&self.state);
        state.record_samples(&samples);
        let starting = if state.check_growth(now) { state.make_room() } else { 0 };
        drop(state);
        let started = if starting > 0 { start(starting) } else { 0 };
        let mut state = lock(&self.state);
        state.not_started(starting - started);
        let since = state.growth.since.as_mut()?;
        if started > 0 {
            *since = now;
        }
        let interval = ((now - *since) / 4).clamp(MIN_INTERVAL, MAX_INTERVAL);
        state.growth.sample_at = Some(now + interval);
        Some(interval)
    }
}

#[cfg(all(test, not(loom)))]
#[path = "growth_tests.rs"]
mod tests;

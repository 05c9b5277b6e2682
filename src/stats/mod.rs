//! What a timer has done, counted without a shared counter.

mod counters;
mod lateness;

use std::iter::Sum;
use std::ops::AddAssign;

pub(crate) use counters::{Count, ThreadCounters};
pub use lateness::Lateness;

/// What a [`Timer`](crate::Timer) has done since it was built: see [`Timer::stats`](crate::Timer::stats).
///
/// Exact once the threads that use the timer are quiet. Always:
/// `scheduled = completed + cancelled + unfired + pending`.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Timers accepted.
    pub scheduled: u64,
    /// Runs started: one for a one-shot timer, every run of a repeating one.
    pub fired: u64,
    /// Timers that ended by running: one-shots that started, and repeating ones ended by `None` or by a panic.
    pub completed: u64,
    /// Timers ended by a cancel, by an executor that dropped them unrun, or, where they repeat, by a shutdown from
    /// inside their own callback.
    pub cancelled: u64,
    /// Timers handed back by a shutdown.
    pub unfired: u64,
    /// Timers that have not ended; a repeating one also while it runs.
    pub pending: u64,
    /// Resets that found their timer pending.
    pub rearmed: u64,
    /// Timers that were put into the intake of a shard, by `schedule` and by `reset`. A timer that takes the place of one
    /// that its thread has just cancelled need not be, nor one that is moved to a later deadline: then no other thread
    /// has any work with it.
    pub enqueued: u64,
    /// Panics caught: of callbacks, of their drops, and of a custom executor.
    pub panicked: u64,
    /// Timers refused.
    pub rejected: u64,
    /// How often the shards' threads have woken up.
    pub wakeups: u64,
    /// How many extra threads the pool has now: see [`max_extra_threads`](crate::Builder::max_extra_threads).
    pub extra_threads: u64,
    /// How often an extra thread was needed: an idle one was called, or a new one was started.
    pub extra_threads_needed: u64,
    /// How much later than its due tick each run started.
    pub lateness: Lateness,
    shards: Vec<ShardStats>,
}

/// What one shard of a [`Timer`](crate::Timer) has done: its part of the [`Stats`], with the same meanings.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the fields are documented at `Stats`")]
pub struct ShardStats {
    pub scheduled: u64,
    pub fired: u64,
    pub completed: u64,
    pub cancelled: u64,
    pub unfired: u64,
    pub pending: u64,
    pub rearmed: u64,
    pub enqueued: u64,
    pub panicked: u64,
    pub rejected: u64,
    pub wakeups: u64,
    pub lateness: Lateness,
}

impl Stats {
    /// The same for each shard.
    pub fn shards(&self) -> &[ShardStats] {
        &self.shards
    }

    /// The statistics of a timer with these shards, and without extra threads.
    pub(crate) fn of(shards: Vec<ShardStats>) -> Self {
        let all: ShardStats = shards.iter().sum();
        Self {
            scheduled: all.scheduled,
            fired: all.fired,
            completed: all.completed,
            cancelled: all.cancelled,
            unfired: all.unfired,
            pending: all.pending,
            rearmed: all.rearmed,
            enqueued: all.enqueued,
            panicked: all.panicked,
            rejected: all.rejected,
            wakeups: all.wakeups,
            extra_threads: 0,
            extra_threads_needed: 0,
            lateness: all.lateness,
            shards,
        }
    }
}

impl ShardStats {
    /// Returns how many timers have ended.
    pub(crate) fn ended(&self) -> u64 {
        self.completed + self.cancelled + self.unfired
    }

    /// The same with `scheduled` and `pending` worked out. `scheduled` must have been read after the ends.
    pub(crate) fn balanced(mut self, scheduled: u64) -> Self {
        self.pending = pending(scheduled, self.ended());
        self.scheduled = self.ended() + self.pending;
        self
    }
}

/// Returns how many timers are pending. The ends must have been read first: then the beginning of each is read, too, unless
/// its `schedule` has not returned yet.
///
/// That one exception is why this does not go below zero: a thread counts a timer after it has armed it, and the timer may
/// have ended meanwhile. Such an end counts for both.
pub(crate) fn pending(scheduled: u64, ended: u64) -> u64 {
    scheduled.saturating_sub(ended)
}

impl AddAssign<&ShardStats> for ShardStats {
    fn add_assign(&mut self, other: &ShardStats) {
        self.scheduled += other.scheduled;
        self.fired += other.fired;
        self.completed += other.completed;
        self.cancelled += other.cancelled;
        self.unfired += other.unfired;
        self.pending += other.pending;
        self.rearmed += other.rearmed;
        self.enqueued += other.enqueued;
        self.panicked += other.panicked;
        self.rejected += other.rejected;
        self.wakeups += other.wakeups;
        self.lateness += &other.lateness;
    }
}

impl<'a> Sum<&'a ShardStats> for ShardStats {
    fn sum<I: Iterator<Item = &'a ShardStats>>(parts: I) -> Self {
        parts.fold(Self::default(), |mut sum, part| {
            sum += part;
            sum
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_is_counted_before_its_beginning_counts_for_both() {
        assert_eq!((pending(3, 1), pending(1, 1), pending(1, 2)), (2, 0, 0));
        let stats = ShardStats { completed: 2, ..ShardStats::default() }.balanced(1);
        assert_eq!((stats.scheduled, stats.pending), (2, 0));
    }
}

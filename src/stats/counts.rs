//! `ThreadCounters`: what one thread has counted in one shard; `Stats` and `ShardStats`: the sums that a user reads.
//!
//! A thread adds to counters of its own by plain stores, so counting needs no read-modify-write and no shared cache
//! line. Any thread may read. The shard's `registry` links the counters of all threads, and sums them.
//!
//! Each count is stored with Release and read with Acquire. So a reader that sees a count also sees the counts that the
//! same thread made before it.

use std::iter::Sum;
use std::ops::AddAssign;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::lateness::{BUCKETS, Lateness, bucket_of};

/// What a [`Timer`](crate::Timer) has done since it was built: see [`Timer::stats`](crate::Timer::stats).
///
/// Each count is exact once the threads that use the timer are quiet. At any time: `scheduled = completed + cancelled +
/// unfired + pending`. [observability.md] says what to conclude from which count.
///
/// ```
/// use corewheel::{ManualClock, Timer};
/// use std::time::Duration;
/// let clock = ManualClock::new();
/// let timer = Timer::builder().clock(clock.clone()).build()?;
/// timer.schedule(Duration::from_secs(1), || ())?;
/// timer.schedule(Duration::from_secs(2), || ())?.cancel();
/// timer.schedule(Duration::from_secs(3), || ())?;
/// clock.advance(Duration::from_secs(1));
/// let stats = timer.stats();
/// assert_eq!((stats.scheduled, stats.completed, stats.cancelled, stats.pending), (3, 1, 1, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [observability.md]: crate::guide::observability#what-the-statistics-mean
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Timers accepted, with the values of [delay queues](crate::DelayQueue). A [`Sleep`](crate::Sleep) counts from its
    /// first pending poll, and again when it is pending after it has completed.
    pub scheduled: u64,
    /// Runs started: one for a one-shot timer, each run for a repeating one, one for each sleep whose task a driver
    /// woke, and one for each value that became due.
    pub fired: u64,
    /// Timers that ended by running, sleeps that completed, and values that became due. A one-shot timer ends so when
    /// its run starts, a repeating one by `None` or by a panic.
    pub completed: u64,
    /// Timers that a cancel ended, that an executor dropped unrun, or that repeat and were running when a shutdown did
    /// not wait for them. Also sleeps that were dropped while pending, and values that left their queue before they
    /// were due.
    pub cancelled: u64,
    /// Callbacks that a shutdown returned, or that the drop of the last clone dropped; and values that it left in their
    /// queues.
    pub unfired: u64,
    /// Timers that have not ended. A repeating timer is pending during its runs, too.
    pub pending: u64,
    /// Calls of [`reset`](crate::TimerHandle::reset) that found their timer pending, and the like of futures and queues.
    pub resets: u64,
    /// Timers that entered the intake of a shard by a call: a `schedule`, a `push`, a `reset`, or the poll of a sleep.
    ///
    /// Each of these gives a driver work. A timer whose entry is re-armed in place does not count, and neither does a
    /// reset to a later deadline.
    pub enqueued: u64,
    /// Panics caught: of callbacks, of their drops, of wakers, of the drop of a queue's values, of the slow hook, and
    /// of a custom executor.
    pub panicked: u64,
    /// Timers and values refused, for whatever reason.
    pub rejected: u64,
    /// Wake-ups of the threads that drive, except for the program's. Those of a thread count in the shard
    /// of its number, also if it drives others.
    pub wakeups: u64,
    /// Runs that have started and not returned: of callbacks, and of the wakers of sleeps. One that hangs stays here.
    ///
    /// Runs of an [`UnfiredTimer`](crate::UnfiredTimer) do not count.
    pub running: u64,
    /// Extra threads that the pool has now: see [`max_extra_threads`](crate::Builder::max_extra_threads).
    pub extra_threads: u64,
    /// How often the pool needed an extra thread: it called an idle one, or started a new one.
    pub extra_threads_needed: u64,
    /// How much later than the tick of its deadline each run started.
    pub lateness: Lateness,
    shards: Vec<ShardStats>,
}

/// What one shard of a [`Timer`](crate::Timer) has done. The fields have the meanings of those of [`Stats`].
///
/// ```
/// use corewheel::{ShardStats, Timer};
/// let timer = Timer::builder().shards(4).build()?;
/// let stats = timer.stats();
/// for (index, shard) in stats.shards().iter().enumerate() {
///     println!("shard {index}: {} pending, {} wake-ups", shard.pending, shard.wakeups);
/// }
/// let first_two: ShardStats = stats.shards()[..2].iter().sum();
/// assert_eq!(first_two.pending, 0);
/// # Ok::<(), corewheel::BuildError>(())
/// ```
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
    pub resets: u64,
    pub enqueued: u64,
    pub panicked: u64,
    pub rejected: u64,
    pub wakeups: u64,
    pub running: u64,
    pub lateness: Lateness,
}

impl Stats {
    /// Returns the same counts for each shard.
    ///
    /// ```
    /// use corewheel::Timer;
    /// let timer = Timer::builder().shards(2).build()?;
    /// let stats = timer.stats();
    /// let busiest = stats.shards().iter().map(|shard| shard.fired).max();
    /// assert_eq!(busiest, Some(0));
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn shards(&self) -> &[ShardStats] {
        &self.shards
    }

    /// Returns what has happened since `earlier`, a former reading of the same timer.
    ///
    /// Each count is the difference. `pending`, `running`, `extra_threads` and [`Lateness::max`] have no difference:
    /// they are those of this reading. So `scheduled + earlier.pending = completed + cancelled + unfired + pending`.
    /// The same goes for each [shard](Self::shards). O(shards), and O(buckets) for each lateness.
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer};
    /// use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// timer.schedule_at_fixed_rate(Duration::from_secs(1), Duration::from_secs(1), || println!("tick"))?;
    /// let mut before = timer.stats();
    /// for minute in 1..=3 {
    ///     clock.advance(Duration::from_secs(60));
    ///     let now = timer.stats();
    ///     let rates = now.since(&before);
    ///     assert_eq!((rates.fired, rates.scheduled, rates.pending), (60, 0, 1));
    ///     println!("minute {minute}: p99 lateness {:?}", rates.lateness.quantile(0.99));
    ///     before = now;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn since(&self, earlier: &Stats) -> Stats {
        let none = ShardStats::default();
        let before = earlier.shards.iter().chain(std::iter::repeat(&none));
        let shards = self.shards.iter().zip(before).map(|(shard, before)| shard.since(before)).collect();
        Stats {
            extra_threads: self.extra_threads,
            extra_threads_needed: self.extra_threads_needed.saturating_sub(earlier.extra_threads_needed),
            ..Stats::of(shards)
        }
    }
}

impl ShardStats {
    /// Returns what has happened since `earlier`, a former reading of the same shard: see [`Stats::since`].
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer};
    /// use std::time::Duration;
    /// let timer = Timer::builder().clock(ManualClock::new()).shards(1).build()?;
    /// let before = timer.stats();
    /// timer.schedule(Duration::from_secs(1), || ())?.cancel();
    /// let shard = timer.stats().shards()[0].since(&before.shards()[0]);
    /// assert_eq!((shard.scheduled, shard.cancelled), (1, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn since(&self, earlier: &ShardStats) -> ShardStats {
        ShardStats { pending: self.pending, running: self.running, ..self.difference(earlier) }
    }

    /// Returns the number of timers that have ended.
    pub(crate) fn ended(&self) -> u64 {
        self.completed + self.cancelled + self.unfired
    }

    /// Returns the same counts with `scheduled` and `pending` computed, and `running` not negative. The caller must
    /// have read `scheduled` after the ends, so that it has read the beginning of each of them, too.
    ///
    /// The exception is a timer whose `schedule` has not returned. A thread counts a timer after it has armed it, and
    /// the timer may have ended meanwhile. Such an end counts as its own beginning, so `pending` is not negative.
    pub(crate) fn balanced(mut self, scheduled: u64) -> Self {
        self.pending = scheduled.saturating_sub(self.ended());
        self.scheduled = self.ended() + self.pending;
        // Negative if a run returns among other counters, which were read later than those among which it has fired.
        self.running = (self.running as i64).max(0) as u64;
        self
    }
}

/// Implements what treats all counts alike.
macro_rules! for_all {
    ($($count:ident)*) => {
        impl Stats {
            /// Returns the statistics of a timer with these shards, without extra threads.
            pub(crate) fn of(shards: Vec<ShardStats>) -> Self {
                let all: ShardStats = shards.iter().sum();
                Self { $($count: all.$count,)* extra_threads: 0, extra_threads_needed: 0, lateness: all.lateness, shards }
            }
        }

        impl ShardStats {
            /// Returns the difference of each count.
            fn difference(&self, earlier: &ShardStats) -> Self {
                let lateness = self.lateness.since(&earlier.lateness);
                Self { $($count: self.$count.saturating_sub(earlier.$count),)* lateness }
            }
        }

        impl AddAssign<&ShardStats> for ShardStats {
            fn add_assign(&mut self, other: &ShardStats) {
                $(self.$count += other.$count;)*
                self.lateness += &other.lateness;
            }
        }
    };
}

for_all!(scheduled fired completed cancelled unfired pending resets enqueued panicked rejected wakeups running);

impl<'a> Sum<&'a ShardStats> for ShardStats {
    fn sum<I: Iterator<Item = &'a ShardStats>>(parts: I) -> Self {
        let mut sum = Self::default();
        parts.for_each(|part| sum += part);
        sum
    }
}

/// A number that one thread increments, and any thread may read.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds `more`.
    #[inline]
    pub(crate) fn add(&self, more: u64) {
        // Relaxed: no other thread writes it. Release: publishes the earlier counts of this thread to readers; pairs with
        // the Acquire in `get`.
        self.0.store(self.0.load(Ordering::Relaxed) + more, Ordering::Release);
    }

    /// Sets the number to the maximum of itself and `to`.
    #[inline]
    fn raise(&self, to: u64) {
        // Relaxed: published by the Release with which the run is counted afterwards.
        if self.0.load(Ordering::Relaxed) < to {
            self.0.store(to, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// The counters of one thread in one shard.
#[derive(Default)]
pub(crate) struct ThreadCounters {
    pub(crate) scheduled: Counter,
    pub(crate) fired: Counter,
    pub(crate) completed: Counter,
    pub(crate) cancelled: Counter,
    pub(crate) unfired: Counter,
    pub(crate) resets: Counter,
    pub(crate) enqueued: Counter,
    pub(crate) panicked: Counter,
    pub(crate) rejected: Counter,
    pub(crate) wakeups: Counter,
    /// Runs that have returned.
    pub(crate) returned: Counter,
    /// The greatest lateness of a run, in nanoseconds.
    max_lateness: Counter,
    /// The buckets of the histogram. Allocated by the thread's first run. Most threads run no callbacks.
    lateness: OnceLock<Box<[Counter; BUCKETS]>>,
}

impl ThreadCounters {
    #[inline]
    pub(crate) fn record_lateness(&self, nanos: u64) {
        self.max_lateness.raise(nanos);
        let buckets = self.lateness.get_or_init(|| Box::new(std::array::from_fn(|_| Counter::default())));
        buckets[bucket_of(nanos)].add(1);
    }

    /// Returns the number of timers that ended on this thread.
    pub(crate) fn ended(&self) -> u64 {
        self.completed.get() + self.cancelled.get() + self.unfired.get()
    }

    /// Adds all counts to `sum`, except `pending`, which cannot be known from a single thread's counters.
    pub(crate) fn add_to(&self, sum: &mut ShardStats) {
        // Read in the reverse of the order in which they are counted: returns, then ends, then runs, then lateness. So with
        // each end, the reader sees its run and its lateness, and with each return its run.
        let returned = self.returned.get();
        sum.completed += self.completed.get();
        sum.cancelled += self.cancelled.get();
        sum.unfired += self.unfired.get();
        sum.scheduled += self.scheduled.get();
        let fired = self.fired.get();
        sum.fired += fired;
        // Wraps: a run whose thread-locals are destroyed meanwhile returns among other counters.
        sum.running = sum.running.wrapping_add(fired.wrapping_sub(returned));
        sum.resets += self.resets.get();
        sum.enqueued += self.enqueued.get();
        sum.panicked += self.panicked.get();
        sum.rejected += self.rejected.get();
        sum.wakeups += self.wakeups.get();
        if let Some(buckets) = self.lateness.get() {
            sum.lateness.add(buckets.iter().map(Counter::get), self.max_lateness.get());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_is_counted_before_its_beginning_counts_for_both() {
        let pending = |scheduled, completed| ShardStats { completed, ..Default::default() }.balanced(scheduled).pending;
        assert_eq!((pending(3, 1), pending(1, 1), pending(1, 2)), (2, 0, 0));
        let stats = ShardStats { completed: 2, ..ShardStats::default() }.balanced(1);
        assert_eq!((stats.scheduled, stats.pending), (2, 0));
    }
}

//! `ThreadCounters`: what one thread has counted in one shard.
//!
//! A thread adds to counters of its own by plain stores, so counting needs no read-modify-write and no shared cache
//! line. Any thread may read. The shard's `registry` links the counters of all threads, and sums them.
//!
//! Each count is stored with Release and read with Acquire. So a reader that sees a count also sees the counts that the
//! same thread made before it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::lateness::{BUCKETS, bucket_of};
use super::totals::ShardStats;

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

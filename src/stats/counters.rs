//! What one thread has done in one shard.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::ShardStats;
use super::lateness::Recorder;

/// A number that one thread counts up, by a plain store, and any may read.
#[derive(Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Counts. `shared` if other threads may do so at the same time.
    #[inline]
    pub(crate) fn add(&self, more: u64, shared: bool) {
        // Release, for the acquire in `get`: whoever sees this count sees those that the thread made before it.
        if shared {
            self.0.fetch_add(more, Ordering::Release);
        } else {
            // Relaxed: nobody else writes it.
            self.0.store(self.0.load(Ordering::Relaxed) + more, Ordering::Release);
        }
    }

    #[inline]
    pub(super) fn raise(&self, to: u64) {
        // Relaxed: it is raised before the run is counted.
        if self.0.load(Ordering::Relaxed) < to {
            self.0.fetch_max(to, Ordering::Relaxed);
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
    pub(crate) scheduled: Count,
    pub(crate) fired: Count,
    pub(crate) completed: Count,
    pub(crate) cancelled: Count,
    pub(crate) unfired: Count,
    pub(crate) rearmed: Count,
    pub(crate) enqueued: Count,
    pub(crate) panicked: Count,
    pub(crate) rejected: Count,
    pub(crate) wakeups: Count,
    /// Allocated by the first run: most threads make none.
    lateness: OnceLock<Box<Recorder>>,
}

impl ThreadCounters {
    #[inline]
    pub(crate) fn record_lateness(&self, lateness: Duration, shared: bool) {
        self.lateness.get_or_init(Recorder::new).record(lateness, shared);
    }

    /// Returns how many timers the thread has seen end.
    pub(crate) fn ended(&self) -> u64 {
        self.completed.get() + self.cancelled.get() + self.unfired.get()
    }

    /// Adds everything to `sum` but `pending`, which no single thread knows.
    pub(crate) fn add_to(&self, sum: &mut ShardStats) {
        // Ends are read before runs, and runs before their lateness, against the order in which they are counted: with an
        // end its run is read.
        sum.completed += self.completed.get();
        sum.cancelled += self.cancelled.get();
        sum.unfired += self.unfired.get();
        sum.scheduled += self.scheduled.get();
        sum.fired += self.fired.get();
        sum.rearmed += self.rearmed.get();
        sum.enqueued += self.enqueued.get();
        sum.panicked += self.panicked.get();
        sum.rejected += self.rejected.get();
        sum.wakeups += self.wakeups.get();
        if let Some(recorder) = self.lateness.get() {
            recorder.add_to(&mut sum.lateness);
        }
    }
}

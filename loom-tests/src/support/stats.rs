//! Replaces the crate's counters, in memory that loom checks.

use crate::race_detector::RaceDetector;
use crate::sync::{AtomicU64, Ordering};

#[derive(Default)]
pub(crate) struct ThreadCounters {
    scheduled: AtomicU64,
    race_detector: RaceDetector,
    /// Each thread that counts writes it, so loom reports two threads that have the same counters at once.
    owner: RaceDetector,
}

impl ThreadCounters {
    pub(crate) fn count(&self) {
        self.owner.write();
        // Only the owning thread writes the counter.
        self.scheduled.store(self.scheduled.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub(crate) fn add_to(&self, sum: &mut ShardStats) {
        self.race_detector.read();
        sum.scheduled += self.scheduled.load(Ordering::Relaxed);
    }
}

#[derive(Default)]
pub(crate) struct ShardStats {
    pub(crate) scheduled: u64,
    race_detector: RaceDetector,
}

impl Clone for ShardStats {
    fn clone(&self) -> Self {
        self.race_detector.read();
        Self { scheduled: self.scheduled, ..Self::default() }
    }
}

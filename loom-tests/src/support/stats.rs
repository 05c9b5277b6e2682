//! Counts, in memory that loom watches.

use crate::race_detector::RaceDetector;
use crate::sync::{AtomicU64, Ordering};

#[derive(Default)]
pub(crate) struct ThreadCounters {
    scheduled: AtomicU64,
    race_detector: RaceDetector,
    /// Changed by every thread that counts: loom reports two that have the same record at once.
    owner: RaceDetector,
}

impl ThreadCounters {
    pub(crate) fn count(&self) {
        self.owner.write();
        // Only its own thread counts on it.
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

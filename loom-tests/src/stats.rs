//! Counts, in memory that loom watches.

use crate::sync::{AtomicU64, Ordering};
use crate::watched::Watched;

#[derive(Default)]
pub(crate) struct Record {
    scheduled: AtomicU64,
    watched: Watched,
    /// Changed by every thread that counts: loom reports two that have the same record at once.
    owner: Watched,
}

impl Record {
    pub(crate) fn count(&self) {
        self.owner.change();
        // Only its own thread counts on it.
        self.scheduled.store(self.scheduled.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub(crate) fn add_to(&self, sum: &mut ShardStats) {
        self.watched.look();
        sum.scheduled += self.scheduled.load(Ordering::Relaxed);
    }
}

#[derive(Default)]
pub(crate) struct ShardStats {
    pub(crate) scheduled: u64,
    watched: Watched,
}

impl Clone for ShardStats {
    fn clone(&self) -> Self {
        self.watched.look();
        Self { scheduled: self.scheduled, ..Self::default() }
    }
}

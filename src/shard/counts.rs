//! Reads the counters of all threads.

use super::binding::Shard;
use crate::stats::{self, ShardStats, ThreadCounters};

impl Shard {
    /// What has been done so far.
    pub(crate) fn stats(&self) -> ShardStats {
        let stats = self.registry.read();
        // Read last, so that no end is read for which the beginning is not: see `stats::pending`.
        stats.balanced(self.scheduled())
    }

    /// Returns how many timers are pending, without reading a histogram.
    pub(crate) fn pending(&self) -> u64 {
        let ended = self.registry.sum(ThreadCounters::ended, ShardStats::ended);
        stats::pending(self.scheduled(), ended)
    }

    pub(super) fn scheduled(&self) -> u64 {
        self.registry.sum(|counters| counters.scheduled.get(), |folded| folded.scheduled)
    }
}

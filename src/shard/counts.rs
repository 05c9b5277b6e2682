//! Sums the counters of all threads, for `stats` and `len`.
//!
//! Each thread counts what it does to a timer, from `scheduled` to its end, in counters of its own. Any thread may sum
//! them at any time through the [registry](super::registry). Ends are read before beginnings, for the reason given at
//! `stats::pending`.

use super::shard::Shard;
use crate::stats::{self, ShardStats, ThreadCounters};

impl Shard {
    /// Returns all statistics of the shard.
    pub(crate) fn stats(&self) -> ShardStats {
        let stats = self.registry.read();
        // `scheduled` is read last: with each end, this sum has the beginning. See `stats::pending`.
        stats.balanced(self.scheduled())
    }

    /// Returns the number of pending timers. Reads no histogram.
    pub(crate) fn pending(&self) -> u64 {
        let ended = self.registry.sum(ThreadCounters::ended, ShardStats::ended);
        stats::pending(self.scheduled(), ended)
    }

    fn scheduled(&self) -> u64 {
        self.registry.sum(|counters| counters.scheduled.get(), |folded| folded.scheduled)
    }
}

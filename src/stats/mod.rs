//! Counts of what a timer has done, without a shared counter.
//!
//! | file       | concern                                                       |
//! |------------|---------------------------------------------------------------|
//! | `totals`   | [`Stats`] and [`ShardStats`]: the sums that a user reads      |
//! | `counters` | [`ThreadCounters`]: what one thread has counted in one shard  |
//! | `lateness` | a histogram of how late runs start                            |

mod counters;
mod lateness;
mod totals;

pub(crate) use counters::{Counter, ThreadCounters};
pub use lateness::Lateness;
pub use totals::{ShardStats, Stats};

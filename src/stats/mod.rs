//! Counts of what a timer has done, without a shared counter.
//!
//! | file       | concern                                                       |
//! |------------|---------------------------------------------------------------|
//! | `counts`   | [`ThreadCounters`]: what one thread has counted in one shard; [`Stats`]: the sums |
//! | `lateness` | a histogram of how late runs start                            |

mod counts;
mod lateness;

pub(crate) use counts::{Counter, ThreadCounters};
pub use counts::{ShardStats, Stats};
pub use lateness::Lateness;

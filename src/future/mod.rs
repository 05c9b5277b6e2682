//! Futures on timers: [`Sleep`] is a future on an entry of a shard; [`Timeout`] contains one. They run on any executor,
//! without a runtime.

mod sleep;
mod timeout;

pub use sleep::Sleep;
pub use timeout::{Elapsed, Timeout};

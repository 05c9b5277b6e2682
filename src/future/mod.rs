//! Futures on timers: [`Sleep`] is a future on an entry of a shard; [`Timeout`] and [`Interval`] contain one. They run
//! on any executor, without a runtime.

mod interval;
mod sleep;
mod timeout;

pub use interval::{Interval, MissedTickBehavior};
pub use sleep::Sleep;
pub use timeout::{Elapsed, Timeout};

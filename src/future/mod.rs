//! Timers to be awaited, on any executor or none: no runtime is needed.
//!
//! [`Sleep`] is a future on an entry of a shard; [`Timeout`] and [`Interval`] are made of it.

mod interval;
mod sleep;
mod timeout;

pub use interval::{Interval, MissedTickBehavior};
pub use sleep::Sleep;
pub use timeout::{Elapsed, Timeout};

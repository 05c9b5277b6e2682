//! The unit of time.

use std::time::Duration;

/// Tick of the timer and of the traffic.
pub const TICK: Duration = Duration::from_millis(50);
/// Number of ticks in a second.
pub const SECOND: u64 = 20;

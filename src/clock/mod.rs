//! Time: whose it is, and how it is counted.

mod manual;
mod ticks;

use std::time::Instant;

pub use manual::ManualClock;
pub(crate) use manual::{Settle, Settled};
pub(crate) use ticks::{Due, NEVER, Ticks, UNKNOWN};

/// What a timer reads the time from.
#[derive(Clone, Debug)]
pub(crate) enum Clock {
    /// `Instant::now`.
    System,
    /// Virtual time.
    Manual(ManualClock),
}

impl Clock {
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        match self {
            Self::System => Instant::now(),
            Self::Manual(clock) => clock.now(),
        }
    }
}

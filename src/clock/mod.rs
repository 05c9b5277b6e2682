//! Time: the present, ticks, and virtual time.
//!
//! | file              | concern                                                                  |
//! |-------------------|--------------------------------------------------------------------------|
//! | `origin`          | the instant from which a timer counts, and the system's clock since then |
//! | `ticks`           | conversion of instants and delays into ticks                             |
//! | `manual`          | virtual time                                                             |
//! | `atomic_duration` | the time of a manual clock, which threads read without a lock            |
//! | `quiescence`      | how virtual time waits for the drivers                                   |

pub(crate) mod atomic_duration;
#[cfg(not(loom))]
mod manual;
#[cfg(not(loom))]
mod origin;
pub(crate) mod quiescence;
#[cfg(not(loom))]
mod ticks;

#[cfg(not(loom))]
pub use manual::ManualClock;
#[cfg(not(loom))]
pub(crate) use {
    manual::OnClock,
    quiescence::{Quiesce, Quiescence},
    ticks::{Deadline, NEVER, Requested, Ticks, UNKNOWN_NANOS, duration_of},
};

//! Time: the present, ticks, and virtual time.
//!
//! | file         | concern                                                                  |
//! |--------------|--------------------------------------------------------------------------|
//! | `origin`     | the instant from which a timer counts, and the system's clock since then |
//! | `ticks`      | conversion of instants and delays into ticks                             |
//! | `manual`     | virtual time                                                             |
//! | `jumping`    | the clocks that jump: the time of day, and time that counts a suspend    |
//! | `quiescence` | how virtual time waits for the drivers                                   |

#[cfg(feature = "wall")]
mod jumping;
#[cfg(not(loom))]
mod manual;
#[cfg(not(loom))]
mod origin;
pub(crate) mod quiescence;
#[cfg(not(loom))]
mod ticks;

#[cfg(feature = "wall")]
pub(crate) use jumping::{COUNTING_SUSPEND, OnJump, Readings, TIME_OF_DAY, nanos_since_epoch};
#[cfg(not(loom))]
pub use manual::ManualClock;
#[cfg(not(loom))]
pub(crate) use {
    quiescence::{Quiesce, Quiescence},
    ticks::{Deadline, NEVER, Requested, Ticks, UNKNOWN_NANOS, duration_of},
};

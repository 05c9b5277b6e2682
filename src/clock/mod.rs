//! Time: the present, ticks, and virtual time.
//!
//! | file         | concern                                                                  |
//! |--------------|--------------------------------------------------------------------------|
//! | `origin`     | the instant from which a timer counts, and the system's clock since then |
//! | `ticks`      | conversion of instants and delays into ticks                             |
//! | `manual`     | virtual time                                                             |
//! | `quiescence` | how virtual time waits for the drivers                                   |

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
    quiescence::{Quiesce, Quiescence},
    ticks::{Deadline, NEVER, Requested, Ticks, UNKNOWN_NANOS, duration_of},
};

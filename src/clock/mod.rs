//! Time: the present, ticks, and virtual time.
//!
//! | file          | concern                                                                     |
//! |---------------|-----------------------------------------------------------------------------|
//! | `time_source` | the instant from which a timer counts, and the system's clock since then    |
//! | `ticks`       | conversion of instants and delays into ticks                                |
//! | `manual`      | virtual time                                                                |
//! | `elapsed`     | the time of a manual clock, which threads read without a lock               |
//! | `quiescence`  | how virtual time waits for the drivers                                      |

pub(crate) mod elapsed;
#[cfg(not(loom))]
mod manual;
pub(crate) mod quiescence;
#[cfg(not(loom))]
mod ticks;
#[cfg(not(loom))]
mod time_source;

#[cfg(not(loom))]
pub use manual::ManualClock;
#[cfg(not(loom))]
pub(crate) use {
    manual::OnClock,
    quiescence::{Quiesce, Quiescence},
    ticks::{Deadline, NEVER, Requested, Ticks, UNKNOWN_NANOS, duration_of},
};

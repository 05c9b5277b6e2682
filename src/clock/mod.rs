//! Time, and how it is counted.
//!
//! | file          | concern                                                                     |
//! |---------------|-----------------------------------------------------------------------------|
//! | `time_source` | where the present is read: the system's clock, or virtual time              |
//! | `ticks`       | time in ticks since a timer was built                                       |
//! | `manual`      | virtual time                                                                |
//! | `quiescence`  | how virtual time waits for the drivers                                      |
//! | `tsc_clock`   | the present without a read of the clock, never early                        |
//! | `calibration` | how much time a count of the processor's counter can be                     |
//! | `counter`     | the processor's counter                                                     |

#[cfg(not(loom))]
mod calibration;
#[cfg(not(loom))]
mod counter;
#[cfg(all(test, not(loom)))]
mod fake_tsc;
#[cfg(not(loom))]
mod manual;
pub(crate) mod quiescence;
#[cfg(not(loom))]
mod ticks;
#[cfg(not(loom))]
mod time_source;
#[cfg(not(loom))]
mod tsc_clock;

#[cfg(not(loom))]
pub use manual::ManualClock;
#[cfg(not(loom))]
pub(crate) use {
    manual::{OnClock, Pinned, Registration},
    quiescence::{Quiesce, Quiescence, Quiet},
    ticks::{Deadline, NEVER, Requested, Ticks, UNKNOWN},
    time_source::Clock,
    tsc_clock::Bounds,
};

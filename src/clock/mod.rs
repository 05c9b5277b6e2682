//! Time: the present, ticks, and virtual time.
//!
//! | file          | concern                                                                     |
//! |---------------|-----------------------------------------------------------------------------|
//! | `time_source` | the source of the present: the system's clock or virtual time               |
//! | `ticks`       | conversion of instants and delays into ticks                                |
//! | `manual`      | virtual time                                                                |
//! | `quiescence`  | how virtual time waits for the drivers                                      |
//! | `tsc_clock`   | bounds of the present without a read of the system's clock                  |
//! | `calibration` | the most time that a cycle of the counter can be                            |
//! | `counter`     | the processor's time-stamp counter                                          |

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
    manual::{ClockShard, OnClock, Pinned, Registration},
    quiescence::{Quiesce, Quiescence, Quiet},
    ticks::{Deadline, NEVER, Requested, Ticks, UNKNOWN},
    time_source::Clock,
    tsc_clock::Bounds,
};

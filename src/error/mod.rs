//! Errors, each with a message that says what to change.
//!
//! | file       | concern                                      |
//! |------------|----------------------------------------------|
//! | `build`    | why a timer or a wheel could not be built    |
//! | `schedule` | why a timer was refused; returns its closure |

mod build;
#[cfg(feature = "std")]
mod schedule;

pub use build::BuildError;
#[cfg(feature = "std")]
pub use schedule::{ScheduleError, ScheduleErrorKind};

//! `DriverNotice`: how the driver must be notified of a new deadline.

use super::state::ENQUEUED;

/// How the driver must be notified of a new deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DriverNotice {
    /// Not at all: the thread that comes to the entry next will see the deadline in time.
    None,
    /// The entry is in the intake: the caller must wake the driver by the new deadline.
    Wake,
    /// The caller must push the entry to the intake, and wake the driver by the new deadline.
    Enqueue,
}

impl DriverNotice {
    /// Returns the flag that the transition adds to the state.
    pub(super) fn flag(self) -> u64 {
        if self == Self::Enqueue { ENQUEUED } else { 0 }
    }
}

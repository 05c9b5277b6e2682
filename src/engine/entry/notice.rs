//! `DriverNotice`: how the driver must be notified of a new deadline.

use super::state::ENQUEUED;

/// How the driver must be notified of a new deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DriverNotice {
    /// Not at all: the thread that comes to the entry next will see the deadline in time. Never of a deadline that has
    /// come, unless the entry is in a batch or runs: by a tick that has passed, the driver may sleep behind its
    /// [gate](crate::engine::gate).
    None,
    /// The driver will find the entry when it comes: the caller must wake it by the new deadline.
    Wake,
    /// The caller must push the entry to the intake, and wake the driver by the new deadline.
    Enqueue,
}

impl DriverNotice {
    /// Returns the notice for an entry that the driver will find when it comes.
    #[inline]
    pub(super) fn wake_if(is_early: bool) -> Self {
        if is_early { Self::Wake } else { Self::None }
    }

    /// Returns the flag that the transition adds to the state.
    pub(super) fn flag(self) -> u64 {
        if self == Self::Enqueue { ENQUEUED } else { 0 }
    }
}

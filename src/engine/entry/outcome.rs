//! The results of transitions whose states alone do not say what the thread must do next.

use super::callback::Callback;
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

/// The result of releasing a handle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Release {
    /// The entry is still in use: the driver or a worker recycles it later.
    InUse,
    /// The caller owns the entry and must recycle it.
    Owned,
    /// The shard is shut down: the caller must remove its pin from the shard.
    Closed,
}

/// What a worker, or a thread that drops a batch unrun, must do with an entry of the batch.
pub(crate) enum Start {
    /// Run the callback for this deadline, or drop it unrun.
    Run { callback: Callback, deadline: u64 },
    /// Push the entry to the intake: it was reset to this later deadline.
    Enqueue { deadline: u64 },
    /// The timer had ended: recycle the entry if it is free.
    Over { free: bool },
    /// Leave the entry: the shard is shut down, and the shutdown claims the timer.
    Closed,
}

/// A timer that a shutdown has taken.
pub(crate) enum Found {
    /// A timer that has not fired. If `dispatched`, it is in a batch.
    Unfired { deadline: u64, callback: Callback, dispatched: bool },
    /// A periodic timer that is running, and ends with this run.
    Ended,
}

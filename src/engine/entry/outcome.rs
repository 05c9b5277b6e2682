//! The results of transitions: what the thread that made one must do next.

use super::callback::{Callback, CallbackKind};
use super::state::ENQUEUED;

/// A successful cancel.
pub(crate) struct Cancelled {
    /// The canceller owns the callback, and must [drop](super::Entry::drop_callback) it. False if the callback is
    /// running.
    pub(crate) owns_callback: bool,
    /// The entry is in a batch.
    pub(crate) dispatched: bool,
}

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

/// What the driver must do with an entry from the intake: unlink it if it was `linked`, and then link it by its
/// deadline if it is `pending`, or recycle it if it is `free`.
pub(crate) struct Collected {
    pub(crate) linked: bool,
    pub(crate) pending: bool,
    pub(crate) free: bool,
}

/// What the driver must do with an entry that it has just unlinked from the wheel.
pub(crate) enum Expire {
    /// Add it to what is due, as a callback of this kind.
    Dispatch(CallbackKind),
    /// Collect it: it was reset to a later deadline.
    Later,
    /// There is no timer to fire, or the entry is in the intake: recycle the entry if it is free.
    Over { free: bool },
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

/// What a worker must do after a run.
pub(crate) struct Finish {
    /// A thread waits for the end of the run, and must be woken.
    pub(crate) has_waiter: bool,
    /// The entry is free and must be recycled.
    pub(crate) free: bool,
}

/// The result of arming a periodic timer for its next run.
pub(crate) enum NextRun {
    /// The timer was cancelled during the run. The caller owns the callback again; it must drop it, then finish.
    Cancelled(Callback),
    /// The caller must push the entry to the intake, for this deadline.
    Enqueue { deadline: u64 },
    /// The shard is shut down, and the shutdown claims the timer. If `has_waiter`, the caller must wake the threads
    /// that wait for the run.
    Closed { has_waiter: bool },
}

/// A timer that a shutdown has taken.
pub(crate) enum Found {
    /// A timer that has not fired. If `dispatched`, it is in a batch.
    Unfired { deadline: u64, callback: Callback, dispatched: bool },
    /// A periodic timer that is running, and ends with this run.
    Ended,
}

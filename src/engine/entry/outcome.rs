//! What becomes of an entry by a move, and what whoever made it must do then.

use super::callback::Callback;
use super::state::ENQUEUED;

/// A timer that was cancelled.
pub(crate) struct Ended {
    /// The callback is the canceller's, who must [drop](super::Entry::drop_callback) it: it is not running.
    pub(crate) idle: bool,
    /// The entry is in a batch.
    pub(crate) dispatched: bool,
}

/// What the driver must be told of a new deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DriverNotice {
    /// Nothing: whoever looks at the entry next will see it in time.
    None,
    /// The entry is in the intake: the driver must look there by the new deadline.
    Wake,
    /// The caller must put the entry into the intake, to be looked at by the new deadline.
    Enqueue,
}

impl DriverNotice {
    /// What it adds to the word.
    pub(super) fn flag(self) -> u64 {
        if self == Self::Enqueue { ENQUEUED } else { 0 }
    }
}

/// What became of the entry when its handle was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Release {
    /// Somebody else has it, and recycles it when done.
    Held,
    /// It is the caller's, for his cache.
    Kept,
    /// The shard is shut down: the caller must take its pin away.
    Closed,
}

/// What the driver does with an entry from the intake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Collect {
    /// Link it into the wheel, after unlinking it if it was linked.
    Link { linked: bool },
    /// Unlink it if it was linked, and recycle it if it is free.
    Over { linked: bool, free: bool },
}

/// What the driver does with an entry that it has just unlinked from a slot whose time has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expire {
    /// Hand it to the executor.
    Dispatch,
    /// Collect it: its deadline has moved.
    Later,
    /// Leave it: it is in the intake.
    Enqueued,
    /// Recycle it if it is free.
    Over { free: bool },
}

/// What a worker does with an entry from a batch, or the thread that drops the batch.
pub(crate) enum Start {
    /// Run the callback, for this deadline; or drop it.
    Run { callback: Callback, deadline: u64 },
    /// Put it into the intake: its deadline has moved to this one.
    Enqueue { deadline: u64 },
    /// Recycle it if it is free.
    Over { free: bool },
    /// Leave it: the shard is shut down, and the shutdown claims the timer.
    Closed,
}

/// What is left to do after a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Finish {
    /// Somebody sleeps until the run is over.
    pub(crate) has_waiter: bool,
    /// The entry must be recycled.
    pub(crate) free: bool,
}

/// What became of the attempt to run again.
pub(crate) enum NextRun {
    /// Cancelled during the run: the callback is the caller's again, who drops it and finishes.
    Cancelled(Callback),
    /// Put it into the intake, for this deadline.
    Enqueue { deadline: u64 },
    /// The shard is shut down: whoever shuts it down takes the entry. Somebody sleeps until then, if `has_waiter`.
    Held { has_waiter: bool },
}

/// What an entry held when its shard was closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Closed {
    /// A handle refers to it.
    pub(crate) handle: bool,
    pub(crate) timer: Held,
}

/// The timer of an entry that was closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Held {
    /// None, or one that is over.
    None,
    /// A pending closure.
    Closure,
    /// A pending waker.
    Waker,
    /// The callback is running.
    Running,
}

/// What a shutdown gets from a closed entry.
pub(crate) enum Claim {
    /// Nothing: it has no timer, or one that is over.
    Over,
    /// The callback was to run at this deadline. The caller owns it. The entry is in a batch, if `dispatched`.
    Taken { deadline: u64, callback: Callback, dispatched: bool },
    /// Nothing yet: the callback is running.
    Running,
    /// A repeating timer, which ends with the run that it is in.
    Ended,
}

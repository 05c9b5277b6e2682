//! How a future looks at its timer, and has it wake the task that looked last.
//!
//! A future holds an entry, which it arms with a callback that wakes the task that polls it. When another task polls it,
//! it takes the callback back, as a cancel does, and arms the entry anew; or finds that it has come too late for that. So
//! a waker is called once or dropped once, by whoever clears `ARMED`, as any other callback is.
//!
//! A look at a timer whose deadline has come ends it, as a cancel does, though the driver is late. The driver does not wake
//! the task then. If the driver was first, the look finds that the timer has ended.
//!
//! While the driver has the entry in its hands it cannot be armed anew: then the future leaves it to the driver, and
//! takes another. Nobody waits for anybody. Loom model `wake`.

use std::task::Waker;

use super::Entry;
use super::callback::Callback;
use super::outcome::{DriverNotice, Ended};
use super::state::ARMED;

/// What a look at an armed entry finds.
pub(crate) enum PollOutcome<P> {
    /// The timer is pending, and wakes this task.
    Waiting,
    /// It was armed anew to wake this task: the driver must be told, and the present be pinned until then.
    Renewed(DriverNotice, P),
    /// It has ended.
    Over,
    /// Its deadline has come, and it has ended by this look. The entry is in a batch, if `dispatched`.
    Expired { dispatched: bool },
    /// It is the caller's to arm anew, but in another entry: the driver has this one in its hands.
    Taken(Callback),
    /// The shard is shut down, and the timer has ended by this look.
    Closed,
}

impl Entry {
    /// Sees to it that a pending timer wakes `waker`'s task, or ends it if it is due. `deadline` is the one that it has; it
    /// is `now`. `pin` returns what is the present when the task's own code, which may take any time, is through, and what
    /// keeps it so. A waker that is not needed any more goes to `discard`.
    ///
    /// # Safety
    /// The caller must have the handle to itself, and have armed the entry since the timer last ended.
    #[inline]
    pub(crate) unsafe fn poll<P>(
        &self,
        waker: &Waker,
        deadline: u64,
        now: u64,
        pin: impl FnOnce() -> (P, u64),
        discard: impl Fn(Callback),
    ) -> PollOutcome<P> {
        if !self.state().has(ARMED) {
            return PollOutcome::Over;
        }
        if deadline <= now {
            let Some(Ended { dispatched, .. }) = self.cancel() else {
                return PollOutcome::Over;
            };
            // SAFETY: this call ended the timer, and it is not running, as a callback that wakes is not armed then.
            discard(unsafe { self.take() });
            return PollOutcome::Expired { dispatched };
        }
        // SAFETY: by this function's contract.
        if unsafe { self.wakes(waker) } {
            return PollOutcome::Waiting;
        }
        // The clone is the task's own code, and may panic: nothing has changed yet.
        let callback = Callback::waking(waker.clone());
        let Some(Ended { dispatched, .. }) = self.cancel() else {
            return PollOutcome::Over;
        };
        // SAFETY: this call ended the timer, and it is not running, as a callback that wakes is not armed then.
        discard(unsafe { self.take() });
        if dispatched {
            return PollOutcome::Taken(callback);
        }
        let (pinned, now) = pin();
        // SAFETY: the caller holds the entry, and nobody takes into his hands what is not armed.
        match unsafe { self.arm(callback, deadline, now) } {
            Ok(notice) => PollOutcome::Renewed(notice, pinned),
            Err(callback) => {
                drop(pinned);
                discard(callback);
                PollOutcome::Closed
            }
        }
    }
}

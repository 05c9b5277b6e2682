//! How a future polls its timer, and has it wake the task that polled last.
//!
//! A future keeps one entry. It arms the entry with a callback that wakes the polling task. A poll by another task
//! replaces the waker by two of the transitions that every timer has:
//!
//! 1. `cancel` takes the old callback back. If the timer has ended before, the poll is ready.
//! 2. `arm` arms the entry with the new waker.
//!
//! Each waker is thus called or dropped once, by the thread that clears `ARMED`, as is any callback.
//!
//! A poll at or after the deadline ends the timer by a cancel, even if the driver is late. The driver then does not
//! wake the task. If the driver comes first, the poll finds that the timer has ended.
//!
//! An entry in a batch cannot be armed again. The future then leaves that entry to the driver and takes another. So no
//! thread waits for another. Loom model `wake`.

use std::task::Waker;

use super::Entry;
use super::callback::Callback;
use super::outcome::DriverNotice;
use super::state::{ARMED, DISPATCHED};

/// The result of polling an entry.
pub(crate) enum PollOutcome {
    /// The timer is pending, and its callback wakes this task.
    Waiting,
    /// The entry was armed again to wake this task. The caller must notify the driver.
    Renewed(DriverNotice),
    /// The timer had ended.
    Over,
    /// The deadline has come, and this poll ended the timer. If `dispatched`, the entry is in a batch.
    Expired { dispatched: bool },
    /// This poll cancelled the timer. The caller must arm another entry with the callback, because this one is in a
    /// batch.
    Taken(Callback),
    /// The shard is shut down, and this poll ended the timer.
    Closed,
}

impl Entry {
    /// Makes a pending timer wake `waker`'s task, or ends the timer if it is due. `deadline` is the timer's, and `now`
    /// the present tick. A waker that is no longer needed is passed to `discard`.
    ///
    /// # Safety
    /// The caller must have the handle to itself, and have armed the entry since the timer last ended.
    #[inline]
    pub(crate) unsafe fn poll(
        &self,
        waker: &Waker,
        deadline: u64,
        now: u64,
        discard: impl Fn(Callback),
    ) -> PollOutcome {
        if !self.state().has(ARMED) {
            return PollOutcome::Over;
        }
        let cancel = || {
            let dispatched = self.cancel()?.has(DISPATCHED);
            // SAFETY: we own the callback, because this call ended the timer. It does not run, because a waker that
            // runs is not armed.
            discard(unsafe { self.take_callback() });
            Some(dispatched)
        };
        if deadline <= now {
            return cancel().map_or(PollOutcome::Over, |dispatched| PollOutcome::Expired { dispatched });
        }
        // SAFETY: we have the handle to ourselves, by this function's contract.
        if unsafe { self.will_wake(waker) } {
            return PollOutcome::Waiting;
        }
        // The clone is the task's own code and may panic. Nothing has changed yet.
        let callback = Callback::waking(waker.clone());
        match cancel() {
            None => return PollOutcome::Over,
            Some(true) => return PollOutcome::Taken(callback),
            Some(false) => {}
        }
        // SAFETY: we own the entry, because the caller has its handle, and the timer is cancelled. It is in no batch,
        // and stays so because only an armed entry is dispatched.
        match unsafe { self.arm(callback, deadline, now) } {
            Ok(notice) => PollOutcome::Renewed(notice),
            Err(callback) => {
                discard(callback);
                PollOutcome::Closed
            }
        }
    }
}

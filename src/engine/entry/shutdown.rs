//! The transitions of a shutdown.

use super::callback::Callback;
use super::layout::Entry;
use super::state::{ARMED, CLAIMED, CLOSED, RUNNING, State};
use crate::sync::Ordering;

impl Entry {
    /// Closes the entry: from now on its timer is neither reset nor started, and no other is armed. A pending timer
    /// stays pending until it is cancelled, [claimed](Self::claim) or [taken](Self::take). Returns the state before.
    pub(crate) fn close(&self) -> State {
        // AcqRel: as every transition. Loom model `shutdown`.
        State(self.state.fetch_or(CLOSED, Ordering::AcqRel))
    }

    /// Ends the pending timer of a closed entry, whose callback stays until it is [taken](Self::take). Returns the state
    /// before. A timer that is running is left alone; with `end_run`, a periodic one ends with this run, and the worker
    /// drops its callback. Returns the state as the error if this ends none.
    pub(crate) fn claim(&self, end_run: bool) -> Result<State, State> {
        let claimable = |state: State| state.has(ARMED) && (end_run || !state.has(RUNNING));
        self.try_transition(|state| claimable(state).then(|| state.without(ARMED).with(CLAIMED)))
    }

    /// Clears `flag` of a closed entry, and takes its callback: `ARMED`, of a pending timer, which ends, or `CLAIMED`.
    /// Returns the state before, and the callback with its deadline. `None` if the flag is not set, or the timer is
    /// running. `now` is the present tick.
    pub(crate) fn take(&self, flag: u64, now: u64) -> Option<(State, (u64, Callback))> {
        let takable = |state: State| state.has(flag) && !state.has(RUNNING);
        let state = self.try_transition(|state| takable(state).then(|| state.without(flag))).ok()?;
        let deadline = state.deadline(now);
        // SAFETY: we own the callback, because this thread cleared `ARMED`, or `CLAIMED`, to which the thread that
        // cleared `ARMED` left the callback. It does not run, and `CLOSED` keeps the entry from being armed again.
        Some((state, (deadline, unsafe { self.take_callback_for(state, deadline) })))
    }
}

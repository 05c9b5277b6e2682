//! The transitions of a shutdown.

use super::callback::CallbackKind;
use super::layout::Entry;
use super::outcome::Found;
use super::state::{ARMED, CLOSED, DISPATCHED, HANDLE, RUNNING, State};
use crate::sync::Ordering;

impl Entry {
    /// Closes the entry: from now on its timer is neither reset nor started, and no other is armed. A pending timer
    /// stays pending until it is cancelled or [claimed](Self::claim). Returns whether a handle refers to the entry.
    pub(crate) fn close(&self) -> bool {
        // AcqRel: as every transition. Loom model `shutdown`.
        State(self.state.fetch_or(CLOSED, Ordering::AcqRel)).has(HANDLE)
    }

    /// Returns whether the entry contains the callback of a pending timer, of this kind.
    pub(crate) fn holds(&self, kind: CallbackKind) -> bool {
        let state = self.state();
        state.has(ARMED) && state.kind() == kind
    }

    /// Takes the pending timer of a closed entry, and passes it to `found`. A timer that is running is left alone; with
    /// `end_run`, a periodic one ends with this run. Returns false if the timer is running and `end_run` is false.
    /// `now` is the present tick.
    pub(crate) fn claim(&self, end_run: bool, now: u64, found: &mut impl FnMut(Found)) -> bool {
        let claimable = |state: State| state.has(ARMED) && (end_run || !state.has(RUNNING));
        match self.try_transition(|state| claimable(state).then(|| state.without(ARMED))) {
            Ok(state) if state.has(RUNNING) => found(Found::Ended),
            Ok(state) => {
                let deadline = state.deadline(now);
                // SAFETY: we own the callback, because this thread cleared `ARMED` and the callback does not run.
                // `CLOSED` keeps the entry from being armed again.
                let callback = unsafe { self.take_callback_for(state, deadline) };
                found(Found::Unfired { deadline, callback, dispatched: state.has(DISPATCHED) });
            }
            Err(state) => return end_run || !state.has(RUNNING),
        }
        true
    }
}

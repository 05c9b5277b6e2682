//! The transitions of a shutdown.

use super::callback::Callback;
use super::layout::Entry;
use super::state::{ARMED, CLOSED, RUNNING, State};
use crate::sync::Ordering;

impl Entry {
    /// Closes the entry: from now on its timer is neither reset nor started, and no other is armed. A pending timer
    /// stays pending until it is cancelled or [claimed](Self::claim). Returns the state before.
    pub(crate) fn close(&self) -> State {
        // AcqRel: as every transition. Loom model `shutdown`.
        State(self.state.fetch_or(CLOSED, Ordering::AcqRel))
    }

    /// Takes the pending timer of a closed entry, and passes its state to `found`, with its deadline and its callback.
    /// A timer that is running is left alone; with `end_run`, a periodic one ends with this run, and keeps its
    /// callback. Returns false if the timer is running and `end_run` is false. `now` is the present tick.
    pub(crate) fn claim(
        &self,
        end_run: bool,
        now: u64,
        found: &mut impl FnMut(State, Option<(u64, Callback)>),
    ) -> bool {
        let claimable = |state: State| state.has(ARMED) && (end_run || !state.has(RUNNING));
        match self.try_transition(|state| claimable(state).then(|| state.without(ARMED))) {
            Ok(state) if state.has(RUNNING) => found(state, None),
            Ok(state) => {
                let deadline = state.deadline(now);
                // SAFETY: we own the callback, because this thread cleared `ARMED` and the callback does not run.
                // `CLOSED` keeps the entry from being armed again.
                let callback = unsafe { self.take_callback_for(state, deadline) };
                found(state, Some((deadline, callback)));
            }
            Err(state) => return end_run || !state.has(RUNNING),
        }
        true
    }
}

//! The transitions of the driver.

use super::layout::Entry;
use super::state::{ARMED, CACHED, CLOSED, DISPATCHED, ENQUEUED, LINKED, State};

impl Entry {
    /// Makes an entry that the driver has popped from the depot free. Returns whether the entry was linked: the caller
    /// must then unlink it from the wheel. Returns `None`, and changes nothing, if the entry is in the intake.
    pub(crate) fn reclaim(&self) -> Option<bool> {
        let reclaimed = |state: State| state.without(CACHED | LINKED).free_if_idle();
        let state = self.try_transition(|state| (!state.has(ENQUEUED)).then(|| reclaimed(state))).ok()?;
        Some(state.has(LINKED))
    }

    /// Collects an entry: one from the intake, or one that [`expire`](Self::expire) has enqueued. Returns the states
    /// before and after. The driver must unlink it if it was `LINKED`, and then link it by its deadline if it is
    /// `LINKED`, or recycle it if it is free. `now` is the present tick, and `wheel` the tick of the wheel.
    pub(crate) fn collect(&self, now: u64, wheel: u64) -> (State, State) {
        self.transition(|state| {
            if state.has(ARMED) && !state.has(CLOSED) {
                self.set_registered_tick(state.deadline(now), wheel);
                state.without(ENQUEUED).with(LINKED)
            } else {
                state.without(ENQUEUED | LINKED).free_if_idle()
            }
        })
    }

    /// Decides what becomes of an entry that the driver has unlinked from the wheel, because its slot expired at tick
    /// `now`, or because it is not armed. Returns the states before and after. The driver must add the entry to what is
    /// due if it is `DISPATCHED`, collect it if it has become `ENQUEUED`, because it was reset to a later deadline, or
    /// recycle it if it is free.
    pub(crate) fn expire(&self, now: u64) -> (State, State) {
        self.transition(|state| {
            let unlinked = state.without(LINKED);
            if !state.has(ARMED) || state.has(CLOSED | ENQUEUED) {
                unlinked.free_if_idle()
            } else if state.deadline(now) > now {
                unlinked.with(ENQUEUED)
            } else {
                unlinked.with(DISPATCHED)
            }
        })
    }
}

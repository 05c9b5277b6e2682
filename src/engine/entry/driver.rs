//! The transitions of the driver.

use super::layout::{Entry, free_if_idle, is_free};
use super::outcome::{Collect, Expire};
use super::state::{ARMED, CACHED, CLOSED, DISPATCHED, ENQUEUED, LINKED, State};

impl Entry {
    /// The driver, who has the entry from the pool, wants it to himself: it is free then. Returns whether it was in the
    /// wheel, from which it is to be unlinked; or `None` if it is in the intake, and stays as it is.
    pub(crate) fn reclaim(&self) -> Option<bool> {
        let here = |state: State| !state.has(ENQUEUED);
        let state = self.advance(|state| here(state).then(|| free_if_idle(state.without(CACHED | LINKED)))).ok()?;
        Some(state.has(LINKED))
    }

    /// The driver has the entry in its hands: out of the intake, or because its time has come. It is `now`, and the wheel
    /// has come to the tick `wheel`.
    pub(crate) fn collect(&self, now: u64, wheel: u64) -> Collect {
        let goes_on = |state: State| state.has(ARMED) && !state.has(CLOSED);
        let state = self.change(|state| {
            if goes_on(state) {
                self.set_registered_tick(self.deadline_in(state, now), wheel);
                state.without(ENQUEUED).with(LINKED)
            } else {
                free_if_idle(state.without(ENQUEUED | LINKED))
            }
        });
        let linked = state.has(LINKED);
        if goes_on(state) {
            Collect::Link { linked }
        } else {
            Collect::Over { linked, free: is_free(state.without(ENQUEUED | LINKED)) }
        }
    }

    /// The driver has unlinked the entry, whose time has come, or which is disarmed: it is `now`.
    pub(crate) fn expire(&self, now: u64) -> Expire {
        let mut outcome = Expire::Enqueued;
        self.change(|state| {
            let unlinked = state.without(LINKED);
            let (next, what) = if state.has(ENQUEUED) {
                (unlinked, Expire::Enqueued)
            } else if !state.has(ARMED) || state.has(CLOSED) {
                (free_if_idle(unlinked), Expire::Over { free: is_free(unlinked) })
            } else if self.deadline_in(state, now) > now {
                (unlinked.with(ENQUEUED), Expire::Later)
            } else {
                (unlinked.with(DISPATCHED), Expire::Dispatch)
            };
            outcome = what;
            next
        });
        outcome
    }
}

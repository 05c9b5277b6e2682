//! The transitions of the driver.

use super::layout::Entry;
use super::outcome::{Collected, Expire};
use super::state::{ARMED, CACHED, CLOSED, DISPATCHED, ENQUEUED, LINKED, State};

impl Entry {
    /// Makes an entry that the driver has popped from the depot free. Returns whether the entry was linked: the caller
    /// must then unlink it from the wheel. Returns `None`, and changes nothing, if the entry is in the intake.
    pub(crate) fn reclaim(&self) -> Option<bool> {
        let reclaimed = |state: State| state.without(CACHED | LINKED).free_if_idle();
        let state = self.try_transition(|state| (!state.has(ENQUEUED)).then(|| reclaimed(state))).ok()?;
        Some(state.has(LINKED))
    }

    /// Collects an entry: one from the intake, or one for which [`expire`](Self::expire) returned `Later`. `now` is the
    /// present tick, and `wheel` the tick of the wheel.
    pub(crate) fn collect(&self, now: u64, wheel: u64) -> Collected {
        let is_pending = |state: State| state.has(ARMED) && !state.has(CLOSED);
        let (before, after) = self.transition(|state| {
            if is_pending(state) {
                self.set_registered_tick(state.deadline(now), wheel);
                state.without(ENQUEUED).with(LINKED)
            } else {
                state.without(ENQUEUED | LINKED).free_if_idle()
            }
        });
        Collected { linked: before.has(LINKED), pending: is_pending(before), free: after.is_free() }
    }

    /// Decides what becomes of an entry that the driver has unlinked from the wheel, because its slot expired at tick
    /// `now`, or because it is not armed.
    pub(crate) fn expire(&self, now: u64) -> Expire {
        let mut outcome = Expire::Over { free: false };
        self.transition(|state| {
            let unlinked = state.without(LINKED);
            let (next, what) = if !state.has(ARMED) || state.has(CLOSED | ENQUEUED) {
                let over = unlinked.free_if_idle();
                (over, Expire::Over { free: over.is_free() })
            } else if state.deadline(now) > now {
                (unlinked.with(ENQUEUED), Expire::Later)
            } else {
                (unlinked.with(DISPATCHED), Expire::Dispatch(state.kind()))
            };
            outcome = what;
            next
        });
        outcome
    }
}

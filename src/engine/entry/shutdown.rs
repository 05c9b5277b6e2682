//! The transitions of a shutdown.

use super::layout::Entry;
use super::outcome::{Claim, Closed, Held};
use super::state::{ARMED, CLOSED, DISPATCHED, HANDLE, RUNNING, State, WAKER};
use crate::sync::Ordering;

impl Entry {
    /// Closes the entry of a shard that is shut down: from here on its timer is neither reset nor started, and no other
    /// is armed. A timer that is pending stays so, until it is cancelled or [claimed](Self::claim).
    pub(crate) fn close(&self) -> Closed {
        // AcqRel: as of all moves. It is one that never fails.
        let state = State(self.state.fetch_or(CLOSED, Ordering::AcqRel));
        let timer = match () {
            () if state.has(RUNNING) => Held::Running,
            () if !state.has(ARMED) => Held::None,
            () if state.has(WAKER) => Held::Waker,
            () => Held::Closure,
        };
        Closed { handle: state.has(HANDLE), timer }
    }

    /// Whether a closed entry holds a pending waker.
    pub(crate) fn holds_waker(&self) -> bool {
        let state = self.state();
        state.has(ARMED) && state.has(WAKER)
    }

    /// Takes the timer of a closed entry. One that is running is left alone, unless `end_run`: then it ends with this
    /// run, if it repeats. It is `now`.
    pub(crate) fn claim(&self, end_run: bool, now: u64) -> Claim {
        let claimable = |state: State| state.has(ARMED) && (end_run || !state.has(RUNNING));
        match self.advance(|state| claimable(state).then(|| state.without(ARMED))) {
            Ok(state) if state.has(RUNNING) => Claim::Ended,
            Ok(state) => Claim::Taken {
                deadline: self.deadline_in(state, now),
                // SAFETY: this thread cleared `ARMED` of an entry that does not run; `CLOSED` keeps it from reuse.
                callback: unsafe { self.take() },
                dispatched: state.has(DISPATCHED),
            },
            Err(state) if state.has(RUNNING) => Claim::Running,
            Err(_) => Claim::Over,
        }
    }
}

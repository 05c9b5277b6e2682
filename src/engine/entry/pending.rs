//! The deadline of an entry, for a thread that does not own it.

use super::layout::Entry;
use super::state::{ARMED, CLOSED, RESET, RUNNING};

impl Entry {
    /// Returns the tick at which the timer will next expire. Returns `None` if no timer is pending, if the shard is closed,
    /// or if the timer is running and its next deadline is not set yet. `now` is the present tick.
    pub(crate) fn pending_deadline(&self, now: u64) -> Option<u64> {
        let state = self.state();
        let waits = !state.has(RUNNING) || state.has(RESET);
        (state.has(ARMED) && !state.has(CLOSED) && waits).then(|| state.deadline(now))
    }
}

//! Counts how timers end.

use std::ptr::NonNull;

use super::shard::Shard;
use super::thread_state;

impl Shard {
    pub(crate) fn count_completed(&self) {
        thread_state::with(self, |thread| thread.count(|counters| &counters.completed));
    }

    pub(crate) fn finish_in_flight(&self) {
        thread_state::with(self, |thread| thread.count(|counters| &counters.left_batch));
    }

    /// Only records that no handle is left, because the model keeps the shard.
    ///
    /// # Safety
    /// As for the crate's own function.
    pub(crate) unsafe fn last_handle_released(this: NonNull<Self>) {
        // SAFETY: as above.
        let this = unsafe { this.as_ref() };
        this.set_freed();
        thread_state::with(this, |thread| thread.count(|counters| &counters.freed));
    }
}

//! What a shard does around a run, and at its end.

use std::any::Any;
use std::panic;
use std::ptr::NonNull;

use super::shard::Shard;
use super::thread_state;
use crate::engine::entry::{Callback, Table};

/// No run is measured.
pub(crate) struct SlowRun;

impl Shard {
    pub(crate) fn begin_slow(&self, _lateness: u64, _callback: &Callback) -> SlowRun {
        SlowRun
    }

    pub(crate) fn stop_slow(&self, _run: &mut SlowRun) {}

    /// Counts that the run is reported as ended.
    pub(crate) fn report_slow(&self, _run: SlowRun) {
        self.counts.preemption_point();
        thread_state::of(self).count(|counters| &counters.ended);
    }

    /// Ends the model.
    pub(crate) fn report_panic(&self, _of: Option<Table>, _is_its: bool, payload: Box<dyn Any + Send>) {
        panic::resume_unwind(payload);
    }

    pub(crate) fn begin_in_flight(&self, _timers: usize) {}

    pub(crate) fn finish_in_flight(&self) {
        thread_state::of(self).count(|counters| &counters.left_batch);
    }

    /// Only records that no handle is left, because the model keeps the shard.
    ///
    /// # Safety
    /// As for the crate's own function.
    pub(crate) unsafe fn last_handle_released(this: NonNull<Self>) {
        // SAFETY: as above.
        let this = unsafe { this.as_ref() };
        this.set_freed();
        thread_state::of(this).count(|counters| &counters.freed);
    }
}

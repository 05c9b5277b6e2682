//! The files of a shard that take part in a protocol between threads, and a [`Shard`] that combines them.
//!
//! It lacks what loom does not support: clocks, processes, and the counters of threads.

pub(crate) mod thread_state;

use std::ptr::NonNull;
// Of `std`, not of loom: it orders nothing, and is no step of a thread.
use std::sync::atomic::{AtomicBool, Ordering};

use crate::clock::Ticks;
use crate::engine::core::Core;
use crate::engine::entry::Callback;

pub(crate) struct Shard {
    pub(crate) core: Core,
    pub(crate) ticks: Ticks,
    pub(crate) id: u64,
    /// No pin is left. The crate frees the shard at this point.
    unpinned: AtomicBool,
}

impl Shard {
    pub(crate) fn new(core: Core) -> Self {
        Self { core, ticks: Ticks, id: 1, unpinned: AtomicBool::new(false) }
    }

    /// Records that no pin is left.
    pub(crate) fn set_unpinned(&self) {
        self.unpinned.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_unpinned(&self) -> bool {
        self.unpinned.load(Ordering::Relaxed)
    }

    pub(crate) fn is_inherited(&self) -> bool {
        false
    }

    pub(crate) fn is_limited(&self) -> bool {
        false
    }

    pub(crate) fn release_permit(&self) {}

    pub(crate) fn request_if_due(&self, _deadline: u64) {}

    /// Does not catch a panic, which ends the model.
    pub(crate) fn catch_panic(&self, f: impl FnOnce()) {
        f();
    }

    pub(crate) fn discard_waker(&self, callback: Callback) {
        drop(callback);
    }

    pub(crate) fn catch_panic_after_release(_id: u64, f: impl FnOnce()) {
        f();
    }

    pub(crate) fn count_completed(&self) {
        thread_state::with(self, |thread| thread.count(|counters| &counters.completed));
    }

    pub(crate) fn finish_in_flight(&self) {
        thread_state::with(self, |thread| thread.count(|counters| &counters.left_batch));
    }

    /// Only records that no pin is left, because the model keeps the shard.
    ///
    /// # Safety
    /// As for the crate's own function.
    pub(crate) unsafe fn last_handle_released(this: NonNull<Self>) {
        // SAFETY: as above.
        let this = unsafe { this.as_ref() };
        this.set_unpinned();
        thread_state::with(this, |thread| thread.count(|counters| &counters.unpinned));
    }
}

//! The files of a shard that take part in a protocol between threads, and a [`Shard`] to put them together, without what
//! loom cannot have: clocks, processes, and counters that threads keep.

pub(crate) mod thread_state;

use std::ptr::NonNull;
// Not loom's: it orders nothing, and is no step of a thread.
use std::sync::atomic::{AtomicBool, Ordering};

use crate::clock::Ticks;
use crate::engine::core::Core;
use crate::engine::entry::Callback;

pub(crate) struct Shard {
    pub(crate) core: Core,
    pub(crate) ticks: Ticks,
    pub(crate) id: u64,
    /// Nothing keeps the shard any more: the crate frees it then.
    unpinned: AtomicBool,
}

impl Shard {
    pub(crate) fn new(core: Core) -> Self {
        Self { core, ticks: Ticks, id: 1, unpinned: AtomicBool::new(false) }
    }

    /// Notes that nothing keeps the shard any more.
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

    /// A panic is the model's end.
    pub(crate) fn catch_panic(&self, f: impl FnOnce()) {
        f();
    }

    pub(crate) fn discard_waker(&self, callback: Callback) {
        drop(callback);
    }

    pub(crate) fn catch_panic_after_release(_id: u64, f: impl FnOnce()) {
        f();
    }

    pub(crate) fn complete(&self) {
        thread_state::with(self, |thread| thread.count(|counters| &counters.completed));
    }

    pub(crate) fn finish_in_flight(&self) {
        thread_state::with(self, |thread| thread.count(|counters| &counters.left_batch));
    }

    /// The model keeps the shard, and sees by this that nothing else does.
    ///
    /// # Safety
    /// As the crate's own.
    pub(crate) unsafe fn last_handle_released(this: NonNull<Self>) {
        // SAFETY: as above.
        let this = unsafe { this.as_ref() };
        this.set_unpinned();
        thread_state::with(this, |thread| thread.count(|counters| &counters.unpinned));
    }
}

//! The files of a shard that take part in a protocol between threads, and a [`Shard`] to put them together, without what
//! loom cannot have: clocks, processes, and counters that threads keep.

#[path = "../../src/shard/call_stack.rs"]
mod call_stack;
#[allow(unexpected_cfgs)]
#[path = "../../src/shard/coop.rs"]
pub(crate) mod coop;
#[path = "../../src/shard/core.rs"]
pub(crate) mod core;
#[path = "../../src/shard/entry/mod.rs"]
pub(crate) mod entry;
#[path = "../../src/shard/intake.rs"]
mod intake;
#[path = "../../src/shard/loan.rs"]
pub(crate) mod loan;
#[path = "../../src/shard/memory/mod.rs"]
pub(crate) mod memory;
#[path = "../../src/shard/raw_handle.rs"]
pub(crate) mod raw_handle;
#[path = "../../src/shard/run.rs"]
pub(crate) mod run;
#[path = "../../src/shard/sleep_entry.rs"]
pub(crate) mod sleep_entry;
#[path = "shard/thread_state.rs"]
pub(crate) mod thread_state;
#[path = "../../src/shard/trim.rs"]
mod trim;
#[path = "../../src/shard/turn.rs"]
pub(crate) mod turn;
#[path = "../../src/shard/wakeup.rs"]
pub(crate) mod wakeup;

use std::ptr::NonNull;
// Not loom's: it orders nothing, and is no step of a thread.
use std::sync::atomic::{AtomicBool, Ordering};

use crate::clock::Ticks;
use core::Core;
use entry::Callback;
use raw_handle::RawHandle;

pub(crate) struct Shard {
    pub(crate) core: Core,
    pub(crate) ticks: Ticks,
    id: u64,
    /// Nothing keeps the shard any more: the crate frees it then.
    gone: AtomicBool,
}

impl Shard {
    pub(crate) fn new(core: Core) -> Self {
        Self { core, ticks: Ticks, id: 1, gone: AtomicBool::new(false) }
    }

    /// Notes that nothing keeps the shard any more.
    pub(crate) fn set_gone(&self) {
        self.gone.store(true, Ordering::Relaxed);
    }

    fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    fn is_inherited(&self) -> bool {
        false
    }

    fn is_limited(&self) -> bool {
        false
    }

    fn release_permit(&self) {}

    fn request_if_due(&self, _deadline: u64) {}

    /// A panic is the model's end.
    fn catch_panic(&self, f: impl FnOnce()) {
        f();
    }

    fn discard_waker(&self, callback: Callback) {
        drop(callback);
    }

    fn catch_panic_after_release(_id: u64, f: impl FnOnce()) {
        f();
    }

    fn complete(&self) {
        thread_state::with(self, |thread| thread.count(|counters| &counters.completed));
    }

    fn finish_in_flight(&self) {
        thread_state::with(self, |thread| thread.count(|counters| &counters.left_batch));
    }

    /// The model keeps the shard, and sees by this that nothing else does.
    ///
    /// # Safety
    /// As the crate's own.
    unsafe fn last_handle_released(this: NonNull<Self>) {
        // SAFETY: as above.
        let this = unsafe { this.as_ref() };
        this.set_gone();
        thread_state::with(this, |thread| thread.count(|counters| &counters.last));
    }
}

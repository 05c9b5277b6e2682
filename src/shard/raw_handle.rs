//! `RawHandle`: what the owner of a handle does with its entry.
//!
//! A `TimerHandle` and a [`SleepEntry`](super::SleepEntry) each own one entry through a raw handle, from
//! [`NewTimer::arm`](super::schedule::NewTimer::arm) or a reservation to [`release`](Shard::release). The flag `HANDLE` in the entry's
//! state stands for it. A call makes a transition, and then does what follows from it:
//!
//! | call                 | transition                  | then                                                          |
//! |----------------------|-----------------------------|---------------------------------------------------------------|
//! | `notify_driver`      | none: follows an arm or a reset | pushes to the intake, or wakes the driver, if the transition says so |
//! | `cancel`             | clears `ARMED`              | drops the closure, if it is not running                        |
//! | `reset`              | writes the deadline         | `notify_driver`                                               |
//! | `release`            | clears `HANDLE`             | caches the entry, if it is free; frees a closed shard after its last handle |
//!
//! **Who keeps the shard.** The handle keeps the memory of its entry and its shard until the transition of `release`.
//! In a closed shard it keeps them until `subtract_handle`. After that, another thread may release the last handle, and
//! so free the shard. So `release` reads what it needs before, and only uses the thread's own state after. No `&Shard`
//! may exist across the transition, because a reference that is passed to a function must be valid until that function
//! returns. A `&Entry` may: an entry is all cells.
//!
//! Clocks and counters are in `Shard` and in the thread state, of which loom-tests has its own. Loom models `cancel`,
//! `reset` and `sleep_entry`.

use std::ptr::NonNull;

use crate::clock::Deadline;
use crate::engine::core::Core;
use crate::engine::entry::{ARMED, CLOSED, DISPATCHED, DriverNotice, Entry, RUNNING, State};
use crate::shard::Shard;
use crate::shard::thread_state::{self, ThreadState};

/// The one handle of an entry. It keeps the entry, and the memory of the entry's shard.
///
/// It is `Copy`, but its owner must release it exactly once.
#[derive(Clone, Copy)]
pub(crate) struct RawHandle {
    pub(crate) shard: NonNull<Shard>,
    pub(crate) entry: NonNull<Entry>,
    /// A 32-bit index, widened to a pointer's size: without padding, the compiler keeps the handle in registers.
    index: usize,
}

impl RawHandle {
    #[inline]
    pub(crate) fn new(shard: NonNull<Shard>, entry: NonNull<Entry>, index: u32) -> Self {
        Self { shard, entry, index: index as usize }
    }

    #[inline]
    pub(crate) fn index(&self) -> u32 {
        self.index as u32
    }
}

impl Shard {
    /// Does what `notice` says after a transition that wrote `deadline` at tick `now`.
    #[inline(always)]
    pub(super) fn notify_driver(
        &self,
        thread: &ThreadState,
        index: u32,
        notice: DriverNotice,
        deadline: u64,
        now: u64,
    ) {
        if notice != DriverNotice::None {
            self.enqueue_or_wake(thread, index, notice, deadline, now);
        }
    }

    #[inline(never)]
    fn enqueue_or_wake(&self, thread: &ThreadState, index: u32, notice: DriverNotice, deadline: u64, now: u64) {
        if notice == DriverNotice::Enqueue {
            thread.count(|counters| &counters.enqueued);
        }
        self.core.notify_driver(index, notice, deadline, now);
    }

    /// Cancels the timer. Returns false if it had ended before.
    #[inline]
    pub(crate) fn cancel(&self, entry: &Entry) -> bool {
        let Some(ended) = entry.cancel() else {
            return false;
        };
        self.release_permit();
        // SAFETY: the transition above cancelled the timer, and the caller has its handle.
        unsafe { self.finish_cancel(entry, ended) };
        true
    }

    /// Counts a cancel, and drops the callback.
    ///
    /// # Safety
    /// The caller must have made the transition that returned this state, and must have the entry's handle.
    #[inline(always)]
    pub(super) unsafe fn finish_cancel(&self, entry: &Entry, cancelled: State) {
        thread_state::of(self).count(|counters| &counters.cancelled);
        if !cancelled.has(RUNNING) {
            // SAFETY: we own the callback, because our transition cleared `ARMED` and no worker runs the callback.
            let table = unsafe { entry.vtable() };
            // SAFETY: as above.
            self.catch_panic(Some(table), true, || unsafe { entry.drop_callback() });
        }
        if cancelled.has(DISPATCHED) {
            self.finish_in_flight();
        }
    }

    /// Resets the timer to another deadline. Returns false if the timer had ended before.
    #[inline]
    pub(crate) fn reset(&self, entry: &Entry, index: u32, deadline: Deadline) -> bool {
        let Some(notice) = entry.reset(deadline.tick, deadline.now) else {
            return false;
        };
        let thread = thread_state::of(self);
        self.notify_driver(&thread, index, notice, deadline.tick, deadline.now);
        thread.count(|counters| &counters.resets);
        true
    }

    /// Releases a handle. Frees the entry if nothing else refers to it, and the shard if this was its last handle.
    ///
    /// # Safety
    /// The handle must come from [`NewTimer`](super::NewTimer) or a [`SleepEntry`](super::SleepEntry), and must not have
    /// been released before.
    #[inline]
    pub(crate) unsafe fn release(raw: RawHandle) {
        let (mut thread, aside) = {
            // SAFETY: the shard is alive, because the handle keeps it until the transition below. This reference is not used
            // afterwards.
            let shard = unsafe { raw.shard.as_ref() };
            (thread_state::of(shard), shard.core.slab.is_sparse(raw.index()))
        };
        // SAFETY: the entry is alive, because the handle keeps it until this transition. It is not read afterwards.
        let after = unsafe { raw.entry.as_ref() }.release();
        if after.has(CLOSED) {
            drop(thread);
            // SAFETY: the shard is alive, because a handle of a closed shard keeps it until `subtract_handle`.
            if unsafe { Core::subtract_handle(NonNull::new_unchecked(&raw mut (*raw.shard.as_ptr()).core)) } {
                // SAFETY: this was the last handle of a closed shard.
                unsafe { Shard::last_handle_released(raw.shard) };
            }
        } else if !after.has(ARMED | RUNNING | DISPATCHED) {
            thread.recycle(raw.index(), aside);
        }
    }
}

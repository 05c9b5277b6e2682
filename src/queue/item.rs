//! One value of a queue, and the flag by which one thread takes it.
//!
//! A value comes out once, because one read-modify-write decides who takes it: [`Item::claim`]. A consumer, `remove` and
//! the drop of the queue may try at the same time. The timer of the item takes nothing; it only makes the item due.

use std::mem::MaybeUninit;
use std::ptr;

use crate::sync::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, UnsafeCell};

/// The mark of an item whose deadline was never reset.
pub(super) const NOT_RESET: u64 = u64::MAX - 1;

/// A value, and what the queue keeps beside it. `H` is the handle of its timer.
pub(crate) struct Item<T, H> {
    /// A thread has taken the value, or is taking it.
    claimed: AtomicBool,
    value: UnsafeCell<MaybeUninit<T>>,
    handle: UnsafeCell<Option<H>>,
    /// The deadline that the last reset gave, or `NOT_RESET`.
    reset_to: AtomicU64,
    /// Where the queue lists the item. Accessed under the queue's lock only.
    member: AtomicU32,
    /// The links of the stacks of items that have entered, and of those that have left.
    pub(super) entered_before: AtomicPtr<Self>,
    pub(super) left_before: AtomicPtr<Self>,
}

impl<T, H> Item<T, H> {
    pub(super) fn new(value: T) -> Self {
        Self {
            claimed: AtomicBool::new(false),
            value: UnsafeCell::new(MaybeUninit::new(value)),
            handle: UnsafeCell::new(None),
            reset_to: AtomicU64::new(NOT_RESET),
            member: AtomicU32::new(0),
            entered_before: AtomicPtr::new(ptr::null_mut()),
            left_before: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Takes the value, unless a thread has taken it before. Wait-free.
    pub(super) fn claim(&self) -> Option<T> {
        // Relaxed: only chooses one thread. The value came to it with the item, by a stack, the lock or the key.
        // Loom model `delay_queue`.
        if self.claimed.swap(true, Ordering::Relaxed) {
            return None;
        }
        // SAFETY: we own the value, because the swap above succeeds once. The copy left behind is uninitialised from now on.
        Some(self.value.with(|cell| unsafe { (*cell).assume_init_read() }))
    }

    /// Returns whether a thread has taken the value.
    pub(crate) fn is_claimed(&self) -> bool {
        // Relaxed: a hint.
        self.claimed.load(Ordering::Relaxed)
    }

    /// Keeps the handle of the timer.
    ///
    /// # Safety
    /// The caller must have created the item, and call this once, before any other thread may call
    /// [`handle`](Self::handle).
    pub(super) unsafe fn set_handle(&self, handle: H) {
        // SAFETY: we own the cell, because nobody reads it yet, by this function's contract.
        self.handle.with_mut(|cell| unsafe { *cell = Some(handle) });
    }

    /// Returns the handle of the timer, unless the timer was refused.
    ///
    /// # Safety
    /// The push of the item must have returned.
    pub(crate) unsafe fn handle(&self) -> Option<&H> {
        // SAFETY: we share the cell with readers only, because it is written before the push returns.
        self.handle.with(|cell| unsafe { (*cell).as_ref() })
    }

    /// Notes the deadline that a reset gave.
    pub(super) fn set_reset(&self, deadline: u64) {
        // Relaxed: it is shown only if it agrees with the tick at which the item became due.
        self.reset_to.store(deadline, Ordering::Relaxed);
    }

    pub(super) fn reset_to(&self) -> u64 {
        self.reset_to.load(Ordering::Relaxed)
    }

    pub(super) fn set_member(&self, member: u32) {
        // Relaxed, here and below: under the lock.
        self.member.store(member, Ordering::Relaxed);
    }

    pub(super) fn member(&self) -> u32 {
        self.member.load(Ordering::Relaxed)
    }
}

impl<T, H> Drop for Item<T, H> {
    fn drop(&mut self) {
        drop(self.claim());
    }
}

// SAFETY: threads share the flag and the handle. The value goes to one thread, which owns it from then on.
unsafe impl<T: Send, H: Send + Sync> Sync for Item<T, H> {}
// SAFETY: as above.
unsafe impl<T: Send, H: Send + Sync> Send for Item<T, H> {}

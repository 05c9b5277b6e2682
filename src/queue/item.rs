//! One value of a queue, and the flag by which one thread takes it.
//!
//! A value comes out once, because one read-modify-write decides which thread takes it: [`Item::claim`]. A consumer,
//! `remove` and the drop of the queue may try at the same time. The timer of the item takes nothing; it only makes the
//! item due.

use std::mem::MaybeUninit;
use std::sync::OnceLock;

use crate::sync::{Arc, AtomicBool, AtomicU32, AtomicU64, Ordering, UnsafeCell};

/// A value, and what the queue keeps beside it. `H` is the handle of its timer.
pub(crate) struct Item<T, H> {
    /// A thread has taken the value, or is taking it.
    claimed: AtomicBool,
    value: UnsafeCell<MaybeUninit<T>>,
    /// The handle of the timer. The push sets it after the timer was accepted, and maybe after the item became due, but
    /// before it lists the item.
    pub(super) handle: OnceLock<H>,
    /// The item's index in the list of all items. Accessed under the lock of that list only.
    pub(super) index: AtomicU32,
    /// The item's number among those that were ever due, 0 before it is due. Accessed under the consumers' lock only.
    pub(super) number: AtomicU64,
}

impl<T, H> Item<T, H> {
    pub(super) fn new(value: T) -> Self {
        Self {
            claimed: AtomicBool::new(false),
            value: UnsafeCell::new(MaybeUninit::new(value)),
            handle: OnceLock::new(),
            index: AtomicU32::new(0),
            number: AtomicU64::new(0),
        }
    }

    /// Takes the value, unless a thread has taken it before. Wait-free.
    pub(super) fn claim(&self) -> Option<T> {
        // Relaxed: only chooses one thread. The value came to it with the item, by a lock or the key.
        // Loom model `delay_queue`.
        if self.claimed.swap(true, Ordering::Relaxed) {
            return None;
        }
        // SAFETY: we own the value, because the swap above succeeds once. The copy left behind is uninitialised from now on.
        Some(self.value.with(|cell| unsafe { (*cell).assume_init_read() }))
    }

    /// Returns whether a thread has taken the value.
    pub(crate) fn is_claimed(&self) -> bool {
        // Relaxed: the lock under which the caller asks orders it, or it is a hint.
        self.claimed.load(Ordering::Relaxed)
    }
}

impl<T, P: Copy, H> Item<(T, P), H> {
    /// Returns what is stored beside the value, also once that is taken.
    pub(super) fn beside(&self) -> P {
        // SAFETY: the `P` is initialised, because `new` writes it, nothing writes it again, and the read in `claim` leaves
        // the bits of a `Copy` type valid. No reference is made, as the `T` beside it may be uninitialised.
        self.value.with(|cell| unsafe { (&raw const (*(*cell).as_ptr()).1).read() })
    }
}

impl<T, H> Drop for Item<T, H> {
    fn drop(&mut self) {
        drop(self.claim());
    }
}

// SAFETY: threads share the flag and the handle. The value goes to one thread, which owns it from then on.
unsafe impl<T: Send, H: Send + Sync> Sync for Item<T, H> {}

/// An item whose deadline has come, and the tick at which it became due.
pub(crate) type DueItem<T, H> = (Arc<Item<T, H>>, u64);

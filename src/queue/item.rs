//! One value of a queue, and the flag by which one thread takes it.
//!
//! A value comes out once, because one read-modify-write decides which thread takes it: [`Item::claim`]. A consumer,
//! `remove` and the drop of the queue may try at the same time. The timer of the item takes nothing; it only makes the
//! item due.

use std::mem::MaybeUninit;
use std::sync::OnceLock;

use crate::sync::{Arc, AtomicBool, AtomicPtr, AtomicU32, Ordering, UnsafeCell};

/// A value, and what the queue keeps beside it. `H` is the handle of its timer.
pub(crate) struct Item<T, H> {
    /// A thread has taken the value, or is taking it.
    claimed: AtomicBool,
    value: UnsafeCell<MaybeUninit<T>>,
    /// The handle of the timer. The push sets it after the timer was accepted, and maybe after the item became due.
    pub(super) handle: OnceLock<H>,
    /// The item's index in the list of the queue. Accessed under the queue's lock only.
    pub(super) index: AtomicU32,
    /// The links of the stacks of items that have entered, and of those that were removed.
    pub(super) entered_before: AtomicPtr<Self>,
    pub(super) removed_before: AtomicPtr<Self>,
}

impl<T, H> Item<T, H> {
    pub(super) fn new(value: T) -> Self {
        Self {
            claimed: AtomicBool::new(false),
            value: UnsafeCell::new(MaybeUninit::new(value)),
            handle: OnceLock::new(),
            index: AtomicU32::new(0),
            entered_before: AtomicPtr::default(),
            removed_before: AtomicPtr::default(),
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
}

impl<T, H> Drop for Item<T, H> {
    fn drop(&mut self) {
        drop(self.claim());
    }
}

// SAFETY: threads share the flag and the handle. The value goes to one thread, which owns it from then on.
unsafe impl<T: Send, H: Send + Sync> Sync for Item<T, H> {}

/// An item whose deadline has come.
pub(crate) struct Due<T, H> {
    pub(crate) item: Arc<Item<T, H>>,
    /// The tick at which it became due.
    pub(crate) tick: u64,
}

/// Items that a driver made due together, in order.
///
/// A batch has the addresses of its items. So neither the driver nor the thread that takes the batch over reads the
/// items, which lie scattered in memory: only the consumer does.
pub(super) struct DueBatch<T, H> {
    pub(super) items: Vec<Due<T, H>>,
    /// The batch that was pushed before.
    pub(super) before: AtomicPtr<Self>,
}

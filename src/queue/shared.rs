//! What the clones of a queue share: its values, and the shards that keep their timers.

use std::mem;
use std::panic::RefUnwindSafe;
use std::sync::Arc;

use super::expiry::Delivery;
use super::hand_over::HandOver;
use super::home::Home;
use super::item::Item;
use crate::clock::Requested;
use crate::handle::TimerHandle;
use crate::shard::Deferred;

/// What the clones share. The drop of it is the drop of the last clone.
pub(super) struct Shared<T: Send + 'static> {
    pub(super) hand_over: Arc<Values<T>>,
    pub(super) home: Home,
}

pub(super) type Values<T> = HandOver<Stored<T>, TimerHandle>;
pub(super) type Value<T> = Item<Stored<T>, TimerHandle>;

/// A value with its deadline.
pub(super) struct Stored<T> {
    pub(super) value: T,
    pub(super) requested: Requested,
    /// The tick of the deadline.
    pub(super) tick: u64,
}

impl<T: Send + 'static> Deferred for Delivery<Stored<T>, TimerHandle> {
    fn publish(&mut self) {
        self.publish();
    }
}

impl<T: Send + 'static> Drop for Shared<T> {
    fn drop(&mut self) {
        if self.home.is_inherited() {
            // The values are the parent's, and so is the lock.
            mem::forget(self.hand_over.clone());
            return;
        }
        let shard = self.home.any_shard();
        for (stored, item) in self.hand_over.clear() {
            // SAFETY: the push has returned, because it had a clone of the queue.
            if let Some(handle) = unsafe { item.handle() } {
                handle.cancel();
            }
            shard.catch_panic(|| drop(stored));
        }
    }
}

// A panic cannot leave a queue half changed: no foreign code runs under its lock, and a value is taken by one atomic
// step. `tests/unwind.rs` has the list of public types for which this makes it hold.
impl<T, H> RefUnwindSafe for HandOver<T, H> {}
impl<T, H> RefUnwindSafe for Item<T, H> {}

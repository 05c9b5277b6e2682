//! Items that are due, and the batches in which drivers push them.

use std::ptr;

use super::item::Item;
use crate::sync::{Arc, AtomicPtr};

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
    items: Vec<Due<T, H>>,
    /// The batch that was pushed before.
    pub(super) before: AtomicPtr<Self>,
}

impl<T, H> DueBatch<T, H> {
    pub(super) fn new(items: Vec<Due<T, H>>) -> Arc<Self> {
        Arc::new(Self { items, before: AtomicPtr::new(ptr::null_mut()) })
    }

    /// Returns the items of a batch that was taken from a stack.
    pub(super) fn into_items(this: Arc<Self>) -> Vec<Due<T, H>> {
        match Arc::try_unwrap(this) {
            Ok(batch) => batch.items,
            Err(_) => unreachable!("the stack has the only count of a batch"),
        }
    }
}

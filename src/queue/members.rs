//! All items in a queue, so that its drop and a drain find them.

use std::mem;

use super::item::Item;
use crate::sync::{Arc, Ordering};

/// Capacity that a short list keeps.
const RETAINED: usize = 1024;

/// A list in no order. Each item knows its index.
pub(super) struct Members<T, H>(pub(super) Vec<Arc<Item<T, H>>>);

impl<T, H> Members<T, H> {
    pub(super) fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds an item. Amortised constant time.
    pub(super) fn list(&mut self, item: Arc<Item<T, H>>) {
        let index = u32::try_from(self.0.len()).expect("fewer than 2^32 values");
        // Relaxed, here and below: under the lock.
        item.index.store(index, Ordering::Relaxed);
        self.0.push(item);
    }

    /// Takes an item off, unless a [`drain`](Self::drain) has. The last item takes its index. The caller drops what this
    /// returns after the unlock. Amortised constant time.
    pub(super) fn unlist(&mut self, item: &Arc<Item<T, H>>) -> Option<Arc<Item<T, H>>> {
        let index = item.index.load(Ordering::Relaxed);
        self.0.get(index as usize).filter(|listed| Arc::ptr_eq(listed, item))?;
        let unlisted = self.0.swap_remove(index as usize);
        if let Some(moved) = self.0.get(index as usize) {
            moved.index.store(index, Ordering::Relaxed);
        }
        // So the memory follows the number of items.
        if self.0.len() < self.0.capacity() / 4 {
            self.0.shrink_to(RETAINED.max(self.0.capacity() / 2));
        }
        Some(unlisted)
    }

    /// Takes all items off.
    pub(super) fn drain(&mut self) -> Vec<Arc<Item<T, H>>> {
        mem::take(&mut self.0)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn items_find_their_index_again_and_memory_comes_back() {
        let mut members: Members<u32, ()> = Members::new();
        let items: Vec<_> = (0..9000).map(|number| Arc::new(Item::new(number))).collect();
        for round in 0..2 {
            items.iter().for_each(|item| members.list(item.clone()));
            let (third, rest): (Vec<_>, Vec<_>) = (1..9000).partition(|index| index % 3 == 0);
            for index in third.into_iter().chain(rest.into_iter().rev()) {
                assert!(members.unlist(&items[index]).is_some_and(|unlisted| Arc::ptr_eq(&unlisted, &items[index])));
                assert!(members.unlist(&items[index]).is_none(), "round {round}: it was unlisted once");
            }
            assert!(members.0.capacity() <= RETAINED, "beside one that is left");
            assert_eq!((members.drain().len(), members.len()), (1, 0));
            assert!(members.unlist(&items[0]).is_none(), "a drain has it");
        }
    }
}

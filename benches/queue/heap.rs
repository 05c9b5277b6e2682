//! The standard library's heap, extended by removal. The values are in a table. A removal empties a slot of the table
//! and leaves the item in the heap. A sweep removes such items when they are more than half of the heap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::interface::Queue;

/// A heap smaller than this is not worth a sweep.
const SMALL: usize = 64;

#[derive(Default)]
pub struct Heap {
    /// The deadlines and the keys of the values.
    items: BinaryHeap<Reverse<(u64, Key)>>,
    table: Vec<Slot>,
    vacant: Vec<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    slot: usize,
    generation: u64,
}

struct Slot {
    /// Number of values that were in this slot before.
    generation: u64,
    value: Option<u64>,
}

impl Heap {
    fn take(&mut self, key: Key) -> Option<u64> {
        let slot = &mut self.table[key.slot];
        if slot.generation != key.generation {
            return None;
        }
        slot.generation += 1;
        self.vacant.push(key.slot);
        slot.value.take()
    }

    fn len(&self) -> usize {
        self.table.len() - self.vacant.len()
    }
}

impl Queue for Heap {
    const NAME: &'static str = "BinaryHeap";
    type Key = Key;

    fn new() -> Self {
        Self::default()
    }

    fn insert(&mut self, deadline: u64, value: u64) -> Key {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.table.push(Slot { generation: 0, value: None });
            self.table.len() - 1
        });
        let key = Key { slot, generation: self.table[slot].generation };
        self.table[slot].value = Some(value);
        self.items.push(Reverse((deadline, key)));
        key
    }

    fn remove(&mut self, key: Key) -> Option<u64> {
        let value = self.take(key)?;
        if self.items.len() > SMALL && self.len() < self.items.len() / 2 {
            self.items.retain(|Reverse((_, key))| self.table[key.slot].generation == key.generation);
        }
        Some(value)
    }

    fn advance(&mut self, now: u64, mut expired: impl FnMut(u64, u64)) {
        while let Some(&Reverse((deadline, key))) = self.items.peek().filter(|Reverse((deadline, _))| *deadline <= now)
        {
            self.items.pop();
            if let Some(value) = self.take(key) {
                expired(deadline, value);
            }
        }
    }
}

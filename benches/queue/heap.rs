//! The standard library's heap, with what it takes to remove from it: the values lie in a table, a removal empties a
//! place of the table and leaves the item in the heap, and the heap is swept when more than half of it is such items.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Queue;

/// A heap smaller than this is not worth a sweep.
const SMALL: usize = 64;

#[derive(Default)]
pub struct Heap {
    /// The deadline, then what names the value.
    items: BinaryHeap<Reverse<(u64, Key)>>,
    table: Vec<Place>,
    vacant: Vec<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    place: usize,
    use_number: u64,
}

struct Place {
    /// How many values have been here before.
    use_number: u64,
    value: Option<u64>,
}

impl Heap {
    fn take(&mut self, key: Key) -> Option<u64> {
        let place = &mut self.table[key.place];
        if place.use_number != key.use_number {
            return None;
        }
        place.use_number += 1;
        self.vacant.push(key.place);
        place.value.take()
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
        let place = self.vacant.pop().unwrap_or_else(|| {
            self.table.push(Place { use_number: 0, value: None });
            self.table.len() - 1
        });
        let key = Key { place, use_number: self.table[place].use_number };
        self.table[place].value = Some(value);
        self.items.push(Reverse((deadline, key)));
        key
    }

    fn remove(&mut self, key: Key) -> Option<u64> {
        let value = self.take(key)?;
        if self.items.len() > SMALL && self.len() < self.items.len() / 2 {
            self.items.retain(|Reverse((_, key))| self.table[key.place].use_number == key.use_number);
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

//! This crate's wheel.

use corewheel::{Key, Wheel};

use super::interface::Queue;

impl Queue for Wheel<u64> {
    const NAME: &'static str = "Wheel";
    type Key = Key;

    fn new() -> Self {
        Wheel::new(0)
    }

    fn insert(&mut self, deadline: u64, value: u64) -> Key {
        Wheel::insert(self, deadline, value)
    }

    fn remove(&mut self, key: Key) -> Option<u64> {
        Wheel::remove(self, key)
    }

    fn advance(&mut self, now: u64, expired: impl FnMut(u64, u64)) {
        Wheel::advance(self, now, expired);
    }
}

//! One level: a ring of slots, and the slot of each tick.

use alloc::vec;
use alloc::vec::Vec;
use core::mem;

use super::divisor::Divisor;
use super::links::NIL;
use super::occupancy::Occupancy;

/// A ring of slots, each the head of a list of nodes.
pub(super) struct Level {
    /// Number of ticks of a slot.
    pub(super) span: Divisor,
    /// Number of slots of the window.
    pub(super) slots: u64,
    /// Number of slots of the ring.
    ring: Divisor,
    pub(super) occupancy: Occupancy,
    /// The first node of each slot; empty until the level is used. Meaningless where the slot is not occupied.
    pub(super) heads: Vec<u32>,
}

impl Level {
    pub(super) fn new(span: u64, slots: u64, ring: u64) -> Level {
        Level {
            span: Divisor::new(span),
            slots,
            ring: Divisor::new(ring),
            occupancy: Occupancy::default(),
            heads: Vec::new(),
        }
    }

    #[cold]
    fn allocate(&mut self) {
        let slots = self.ring.value() as usize;
        self.occupancy = Occupancy::new(slots);
        self.heads = vec![0; slots];
    }

    /// Frees the slots, unless one of them is occupied.
    pub(super) fn shrink(&mut self) {
        if self.occupancy.is_empty() {
            self.occupancy = Occupancy::default();
            self.heads = Vec::new();
        }
    }

    /// Returns whether the ring has a slot for `deadline`.
    #[inline]
    pub(super) fn covers(&self, deadline: u64, now: u64) -> bool {
        self.span.quotient(deadline) - self.span.quotient(now) < self.ring.value()
    }

    /// Returns whether no slot begins from `now` to `tick`, both included.
    #[inline]
    pub(super) fn begins_no_slot(&self, now: u64, tick: u64) -> bool {
        let begins = self.span.quotient(now) * self.span.value();
        begins != now && tick - begins < self.span.value()
    }

    #[inline]
    pub(super) fn slot_of(&self, block: u64) -> usize {
        self.ring.remainder(block) as usize
    }

    #[inline]
    pub(super) fn slot(&self, tick: u64) -> usize {
        self.slot_of(self.span.quotient(tick))
    }

    /// Returns the first tick of a slot, which is at or after the slot of `now`.
    #[inline]
    pub(super) fn first_tick(&self, slot: usize, now: u64) -> u64 {
        let block = self.span.quotient(now);
        let from = self.ring.remainder(block);
        let slot = slot as u64;
        let distance = if slot >= from { slot - from } else { slot + self.ring.value() - from };
        (block + distance) * self.span.value()
    }

    /// Makes `id` the head of a slot. Returns the previous head.
    #[inline]
    pub(super) fn push(&mut self, slot: usize, id: u32) -> u32 {
        if slot >= self.heads.len() {
            self.allocate();
        }
        let head = mem::replace(&mut self.heads[slot], id);
        if self.occupancy.insert(slot) { NIL } else { head }
    }
}

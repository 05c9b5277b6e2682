//! One level: a ring of slots, and which tick belongs to which slot.

use super::divisor::Divisor;
use super::links::NIL;
use super::occupancy::Occupancy;

/// A ring of slots, each the head of a list of nodes.
pub(super) struct Level {
    pub(super) span: Divisor,
    /// How many slots the window has.
    pub(super) slots: u64,
    /// How many there are.
    pub(super) ring: Divisor,
    pub(super) occupancy: Occupancy,
    /// Empty until the level is used. The head of a slot that is not occupied means nothing.
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
    pub(super) fn allocate(&mut self) {
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

    /// Whether the ring has a slot for `deadline`.
    #[inline]
    pub(super) fn holds(&self, deadline: u64, now: u64) -> bool {
        self.span.quotient(deadline) - self.span.quotient(now) < self.ring.value()
    }

    /// Whether no slot begins from `now` to `tick`, both included.
    #[inline]
    pub(super) fn is_inside(&self, now: u64, tick: u64) -> bool {
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

    /// The first tick of an occupied slot in the window that begins at `now`.
    #[inline]
    pub(super) fn first_tick(&self, slot: usize, now: u64) -> u64 {
        let block = self.span.quotient(now);
        let from = self.ring.remainder(block);
        let slot = slot as u64;
        let distance = if slot >= from { slot - from } else { slot + self.ring.value() - from };
        (block + distance) * self.span.value()
    }

    /// Makes `id` the head of a slot; returns the head before it.
    #[inline]
    pub(super) fn push(&mut self, slot: usize, id: u32) -> u32 {
        if slot >= self.heads.len() {
            self.allocate();
        }
        let head = std::mem::replace(&mut self.heads[slot], id);
        if self.occupancy.insert(slot) { NIL } else { head }
    }
}

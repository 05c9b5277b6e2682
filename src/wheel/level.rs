//! One level: a ring of slots, and the slot of each tick.
//!
//! Slots are numbered from tick 0: a slot has the ticks from `number * span` on, as many as the span. The ring has a
//! slot for each number of the window, rounded up to a power of two, so that a mask tells the index of a slot.

use alloc::vec;
use alloc::vec::Vec;
use core::mem;

use smallvec::SmallVec;
use strength_reduce::StrengthReducedU64;

use super::occupancy::Occupancy;

/// Number of nodes of a slot that a driver can cascade in a tick of 20 µs, while it does the same for other shards. Each
/// node is a cache miss.
const CASCADED_IN_TICK: u64 = 8;

/// The nodes of a slot, in no order. As large as a `Vec`, and without an allocation for up to four.
pub(super) type Slot = SmallVec<[u32; 4]>;

/// A ring of slots.
pub(super) struct Level {
    /// Number of ticks of a slot.
    pub(super) span: StrengthReducedU64,
    /// Number of slots of the window.
    window: u64,
    /// Maximum distance in ticks of a deadline within the window, if the window begins at the present tick.
    reach: u64,
    /// Number of slots of the ring, less one.
    mask: u64,
    pub(super) occupancy: Occupancy,
    /// The nodes of each slot; empty until the level is used.
    pub(super) slots: Vec<Slot>,
    /// For each occupied slot, the least deadline that was linked into it since it was empty. Empty if a slot spans one
    /// tick.
    least: Vec<u64>,
}

impl Level {
    pub(super) fn new(span: u64, window: u64) -> Level {
        Level {
            span: StrengthReducedU64::new(span),
            window,
            reach: span.checked_mul(window).map_or(u64::MAX, |end| end - 1),
            mask: window.next_power_of_two() - 1,
            occupancy: Occupancy::default(),
            slots: Vec::new(),
            least: Vec::new(),
        }
    }

    #[cold]
    fn allocate(&mut self) {
        let slots = self.mask as usize + 1;
        self.occupancy = Occupancy::new(slots);
        self.slots = vec![Slot::new(); slots];
        if self.span.get() > 1 {
            self.least = vec![0; slots];
        }
    }

    /// Frees the slots, unless one of them is occupied.
    pub(super) fn shrink(&mut self) {
        if self.occupancy.is_empty() {
            self.occupancy = Occupancy::default();
            self.slots = Vec::new();
            self.least = Vec::new();
        }
    }

    /// Returns the number of the slot of `deadline`, if that is in the window at tick `now`.
    #[inline]
    pub(super) fn number_in_window(&self, deadline: u64, now: u64) -> Option<u64> {
        // Most levels are ruled out without a division. The window begins with the present slot, so before `now`, and
        // may end one slot before the deadline.
        if deadline - now > self.reach {
            return None;
        }
        let number = deadline / self.span;
        (number - now / self.span < self.window).then_some(number)
    }

    /// Returns whether no slot begins from `now` to `tick`, both included.
    #[inline]
    pub(super) fn begins_no_slot(&self, now: u64, tick: u64) -> bool {
        let begins = now / self.span * self.span.get();
        begins != now && tick - begins < self.span.get()
    }

    #[inline]
    pub(super) fn slot_of(&self, number: u64) -> usize {
        (number & self.mask) as usize
    }

    /// Returns the first tick of a slot, which is at or after the slot of `now`.
    #[inline]
    pub(super) fn first_tick(&self, slot: usize, now: u64) -> u64 {
        let first = now / self.span;
        let distance = (slot as u64).wrapping_sub(first) & self.mask;
        (first + distance) * self.span.get()
    }

    /// Returns the first occupied slot of a level that has one: at or after that of `now`.
    #[inline]
    pub(super) fn first_slot(&self, now: u64) -> usize {
        self.occupancy.next_from(self.slot_of(now / self.span)).expect("a slot of the level is occupied")
    }

    /// Returns the least deadline of a level that has a node, or an earlier tick after a removal.
    pub(super) fn least_deadline(&self, now: u64) -> u64 {
        let slot = self.first_slot(now);
        self.least.get(slot).copied().unwrap_or_else(|| self.first_tick(slot, now))
    }

    /// Returns when to [visit](super::Levels::next_visit) a level that has a node: by its least deadline, and early
    /// enough for the nodes of its first two slots to cascade ahead of time.
    pub(super) fn next_visit(&self, now: u64) -> u64 {
        let first = self.first_slot(now);
        let visit = |slot| {
            let begins = self.first_tick(slot, now);
            let Some(&least) = self.least.get(slot) else { return begins };
            let number = self.slots[slot].len() as u64;
            // From then on, the slot is the next one of its level.
            let earliest = begins.saturating_sub(self.span.get());
            if earliest <= now { least } else { earliest.max(least.saturating_sub(number / CASCADED_IN_TICK)) }
        };
        let second = (first + 1) & self.mask as usize;
        if !self.slots[second].is_empty() { visit(first).min(visit(second)) } else { visit(first) }
    }

    /// Adds a node with this deadline to a slot. Returns its index there.
    #[inline]
    pub(super) fn push(&mut self, slot: usize, id: u32, deadline: u64) -> usize {
        if slot >= self.slots.len() {
            self.allocate();
        }
        let ids = &mut self.slots[slot];
        let index = ids.len();
        ids.push(id);
        if index == 0 {
            self.occupancy.insert(slot);
        }
        if let Some(least) = self.least.get_mut(slot) {
            *least = if index == 0 { deadline } else { deadline.min(*least) };
        }
        index
    }

    /// Marks a slot as empty. Returns its nodes.
    #[inline]
    pub(super) fn vacate(&mut self, slot: usize) -> Slot {
        self.occupancy.remove(slot);
        mem::take(&mut self.slots[slot])
    }

    /// Marks all slots as empty.
    pub(super) fn clear(&mut self) {
        self.occupancy.clear();
        self.slots.fill_with(Slot::new);
    }
}

//! The levels of the wheel and their arithmetic, over nodes that the caller stores.
//!
//! # The algorithm
//!
//! This is a hierarchical timing wheel (Varghese and Lauck, 1987). It keeps pending deadlines in rings of slots, one
//! ring for each level. A slot of level 0 spans one tick, and a slot of each further level spans the whole ring below:
//! `span(0) = 1`, `span(i + 1) = span(i) * slots(i)`. A deadline waits at the lowest level whose window reaches it.
//! When time comes to the first tick of a slot, the slot *expires*. Each of its nodes expires with it or *cascades*:
//! the wheel links the node again, closer to its deadline and so at a finer level. Unless its deadline becomes later, a
//! node is relinked at most once per level. It is inserted and removed in constant time, and never compared with
//! another node.
//!
//! The levels overlap, as those of Kafka's timer do. The window of a level has `slots(i)` slots, begins with the slot
//! that contains the present tick, and *slides* by whole slots. Slots are aligned to tick 0, not to the start of the
//! wheel. At tick `now` a deadline goes to the lowest level where
//!
//! ```text
//! deadline / span(i) - now / span(i) < slots(i)        slot = deadline / span(i) % ring(i)
//! ```
//!
//! Example: three slots a level, at tick 9 (left) and at tick 10 (right), when only the window of level 0 has slid:
//!
//! | level | span | slots at tick 9           | slots at tick 10        |
//! |-------|------|---------------------------|-------------------------|
//! | 0     | 1    | 9, 10, 11                 | 10, 11, 12              |
//! | 1     | 3    | 9..=11, 12..=14, 15..=17  | the same                |
//! | 2     | 9    | 9..=17, 18..=26, 27..=35  | the same                |
//!
//! The level below covers the first slot of a window. So above level 0, no node is ever linked into the first slot.
//! That slot has nodes only while it expires.
//!
//! The windows of a shard are twice as long: `2 * slots(i)`, for [cascades ahead of time](#cascades-ahead-of-time). `ring(i)` is the length of the
//! window, rounded up to a power of two, so the remainder is a mask. With powers of two as numbers of slots, as by
//! default, every quotient is a shift. `docs/tuning.md` has the table of what each level reaches at which tick.
//!
//! # Time
//!
//! Time advances from one occupied slot to the next, not from tick to tick: a slot expires at its first tick. A bitmap
//! per level finds the next one, so the cost of a jump depends on the slots that expire in it.
//!
//! **Invariant.** Time never passes an occupied slot. So two slots that share an index, one ring apart, are never
//! confused.
//!
//! The nodes of a slot that expires leave one by one ([`Levels::step`]). The caller may stop after any step, for example
//! to run callbacks, and all other nodes are still linked.
//!
//! # Slots
//!
//! A slot is a list of its nodes' indices, and each node knows its place there. A removal moves the last node into the
//! gap. So the wheel can *fetch* nodes into the cache [some](AHEAD) before they leave, also those of the slot that expires
//! next. Timers that lie apart in memory would else be a cache miss each, one after the other.
//!
//! # Cascades ahead of time
//!
//! When a slot of a coarse level expires, all its nodes must cascade before the first of them can expire. With 10^6
//! timers a second and a tick of 1 ms, those are 64,000 at once. A caller with time to spare may cascade earlier
//! ([`Levels::cascade_ahead`]), as soon as the slot is the next one of its level. Its deadlines then lie less than twice
//! the slots of the level below ahead, so for this purpose a window has twice as many slots ([`Levels::new`]). A driver
//! that sleeps wakes in time for that ([`Levels::next_visit`]).
//!
//! # Rejected
//!
//! - *One ring, and a count of revolutions for each node* (the hashed wheel without a hierarchy): each revolution of
//!   the ring reads every node that has some left.
//! - *Aligned windows* (Linux before 4.8, tokio): a level ends at its next boundary. A near deadline just beyond that
//!   boundary starts at a coarse level, and cascades for nothing.
//! - *No cascades, and coarser slots for farther deadlines* (Linux since 4.8): cheap, but a far deadline is late by up
//!   to an eighth of its delay.
//! - *A linked list through the nodes of each slot*: it needs no memory, but the address of each node is in the one before.
//!   So nothing can be fetched in time. A firing of 10^6 timers over a second then takes 1.2 times the CPU time, inline 1.4
//!   times: see "slots as vectors" in `docs/benchmarks/notebook.md`.
//! - *A heap*: cancelling costs O(log n), and most timers are cancelled.
//! - *The true minimum of each slot*: a removal would have to search the slot for the next minimum. The least deadline
//!   that was linked into a slot costs one comparison. It is too early only after a removal, once for each slot.

use alloc::vec::Vec;
use core::cmp::Reverse;

use super::level::{Level, Slot};
use super::nodes::{ExpiredList, Nodes, Place};
use crate::BuildError;

/// Maximum number of slots of a level.
const MAX_SLOTS: usize = 1 << 24;

/// Capacity that a slot keeps until it is empty.
const RETAINED: usize = 1024;

/// How many nodes ahead of the one that leaves a slot are fetched.
const AHEAD: usize = 16;

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Unlinked this node, which has expired or is [disarmed](Nodes::is_disarmed).
    Unlinked(u32),
    /// Linked a node again, closer to its deadline.
    Cascaded,
    /// Nothing is left to do up to the target, which is now the present tick.
    Done,
}

/// The levels and the present tick.
pub(crate) struct Levels {
    pub(super) now: u64,
    expired: ExpiredList,
    /// The nodes of the slot that expires. Their places still name that slot, which receives no other node before time
    /// advances.
    pub(super) expiring: Slot,
    /// That slot, as in the places of its nodes.
    expiring_list: u32,
    /// The slot that [expires next](Self::search), if it is known: its first tick, its level, and its index there.
    next: Option<(u64, Reverse<usize>, usize)>,
    pub(super) levels: Vec<Level>,
}

impl Levels {
    /// Creates levels with these numbers of slots, the finest first, and adds levels of the last number until they
    /// reach every `u64`. The first node in a level allocates its slots.
    ///
    /// A window is `factor` times as long as a slot of the level above: 1, or 2 for
    /// [`cascade_ahead`](Self::cascade_ahead).
    pub(crate) fn new(start: u64, slots_per_level: &[usize], factor: u64) -> Result<Levels, BuildError> {
        for (level, &slots) in slots_per_level.iter().enumerate() {
            if slots < 2 {
                return Err(BuildError::TooFewSlots { level, slots });
            }
            if slots > MAX_SLOTS {
                return Err(BuildError::TooManySlots { level, slots });
            }
        }
        let last = *slots_per_level.last().ok_or(BuildError::NoLevels)?;

        let mut levels = Vec::new();
        let mut span = Some(1_u64);
        let mut given = slots_per_level.iter().copied();
        while let Some(this) = span {
            let slots = given.next().unwrap_or(last) as u64;
            span = this.checked_mul(slots);
            levels.push(Level::new(this, factor * slots));
        }
        Ok(Levels {
            now: start,
            expired: ExpiredList::default(),
            expiring: Slot::new(),
            expiring_list: 0,
            next: None,
            levels,
        })
    }

    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// Links a node by its deadline. If the deadline has come, the node goes to the end of the expired list.
    #[inline]
    pub(crate) fn insert(&mut self, nodes: &mut impl Nodes, id: u32, deadline: u64) {
        if deadline > self.now {
            self.link(nodes, id, deadline);
        } else {
            self.expired.push(nodes, id);
        }
    }

    /// Unlinks a node. The node must be linked.
    #[inline]
    pub(crate) fn remove(&mut self, nodes: &mut impl Nodes, id: u32) {
        let place = nodes.place(id);
        let Some((level, slot)) = place.slot() else { return self.expired.remove(place.index) };
        let expires = place.list == self.expiring_list && !self.expiring.is_empty();
        let ids = if expires { &mut self.expiring } else { &mut self.levels[level].slots[slot] };
        debug_assert_eq!(ids[place.index as usize], id);
        let last = ids.pop().expect("the node is in its slot");
        if let Some(gap) = ids.get_mut(place.index as usize) {
            *gap = last;
            nodes.set_place(last, place);
        } else if ids.is_empty() && !expires {
            return drop(self.vacate(level, slot));
        }
        if ids.spilled() && ids.len() < ids.capacity() / 4 && ids.capacity() > RETAINED {
            ids.shrink_to_fit();
        }
    }

    /// Marks a slot as empty. Returns its nodes.
    fn vacate(&mut self, level: usize, slot: usize) -> Slot {
        if self.next.is_some_and(|(_, ring, index)| (ring.0, index) == (level, slot)) {
            self.next = None;
        }
        self.levels[level].vacate(slot)
    }

    /// Removes every node, without access to the nodes.
    pub(super) fn clear(&mut self) {
        self.expired = ExpiredList::default();
        self.expiring = Slot::new();
        self.next = None;
        for level in &mut self.levels {
            level.clear();
        }
    }

    /// Frees the slots of every level that has no node.
    pub(crate) fn shrink(&mut self) {
        self.levels.iter_mut().for_each(Level::shrink);
    }

    /// Returns the least deadline, or the present tick if a node has expired. Earlier only after a removal: a slot keeps
    /// the least deadline that was linked into it. O(levels).
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.earliest(Level::least_deadline)
    }

    /// Returns the earliest of the ticks that `of_level` returns of the levels that have nodes, or the present tick if a
    /// node has expired.
    pub(super) fn earliest(&self, of_level: impl Fn(&Level, u64) -> u64) -> Option<u64> {
        if self.expired.first().is_some() || !self.expiring.is_empty() {
            return Some(self.now);
        }
        self.levels.iter().filter(|ring| !ring.occupancy.is_empty()).map(|ring| of_level(ring, self.now)).min()
    }

    /// Returns the node that expires or cascades next.
    pub(crate) fn first(&self) -> Option<u32> {
        let expired = self.expired.first().or_else(|| self.expiring.last().copied());
        expired
            .or_else(|| self.next_slot().and_then(|(_, level, slot)| self.levels[level.0].slots[slot].last().copied()))
    }

    /// Advances time towards `target` by one node at most. O(levels).
    ///
    /// The expired list comes first. After that, nodes expire in the order of their deadlines. A target in the past
    /// stands for the present tick.
    #[inline]
    pub(crate) fn step(&mut self, nodes: &mut impl Nodes, target: u64) -> Step {
        if let Some(id) = self.expired.first() {
            self.remove(nodes, id);
            return self.expire_or_cascade(nodes, id);
        }
        if self.expiring.is_empty() && !self.expire_next_slot(nodes, target.max(self.now)) {
            return Step::Done;
        }
        let id = self.expiring.pop().expect("a slot that expires has nodes");
        fetch_ahead(nodes, &self.expiring);
        self.expire_or_cascade(nodes, id)
    }

    /// A node that was unlinked has expired, or is linked again.
    #[inline(always)]
    pub(super) fn expire_or_cascade(&mut self, nodes: &mut impl Nodes, id: u32) -> Step {
        let deadline = nodes.deadline(id);
        if deadline <= self.now || nodes.is_disarmed(id) {
            return Step::Unlinked(id);
        }
        self.link(nodes, id, deadline);
        Step::Cascaded
    }

    /// Advances time to the next occupied slot up to `target`, which then expires. If there is none, advances time to
    /// `target` and returns false.
    fn expire_next_slot(&mut self, nodes: &impl Nodes, target: u64) -> bool {
        if self.next.is_none() {
            self.next = self.search();
        }
        let Some((first, level, slot)) = self.next.filter(|&(first, ..)| first <= target) else {
            self.now = target;
            self.expiring = Slot::new();
            return false;
        };
        self.now = first;
        self.expiring = self.vacate(level.0, slot);
        self.expiring_list = Place::list(level.0, slot);
        fetch_first(nodes, &self.expiring);
        self.next = self.search();
        if let Some((_, level, slot)) = self.next.filter(|&(first, ..)| first <= target) {
            fetch_first(nodes, &self.levels[level.0].slots[slot]);
        }
        true
    }

    /// Returns the level and the first and last tick of the slot in which a node waits; `None` if it waits in no slot.
    pub(super) fn position(&self, place: Place) -> Option<(usize, u64, u64)> {
        let (level, slot) = place.slot()?;
        let ring = &self.levels[level];
        let first = ring.first_tick(slot, self.now);
        Some((level, first, first.saturating_add(ring.span.get() - 1)))
    }

    /// Links a node by its deadline, which must be later than the present tick.
    #[inline]
    fn link(&mut self, nodes: &mut impl Nodes, id: u32, deadline: u64) {
        let mut levels = self.levels.iter_mut().enumerate();
        let found = levels.find_map(|(level, ring)| Some((level, ring.number_in_window(deadline, self.now)?, ring)));
        let (level, number, ring) = found.expect("the last level reaches all");
        let slot = ring.slot_of(number);
        let index = ring.push(slot, id, deadline) as u32;
        if index == 0 {
            let this = (number * ring.span.get(), Reverse(level), slot);
            self.next = self.next.map(|next| next.min(this));
        }
        nodes.set_place(id, Place { list: Place::list(level, slot), index });
    }

    #[inline]
    fn next_slot(&self) -> Option<(u64, Reverse<usize>, usize)> {
        self.next.or_else(|| self.search())
    }

    /// Finds the occupied slot that expires next, at its first tick. Of two at one tick, that of the higher level comes
    /// first: its nodes may cascade to that very tick, and must do so before other nodes expire there.
    fn search(&self) -> Option<(u64, Reverse<usize>, usize)> {
        let mut earliest: Option<(u64, Reverse<usize>, usize)> = None;
        for (level, ring) in self.levels.iter().enumerate().filter(|(_, ring)| !ring.occupancy.is_empty()) {
            // All slots of this level and of those above expire at the first tick of one of this level. One may be now.
            if earliest.is_some_and(|(first, ..)| ring.begins_no_slot(self.now, first)) {
                break;
            }
            let slot = ring.first_slot(self.now);
            let this = (ring.first_tick(slot, self.now), Reverse(level), slot);
            earliest = Some(earliest.map_or(this, |earliest| earliest.min(this)));
        }
        earliest
    }
}

/// Cascades ahead of time.
impl Levels {
    /// Cascades a node ahead of time, from the next slot of a level above 0. Returns [`Done`](Step::Done) if there is
    /// none. O(levels).
    pub(crate) fn cascade_ahead(&mut self, nodes: &mut impl Nodes) -> Step {
        let Some((level, slot)) = self.upcoming_slot() else { return Step::Done };
        let ids = &mut self.levels[level].slots[slot];
        let id = ids.pop().expect("it has nodes");
        fetch_ahead(nodes, ids);
        if ids.is_empty() {
            self.vacate(level, slot);
        }
        self.expire_or_cascade(nodes, id)
    }

    /// Returns when to step or to cascade ahead: by the least deadline, but earlier if slots are so full that their nodes
    /// would then cascade too late. O(levels).
    pub(crate) fn next_visit(&self) -> Option<u64> {
        self.earliest(Level::next_visit)
    }

    /// Returns whether there is a node to cascade ahead of time. O(levels).
    pub(crate) fn has_upcoming(&self) -> bool {
        self.upcoming_slot().is_some()
    }

    fn upcoming_slot(&self) -> Option<(usize, usize)> {
        let slots = self.levels.iter().map(|ring| ring.slot_of(self.now / ring.span + 1)).enumerate().skip(1);
        slots.into_iter().find(|&(level, slot)| self.levels[level].slots.get(slot).is_some_and(|ids| !ids.is_empty()))
    }
}

/// Fetches the node that is `AHEAD` of the last of a slot.
#[inline]
fn fetch_ahead(nodes: &impl Nodes, ids: &[u32]) {
    if let Some(&id) = ids.len().checked_sub(AHEAD).and_then(|index| ids.get(index)) {
        nodes.fetch(id);
    }
}

/// Fetches the nodes of a slot that leave first.
#[inline]
fn fetch_first(nodes: &impl Nodes, ids: &[u32]) {
    ids.iter().rev().take(AHEAD).for_each(|&id| nodes.fetch(id));
}

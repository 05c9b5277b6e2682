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
//! deadline / span(i) - now / span(i) < slots(i)        slot = deadline / span(i) % slots(i)
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
//! With 64 slots a level, the default, every quotient is a shift and every remainder a mask. `docs/tuning.md` has the
//! table of what each level reaches at which tick.
//!
//! # Time
//!
//! Time advances from event to event, not from tick to tick. An event is an occupied slot, and it happens at the slot's
//! first tick. A bitmap per level finds the next one, so the cost of a jump depends on the slots that expire in it.
//!
//! **Invariant.** Time never passes an occupied slot. So two slots that share an index, one ring apart, are never
//! confused.
//!
//! Nodes leave an expiring slot one by one ([`Levels::step`]). The caller may stop after any step, for example to run
//! callbacks, and all other nodes are still linked.
//!
//! # Rejected
//!
//! - *One ring, and a count of rounds for each node* (the hashed wheel without a hierarchy): each revolution of the
//!   ring reads every node that has rounds left.
//! - *Aligned windows* (Linux before 4.8, tokio): a level ends at its next boundary. A near deadline just beyond that
//!   boundary starts at a coarse level, and cascades for nothing.
//! - *No cascades, and coarser slots for farther deadlines* (Linux since 4.8): cheap, but a far deadline is late by up
//!   to an eighth of its delay.
//! - *A heap*: cancelling costs O(log n), and most timers are cancelled.
//! - *The true minimum of each slot*, for an exact next deadline: a removal would have to search the slot for the next
//!   minimum. That saves at most one early wake-up per level.

use alloc::vec::Vec;

use super::event::Event;
use super::expired_list::ExpiredList;
use super::level::Level;
use super::links::{Links, ListId, NIL, Nodes};
use crate::BuildError;

/// Maximum number of slots of a level.
const MAX_SLOTS: usize = 1 << 24;

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Unlinked this node, which has expired or is [disarmed](Nodes::is_disarmed).
    Expired(u32),
    /// Linked a node again, closer to its deadline.
    Cascaded,
    /// Nothing is left to do up to the target, which is now the present tick.
    Done,
}

/// The levels and the present tick.
pub(crate) struct Levels {
    pub(super) now: u64,
    /// One bit for each level: whether any of its slots is occupied.
    pub(super) occupied: u64,
    expired: ExpiredList,
    /// The first node of the expiring slot. The links of its nodes still name that slot, which receives no other node
    /// before time advances.
    expiring: u32,
    /// The [next event](Self::search), or [`Event::UNKNOWN`].
    next: Event,
    pub(super) levels: Vec<Level>,
    /// Maximum distance in ticks of a deadline within each level's window, if the window begins at the present tick.
    reaches: Vec<u64>,
}

impl Levels {
    /// Creates levels with these numbers of slots, the finest first, and adds levels of the last number until they
    /// reach every `u64`. The first node in a level allocates its slots.
    pub(crate) fn new(start: u64, slots_per_level: &[usize]) -> Result<Levels, BuildError> {
        Self::with_rings(start, slots_per_level, 1)
    }

    /// Like [`new`](Self::new), with rings twice as long, for [`cascade_ahead`](Self::cascade_ahead).
    pub(crate) fn new_ahead(start: u64, slots_per_level: &[usize]) -> Result<Levels, BuildError> {
        Self::with_rings(start, slots_per_level, 2)
    }

    fn with_rings(start: u64, slots_per_level: &[usize], windows_per_ring: u64) -> Result<Levels, BuildError> {
        for (level, &slots) in slots_per_level.iter().enumerate() {
            if slots < 2 {
                return Err(BuildError::TooFewSlots { level, slots });
            }
            if slots > MAX_SLOTS {
                return Err(BuildError::TooManySlots { level, slots });
            }
        }
        let last = *slots_per_level.last().ok_or(BuildError::NoLevels)?;

        let (mut levels, mut reaches) = (Vec::new(), Vec::new());
        let mut span = Some(1_u64);
        let mut given = slots_per_level.iter().copied();
        while let Some(this) = span {
            let slots = given.next().unwrap_or(last) as u64;
            span = this.checked_mul(slots);
            levels.push(Level::new(this, slots, windows_per_ring * slots));
            reaches.push(span.map_or(u64::MAX, |above| above - 1));
        }
        Ok(Levels {
            now: start,
            occupied: 0,
            expired: ExpiredList::EMPTY,
            expiring: NIL,
            next: Event::UNKNOWN,
            levels,
            reaches,
        })
    }

    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// Links a node by its deadline. If the deadline has come, the node goes to the end of the expired list.
    #[inline]
    pub(crate) fn insert(&mut self, nodes: &mut impl Nodes, id: u32) {
        let deadline = nodes.deadline(id);
        if deadline > self.now {
            self.link_by_deadline(nodes, id, deadline);
        } else {
            self.expired.push(nodes, id);
        }
    }

    /// Unlinks a node. The node must be linked.
    #[inline]
    pub(crate) fn remove(&mut self, nodes: &mut impl Nodes, id: u32) {
        let links = nodes.links(id);
        debug_assert!(links.is_linked());
        if links.prev != NIL {
            nodes.change_links(links.prev, |prev| prev.next = links.next);
        }
        if links.next != NIL {
            nodes.change_links(links.next, |next| next.prev = links.prev);
        }
        nodes.set_links(id, Links::UNLINKED);

        match links.list.slot() {
            None => self.expired.unlink_ends(links),
            Some(_) if links.prev != NIL => {}
            Some(_) if self.expiring == id => self.expiring = links.next,
            Some((level, slot)) if links.next == NIL => self.vacate(level, slot),
            Some((level, slot)) => self.levels[level].heads[slot] = links.next,
        }
    }

    /// Marks a slot as empty.
    fn vacate(&mut self, level: usize, slot: usize) {
        if (self.next.level, self.next.slot) == (level as u32, slot as u32) {
            self.next = Event::UNKNOWN;
        }
        let occupancy = &mut self.levels[level].occupancy;
        occupancy.remove(slot);
        if occupancy.is_empty() {
            self.occupied &= !(1 << level);
        }
    }

    /// Removes every node, without access to the nodes.
    pub(super) fn clear(&mut self) {
        self.occupied = 0;
        self.expired = ExpiredList::EMPTY;
        self.expiring = NIL;
        self.next = Event::UNKNOWN;
        for level in &mut self.levels {
            level.occupancy.clear();
        }
    }

    /// Frees the slots of every level that has no node.
    pub(super) fn shrink(&mut self) {
        self.levels.iter_mut().for_each(Level::shrink);
    }

    /// Returns the tick to step to next: the present tick if a node has expired, otherwise the first tick of the next
    /// occupied slot. It is not later than the deadline by which any node was linked. O(levels).
    #[inline]
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        if self.expired.head != NIL || self.expiring != NIL {
            return Some(self.now);
        }
        self.next_event().map(|event| event.first)
    }

    /// Returns the node that expires or cascades next.
    pub(crate) fn first(&self) -> Option<u32> {
        for head in [self.expired.head, self.expiring] {
            if head != NIL {
                return Some(head);
            }
        }
        self.next_event().map(|event| self.levels[event.level as usize].heads[event.slot as usize])
    }

    /// Advances time towards `target` by one node at most. O(levels).
    ///
    /// The expired list comes first. After that, nodes expire in the order of their deadlines. A target in the past
    /// stands for the present tick.
    #[inline]
    pub(crate) fn step(&mut self, nodes: &mut impl Nodes, target: u64) -> Step {
        let id = if self.expired.head != NIL {
            let id = self.expired.head;
            self.remove(nodes, id);
            id
        } else if self.expiring != NIL || self.expire_next_slot(target.max(self.now)) {
            self.take_expiring(nodes)
        } else {
            return Step::Done;
        };
        let deadline = nodes.deadline(id);
        if deadline > self.now && !nodes.is_disarmed(id) {
            self.link_by_deadline(nodes, id, deadline);
            return Step::Cascaded;
        }
        nodes.set_links(id, Links::UNLINKED);
        Step::Expired(id)
    }

    /// Unlinks the first node of the expiring slot from the others. Does not write its own links.
    #[inline]
    fn take_expiring(&mut self, nodes: &mut impl Nodes) -> u32 {
        let id = self.expiring;
        self.expiring = nodes.links(id).next;
        if self.expiring != NIL {
            nodes.change_links(self.expiring, |next| next.prev = NIL);
        }
        id
    }

    /// Advances time to the next occupied slot up to `target`, which then expires. If there is none, advances time to
    /// `target` and returns false.
    fn expire_next_slot(&mut self, target: u64) -> bool {
        if self.occupied == 0 {
            self.now = target;
            return false;
        }
        if !self.next.is_known() {
            self.next = self.search();
        }
        if self.next.first > target {
            self.now = target;
            return false;
        }
        self.now = self.next.first;
        let (level, slot) = (self.next.level as usize, self.next.slot as usize);
        self.expiring = self.levels[level].heads[slot];
        self.vacate(level, slot);
        true
    }

    /// Returns the level and the first and last tick of the slot in which a node waits; `None` if it waits in no slot.
    pub(super) fn position(&self, links: Links) -> Option<(usize, u64, u64)> {
        let (level, slot) = links.list.slot()?;
        let ring = &self.levels[level];
        let first = ring.first_tick(slot, self.now);
        Some((level, first, first.saturating_add(ring.span.value() - 1)))
    }

    /// Links a node into the slot for its deadline, which must be later than the present tick.
    #[inline]
    fn link_by_deadline(&mut self, nodes: &mut impl Nodes, id: u32, deadline: u64) {
        let delta = deadline - self.now;
        let mut level = self.reaches.iter().position(|&reach| delta <= reach).expect("the last level reaches all");
        let mut ring = &self.levels[level];
        let mut block = ring.span.quotient(deadline);
        // The window begins with the present slot, so before `now`, and may end one slot before the deadline. The
        // deadline then lies in the second slot of the level above.
        if block - ring.span.quotient(self.now) >= ring.slots {
            level += 1;
            ring = &self.levels[level];
            block = ring.span.quotient(deadline);
        }
        self.link(nodes, id, level, block);
    }

    /// Links a node into the slot of a level for the ticks from `block * span` on.
    #[inline]
    pub(super) fn link(&mut self, nodes: &mut impl Nodes, id: u32, level: usize, block: u64) {
        let ring = &mut self.levels[level];
        let slot = ring.slot_of(block);
        let next = ring.push(slot, id);
        if next == NIL {
            let first = block * ring.span.value();
            self.occupied |= 1 << level;
            self.occupy(level, slot, first);
        } else {
            nodes.change_links(next, |next| next.prev = id);
        }
        let links = Links { next, prev: NIL, list: ListId::of(level, slot) };
        nodes.set_links(id, links);
    }

    /// Updates the next event: a slot with this first tick has become occupied.
    #[inline]
    fn occupy(&mut self, level: usize, slot: usize, first: u64) {
        let event = Event { first, level: level as u32, slot: slot as u32 };
        if self.next.is_known() && event.is_before(self.next) {
            self.next = event;
        }
    }

    #[inline]
    fn next_event(&self) -> Option<Event> {
        (self.occupied != 0).then(|| if self.next.is_known() { self.next } else { self.search() })
    }

    /// Finds the occupied slot with the earliest first tick. Some slot must be occupied.
    ///
    /// Of several it returns the one of the highest level, because its nodes may cascade to that very tick, and must do
    /// so before other nodes expire there.
    fn search(&self) -> Event {
        let mut earliest = Event::UNKNOWN;
        let mut rest = self.occupied;
        while rest != 0 {
            let level = rest.trailing_zeros();
            rest &= rest - 1;
            let ring = &self.levels[level as usize];
            let slot = ring.occupancy.next_from(ring.slot(self.now)).expect("a slot of the level is occupied");
            let event = Event { first: ring.first_tick(slot, self.now), level, slot: slot as u32 };
            if !earliest.is_known() || event.is_before(earliest) {
                earliest = event;
            }
            // All events of higher levels happen at the first tick of a slot of the next level. One of them may be now.
            if let Some(above) = self.levels.get(level as usize + 1)
                && above.begins_no_slot(self.now, earliest.first)
            {
                break;
            }
        }
        earliest
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Nodes whose deadlines the test may change while they are linked.
    struct Store(Vec<(u64, Links)>);

    /// The deadline that stands for a disarmed node.
    const DISARMED: u64 = u64::MAX - 1;

    impl Store {
        fn new(deadlines: &[u64]) -> Store {
            Store(deadlines.iter().map(|deadline| (*deadline, Links::default())).collect())
        }
    }

    impl Nodes for Store {
        fn deadline(&self, id: u32) -> u64 {
            self.0[id as usize].0
        }

        fn links(&self, id: u32) -> Links {
            self.0[id as usize].1
        }

        fn set_links(&mut self, id: u32, links: Links) {
            self.0[id as usize].1 = links;
        }

        fn change_links(&mut self, id: u32, change: impl FnOnce(&mut Links)) {
            change(&mut self.0[id as usize].1);
        }

        fn is_disarmed(&self, id: u32) -> bool {
            self.deadline(id) == DISARMED
        }
    }

    /// Returns levels of four slots at tick 0, with nodes of these deadlines inserted in order.
    fn inserted(deadlines: &[u64]) -> (Levels, Store) {
        let mut levels = Levels::new(0, &[4]).expect("a valid level");
        let mut store = Store::new(deadlines);
        for id in 0..deadlines.len() as u32 {
            levels.insert(&mut store, id);
        }
        (levels, store)
    }

    #[test]
    fn a_node_with_a_later_deadline_cascades_when_its_slot_expires() {
        for initial in [0, 3, 8, 100] {
            let (mut levels, mut store) = inserted(&[initial]);
            store.0[0].0 = 200;
            while levels.step(&mut store, 199) == Step::Cascaded {}
            assert_eq!((levels.now(), store.links(0).is_linked()), (199, true));
            assert!(levels.next_deadline() <= Some(200));

            while levels.step(&mut store, 200) == Step::Cascaded {}
            assert_eq!((levels.now(), store.links(0).is_linked()), (200, false));
            assert_eq!(levels.next_deadline(), None);
        }
    }

    #[test]
    fn a_node_with_an_earlier_deadline_expires_with_its_slot() {
        let (mut levels, mut store) = inserted(&[9]);
        store.0[0].0 = 1;
        assert_eq!(levels.step(&mut store, 7), Step::Done);
        assert_eq!(levels.step(&mut store, 8), Step::Expired(0));
    }

    #[test]
    fn cascades_come_before_expirations_at_the_same_tick() {
        let (mut levels, mut store) = inserted(&[6]);
        assert_eq!(levels.step(&mut store, 3), Step::Done);
        store.0.push((4, Links::UNLINKED));
        levels.insert(&mut store, 1);
        assert_eq!(levels.step(&mut store, 4), Step::Cascaded);
        assert_eq!(levels.step(&mut store, 4), Step::Expired(1));
        assert_eq!(levels.step(&mut store, 4), Step::Done);

        // The next event is not known yet.
        let (mut levels, mut store) = inserted(&[]);
        assert_eq!(levels.step(&mut store, 3), Step::Done);
        for (id, deadline) in [(0, 4), (1, 7)] {
            store.0.push((deadline, Links::UNLINKED));
            levels.insert(&mut store, id);
        }
        assert_eq!(levels.step(&mut store, 4), Step::Cascaded);
        assert_eq!(levels.step(&mut store, 4), Step::Expired(0));
    }

    #[test]
    fn an_emptied_slot_is_no_event() {
        let (mut levels, mut store) = inserted(&[3, 20]);
        assert_eq!(levels.step(&mut store, 1), Step::Done);
        levels.remove(&mut store, 0);
        assert_eq!(levels.next_deadline(), Some(16));
        assert_eq!((levels.step(&mut store, 3), levels.now()), (Step::Done, 3));
    }

    #[test]
    fn between_two_steps_the_rest_of_a_slot_may_be_changed() {
        let (mut levels, mut store) = inserted(&[18, 18, 17, 16]);
        assert_eq!(levels.step(&mut store, 100), Step::Expired(3));
        assert_eq!(levels.position(store.links(0)), Some((2, 16, 31)));
        assert_eq!(levels.next_deadline(), Some(16));
        levels.remove(&mut store, 1);
        levels.remove(&mut store, 2);
        store.0[2].0 = 0;
        levels.insert(&mut store, 2);

        assert_eq!(levels.step(&mut store, 0), Step::Expired(2));
        assert_eq!(levels.step(&mut store, 0), Step::Cascaded);
        assert_eq!((levels.step(&mut store, 0), levels.now()), (Step::Done, 16));
        assert_eq!(levels.next_deadline(), Some(18));
        assert_eq!(levels.step(&mut store, 100), Step::Expired(0));
    }

    #[test]
    fn the_most_levels_and_slots_fit_into_a_list_id() {
        for slots in [2, 1 << 24] {
            let mut levels = Levels::new(0, &[slots]).expect("a valid level");
            let mut store = Store::new(&[u64::MAX, slots as u64 - 1]);
            levels.insert(&mut store, 0);
            levels.insert(&mut store, 1);
            let (level, first, last) = levels.position(store.links(0)).expect("it waits");
            assert_eq!((level, last), (levels.levels.len() - 1, u64::MAX));
            assert!(first > 0 && level < 64);
            assert_eq!(levels.position(store.links(1)).map(|(_, first, _)| first), Some(slots as u64 - 1));
        }
    }

    #[test]
    fn a_disarmed_node_expires_where_it_would_cascade() {
        let (mut levels, mut store) = inserted(&[9, 10]);
        store.0[0].0 = DISARMED;
        assert_eq!(levels.step(&mut store, 8), Step::Cascaded);
        assert_eq!(levels.step(&mut store, 8), Step::Expired(0));
        assert_eq!((levels.step(&mut store, 8), levels.now()), (Step::Done, 8));
    }

    #[test]
    fn a_disarmed_node_expires_ahead_of_time() {
        let mut levels = Levels::new_ahead(0, &[4]).expect("a valid level");
        let mut store = Store::new(&[5]);
        levels.insert(&mut store, 0);
        store.0[0].0 = DISARMED;
        assert_eq!(levels.cascade_ahead(&mut store), Step::Expired(0));
        assert_eq!(levels.cascade_ahead(&mut store), Step::Done);
    }

    #[test]
    fn a_slot_can_be_emptied_before_it_expires() {
        let deadlines: Vec<u64> = (64..128).rev().collect();
        for now in 0..=63 {
            let mut levels = Levels::new_ahead(now, &[64]).expect("a valid level");
            let mut store = Store::new(&deadlines);
            let linked: Vec<u32> = (0..64).filter(|&id| deadlines[id as usize] > now + 63).collect();
            linked.iter().for_each(|&id| levels.insert(&mut store, id));
            let steps = (0..1000).take_while(|_| levels.cascade_ahead(&mut store) != Step::Done).count();
            assert!(steps <= linked.len(), "each cascades once");
            for &id in &linked {
                let deadline = deadlines[id as usize];
                assert_eq!(levels.position(store.links(id)), Some((0, deadline, deadline)));
            }
        }
    }

    #[test]
    fn nodes_that_cascade_ahead_expire_on_time() {
        for (seed, slots) in (0..40).flat_map(|seed| [2, 3, 4, 64].map(|slots| (seed, slots))) {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut levels = Levels::new_ahead(0, &[slots]).expect("a valid level");
            let deadlines: Vec<u64> = (0..200).map(|_| 1 + (random.u64(..) >> random.u32(44..64))).collect();
            let mut store = Store::new(&deadlines);
            let mut left: std::collections::BTreeSet<u32> = (0..200).collect();
            left.iter().for_each(|&id| levels.insert(&mut store, id));
            while let Some(next) = levels.next_deadline() {
                for _ in 0..random.u32(0..8) {
                    if levels.cascade_ahead(&mut store) == Step::Done {
                        break;
                    }
                }
                let removed = random.u32(0..200);
                if random.bool() && left.remove(&removed) {
                    levels.remove(&mut store, removed);
                }
                let target = next + random.u64(0..3);
                loop {
                    match levels.step(&mut store, target) {
                        Step::Expired(id) => {
                            assert_eq!(levels.now(), deadlines[id as usize]);
                            assert!(left.remove(&id));
                        }
                        Step::Cascaded => {}
                        Step::Done => break,
                    }
                }
            }
            assert!(left.is_empty(), "{left:?} of {slots} slots");
        }
    }
}

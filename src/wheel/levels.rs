//! The arithmetic of the wheel, over nodes that belong to somebody else.
//!
//! # The algorithm
//!
//! A hashed and hierarchical timing wheel (Varghese and Lauck, 1987) keeps pending deadlines in rings
//! of slots. A slot of level 0 spans one tick; a slot of the next level spans the whole ring below it:
//! `span(0) = 1`, `span(i + 1) = span(i) * slots(i)`. A deadline waits at the lowest level that still
//! reaches it. When time comes to the first tick of a slot, its nodes are *handed down*: each is placed
//! anew, closer to its deadline and so at a finer level, until it expires. A node is therefore moved
//! at most once a level, inserted and removed in constant time, and never compared with another.
//!
//! The levels overlap as Kafka's do: each is a *sliding* window of `slots(i)` slots that begins with the
//! slot the present tick lies in. Slots are aligned to tick 0, not to the wheel's start. At tick `now`
//! a deadline goes to the lowest level where
//!
//! ```text
//! deadline / span(i) - now / span(i) < slots(i)        slot = deadline / span(i) % slots(i)
//! ```
//!
//! With three slots a level, at tick 9 (left), and one tick later (right; only level 0 has moved on):
//!
//! | level | span | slots at tick 9         | slots at tick 10        |
//! |-------|------|-------------------------|-------------------------|
//! | 0     | 1    | 9, 10, 11               | 10, 11, 12              |
//! | 1     | 3    | 9..=11, 12..=14, 15..=17  | the same                |
//! | 2     | 9    | 9..=17, 18..=26, 27..=35  | the same                |
//!
//! The window's first slot is covered by the level below, so above level 0 it never receives a node.
//! It can hold one only while it is being handed down.
//!
//! With the default of 64 slots every quotient is a shift and every remainder a mask. Level `i` reaches
//! to about 64^(i + 1) ticks from now:
//!
//! | level          | 0     | 1     | 2       | 3     | 4    | 5       | … | 10         |
//! |----------------|-------|-------|---------|-------|------|---------|---|------------|
//! | span, ticks    | 1     | 64    | 2^12    | 2^18  | 2^24 | 2^30    | … | 2^60       |
//! | reach at 1 ms  | 64 ms | 4.1 s | 4.4 min | 4.7 h | 12 d | 2.2 years | … | all of u64 |
//!
//! # Time
//!
//! Time goes from event to event, not from tick to tick: an event is an occupied slot, its moment the
//! slot's first tick. A bitmap per level finds the level's next one, so a jump costs by what it meets.
//! Time never passes an occupied slot, hence two slots a whole turn apart are never confused.
//! Nodes leave a slot one at a time ([`Levels::step`]), so that whoever runs callbacks between two steps
//! may stop after any of them and find everything else still in place.
//!
//! # Ahead of time
//!
//! When time comes to a slot of an upper level, all its nodes have to be handed down before the first of them can
//! expire: with a million nodes a second, at a tick of 1 ms, 64,000 of them at a time. Whoever has time before that may
//! begin earlier ([`Levels::cascade_ahead`]), as soon as the slot is the next one of its level. Its deadlines are less than
//! two turns of the level below away by then, so for this purpose the rings are made of twice the window's slots
//! ([`Levels::new_ahead`]). A node is *inserted* by the rule above all the same.
//!
//! # Rejected
//!
//! - *Unaligned, per-node rounds* (the hashed wheel without a hierarchy): every turn of the ring looks
//!   again at each node that still has rounds to go.
//! - *Aligned windows* (Linux before 4.8, tokio): a level is used only up to its next boundary, so a near
//!   deadline just past one starts out at a coarse level and is handed down for nothing.
//! - *No cascades, coarser the farther* (Linux since 4.8): cheap, but a far deadline is late by up to
//!   an eighth of its delay.
//! - *A heap*: O(log n) to cancel, and cancelling is what timers are mostly for.
//! - *Keeping each slot's true minimum* for an exact next deadline: removal would have to search the slot
//!   for the next best, to save at most one early look a level.

use super::event::Event;
use super::expired_list::ExpiredList;
use super::level::Level;
use super::links::{Links, ListId, NIL, Nodes};
use crate::BuildError;

/// The most slots a level may have.
const MAX_SLOTS: usize = 1 << 24;

/// What one step of time did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// This node is due, or over, and no longer linked.
    Expired(u32),
    /// A node was placed anew, closer to its deadline.
    Cascaded,
    /// Nothing is left to do up to the target, and it is that time now.
    Done,
}

/// The levels and the present tick.
pub(crate) struct Levels {
    now: u64,
    /// One bit a level: whether any of its slots is occupied.
    occupied: u64,
    expired: ExpiredList,
    /// The first node of a slot that time has come to, and whose nodes are being taken out. They are told to be in the
    /// slot still, which gets no other before time has moved on.
    expiring: u32,
    /// The [next event](Self::search), or [`Event::UNKNOWN`].
    next: Event,
    levels: Vec<Level>,
    /// For each level: a deadline farther away than this many ticks is beyond the window wherever it begins.
    reaches: Vec<u64>,
}

impl Levels {
    /// Levels with these numbers of slots, finest first, and as many more of the last number as it
    /// takes to reach every `u64`. A level's slots are allocated when it is first used.
    pub(crate) fn new(start: u64, slots_per_level: &[usize]) -> Result<Levels, BuildError> {
        Self::with_rings(start, slots_per_level, 1)
    }

    /// The same, with rings twice as long, for [`cascade_ahead`](Self::cascade_ahead).
    pub(crate) fn new_ahead(start: u64, slots_per_level: &[usize]) -> Result<Levels, BuildError> {
        Self::with_rings(start, slots_per_level, 2)
    }

    fn with_rings(start: u64, slots_per_level: &[usize], turns: u64) -> Result<Levels, BuildError> {
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
            levels.push(Level::new(this, slots, turns * slots));
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

    /// Links a node by its deadline; one that has been reached joins the end of the due list.
    #[inline]
    pub(crate) fn insert(&mut self, nodes: &mut impl Nodes, id: u32) {
        let deadline = nodes.deadline(id);
        if deadline > self.now {
            self.link_by_deadline(nodes, id, deadline);
        } else {
            self.expired.push(nodes, id);
        }
    }

    /// Unlinks a node, which must be linked.
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
            None => self.expired.forget(links),
            Some(_) if links.prev != NIL => {}
            Some(_) if self.expiring == id => self.expiring = links.next,
            Some((level, slot)) if links.next == NIL => self.vacate(level, slot),
            Some((level, slot)) => self.levels[level].heads[slot] = links.next,
        }
    }

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

    /// Forgets every node, without touching them.
    pub(crate) fn clear(&mut self) {
        self.occupied = 0;
        self.expired = ExpiredList::EMPTY;
        self.expiring = NIL;
        self.next = Event::UNKNOWN;
        for level in &mut self.levels {
            level.occupancy.clear();
        }
    }

    /// Frees the slots of every level that has no node.
    pub(crate) fn shrink(&mut self) {
        self.levels.iter_mut().for_each(Level::shrink);
    }

    /// A tick no later than any deadline as it was when its node was placed: not after `now` if a node
    /// is due, later than it otherwise. O(levels).
    #[inline]
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        if self.expired.head != NIL || self.expiring != NIL {
            return Some(self.now);
        }
        self.next_event().map(|event| event.first)
    }

    /// Returns the least of the deadlines that `deadline` returns. It returns `None` for a node that does not count, and
    /// otherwise a tick that is not before the node's slot.
    ///
    /// The cost grows with the number of nodes in the slots that begin before the result.
    pub(crate) fn earliest(&self, nodes: &impl Nodes, deadline: impl Fn(u32) -> Option<u64>) -> Option<u64> {
        let linked = |id: u32| (id != NIL).then_some(id);
        let least =
            |head| std::iter::successors(linked(head), |&id| linked(nodes.links(id).next)).filter_map(&deadline).min();
        let mut earliest = [self.expired.head, self.expiring].into_iter().filter_map(least).min();
        let occupied = |level: &usize| self.occupied >> level & 1 != 0;
        for ring in (0..self.levels.len()).filter(occupied).map(|level| &self.levels[level]) {
            let (mut from, mut before) = (ring.slot(self.now), None);
            while let Some(slot) = ring.occupancy.next_from(from) {
                let first = ring.first_tick(slot, self.now);
                let is_round = before.is_some_and(|before| first <= before);
                if is_round || earliest.is_some_and(|earliest| first >= earliest) {
                    break;
                }
                earliest = earliest.into_iter().chain(least(ring.heads[slot])).min();
                (from, before) = (ring.slot_of(slot as u64 + 1), Some(first));
            }
        }
        earliest
    }

    /// The node that comes out or is handed down next.
    pub(crate) fn first(&self) -> Option<u32> {
        for head in [self.expired.head, self.expiring] {
            if head != NIL {
                return Some(head);
            }
        }
        self.next_event().map(|event| self.levels[event.level as usize].heads[event.slot as usize])
    }

    /// One step towards `target`, of bounded cost: O(levels). Deadlines come in order, but for the due
    /// list, which comes first. A target in the past stands for the present tick.
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
        if deadline > self.now && !nodes.is_over(id) {
            self.link_by_deadline(nodes, id, deadline);
            return Step::Cascaded;
        }
        nodes.set_links(id, Links::UNLINKED);
        Step::Expired(id)
    }

    /// Takes the first of the falling nodes out of their list, and leaves its own links as they are.
    #[inline]
    fn take_expiring(&mut self, nodes: &mut impl Nodes) -> u32 {
        let id = self.expiring;
        self.expiring = nodes.links(id).next;
        if self.expiring != NIL {
            nodes.change_links(self.expiring, |next| next.prev = NIL);
        }
        id
    }

    /// Hands a node down before its time, from the slot that time comes to next at its level. [Done](Step::Done) if
    /// there is none. O(levels).
    pub(crate) fn cascade_ahead(&mut self, nodes: &mut impl Nodes) -> Step {
        let Some(id) = self.upcoming() else { return Step::Done };
        self.remove(nodes, id);
        let deadline = nodes.deadline(id);
        if deadline <= self.now || nodes.is_over(id) {
            return Step::Expired(id);
        }
        let level = self.levels.iter().position(|level| level.holds(deadline, self.now));
        let level = level.expect("the last level holds all");
        self.link(nodes, id, level, self.levels[level].span.quotient(deadline));
        Step::Cascaded
    }

    /// The first node of a slot that time comes to next at its level.
    fn upcoming(&self) -> Option<u32> {
        let mut rest = self.occupied & !1;
        while rest != 0 {
            let level = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            let ring = &self.levels[level];
            let slot = ring.slot_of(ring.span.quotient(self.now) + 1);
            if ring.occupancy.contains(slot) {
                return Some(ring.heads[slot]);
            }
        }
        None
    }

    /// Lets time come to the next occupied slot up to `target`, and its nodes fall; false if there is none, and it is
    /// `target`.
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

    /// Level, first and last tick of the slot a node waits in; `None` if it waits in no slot.
    pub(crate) fn position(&self, links: Links) -> Option<(usize, u64, u64)> {
        let (level, slot) = links.list.slot()?;
        let ring = &self.levels[level];
        let first = ring.first_tick(slot, self.now);
        Some((level, first, first.saturating_add(ring.span.value() - 1)))
    }

    /// Links a node into a slot. Its deadline is later than now.
    #[inline]
    fn link_by_deadline(&mut self, nodes: &mut impl Nodes, id: u32, deadline: u64) {
        let delta = deadline - self.now;
        let mut level = self.reaches.iter().position(|&reach| delta <= reach).expect("the last level reaches all");
        let mut ring = &self.levels[level];
        let mut block = ring.span.quotient(deadline);
        // The window may end one slot before the deadline, as it begins before now. Then the deadline
        // lies in the second slot of the level above.
        if block - ring.span.quotient(self.now) >= ring.slots {
            level += 1;
            ring = &self.levels[level];
            block = ring.span.quotient(deadline);
        }
        self.link(nodes, id, level, block);
    }

    /// Links a node into the slot of a level that spans the `block`th of its spans.
    #[inline]
    fn link(&mut self, nodes: &mut impl Nodes, id: u32, level: usize, block: u64) {
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

    /// A slot with this first tick is not empty any more.
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

    /// The occupied slot with the earliest first tick, of several the one of the highest level: what is
    /// handed down to this very tick comes before what expires at it. Some slot must be occupied.
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
            // The events of all levels above come at first ticks of slots of the next level. One of them may be now.
            if let Some(above) = self.levels.get(level as usize + 1)
                && above.is_inside(self.now, earliest.first)
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

    /// Deadlines that may change behind the levels' back.
    struct Store(Vec<(u64, Links)>);

    /// The deadline of a node that is over.
    const OVER: u64 = u64::MAX - 1;

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

        fn is_over(&self, id: u32) -> bool {
            self.deadline(id) == OVER
        }
    }

    /// Levels of four slots at tick 0, with nodes of these deadlines inserted in order.
    fn inserted(deadlines: &[u64]) -> (Levels, Store) {
        let mut levels = Levels::new(0, &[4]).expect("a valid level");
        let mut store = Store::new(deadlines);
        for id in 0..deadlines.len() as u32 {
            levels.insert(&mut store, id);
        }
        (levels, store)
    }

    #[test]
    fn a_later_deadline_moves_the_node_when_its_slot_is_reached() {
        for placed in [0, 3, 8, 100] {
            let (mut levels, mut store) = inserted(&[placed]);
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
    fn an_earlier_deadline_expires_with_the_slot_the_node_waits_in() {
        let (mut levels, mut store) = inserted(&[9]);
        store.0[0].0 = 1;
        assert_eq!(levels.step(&mut store, 7), Step::Done);
        assert_eq!(levels.step(&mut store, 8), Step::Expired(0));
    }

    #[test]
    fn what_is_handed_down_comes_before_what_expires_at_the_same_tick() {
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
    fn an_emptied_slot_is_no_event_any_more() {
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
    fn the_most_levels_and_the_most_slots_fit_into_a_place() {
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
    fn a_node_that_is_over_comes_out_where_it_would_be_handed_down() {
        let (mut levels, mut store) = inserted(&[9, 10]);
        store.0[0].0 = OVER;
        assert_eq!(levels.step(&mut store, 8), Step::Cascaded);
        assert_eq!(levels.step(&mut store, 8), Step::Expired(0));
        assert_eq!((levels.step(&mut store, 8), levels.now()), (Step::Done, 8));
    }

    #[test]
    fn a_node_that_is_over_comes_out_ahead_of_time() {
        let mut levels = Levels::new_ahead(0, &[4]).expect("a valid level");
        let mut store = Store::new(&[5]);
        levels.insert(&mut store, 0);
        store.0[0].0 = OVER;
        assert_eq!(levels.cascade_ahead(&mut store), Step::Expired(0));
        assert_eq!(levels.cascade_ahead(&mut store), Step::Done);
    }

    #[test]
    fn a_slot_is_empty_before_time_comes_to_it() {
        let deadlines: Vec<u64> = (64..128).rev().collect();
        for now in 0..=63 {
            let mut levels = Levels::new_ahead(now, &[64]).expect("a valid level");
            let mut store = Store::new(&deadlines);
            let linked: Vec<u32> = (0..64).filter(|&id| deadlines[id as usize] > now + 63).collect();
            linked.iter().for_each(|&id| levels.insert(&mut store, id));
            let steps = (0..1000).take_while(|_| levels.cascade_ahead(&mut store) != Step::Done).count();
            assert!(steps <= linked.len(), "each is handed down once");
            for &id in &linked {
                let deadline = deadlines[id as usize];
                assert_eq!(levels.position(store.links(id)), Some((0, deadline, deadline)));
            }
        }
    }

    #[test]
    fn what_is_handed_down_ahead_expires_on_time() {
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

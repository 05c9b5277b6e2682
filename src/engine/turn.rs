//! The driver's half of a shard: the wheel, and the rounds in which the driver advances it.
//!
//! A *round* brings the wheel to one reading of the clock:
//!
//! 1. [`begin`](DriverCore::begin) takes the whole intake.
//! 2. [`advance_round`](DriverCore::advance_round), called until the round is over, links these entries into the wheel.
//!    Then it steps the wheel to the tick that the clock said, and collects the expired entries.
//! 3. After the round, [`cascade_ahead`](DriverCore::cascade_ahead) and [`reclaim`](DriverCore::reclaim) do work that
//!    is not urgent. If no such work is left ([`has_work`](DriverCore::has_work)) and the intake is empty, the driver
//!    sleeps until [`next_round`](DriverCore::next_round).
//!
//! # Order
//!
//! The wheel steps only when everything that was enqueued before the round is linked. So timers leave in the order of
//! their ticks, also after a stall: no timer stays in the intake while one of a later tick is dispatched.
//!
//! # Bounds
//!
//! Each call makes a bounded turn, and what has expired leaves the driver before the next turn. The one exception is
//! `begin`, which passes once over all entries of the intake to reverse them into the order of their pushes. A bound on
//! this pass would gain nothing, as no timer can be dispatched before the last of these entries is linked.

use super::core::Core;
use super::entry::{ARMED, DISPATCHED, ENQUEUED, LINKED};
use super::expired_entries::{ExpiredEntries, MAX_EXPIRED};
use super::memory::{Cache, Slab};
use super::stack::{NIL, chain, reverse};
use super::trim::Trim;
use crate::sync::limit;
use crate::wheel::{Levels, Links, Nodes, Step};

/// Maximum number of entries that a turn links: some 20 µs.
const MAX_COLLECTED: usize = limit(512);
/// Maximum number of steps of the wheel in a turn: some 50 µs.
const MAX_STEPS: usize = limit(1024);
/// Maximum number of entries that a turn cascades ahead of time: some 50 µs, as each is a cache miss.
const MAX_CASCADED_AHEAD: usize = limit(256);

/// What the driver alone touches of a shard.
pub(crate) struct DriverCore {
    levels: Levels,
    /// The tick to which this round brings the wheel.
    pub(crate) now: u64,
    /// The first of the chain of entries that were taken from the intake and are not linked yet, or `NIL`.
    backlog: u32,
    /// The driver's own cache.
    free_entries: Cache,
    trim: Trim,
    /// A trim has ended since the wheel's slots were freed.
    has_trimmed: bool,
}

impl DriverCore {
    pub(crate) fn new(levels: Levels) -> Self {
        let now = levels.now();
        Self { now, levels, backlog: NIL, free_entries: Cache::new(), trim: Trim::default(), has_trimmed: false }
    }

    /// Begins a round to the tick that `now` returns. The round before must be over. A timer that was enqueued before this
    /// call expires in this round if its deadline is not after that tick.
    pub(crate) fn begin(&mut self, core: &Core, now: impl FnOnce() -> u64) {
        self.backlog = reverse(core.intake.take_all(), |index| &core.slab.get(index).next_in_intake);
        // Afterwards, so that what was due when it was pushed is due now.
        self.now = self.now.max(now());
        if self.backlog != NIL {
            self.trim.intake_collected();
        }
    }

    /// Makes a bounded turn. Appends expired entries to `due`, which has fewer than [`MAX_EXPIRED`]. Returns whether the
    /// round is over.
    pub(crate) fn advance_round(&mut self, core: &Core, due: &mut ExpiredEntries) -> bool {
        self.collect(core) && self.advance_wheel(core, due)
    }

    /// Returns the tick of the next round: no later than the first deadline. `u64::MAX` if the wheel is empty.
    pub(crate) fn next_round(&self) -> u64 {
        self.levels.next_visit().unwrap_or(u64::MAX)
    }

    /// Cascades entries ahead of time, in a bounded turn. Returns whether more are left, or an entry was appended to
    /// `due`.
    ///
    /// When a slot of an upper level expires, all its entries cascade before the first of them can run. Those that
    /// cascaded ahead of time shorten this delay.
    ///
    /// On its way it unlinks entries that are disarmed. One that is armed again at that moment is not due, because its
    /// new deadline is not before the tick by which it was linked, which is ahead.
    pub(crate) fn cascade_ahead(&mut self, core: &Core, due: &mut ExpiredEntries) -> bool {
        for _ in 0..MAX_CASCADED_AHEAD {
            match self.levels.cascade_ahead(&mut Entries::new(&core.slab, self.now, &self.levels)) {
                Step::Cascaded => {}
                Step::Unlinked(index) => self.expire(core, index, due),
                Step::Done => return !due.is_empty(),
            }
        }
        true
    }

    /// Returns whether there is anything to cascade ahead of time, or to trim.
    pub(crate) fn has_work(&self, core: &Core) -> bool {
        self.levels.upcoming().is_some() || self.trim.has_work(core) || self.has_surplus_slots()
    }

    /// Returns whether the wheel has become empty since a trim.
    fn has_surplus_slots(&self) -> bool {
        self.has_trimmed && self.levels.next_deadline().is_none()
    }

    /// Moves the driver's cache to the depot, and trims memory, in a bounded turn. Frees the slots of a wheel that has
    /// become empty since a trim. Must be called before the driver sleeps. Returns whether more is left to trim.
    pub(crate) fn reclaim(&mut self, core: &Core) -> bool {
        self.drain_cache(core);
        let trims = self.trim.is_active();
        let more = self.trim.turn(core, &mut self.free_entries, |index| {
            let linked = core.slab.get(index).reclaim();
            if linked == Some(true) {
                self.levels.remove(&mut Entries::new(&core.slab, self.now, &self.levels), index);
            }
            linked.is_some()
        });
        self.has_trimmed |= trims && !more;
        if self.has_surplus_slots() {
            self.levels.shrink();
            self.has_trimmed = false;
        }
        more
    }

    /// Moves the driver's cache to the depot.
    pub(crate) fn drain_cache(&mut self, core: &Core) {
        core.drain_cache(&mut self.free_entries);
    }

    /// Links entries of the backlog. Returns whether none are left.
    fn collect(&mut self, core: &Core) -> bool {
        let mut entries = chain(self.backlog, |index| &core.slab.get(index).next_in_intake);
        for _ in 0..MAX_COLLECTED {
            let Some(index) = entries.next() else { break };
            self.link(core, index);
        }
        self.backlog = entries.next().unwrap_or(NIL);
        self.backlog == NIL
    }

    /// Links an entry by its current deadline. If it is disarmed, unlinks it instead.
    fn link(&mut self, core: &Core, index: u32) {
        let (before, after) = core.slab.get(index).collect(self.now, self.levels.now());
        let mut nodes = Entries::new(&core.slab, self.now, &self.levels);
        if before.has(LINKED) {
            self.levels.remove(&mut nodes, index);
        }
        if after.has(LINKED) {
            let deadline = nodes.deadline(index);
            self.levels.insert(&mut nodes, index, deadline);
        } else if after.is_free() {
            core.recycle(&mut self.free_entries, index);
        }
    }

    /// Steps the wheel towards the tick of this round. Returns whether the wheel has reached it.
    fn advance_wheel(&mut self, core: &Core, due: &mut ExpiredEntries) -> bool {
        for _ in 0..MAX_STEPS {
            if due.len() == MAX_EXPIRED {
                return false;
            }
            let mut nodes = Entries::new(&core.slab, self.now, &self.levels);
            let index = match self.levels.step(&mut nodes, self.now) {
                Step::Cascaded => continue,
                Step::Unlinked(index) => index,
                // The driver unlinks a disarmed entry that comes next, so as not to wake for it later.
                Step::Done => match self.levels.first().filter(|&index| nodes.is_disarmed(index)) {
                    Some(index) => {
                        self.levels.remove(&mut nodes, index);
                        index
                    }
                    None => return true,
                },
            };
            self.expire(core, index, due);
        }
        false
    }

    /// Makes the transition of an entry that the wheel has unlinked. Appends the entry to `due` if it is dispatched.
    fn expire(&mut self, core: &Core, index: u32, due: &mut ExpiredEntries) {
        let (before, after) = core.slab.get(index).expire(self.levels.now());
        if after.has(DISPATCHED) {
            due.push(after.kind(), index, self.now);
        } else if after.has(ENQUEUED) && !before.has(ENQUEUED) {
            self.link(core, index);
        } else if after.is_free() {
            core.recycle(&mut self.free_entries, index);
        }
    }
}

/// The entries, as the nodes of the wheel.
struct Entries<'a> {
    slab: &'a Slab,
    now: u64,
    /// The current tick of the wheel.
    wheel: u64,
}

impl<'a> Entries<'a> {
    fn new(slab: &'a Slab, now: u64, levels: &Levels) -> Self {
        Self { slab, now, wheel: levels.now() }
    }
}

impl Nodes for Entries<'_> {
    /// Returns the tick by which the driver has linked the entry, not its current deadline. A thread that re-arms the
    /// entry in place relies on the driver to come by that tick.
    #[inline]
    fn deadline(&self, id: u32) -> u64 {
        let entry = self.slab.get(id);
        entry.registered_tick(self.wheel).unwrap_or_else(|| entry.state().deadline(self.now))
    }

    #[inline]
    fn links(&self, id: u32) -> Links {
        self.slab.get(id).links()
    }

    #[inline]
    fn change_links(&mut self, id: u32, change: impl FnOnce(&mut Links)) {
        self.slab.get(id).change_links(change);
    }

    #[inline]
    fn is_disarmed(&self, id: u32) -> bool {
        !self.slab.get(id).state().has(ARMED)
    }
}

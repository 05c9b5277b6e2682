//! The driver's own half of a shard: the wheel, and what it does with it in a round.
//!
//! A round begins with a look at the clock, and then takes all that has come in. When that is in the wheel, time is
//! stepped to what the clock said, tick by tick. So timers leave in the order of their ticks, also after a stall: nothing
//! that was accepted before the round began is left behind in the intake while a later one goes out.
//!
//! A round begins with one pass over all that has come in, which brings it into the order of its pushes. Nothing could be
//! handed over before the last of it is in the wheel, so to bound this pass would gain nothing. The rest is made in bounded
//! turns: some entries are collected, or some steps are made and a batch is filled, which the driver hands over before the
//! next turn.

use super::core::Core;
use super::entry::{Collect, Expire};
use super::intake::chain;
use super::memory::{Cache, NIL, Slab};
use super::trim::Trim;
use crate::sync::limit;
use crate::wheel::{Levels, Links, Nodes, Step};

/// The most entries collected from the intake in a turn: some 20 µs.
const MAX_COLLECTED: usize = limit(512);
/// The most steps of the wheel in a turn: some 50 µs.
const MAX_STEPS: usize = limit(1024);
/// The most timers handed down ahead of time in a turn: some 50 µs, as each lies elsewhere in memory.
const MAX_CASCADED_AHEAD: usize = limit(256);
/// The most timers in a batch.
const MAX_BATCH: usize = limit(256);

pub(crate) struct DriverCore {
    levels: Levels,
    /// The tick to which this round goes.
    now: u64,
    /// The first of a chain of entries taken from the intake and not looked at yet.
    backlog: u32,
    free_entries: Cache,
    trim: Trim,
}

impl DriverCore {
    pub(crate) fn new(levels: Levels) -> Self {
        Self { now: levels.now(), levels, backlog: NIL, free_entries: Cache::new(), trim: Trim::new() }
    }

    /// Begins a round, when the one before is over: it is `now`. A deadline by then is met in this round if its timer
    /// was sent before this call.
    pub(crate) fn begin(&mut self, core: &Core, now: u64) {
        self.now = now;
        self.backlog = core.intake.take_all(&core.slab);
        if self.backlog != NIL {
            self.trim.collected();
        }
    }

    /// Makes a bounded turn, and returns whether the round is over. Fills `due`, which comes empty.
    pub(crate) fn turn(&mut self, core: &Core, due: &mut Vec<u32>) -> bool {
        self.collect(core) && self.step(core, due)
    }

    /// The tick at which to look again: that of the first deadline, or an earlier one. `u64::MAX` without any.
    pub(crate) fn next_deadline(&self) -> u64 {
        self.levels.next_deadline().unwrap_or(u64::MAX)
    }

    /// Returns the earliest deadline of a pending timer in the wheel. After a round that is exact. Not bounded: looks at all
    /// timers in the slots that begin before that deadline.
    pub(crate) fn earliest_deadline(&self, core: &Core) -> Option<u64> {
        let nodes = Entries::new(&core.slab, self.now, &self.levels);
        self.levels.earliest(&nodes, |index| core.slab.get(index).pending_deadline(self.now))
    }

    /// Does what is not urgent, in a bounded turn: hands timers down ahead of time. Returns whether more is left.
    ///
    /// When time comes to a slot of an upper level, all that is in it has to be handed down before the first of it can
    /// run. What was done before makes that short.
    pub(crate) fn cascade_ahead(&mut self, core: &Core) -> bool {
        for _ in 0..MAX_CASCADED_AHEAD {
            match self.levels.cascade_ahead(&mut Entries::new(&core.slab, self.now, &self.levels)) {
                Step::Cascaded => {}
                Step::Expired(index) => {
                    let due = self.expire(core, index);
                    debug_assert!(due.is_none(), "whoever arms an entry ahead of its slot is due after it");
                }
                Step::Done => return false,
            }
        }
        true
    }

    /// Whether the driver may sleep until [the next deadline](Self::next_deadline): nothing has come in, and no memory is
    /// to be given back.
    pub(crate) fn is_idle(&self, core: &Core) -> bool {
        core.intake_is_empty() && !self.trim.is_due(core)
    }

    /// Gives the free entries that the driver has to the threads, or to the system, in a bounded turn. To be called
    /// before it sleeps. Returns whether it should rather be called again.
    pub(crate) fn reclaim(&mut self, core: &Core) -> bool {
        self.give_back(core);
        let (levels, now) = (&mut self.levels, self.now);
        self.trim.turn(core, |index| {
            let linked = core.slab.get(index).reclaim();
            if linked == Some(true) {
                levels.remove(&mut Entries::new(&core.slab, now, levels), index);
            }
            linked.is_some()
        })
    }

    /// Gives the free entries that the driver has to the threads.
    pub(crate) fn give_back(&mut self, core: &Core) {
        core.give_back(&mut self.free_entries);
    }

    /// Whether memory is to be given back to the system.
    pub(crate) fn has_memory(&self, core: &Core) -> bool {
        self.trim.is_due(core)
    }

    /// Collects from the backlog, and returns whether nothing is left of it.
    fn collect(&mut self, core: &Core) -> bool {
        let mut entries = chain(&core.slab, self.backlog);
        for _ in 0..MAX_COLLECTED {
            let Some(index) = entries.next() else { break };
            self.link(core, index);
        }
        self.backlog = entries.next().unwrap_or(NIL);
        self.backlog == NIL
    }

    /// Links an entry into the wheel by its present deadline, or unlinks it if it is disarmed.
    fn link(&mut self, core: &Core, index: u32) {
        let outcome = core.slab.get(index).collect(self.now, self.levels.now());
        let (Collect::Link { linked } | Collect::Over { linked, .. }) = outcome;
        let mut nodes = Entries::new(&core.slab, self.now, &self.levels);
        if linked {
            self.levels.remove(&mut nodes, index);
        }
        match outcome {
            Collect::Link { .. } => self.levels.insert(&mut nodes, index),
            Collect::Over { free: true, .. } => core.recycle(&mut self.free_entries, index),
            Collect::Over { free: false, .. } => {}
        }
    }

    /// Steps towards the tick of this round, and returns whether it got there.
    fn step(&mut self, core: &Core, due: &mut Vec<u32>) -> bool {
        for _ in 0..MAX_STEPS {
            if due.len() == MAX_BATCH {
                return false;
            }
            let mut nodes = Entries::new(&core.slab, self.now, &self.levels);
            let index = match self.levels.step(&mut nodes, self.now) {
                Step::Cascaded => continue,
                Step::Expired(index) => index,
                Step::Done => match self.first_disarmed(core) {
                    Some(index) => {
                        self.levels.remove(&mut nodes, index);
                        index
                    }
                    None => return true,
                },
            };
            due.extend(self.expire(core, index));
        }
        false
    }

    /// Looks at an entry that has come out of the wheel, and returns it if it is due.
    fn expire(&mut self, core: &Core, index: u32) -> Option<u32> {
        match core.slab.get(index).expire(self.levels.now()) {
            Expire::Dispatch => return Some(index),
            Expire::Later => self.link(core, index),
            Expire::Over { free: true } => core.recycle(&mut self.free_entries, index),
            Expire::Enqueued | Expire::Over { free: false } => {}
        }
        None
    }

    /// The first entry in the wheel, if it was cancelled: the driver does not sleep until what nobody waits for.
    fn first_disarmed(&self, core: &Core) -> Option<u32> {
        self.levels.first().filter(|&index| !core.slab.get(index).is_armed())
    }
}

/// The wheel's view of the entries.
struct Entries<'a> {
    slab: &'a Slab,
    now: u64,
    /// The tick that the wheel has come to.
    wheel: u64,
}

impl<'a> Entries<'a> {
    fn new(slab: &'a Slab, now: u64, levels: &Levels) -> Self {
        Self { slab, now, wheel: levels.now() }
    }
}

impl Nodes for Entries<'_> {
    /// The deadline by which the driver has placed the entry, not the one that it has by now: who arms a cached entry
    /// counts on the driver to come by then.
    #[inline]
    fn deadline(&self, id: u32) -> u64 {
        let entry = self.slab.get(id);
        entry.registered_tick(self.wheel).unwrap_or_else(|| entry.deadline(self.now))
    }

    #[inline]
    fn links(&self, id: u32) -> Links {
        self.slab.get(id).links()
    }

    #[inline]
    fn set_links(&mut self, id: u32, links: Links) {
        self.slab.get(id).set_links(links);
    }

    #[inline]
    fn change_links(&mut self, id: u32, change: impl FnOnce(&mut Links)) {
        self.slab.get(id).change_links(change);
    }

    #[inline]
    fn is_over(&self, id: u32) -> bool {
        !self.slab.get(id).is_armed()
    }
}

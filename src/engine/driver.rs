//! `ShardDriver`: turns the wheel of a shard.
//!
//! A timer comes here from the intake, waits in the wheel, and leaves when it is due. A `ShardDriver` is a plain value
//! that lies in its shard's [seat](super::seat). Any thread that takes the seat makes a turn:
//!
//! | turn               | the driver                              | then                          |
//! |--------------------|-----------------------------------------|-------------------------------|
//! | first of a round   | takes the intake, and reads the clock   | makes the turn                |
//! | of a round         | links what came in, and steps the wheel | the timers that expired leave |
//! | of chores          | cascades ahead, trims memory            | begins a round, or sleeps     |
//!
//! A *round* is one reading of the clock and the turns after it: it handles all that has expired by then. At its end the
//! shard sleeps until its next deadline, and the thread turns to other shards. If none is due, it comes back for the
//! chores.
//!
//! # Order
//!
//! The wheel steps only when everything that was enqueued before the round is linked. So timers leave in the order of
//! their ticks, also after a stall: no timer stays in the intake while one of a later tick is dispatched.
//!
//! # Bounds
//!
//! Each turn is bounded to some 50 µs, and expired timers go out after each. So many timers that are due do not delay the
//! first of them. The one exception is the begin of a round, which passes once over all entries of the intake to reverse
//! them into the order of their pushes. A bound on this pass would gain nothing, as no timer can be dispatched before the
//! last of these entries is linked. And the list of a slot may grow, which copies it: with 10^6 timers in one slot, this
//! once takes 0.4 ms.
//!
//! # Panics
//!
//! A panic of the driver is a defect of the crate, as no turn runs foreign code. The wheel may then be broken, so the
//! shard is [closed](crate::shard), and the panic is reported. Other shards go on.

use super::core::Core;
use super::entry::{ARMED, CallbackKind, DISPATCHED, ENQUEUED, LINKED};
use super::memory::{Cache, Slab};
use super::stack::{NIL, chain, reverse};
use super::trim::Trim;
use crate::sync::limit;
use crate::wheel::{Levels, Nodes, Place, Step};

/// Maximum number of entries that a turn links: some 20 µs.
const MAX_COLLECTED: usize = limit(512);
/// Maximum number of steps of the wheel in a turn: some 50 µs.
const MAX_STEPS: usize = limit(1024);
/// Maximum number of entries that a turn cascades ahead of time: some 50 µs, as each is a cache miss.
const MAX_CASCADED_AHEAD: usize = limit(256);
/// Maximum number of entries that expire in a turn.
const MAX_EXPIRED: usize = limit(256);

/// The driver of one shard: what it alone touches.
pub(crate) struct ShardDriver {
    levels: Levels,
    /// The tick to which this round brings the wheel.
    pub(crate) now: u64,
    /// A round has begun and is not over.
    pub(crate) in_round: bool,
    /// The shard sleeps, and chores are left.
    pub(crate) has_chores: bool,
    /// The first of the chain of entries that were taken from the intake and are not linked yet, or `NIL`.
    backlog: u32,
    /// Timers that have left the wheel, and have not left the driver.
    pub(crate) expired: ExpiredEntries,
    /// The driver's own cache.
    free_entries: Cache,
    trim: Trim,
    /// A trim has ended since the wheel's slots were freed.
    has_trimmed: bool,
}

/// The entries that have expired in a turn, of each kind, in the order of their deadlines. A hand-out empties the lists,
/// which keep their memory: a kilobyte each at most.
#[derive(Default)]
pub(crate) struct ExpiredEntries {
    /// The tick at which they expired.
    pub(crate) tick: u64,
    /// The executor runs these.
    pub(crate) callbacks: Vec<u32>,
    pub(crate) wakers: Vec<u32>,
    pub(crate) values: Vec<u32>,
}

impl ShardDriver {
    pub(crate) fn new(levels: Levels) -> Self {
        Self {
            now: levels.now(),
            levels,
            in_round: false,
            has_chores: false,
            backlog: NIL,
            expired: ExpiredEntries::default(),
            free_entries: Cache::new(),
            trim: Trim::default(),
            has_trimmed: false,
        }
    }

    /// Makes a bounded turn: of a round to the tick that `now` returns, or of chores if nothing `is_due`. Then lets
    /// the shard sleep, unless there is more to do.
    pub(crate) fn turn(&mut self, core: &Core, is_due: bool, now: impl FnOnce() -> u64) {
        if is_due && !self.in_round {
            core.wakeup.begin_to_present();
        }
        let again = if is_due {
            self.advance_round(core, now);
            false
        } else {
            self.do_chores(core)
        };
        self.rest(core, again);
    }

    /// Links what has come in, and does a piece of the chores. What is due by the tick `due` stays here until the next
    /// turn of a round, and keeps the shard awake.
    pub(crate) fn take_in(&mut self, core: &Core, due: u64) {
        self.advance_round(core, || due);
        self.has_chores = false;
        if !self.in_round && !self.do_chores(core) && self.expired.is_empty() {
            self.rest(core, false);
        }
    }

    /// Makes a bounded turn of a round to the tick that `now` returns, or of the round that has begun. No more than
    /// [`MAX_EXPIRED`] entries have expired afterwards.
    pub(crate) fn advance_round(&mut self, core: &Core, now: impl FnOnce() -> u64) {
        if !self.in_round {
            self.begin(core, now);
        }
        self.in_round = !(self.link_backlog(core) && self.advance_wheel(core));
    }

    /// Begins a round. A timer that was enqueued before this call expires in this round if its deadline is not after that
    /// tick.
    fn begin(&mut self, core: &Core, now: impl FnOnce() -> u64) {
        self.backlog = reverse(core.intake.take_all(), |index| &core.slab.get(index).next_in_intake);
        // Afterwards, so that what was due when it was pushed is due now.
        self.now = self.now.max(now());
        if self.backlog != NIL {
            self.trim.intake_collected();
        }
    }

    /// Links entries of the backlog. Returns whether none are left.
    fn link_backlog(&mut self, core: &Core) -> bool {
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
    fn advance_wheel(&mut self, core: &Core) -> bool {
        for _ in 0..MAX_STEPS {
            if self.expired.len() == MAX_EXPIRED {
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
            self.expire(core, index);
        }
        false
    }

    /// Makes the transition of an entry that the wheel has unlinked. Keeps it with what has expired if it is dispatched.
    fn expire(&mut self, core: &Core, index: u32) {
        let (before, after) = core.slab.get(index).expire(self.levels.now());
        if after.has(DISPATCHED) {
            self.expired.push(after.kind(), index, self.now);
        } else if after.has(ENQUEUED) && !before.has(ENQUEUED) {
            self.link(core, index);
        } else if after.is_free() {
            core.recycle(&mut self.free_entries, index);
        }
    }

    /// Does a bounded piece of the chores: what is not urgent. Returns whether more are left.
    fn do_chores(&mut self, core: &Core) -> bool {
        self.cascade_ahead(core) || self.reclaim(core)
    }

    /// Cascades entries ahead of time, in a bounded turn. Returns whether more are left, or an entry has expired.
    ///
    /// When a slot of an upper level expires, all its entries cascade before the first of them can run. Those that
    /// cascaded ahead of time shorten this delay.
    ///
    /// On its way it unlinks entries that are disarmed. One that is armed again at that moment is not due, because its
    /// new deadline is not before the tick by which it was linked, which is ahead.
    pub(crate) fn cascade_ahead(&mut self, core: &Core) -> bool {
        for _ in 0..MAX_CASCADED_AHEAD {
            match self.levels.cascade_ahead(&mut Entries::new(&core.slab, self.now, &self.levels)) {
                Step::Cascaded => {}
                Step::Unlinked(index) => self.expire(core, index),
                Step::Done => return !self.expired.is_empty(),
            }
        }
        true
    }

    /// Moves the driver's cache to the depot, and trims memory, in a bounded turn. Frees the slots of a wheel that has
    /// become empty since a trim. Returns whether more is left to trim.
    pub(crate) fn reclaim(&mut self, core: &Core) -> bool {
        core.drain_cache(&mut self.free_entries);
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

    /// Returns whether there is anything to cascade ahead of time, or to trim.
    pub(crate) fn has_chores(&self, core: &Core) -> bool {
        self.levels.has_upcoming() || self.trim.has_chores(core) || self.has_surplus_slots()
    }

    /// Returns whether the wheel has become empty since a trim.
    fn has_surplus_slots(&self) -> bool {
        self.has_trimmed && self.levels.next_deadline().is_none()
    }

    /// Lets the shard sleep, unless the round goes on, or something has come in. Before that, moves the driver's cache to the
    /// depot. `again`: the last turn has left chores.
    fn rest(&mut self, core: &Core, again: bool) {
        self.has_chores = false;
        if self.in_round {
            return;
        }
        core.drain_cache(&mut self.free_entries);
        let has_chores = again || self.has_chores(core);
        let has_new_chores = || !has_chores && self.has_chores(core);
        let is_idle = || core.intake.is_empty() && !core.is_closing() && !has_new_chores();
        self.has_chores = core.wakeup.fall_asleep(self.now, self.next_round(), is_idle) && has_chores;
    }

    /// Returns the tick of the next round: no later than the first deadline. `u64::MAX` if the wheel is empty.
    pub(crate) fn next_round(&self) -> u64 {
        self.levels.next_visit().unwrap_or(u64::MAX)
    }
}

impl ExpiredEntries {
    /// Adds an entry whose callback has this kind, at the tick of the round.
    fn push(&mut self, kind: CallbackKind, index: u32, tick: u64) {
        self.tick = tick;
        let list = match kind {
            CallbackKind::Once | CallbackKind::Periodic => &mut self.callbacks,
            CallbackKind::Waker => &mut self.wakers,
            CallbackKind::Value => &mut self.values,
        };
        list.push(index);
    }

    pub(crate) fn len(&self) -> usize {
        self.callbacks.len() + self.wakers.len() + self.values.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all entries, of whatever kind.
    pub(crate) fn into_all(self) -> impl Iterator<Item = u32> {
        self.callbacks.into_iter().chain(self.wakers).chain(self.values)
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
    fn place(&self, id: u32) -> Place {
        self.slab.get(id).place()
    }

    #[inline]
    fn set_place(&mut self, id: u32, place: Place) {
        self.slab.get(id).set_place(place);
    }

    #[inline]
    fn fetch(&self, id: u32) {
        self.slab.get(id).prefetch();
    }

    #[inline]
    fn is_disarmed(&self, id: u32) -> bool {
        !self.slab.get(id).state().has(ARMED)
    }
}

#[cfg(all(test, not(loom)))]
#[path = "driver_tests.rs"]
mod tests;

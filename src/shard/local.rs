//! What a thread keeps for each shard it uses: its counters, and a few free entries.
//!
//! A thread finds its part of the shard that it used last by one comparison, and any other in a small hash table, in
//! constant time. Neither keeps a shard alive: the thread forgets a shard that is gone when it next meets a new one, or
//! ends. While a thread is in a call of a [`Timer`](crate::Timer) or of a handle, that keeps the shard alive.

use std::cell::{Cell, RefCell, UnsafeCell};
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::sync::{Arc, Weak};

use super::Shard;
use super::memory::Cache;
use super::registry::Registered;
use crate::stats::{Count, Record};

/// No shard's and no service's id.
const NONE: u64 = 0;

/// A thread's own part of a shard.
pub(crate) struct Local {
    shard: Weak<Shard>,
    /// Kept alive from here, as a thread counts the end of the handle that has kept the shard.
    counters: Arc<Registered>,
    /// Of a part for one call only: the shard, which the call may release. Other threads count on the same record then.
    passing: Option<Arc<Shard>>,
    pub(crate) cache: Cache,
}

thread_local! {
    static LOCALS: Locals = const { Locals(RefCell::new(Parts { all: Vec::new(), table: Vec::new() })) };
    /// The part used last, which most of the time is the one used next. Null, or one of `LOCALS`.
    static LAST: Cell<*const Part> = const { Cell::new(ptr::null()) };
}

struct Locals(RefCell<Parts>);

struct Part {
    /// The shard's.
    id: u64,
    /// The service whose timers this thread schedules here, or `NONE`.
    home_of: Cell<u64>,
    /// A call uses `local`.
    busy: Cell<bool>,
    local: UnsafeCell<Local>,
}

/// A part in use: nothing else touches its `local` while this lives.
///
/// It is one pointer, also where it had to be searched for, and no closure is passed to that search. So all that the
/// caller has stays in registers.
struct Using(NonNull<Part>);

impl Part {
    fn new(id: u64, local: Local) -> Self {
        Self { id, home_of: Cell::new(NONE), busy: Cell::new(false), local: UnsafeCell::new(local) }
    }

    /// Uses the part, unless it is in use further down the stack.
    ///
    /// # Safety
    /// The part must not be dropped or moved while what is returned lives.
    #[inline(always)]
    unsafe fn enter(&self) -> Option<Using> {
        (!self.busy.replace(true)).then(|| Using(NonNull::from(self)))
    }
}

impl Deref for Using {
    type Target = Local;

    #[inline(always)]
    fn deref(&self) -> &Local {
        // SAFETY: the part lives, by the contract of `enter`, and `busy` keeps others from its `local`.
        unsafe { &*self.0.as_ref().local.get() }
    }
}

impl DerefMut for Using {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Local {
        // SAFETY: as above.
        unsafe { &mut *self.0.as_ref().local.get() }
    }
}

impl Drop for Using {
    #[inline(always)]
    fn drop(&mut self) {
        if self.passing.is_some() {
            return end_passing(self.0);
        }
        // SAFETY: the part lives, by the contract of `enter`.
        unsafe { self.0.as_ref() }.busy.set(false);
    }
}

/// The parts of one thread.
struct Parts {
    /// Boxed, as `LAST` and the table point to them while others come and go.
    #[expect(clippy::vec_box, reason = "as above")]
    all: Vec<Box<Part>>,
    /// The same by the id of the shard, and where it is the thread's home, by that of the service: a hash table with
    /// linear probing. It has no slot, or a power of two, of which at most half are taken. Ids are numbered on, so the
    /// shards of a service do not collide.
    table: Vec<Slot>,
}

#[derive(Clone, Copy)]
struct Slot {
    id: u64,
    /// `None`: the slot is empty.
    part: Option<NonNull<Part>>,
}

impl Local {
    /// Counts one of what `which` names.
    #[inline(always)]
    pub(crate) fn count(&self, which: impl FnOnce(&Record) -> &Count) {
        self.count_more(which, 1);
    }

    #[inline(always)]
    pub(crate) fn count_more(&self, which: impl FnOnce(&Record) -> &Count, more: u64) {
        which(&self.counters.record).add(more, self.passing.is_some());
    }

    #[inline]
    pub(crate) fn late(&self, lateness: std::time::Duration) {
        self.counters.record.late(lateness, self.passing.is_some());
    }

    /// The shard, which lives as long as the caller's timer or handle does.
    #[inline]
    pub(crate) fn shard(&self) -> NonNull<Shard> {
        NonNull::new(self.shard.as_ptr().cast_mut()).expect("a pointer into an allocation")
    }

    /// Keeps a free entry for the next timer, or sets it aside. Unlike all else here, it may be called when nothing keeps
    /// the shard any more: then the entry is gone with it.
    #[inline]
    pub(crate) fn keep(&mut self, index: u32, aside: bool) {
        if aside {
            return self.set_aside(index);
        }
        let shard = &self.shard;
        self.cache.push(index, |batch| give_if_there(shard, batch));
    }

    #[cold]
    fn set_aside(&self, index: u32) {
        if let Some(shard) = self.shard.upgrade() {
            // SAFETY: it is this thread's to keep.
            unsafe { shard.core.set_aside(index) };
        }
    }

    /// Whether this is a part for one call only, of a thread that is ending.
    #[inline]
    pub(crate) fn is_in_passing(&self) -> bool {
        self.passing.is_some()
    }

    fn new(shard: &Shard) -> Self {
        Self { shard: shard.this.clone(), counters: shard.registry.register(), passing: None, cache: Cache::new() }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let local = self.local.get_mut();
        if let Some(shard) = local.passing.take() {
            shard.core.give_back(&mut local.cache);
        } else if let Some(shard) = local.shard.upgrade() {
            shard.core.give_back(&mut local.cache);
            if self.home_of.get() != NONE {
                shard.leave_home();
            }
            // SAFETY: this shard registered them, and a part is dropped once.
            if unsafe { shard.registry.unregister(&local.counters) } {
                shard.core.ring_lazily();
            }
        }
    }
}

fn give_if_there(shard: &Weak<Shard>, batch: &[u32]) {
    if let Some(shard) = shard.upgrade() {
        shard.core.give(batch);
    }
}

/// Gives `f` the calling thread's part of `shard`. `f` must not call foreign code.
#[inline(always)]
pub(crate) fn with<R>(shard: &Shard, f: impl FnOnce(&mut Local) -> R) -> R {
    f(&mut find(|part| part.id == shard.id, shard.id, || (shard, NONE)))
}

/// The same for an `f` that may release what keeps the shard. No reference to it is held meanwhile, as one that is passed
/// to a function promises that it is valid for as long as that runs.
///
/// # Safety
/// The shard must be valid until `f` releases what keeps it.
#[inline(always)]
pub(crate) unsafe fn with_leased<R>(shard: NonNull<Shard>, f: impl FnOnce(&mut Local) -> R) -> R {
    // SAFETY: by this function's contract, as `f` comes after.
    let id = unsafe { (*shard.as_ptr()).id };
    // SAFETY: as above.
    f(&mut find(|part| part.id == id, id, || (unsafe { shard.as_ref() }, NONE)))
}

/// Gives `f` the calling thread's part of the shard in which it schedules timers of `service`. The first time, `choose`
/// [chooses](Shard::choose_home) which that is. `f` must not call foreign code.
#[inline(always)]
pub(crate) fn with_home<'a, R>(service: u64, choose: impl FnOnce() -> &'a Shard, f: impl FnOnce(&mut Local) -> R) -> R {
    f(&mut find(|part| part.home_of.get() == service, service, || (choose(), service)))
}

/// The shard with this id, if the calling thread has used it, and it is still there.
#[cold]
pub(crate) fn shard(id: u64) -> Option<Arc<Shard>> {
    LOCALS.try_with(|locals| locals.find(id)).ok().flatten()?.shard.upgrade()
}

#[inline(always)]
fn find<'a>(matches: impl Fn(&Part) -> bool, id: u64, choose: impl FnOnce() -> (&'a Shard, u64)) -> Using {
    // SAFETY: a part is dropped only when this has been cleared, and only when it is not in use.
    if let Some(last) = unsafe { LAST.get().as_ref() }
        && matches(last)
        // SAFETY: as above.
        && let Some(using) = unsafe { last.enter() }
    {
        return using;
    }
    search(id, choose)
}

#[inline(never)]
fn search<'a>(id: u64, choose: impl FnOnce() -> (&'a Shard, u64)) -> Using {
    let found = LOCALS.try_with(|locals| locals.find(id)).ok().flatten();
    let using = match found {
        Some(using) => using,
        None => {
            let (shard, home_of) = choose();
            match LOCALS.try_with(|locals| locals.enter(shard, home_of)).ok().flatten() {
                Some(using) => using,
                None => {
                    if home_of != NONE {
                        shard.leave_home();
                    }
                    return pass(shard.this.upgrade().expect("a shard that the caller keeps"));
                }
            }
        }
    };
    LAST.set(using.0.as_ptr());
    using
}

/// The thread is ending, and its locals are gone: counts with everybody, and keeps nothing.
fn pass(shard: Arc<Shard>) -> Using {
    let (this, counters) = (shard.this.clone(), shard.common.clone());
    let part = Part::new(shard.id, Local { shard: this, counters, passing: Some(shard), cache: Cache::new() });
    part.busy.set(true);
    // `end_passing` drops it, with what is returned.
    Using(NonNull::from(Box::leak(Box::new(part))))
}

#[cold]
fn end_passing(part: NonNull<Part>) {
    // SAFETY: `pass` made the pointer of a box, and the call that used the part is over.
    drop(unsafe { Box::from_raw(part.as_ptr()) });
}

impl Locals {
    /// Uses the part with this id, if there is one that is not in use further down the stack.
    fn find(&self, id: u64) -> Option<Using> {
        let parts = self.0.try_borrow().ok()?;
        let mut same = parts.probe(id).filter(|slot| slot.id == id).filter_map(|slot| slot.part);
        // SAFETY: it is in the table, so in the list, from which none is taken that is in use.
        same.find_map(|part| unsafe { part.as_ref().enter() })
    }

    /// Makes the thread's part of a shard, or makes the one that it has its home.
    #[cold]
    fn enter(&self, shard: &Shard, home_of: u64) -> Option<Using> {
        let mut parts = self.0.try_borrow_mut().ok()?;
        LAST.set(ptr::null());
        parts.table.clear();
        // SAFETY: the closure drops it before the part goes.
        parts.all.retain(|part| unsafe { part.enter() }.is_none_or(|local| local.shard.strong_count() > 0));
        // SAFETY: it is in the list, from which none is taken that is in use.
        let found = parts.all.iter().filter(|part| part.id == shard.id).find_map(|part| unsafe { part.enter() });
        let using = found.or_else(|| {
            parts.all.push(Box::new(Part::new(shard.id, Local::new(shard))));
            // SAFETY: as above.
            unsafe { parts.all.last()?.enter() }
        })?;
        // SAFETY: it is one of the list.
        let before = (home_of != NONE).then(|| unsafe { using.0.as_ref() }.home_of.replace(home_of));
        if before.is_some_and(|before| before != NONE) {
            // It was one already.
            shard.leave_home();
        }
        parts.fill_table();
        Some(using)
    }
}

impl Parts {
    /// Returns the slots that can have this id.
    fn probe(&self, id: u64) -> impl Iterator<Item = &Slot> {
        let (before, from) = self.table.split_at(self.first_slot(id));
        from.iter().chain(before).take_while(|slot| slot.part.is_some())
    }

    fn first_slot(&self, id: u64) -> usize {
        id as usize & self.table.len().saturating_sub(1)
    }

    fn fill_table(&mut self) {
        self.table.resize((4 * self.all.len()).next_power_of_two(), Slot { id: NONE, part: None });
        let mask = self.table.len() - 1;
        for part in &self.all {
            for id in [part.id, part.home_of.get()].into_iter().filter(|&id| id != NONE) {
                let free = self.first_slot(id) + self.probe(id).count();
                self.table[free & mask] = Slot { id, part: Some(NonNull::from(&**part)) };
            }
        }
    }
}

impl Drop for Locals {
    fn drop(&mut self) {
        LAST.set(ptr::null());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::{Clock, ManualClock, Ticks};

    /// At the end of the table the search goes on at its beginning.
    #[test]
    fn a_part_is_found_by_the_id_of_its_shard_and_by_that_of_its_service() {
        let mut shards = Vec::new();
        // Each service begins at the last slot, whatever the size of the table is.
        for service in (1..50).map(|number| number << 32 | 0xffff_ffff) {
            let ticks = Ticks::new(Clock::Manual(ManualClock::new()), Duration::from_millis(1));
            let shard = Shard::new(ticks, None, None, None, || false);
            with_home(service, || &shard, |_| ());
            shards.push((service, shard));
            for (service, shard) in &shards {
                for id in [*service, shard.id] {
                    let using = LOCALS.with(|locals| locals.find(id)).expect("a part of this thread");
                    // SAFETY: it is in the table.
                    let part = unsafe { using.0.as_ref() };
                    assert_eq!((part.id, part.home_of.get()), (shard.id, *service));
                }
            }
        }
    }
}

//! What a thread keeps for each shard it uses: its counters, and a few free entries.
//!
//! A thread finds its part of the shard that it used last by one comparison, and any other in a small hash table, in
//! constant time. Neither keeps a shard alive: the thread forgets a shard that is gone when it next meets a new one, or
//! ends. While a thread is in a call of a [`Timer`](crate::Timer) or of a handle, that keeps the shard alive.

use std::cell::{Cell, RefCell};
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
    /// Whether other threads count on the same record.
    shared: bool,
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
    local: RefCell<Local>,
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
    #[inline]
    pub(crate) fn count(&self, which: impl FnOnce(&Record) -> &Count) {
        self.count_more(which, 1);
    }

    #[inline]
    pub(crate) fn count_more(&self, which: impl FnOnce(&Record) -> &Count, more: u64) {
        which(&self.counters.record).add(more, self.shared);
    }

    #[inline]
    pub(crate) fn late(&self, lateness: std::time::Duration) {
        self.counters.record.late(lateness, self.shared);
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
        self.cache.push(index, |batch| {
            if let Some(shard) = shard.upgrade() {
                shard.core.give(batch);
            }
        });
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
        self.shared
    }

    fn new(shard: &Shard) -> Self {
        Self { shard: shard.this.clone(), counters: shard.registry.register(), shared: false, cache: Cache::new() }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let local = self.local.get_mut();
        if let Some(shard) = local.shard.upgrade() {
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

/// Gives `f` the calling thread's part of `shard`. `f` must not call foreign code.
#[inline]
pub(crate) fn with<R>(shard: &Shard, f: impl FnOnce(&mut Local) -> R) -> R {
    find(|part| part.id == shard.id, shard.id, || (shard, NONE), f)
}

/// The same for an `f` that may release what keeps the shard. No reference to it is held meanwhile, as one that is passed
/// to a function promises that it is valid for as long as that runs.
///
/// # Safety
/// The shard must be valid until `f` releases what keeps it.
#[inline]
pub(crate) unsafe fn with_leased<R>(shard: NonNull<Shard>, f: impl FnOnce(&mut Local) -> R) -> R {
    // SAFETY: by this function's contract, as `f` comes after.
    let id = unsafe { (*shard.as_ptr()).id };
    // SAFETY: as above.
    find(|part| part.id == id, id, || (unsafe { shard.as_ref() }, NONE), f)
}

/// Gives `f` the calling thread's part of the shard in which it schedules timers of `service`. The first time, `choose`
/// [chooses](Shard::choose_home) which that is. `f` must not call foreign code.
#[inline]
pub(crate) fn with_home<'a, R>(service: u64, choose: impl FnOnce() -> &'a Shard, f: impl FnOnce(&mut Local) -> R) -> R {
    find(|part| part.home_of.get() == service, service, || (choose(), service), f)
}

/// The shard with this id, if the calling thread has used it, and it is still there.
#[cold]
pub(crate) fn shard(id: u64) -> Option<Arc<Shard>> {
    let part = LOCALS.try_with(|locals| locals.find(id)).ok().flatten()?;
    // SAFETY: it is in the table.
    unsafe { part.as_ref() }.local.borrow().shard.upgrade()
}

#[inline]
fn find<'a, R>(
    matches: impl Fn(&Part) -> bool,
    id: u64,
    choose: impl FnOnce() -> (&'a Shard, u64),
    f: impl FnOnce(&mut Local) -> R,
) -> R {
    // SAFETY: a part is dropped only when this has been cleared, and only when it is not borrowed.
    if let Some(last) = unsafe { LAST.get().as_ref() }
        && matches(last)
        && let Ok(mut local) = last.local.try_borrow_mut()
    {
        return f(&mut local);
    }
    search(id, choose, f)
}

#[inline(never)]
fn search<'a, R>(id: u64, choose: impl FnOnce() -> (&'a Shard, u64), f: impl FnOnce(&mut Local) -> R) -> R {
    let found = LOCALS.try_with(|locals| locals.find(id)).ok().flatten();
    let part = match found {
        Some(part) => part,
        None => {
            let (shard, home_of) = choose();
            match LOCALS.try_with(|locals| locals.enter(shard, home_of)).ok().flatten() {
                Some(part) => part,
                None => {
                    if home_of != NONE {
                        shard.leave_home();
                    }
                    return in_passing(shard.this.upgrade().expect("a shard that the caller keeps"), f);
                }
            }
        }
    };
    LAST.set(part.as_ptr());
    // SAFETY: it is in the table, and stays there while it is borrowed.
    f(&mut unsafe { part.as_ref() }.local.borrow_mut())
}

/// The thread is ending, and its locals are gone: counts with everybody, and keeps nothing. The shard is kept meanwhile, as
/// `f` may release the handle that does.
fn in_passing<R>(shard: Arc<Shard>, f: impl FnOnce(&mut Local) -> R) -> R {
    let mut passing =
        Local { shard: shard.this.clone(), counters: shard.common.clone(), shared: true, cache: Cache::new() };
    let result = f(&mut passing);
    shard.core.give_back(&mut passing.cache);
    result
}

impl Locals {
    /// Returns the part with this id, if there is one that is not in use further down the stack.
    fn find(&self, id: u64) -> Option<NonNull<Part>> {
        let parts = self.0.try_borrow().ok()?;
        let mut same = parts.probe(id).filter(|slot| slot.id == id).filter_map(|slot| slot.part);
        // SAFETY: it is in the table.
        same.find(|part| unsafe { part.as_ref() }.local.try_borrow_mut().is_ok())
    }

    /// Makes the thread's part of a shard, or makes the one that it has its home.
    #[cold]
    fn enter(&self, shard: &Shard, home_of: u64) -> Option<NonNull<Part>> {
        let mut parts = self.0.try_borrow_mut().ok()?;
        LAST.set(ptr::null());
        parts.table.clear();
        parts.all.retain(|part| part.local.try_borrow().map_or(true, |local| local.shard.strong_count() > 0));
        let is_free = |part: &Part| part.id == shard.id && part.local.try_borrow_mut().is_ok();
        let place = parts.all.iter().position(|part| is_free(part)).unwrap_or_else(|| {
            let (id, home_of, local) = (shard.id, Cell::new(NONE), RefCell::new(Local::new(shard)));
            parts.all.push(Box::new(Part { id, home_of, local }));
            parts.all.len() - 1
        });
        let part = NonNull::from(&*parts.all[place]);
        if home_of != NONE && parts.all[place].home_of.replace(home_of) != NONE {
            // It was one already.
            shard.leave_home();
        }
        parts.fill_table();
        Some(part)
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
                    let part = LOCALS.with(|locals| locals.find(id)).expect("a part of this thread");
                    // SAFETY: it is in the table.
                    let part = unsafe { part.as_ref() };
                    assert_eq!((part.id, part.home_of.get()), (shard.id, *service));
                }
            }
        }
    }
}

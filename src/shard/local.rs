//! What a thread keeps for each shard it uses: its counters, and a few free entries.
//!
//! A thread finds its own by one comparison where it used it last, and otherwise by a short walk over a list in its
//! thread-local storage; a thread that uses one timer has one or two. The list does not keep a shard alive: what it knows
//! of a shard that is gone is forgotten when the thread next meets a new one, or ends. While a thread is in a call of a
//! [`Timer`](crate::Timer) or of a handle, that keeps the shard alive.

use std::cell::{Cell, RefCell};
use std::ptr::{self, NonNull};
use std::sync::{Arc, Weak};

use super::Shard;
use super::memory::Cache;
use crate::stats::{Count, Record};

/// A thread's own part of a shard.
pub(crate) struct Local {
    shard: Weak<Shard>,
    id: u64,
    /// The service whose timers this thread schedules here.
    home_of: Option<u64>,
    /// Kept, for whoever counts the end of what kept the shard.
    record: Arc<Record>,
    /// Whether other threads count on the same record.
    shared: bool,
    pub(crate) cache: Cache,
}

thread_local! {
    static LOCALS: Locals = const { Locals(RefCell::new(Vec::new())) };
    /// The part used last, which most of the time is the one used next. Null, or in the list.
    static LAST: Cell<*const RefCell<Local>> = const { Cell::new(ptr::null()) };
}

/// The parts of one thread. They are boxed, as `LAST` points to one while others come and go.
#[expect(clippy::vec_box, reason = "as above")]
struct Locals(RefCell<Vec<Box<RefCell<Local>>>>);

impl Local {
    /// Counts one of what `which` names.
    #[inline]
    pub(crate) fn count(&self, which: impl FnOnce(&Record) -> &Count) {
        self.count_more(which, 1);
    }

    #[inline]
    pub(crate) fn count_more(&self, which: impl FnOnce(&Record) -> &Count, more: u64) {
        which(&self.record).add(more, self.shared);
    }

    #[inline]
    pub(crate) fn late(&self, lateness: std::time::Duration) {
        self.record.late(lateness, self.shared);
    }

    /// The shard, which lives as long as the caller's timer or handle does.
    #[inline]
    pub(crate) fn shard(&self) -> NonNull<Shard> {
        NonNull::new(self.shard.as_ptr().cast_mut()).expect("a pointer into an allocation")
    }

    /// Keeps a free entry for the next timer. Unlike all else here, it may be called when nothing keeps the shard any
    /// more: then the entry is gone with it.
    #[inline]
    pub(crate) fn keep(&mut self, index: u32) {
        let shard = &self.shard;
        self.cache.push(index, |batch| {
            if let Some(shard) = shard.upgrade() {
                shard.core.give(batch);
            }
        });
    }

    /// Whether this is a part for one call only, of a thread that is ending.
    #[inline]
    pub(crate) fn is_in_passing(&self) -> bool {
        self.shared
    }

    fn new(shard: &Shard) -> Self {
        Self {
            shard: shard.this.clone(),
            id: shard.id,
            home_of: None,
            record: shard.roll.join(),
            shared: false,
            cache: Cache::new(),
        }
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        if self.shared {
            return;
        }
        if let Some(shard) = self.shard.upgrade() {
            shard.core.give_back(&mut self.cache);
            shard.roll.leave(&self.record);
        }
    }
}

/// Gives `f` the calling thread's part of `shard`. `f` must not call foreign code.
#[inline]
pub(crate) fn with<R>(shard: &Shard, f: impl FnOnce(&mut Local) -> R) -> R {
    find(|local| local.id == shard.id, || (shard, None), f)
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
    find(|local| local.id == id, || (unsafe { shard.as_ref() }, None), f)
}

/// Gives `f` the calling thread's part of the shard in which it schedules timers of `service`. The first time, `choose`
/// tells which that is. `f` must not call foreign code.
#[inline]
pub(crate) fn with_home<'a, R>(service: u64, choose: impl FnOnce() -> &'a Shard, f: impl FnOnce(&mut Local) -> R) -> R {
    find(|local| local.home_of == Some(service), || (choose(), Some(service)), f)
}

/// The shard with this id, if the calling thread has used it, and it is still there.
#[cold]
pub(crate) fn shard(id: u64) -> Option<Arc<Shard>> {
    let part = LOCALS.try_with(|locals| locals.find(|local| local.id == id)).ok().flatten()?;
    // SAFETY: it is in the list.
    unsafe { part.as_ref() }.borrow().shard.upgrade()
}

#[inline]
fn find<'a, R>(
    matches: impl Fn(&Local) -> bool,
    choose: impl FnOnce() -> (&'a Shard, Option<u64>),
    f: impl FnOnce(&mut Local) -> R,
) -> R {
    // SAFETY: who takes a part out of the list clears this first, and takes none that is borrowed.
    if let Some(last) = unsafe { LAST.get().as_ref() }
        && let Ok(mut local) = last.try_borrow_mut()
        && matches(&local)
    {
        return f(&mut local);
    }
    search(matches, choose, f)
}

#[inline(never)]
fn search<'a, R>(
    matches: impl Fn(&Local) -> bool,
    choose: impl FnOnce() -> (&'a Shard, Option<u64>),
    f: impl FnOnce(&mut Local) -> R,
) -> R {
    let found = LOCALS.try_with(|locals| locals.find(matches)).ok().flatten();
    let part = match found {
        Some(part) => part,
        None => {
            let (shard, home_of) = choose();
            match LOCALS.try_with(|locals| locals.enter(shard, home_of)).ok().flatten() {
                Some(part) => part,
                None => return in_passing(shard.this.upgrade().expect("a shard that the caller keeps"), f),
            }
        }
    };
    LAST.set(part.as_ptr());
    // SAFETY: it is in the list, and stays there while it is borrowed.
    f(&mut unsafe { part.as_ref() }.borrow_mut())
}

/// The thread is ending, and its locals are gone: counts with everybody, and keeps nothing. The shard is kept meanwhile, as
/// `f` may release the handle that does.
fn in_passing<R>(shard: Arc<Shard>, f: impl FnOnce(&mut Local) -> R) -> R {
    let mut passing = Local {
        shard: shard.this.clone(),
        id: shard.id,
        home_of: None,
        record: shard.common.clone(),
        shared: true,
        cache: Cache::new(),
    };
    let result = f(&mut passing);
    shard.core.give_back(&mut passing.cache);
    result
}

impl Locals {
    /// A part that matches, and is not in use further down the stack.
    fn find(&self, matches: impl Fn(&Local) -> bool) -> Option<NonNull<RefCell<Local>>> {
        let locals = self.0.try_borrow().ok()?;
        let found = locals.iter().find(|local| local.try_borrow_mut().is_ok_and(|local| matches(&local)));
        found.map(|local| NonNull::from(&**local))
    }

    /// Makes the thread's part of a shard, or makes the one it has its home.
    #[cold]
    fn enter(&self, shard: &Shard, home_of: Option<u64>) -> Option<NonNull<RefCell<Local>>> {
        let mut locals = self.0.try_borrow_mut().ok()?;
        LAST.set(ptr::null());
        locals.retain(|local| local.try_borrow_mut().map_or(true, |local| local.shard.strong_count() > 0));
        let of_shard = |local: &RefCell<Local>| local.try_borrow().is_ok_and(|local| local.id == shard.id);
        let place = locals.iter().position(|local| of_shard(local)).unwrap_or_else(|| {
            locals.push(Box::new(RefCell::new(Local::new(shard))));
            locals.len() - 1
        });
        let part = &*locals[place];
        let mut local = part.borrow_mut();
        local.home_of = home_of.or(local.home_of);
        Some(NonNull::from(part))
    }
}

impl Drop for Locals {
    fn drop(&mut self) {
        LAST.set(ptr::null());
    }
}

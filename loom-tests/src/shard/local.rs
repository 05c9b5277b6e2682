//! The crate's `local`: what a thread has for the one shard of a model. A model keeps the caches of its threads itself, so
//! a thread has its part only while it acts for a handle or a future.

use std::cell::{Cell, RefCell};
use std::mem;
use std::ptr::NonNull;

use super::Shard;
use super::memory::Cache;
use crate::sync::thread_static;

pub(crate) type Count = Cell<usize>;

/// What a thread has done in one act.
#[derive(Default)]
pub(crate) struct Record {
    pub(crate) scheduled: Count,
    pub(crate) enqueued: Count,
    pub(crate) rearmed: Count,
    pub(crate) completed: Count,
    pub(crate) cancelled: Count,
    /// Timers that were taken out of a batch.
    pub(crate) settled: Count,
    /// Leases that were the last to keep a closed shard.
    pub(crate) last: Count,
}

pub(crate) struct Local {
    shard: NonNull<Shard>,
    pub(crate) cache: Cache,
    record: Record,
    in_passing: bool,
}

thread_static! {
    static LOCAL: RefCell<Option<Local>> = const { RefCell::new(None) };
}

impl Local {
    fn new(shard: NonNull<Shard>, cache: Cache, in_passing: bool) -> Self {
        Self { shard, cache, record: Record::default(), in_passing }
    }

    pub(crate) fn count(&self, which: impl FnOnce(&Record) -> &Count) {
        let count = which(&self.record);
        count.set(count.get() + 1);
    }

    pub(crate) fn shard(&self) -> NonNull<Shard> {
        self.shard
    }

    pub(crate) fn keep(&mut self, index: u32, aside: bool) {
        // SAFETY: a model keeps its shard.
        let core = &unsafe { self.shard.as_ref() }.core;
        if aside {
            // SAFETY: it is this thread's to keep.
            unsafe { core.set_aside(index) };
        } else {
            self.cache.push(index, |batch| core.give(batch));
        }
    }

    pub(crate) fn is_in_passing(&self) -> bool {
        self.in_passing
    }
}

/// Runs `act` on a thread that has this cache. `in_passing`: the thread is ending.
pub(crate) fn act<R>(shard: &Shard, cache: &mut Cache, in_passing: bool, act: impl FnOnce() -> R) -> (R, Record) {
    let local = Local::new(shard.into(), mem::replace(cache, Cache::new()), in_passing);
    assert!(LOCAL.with(|this| this.replace(Some(local))).is_none(), "one act at a time");
    let result = act();
    let local = LOCAL.with(RefCell::take).expect("the one from above");
    *cache = local.cache;
    (result, local.record)
}

/// `f` must not come here again: that is a panic.
pub(crate) fn with<R>(shard: &Shard, f: impl FnOnce(&mut Local) -> R) -> R {
    find(shard.into(), f)
}

/// # Safety
/// As the crate's own.
pub(crate) unsafe fn with_leased<R>(shard: NonNull<Shard>, f: impl FnOnce(&mut Local) -> R) -> R {
    // SAFETY: a model keeps its shard.
    assert!(!unsafe { shard.as_ref() }.is_gone(), "a lease keeps the shard");
    find(shard, f)
}

fn find<R>(shard: NonNull<Shard>, f: impl FnOnce(&mut Local) -> R) -> R {
    LOCAL.with(|this| match this.borrow_mut().as_mut() {
        Some(local) => f(local),
        // A model that has failed drops what it has.
        None if std::thread::panicking() => f(&mut Local::new(shard, Cache::new(), true)),
        None => panic!("a thread that has no part of the shard"),
    })
}

pub(crate) fn with_home<'a, R>(
    _service: u64,
    choose: impl FnOnce() -> &'a Shard,
    f: impl FnOnce(&mut Local) -> R,
) -> R {
    with(choose(), f)
}

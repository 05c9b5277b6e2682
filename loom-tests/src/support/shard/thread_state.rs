//! The crate's `local`: what a thread has for the one shard of a model. A model keeps the caches of its threads itself, so
//! a thread has its part only while it acts for a handle or a future.

use std::cell::{Cell, RefCell};
use std::mem;
use std::ptr::NonNull;

use super::Shard;
use crate::engine::memory::Cache;
use crate::sync::thread_static;

pub(crate) type Count = Cell<usize>;

/// What a thread has done in one run.
#[derive(Default)]
pub(crate) struct ThreadCounters {
    pub(crate) scheduled: Count,
    pub(crate) enqueued: Count,
    pub(crate) rearmed: Count,
    pub(crate) completed: Count,
    pub(crate) cancelled: Count,
    /// Timers that were taken out of a batch.
    pub(crate) left_batch: Count,
    /// Leases that were the last to keep a closed shard.
    pub(crate) unpinned: Count,
}

pub(crate) struct ThreadState {
    shard: NonNull<Shard>,
    pub(crate) cache: Cache,
    counters: ThreadCounters,
    temporary: bool,
}

thread_static! {
    static STATE: RefCell<Option<ThreadState>> = const { RefCell::new(None) };
}

impl ThreadState {
    fn new(shard: NonNull<Shard>, cache: Cache, temporary: bool) -> Self {
        Self { shard, cache, counters: ThreadCounters::default(), temporary }
    }

    pub(crate) fn count(&self, which: impl FnOnce(&ThreadCounters) -> &Count) {
        let count = which(&self.counters);
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

    pub(crate) fn is_temporary(&self) -> bool {
        self.temporary
    }
}

/// Runs `run` on a thread that has this cache. `temporary`: the thread is ending.
pub(crate) fn run<R>(
    shard: &Shard,
    cache: &mut Cache,
    temporary: bool,
    run: impl FnOnce() -> R,
) -> (R, ThreadCounters) {
    let state = ThreadState::new(shard.into(), mem::replace(cache, Cache::new()), temporary);
    assert!(STATE.with(|this| this.replace(Some(state))).is_none(), "one run at a time");
    let result = run();
    let state = STATE.with(RefCell::take).expect("the one from above");
    *cache = state.cache;
    (result, state.counters)
}

/// `f` must not come here again: that is a panic.
pub(crate) fn with<R>(shard: &Shard, f: impl FnOnce(&mut ThreadState) -> R) -> R {
    find(shard.into(), f)
}

/// # Safety
/// As the crate's own.
pub(crate) unsafe fn with_shard_of_handle<R>(shard: NonNull<Shard>, f: impl FnOnce(&mut ThreadState) -> R) -> R {
    // SAFETY: a model keeps its shard.
    assert!(!unsafe { shard.as_ref() }.is_unpinned(), "a raw keeps the shard");
    find(shard, f)
}

fn find<R>(shard: NonNull<Shard>, f: impl FnOnce(&mut ThreadState) -> R) -> R {
    STATE.with(|this| match this.borrow_mut().as_mut() {
        Some(state) => f(state),
        // A model that has failed drops what it has.
        None if std::thread::panicking() => f(&mut ThreadState::new(shard, Cache::new(), true)),
        None => panic!("a thread that has no part of the shard"),
    })
}

pub(crate) fn with_home<'a, R>(
    _service: u64,
    choose: impl FnOnce() -> &'a Shard,
    f: impl FnOnce(&mut ThreadState) -> R,
) -> R {
    with(choose(), f)
}

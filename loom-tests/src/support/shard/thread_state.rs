//! Replaces the crate's `thread_state`: the state of a thread for the only shard of a model.
//!
//! The model stores the caches of its threads. A thread has a state only inside [`run`].

use std::cell::{Cell, RefCell};
use std::mem;
use std::ptr::NonNull;

use super::shard::Shard;
use crate::engine::memory::Cache;
use crate::sync::thread_static;

pub(crate) type Counter = Cell<usize>;

/// What a thread counted during one [`run`].
#[derive(Default)]
pub(crate) struct ThreadCounters {
    pub(crate) scheduled: Counter,
    pub(crate) enqueued: Counter,
    pub(crate) resets: Counter,
    pub(crate) completed: Counter,
    pub(crate) cancelled: Counter,
    /// Timers that left a batch.
    pub(crate) left_batch: Counter,
    /// Releases that dropped the last handle of a closed shard.
    pub(crate) freed: Counter,
}

pub(crate) struct ThreadState {
    shard: NonNull<Shard>,
    pub(crate) cache: Cache,
    counters: ThreadCounters,
}

thread_static! {
    static STATE: RefCell<Option<ThreadState>> = const { RefCell::new(None) };
}

impl ThreadState {
    fn new(shard: NonNull<Shard>, cache: Cache) -> Self {
        Self { shard, cache, counters: ThreadCounters::default() }
    }

    pub(crate) fn count(&self, which: impl FnOnce(&ThreadCounters) -> &Counter) {
        let count = which(&self.counters);
        count.set(count.get() + 1);
    }

    pub(crate) fn shard(&self) -> NonNull<Shard> {
        self.shard
    }

    pub(crate) fn recycle(&mut self, index: u32, aside: bool) {
        // SAFETY: the model keeps the shard.
        let core = &unsafe { self.shard.as_ref() }.core;
        if aside {
            // SAFETY: this thread owns the entry.
            unsafe { core.recycle_sparse(&mut self.cache, index) };
        } else {
            self.cache.push(index, |batch| core.give_back(batch));
        }
    }
}

/// Runs `f` on a thread with this cache.
pub(crate) fn run<R>(shard: &Shard, cache: &mut Cache, f: impl FnOnce() -> R) -> (R, ThreadCounters) {
    let state = ThreadState::new(shard.into(), mem::replace(cache, Cache::new()));
    assert!(STATE.with(|this| this.replace(Some(state))).is_none(), "nested `run`");
    let result = f();
    let state = STATE.with(RefCell::take).expect("the state from above");
    *cache = state.cache;
    (result, state.counters)
}

/// Panics if `f` calls it again.
pub(crate) fn with<R>(shard: &Shard, f: impl FnOnce(&mut ThreadState) -> R) -> R {
    find(shard.into(), f)
}

/// # Safety
/// As for the crate's own function.
pub(crate) unsafe fn with_shard_of_handle<R>(shard: NonNull<Shard>, f: impl FnOnce(&mut ThreadState) -> R) -> R {
    // SAFETY: the model keeps the shard.
    assert!(!unsafe { shard.as_ref() }.is_freed(), "a handle keeps the shard");
    find(shard, f)
}

fn find<R>(shard: NonNull<Shard>, f: impl FnOnce(&mut ThreadState) -> R) -> R {
    STATE.with(|this| match this.borrow_mut().as_mut() {
        Some(state) => f(state),
        // A model that failed drops its values here.
        None if std::thread::panicking() => f(&mut ThreadState::new(shard, Cache::new())),
        None => panic!("a thread without a state for the shard"),
    })
}

pub(crate) fn with_home<'a, R>(
    _service: u64,
    choose: impl FnOnce() -> &'a Shard,
    f: impl FnOnce(&mut ThreadState) -> R,
) -> R {
    with(choose(), f)
}

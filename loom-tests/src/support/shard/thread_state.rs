//! Replaces the crate's `thread_state`: the state of a thread for the only shard of a model.
//!
//! The model stores the caches of its threads. A thread has a state only inside [`run`].

use std::cell::RefCell;
use std::mem;
use std::ptr::NonNull;
// Of `std`, not of loom: a count orders nothing, and is no step of a thread.
use std::sync::atomic::{AtomicUsize, Ordering};

use super::shard::Shard;
use crate::clock::Ticks;
use crate::engine::memory::Cache;
use crate::sync::thread_static;

pub(crate) type Counter = AtomicUsize;

/// What a thread has counted during one [`run`], or all threads together.
#[derive(Default)]
pub(crate) struct ThreadCounters {
    pub(crate) scheduled: Counter,
    pub(crate) enqueued: Counter,
    pub(crate) resets: Counter,
    pub(crate) fired: Counter,
    pub(crate) returned: Counter,
    pub(crate) completed: Counter,
    pub(crate) cancelled: Counter,
    pub(crate) unfired: Counter,
    /// Runs that were reported as ended.
    pub(crate) ended: Counter,
    /// Timers that left a batch.
    pub(crate) left_batch: Counter,
    /// Releases that dropped the last handle of a closed shard.
    pub(crate) freed: Counter,
}

pub(crate) struct ThreadState {
    shard: NonNull<Shard>,
    pub(crate) cache: Cache,
    counters: ThreadCounters,
    /// The deadlines of the runs on this thread.
    ran: Vec<u64>,
}

thread_static! {
    static STATE: RefCell<Option<ThreadState>> = const { RefCell::new(None) };
}

impl ThreadState {
    fn new(shard: NonNull<Shard>, cache: Cache) -> Self {
        Self { shard, cache, counters: ThreadCounters::default(), ran: Vec::new() }
    }

    pub(crate) fn count(&self, which: impl Fn(&ThreadCounters) -> &Counter) {
        // SAFETY: the model keeps the shard.
        let totals = unsafe { self.shard.as_ref() }.counts.totals();
        for counters in [&self.counters, totals] {
            which(counters).fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn record_lateness(&mut self, ticks: u64) {
        self.ran.push(Ticks.now_tick() - ticks);
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

/// What a thread has done during one [`run`].
pub(crate) struct Done {
    pub(crate) counters: ThreadCounters,
    pub(crate) ran: Vec<u64>,
}

/// Runs `f` on a thread with this cache. A callback may do so again.
pub(crate) fn run<R>(shard: &Shard, cache: &mut Cache, f: impl FnOnce() -> R) -> (R, Done) {
    let state = ThreadState::new(shard.into(), mem::replace(cache, Cache::new()));
    let outer = STATE.with(|this| this.replace(Some(state)));
    let result = f();
    let state = STATE.with(|this| this.replace(outer)).expect("the state from above");
    *cache = state.cache;
    (result, Done { counters: state.counters, ran: state.ran })
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

//! Replaces the crate's `thread_state`: the state of a thread for the only shard of a model.
//!
//! The model stores the caches of its threads. A thread has a state only inside [`run`].

use std::cell::RefCell;
use std::mem::{self, ManuallyDrop};
use std::ops::{Deref, DerefMut};
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
    ran: RefCell<Vec<u64>>,
}

/// The state of the calling thread, while a call uses it.
pub(crate) struct Guard(ManuallyDrop<ThreadState>);

thread_static! {
    static STATE: RefCell<Option<ThreadState>> = const { RefCell::new(None) };
}

impl ThreadState {
    fn new(shard: NonNull<Shard>, cache: Cache) -> Self {
        Self { shard, cache, counters: ThreadCounters::default(), ran: RefCell::default() }
    }

    pub(crate) fn count(&self, which: impl Fn(&ThreadCounters) -> &Counter) {
        // SAFETY: the model keeps the shard.
        let totals = unsafe { self.shard.as_ref() }.counts.totals();
        for counters in [&self.counters, totals] {
            which(counters).fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn record_lateness(&self, ticks: u64) {
        self.ran.borrow_mut().push(Ticks.now_tick() - ticks);
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
    (result, Done { counters: state.counters, ran: state.ran.into_inner() })
}

/// Panics if the thread uses its state already.
pub(crate) fn of(shard: &Shard) -> Guard {
    let state = STATE.with(|this| this.take());
    // A model that failed drops its values when its thread has no state.
    let fails = || std::thread::panicking().then(|| ThreadState::new(shard.into(), Cache::new()));
    Guard(ManuallyDrop::new(state.or_else(fails).expect("a thread that does not use its state")))
}

pub(crate) fn home<'a>(_service: u64, choose: impl FnOnce() -> &'a Shard) -> Guard {
    of(choose())
}

impl Deref for Guard {
    type Target = ThreadState;

    fn deref(&self) -> &ThreadState {
        &self.0
    }
}

impl DerefMut for Guard {
    fn deref_mut(&mut self) -> &mut ThreadState {
        &mut self.0
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // SAFETY: the guard is not used after this.
        let state = unsafe { ManuallyDrop::take(&mut self.0) };
        STATE.with(|this| this.replace(Some(state)));
    }
}

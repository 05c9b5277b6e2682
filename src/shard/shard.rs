//! `Shard`: one [engine](crate::engine), and the clock, the counters and the hooks that it is bound to.
//!
//! A service creates its shards when it starts. The roles, the thread states and the batches refer to a shard. Each
//! handle keeps the shard's memory, also after the service has ended: see [`close`](super::close).
//!
//! | part                 | written by                                                       | read by        |
//! |----------------------|------------------------------------------------------------------|----------------|
//! | `core`               | any thread, by the engine's rules                                | any thread     |
//! | `registry`           | threads that start, count or end                                 | `stats`, `len` |
//! | `homes`              | threads that start or end                                        | `choose_home`  |
//! | `settings.permits`   | each `schedule` and each end of a timer, if `max_pending` is set | `schedule`     |
//! | `closed`             | the thread that closes the shard                                 | a manual clock |
//!
//! All other fields are fixed at creation.
//!
//! **Homes.** A thread chooses its home when it first uses a service, before its first timer there. It keeps the home
//! until it ends, so its cache and its counters stay with one shard. Handles and futures use the shard of their own
//! timer, on any thread.
//!
//! **Sums.** Each thread counts what it does to a timer, from `scheduled` to its end, in counters of its own. Any
//! thread may sum them at any time through the [registry](super::counter_registry). Ends are read before beginnings,
//! for the reason given at `ShardStats::balanced`.

use std::mem;
use std::panic::{self, AssertUnwindSafe, RefUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use crossbeam_utils::CachePadded;

use super::counter_registry::Registry;
use super::user_hooks::{OnPanic, SlowHook};
use crate::clock::{NEVER, Quiescence, Ticks};
use crate::engine::core::Core;
use crate::engine::entry::Entry;
use crate::engine::memory::Slab;
use crate::engine::wakeup::DriverWakeup;
use crate::stats::ShardStats;
use crate::system::Process;

/// Delay before chores wake the driver: half of the documented 100 ms. At least a tick.
const LAZY_WAKEUP: Duration = Duration::from_millis(50);

/// Number of free entries that are always retained: 1 MiB.
const MIN_RETAINED: usize = 1 << 14;

/// Number of ended threads whose counters are always retained: 4 KiB each for threads that have run callbacks.
const RETAINED_COUNTERS: usize = 16;

/// What a service sets for each of its shards.
pub(crate) struct ShardSettings {
    /// The index of the shard in its service.
    pub(crate) index: usize,
    /// Number of timers that `max_pending` still permits, in all shards of the service.
    pub(crate) permits: Option<Arc<AtomicUsize>>,
    pub(crate) on_panic: Option<Arc<OnPanic>>,
    pub(crate) on_slow: Option<SlowHook>,
    /// Returns whether callbacks may be unable to run before the calling thread is free.
    pub(crate) needs_this_thread: Box<dyn Fn() -> bool + Send + Sync>,
}

/// One shard of a service.
pub(crate) struct Shard {
    pub(crate) core: Core,
    pub(crate) ticks: Ticks,
    /// The process that created the shard, and has the threads that drive it.
    process: Process,
    /// A weak reference to this shard, for the thread states.
    pub(super) this: Weak<Shard>,
    pub(super) registry: Registry,
    /// Number of live threads whose home this is. On a cache line of its own, as threads write it when they start and
    /// end.
    pub(super) homes: CachePadded<AtomicUsize>,
    /// In virtual time only.
    pub(super) quiescence: Option<Quiescence>,
    pub(super) settings: ShardSettings,
    /// Set when the close has closed all entries.
    pub(super) closed: OnceLock<()>,
    /// Makes the driver panic after it has next taken a timer out of the wheel.
    #[cfg(test)]
    pub(crate) fault: std::sync::atomic::AtomicBool,
}

impl Shard {
    /// Creates an open shard, which no thread drives yet.
    pub(crate) fn new(slab: Slab, wakeup: DriverWakeup, ticks: Ticks, settings: ShardSettings) -> Arc<Self> {
        // In virtual time a driver does nothing before the clock moves, which then looks for such work itself.
        let lazy_wakeup = if ticks.manual.is_some() { NEVER } else { ticks.count(LAZY_WAKEUP).max(1) };
        Arc::new_cyclic(|this| Self {
            core: Core::new(slab, lazy_wakeup, MIN_RETAINED, wakeup),
            process: Process::current(),
            this: this.clone(),
            registry: Registry::new(RETAINED_COUNTERS),
            homes: CachePadded::new(AtomicUsize::new(0)),
            quiescence: ticks.manual.as_ref().map(|_| Quiescence::default()),
            settings,
            ticks,
            closed: OnceLock::new(),
            #[cfg(test)]
            fault: false.into(),
        })
    }

    /// Returns whether the calling thread is in a child that was forked from the shard's process.
    ///
    /// The pending timers belong to the parent. In the child each timer counts as ended. The child ends none itself, as
    /// it must not drop what their closures captured.
    #[inline]
    pub(crate) fn is_inherited(&self) -> bool {
        self.process.has_forked()
    }

    /// Chooses the shard that is home to the fewest live threads, and counts the calling thread there. Of equal shards
    /// it chooses the first from index `start` on. See `thread_state::home`. Lock-free.
    pub(crate) fn choose_home(shards: &[Arc<Shard>], start: usize) -> &Shard {
        loop {
            let (before, from) = shards.split_at(start % shards.len());
            // Relaxed, here and below: the number orders no other memory.
            let homes = from.iter().chain(before).map(|shard| (shard.homes.load(Ordering::Relaxed), shard));
            let (homes, shard) = homes.min_by_key(|&(homes, _)| homes).expect("a service has shards");
            // If several threads choose at the same time, one succeeds. The others compare again.
            if shard.homes.compare_exchange(homes, homes + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return shard;
            }
        }
    }

    /// Returns all statistics of the shard.
    pub(crate) fn stats(&self) -> ShardStats {
        let stats = self.registry.read();
        // `scheduled` is read last: with each end, this sum has the beginning. See `ShardStats::balanced`.
        stats.balanced(self.scheduled())
    }

    /// Returns the number of pending timers. Reads no histogram.
    pub(crate) fn pending(&self) -> u64 {
        let ended = self.registry.walk(ShardStats::ended, |sum, counters| *sum += counters.ended());
        self.scheduled().saturating_sub(ended)
    }

    fn scheduled(&self) -> u64 {
        self.registry.walk(|merged| merged.scheduled, |sum, counters| *sum += counters.scheduled.get())
    }
}

impl AsRef<DriverWakeup> for Shard {
    fn as_ref(&self) -> &DriverWakeup {
        &self.core.wakeup
    }
}

impl Drop for Shard {
    /// Drops the user's hooks, and catches their panics. The thread may be at its end, where a panic aborts the process,
    /// or in the middle of a call.
    fn drop(&mut self) {
        fn drop_hook<T>(hook: T) {
            // Leaked, as the drop of a payload may panic.
            _ = panic::catch_unwind(AssertUnwindSafe(|| drop(hook))).map_err(mem::forget);
        }
        drop_hook(self.settings.on_panic.take());
        drop_hook(self.settings.on_slow.take());
    }
}

// `Timer`s, handles and futures share only shards and entries. A panic cannot leave these half changed. Their state
// changes in single atomic steps. Foreign code (a closure, a waker, a hook) is called between two steps, while nothing
// is borrowed or locked. `tests/unwind.rs` lists the public types that are unwind-safe because of this.
impl RefUnwindSafe for Shard {}
impl RefUnwindSafe for Entry {}

#[cfg(test)]
impl Default for ShardSettings {
    /// No limit and no hooks, and an executor with threads of its own.
    fn default() -> Self {
        Self { index: 0, permits: None, on_panic: None, on_slow: None, needs_this_thread: Box::new(|| false) }
    }
}

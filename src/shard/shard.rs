//! `Shard`: one [engine](crate::engine), and the clock, the counters and the hooks that it is bound to.
//!
//! A service creates its shards when it starts. The driver, the thread states and the batches refer to a shard. Each
//! handle keeps the shard's memory, also after the service has ended: see [`close`](super::close).
//!
//! | part                  | written by                         | read by                          |
//! |-----------------------|------------------------------------|----------------------------------|
//! | `core`                | any thread, by the engine's rules  | any thread                       |
//! | `registry`, `common`  | threads that start, count or end; the driver's trim | `stats`, `len` |
//! | `homes`               | threads that start or end          | `choose_home`                    |
//! | `limit`               | each `schedule` and each end of a timer, if `max_pending` is set | `schedule` |
//! | `closing`             | the thread that closes the shard   | the shutdown                     |
//!
//! All other fields are fixed at creation.

use std::any::Any;
use std::panic::RefUnwindSafe;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use crossbeam_utils::CachePadded;

use super::limit::Limit;
use super::registry::{Registered, Registry};
use super::slow::SlowMonitor;
use super::virtual_time::VirtualTime;
use crate::clock::Ticks;
use crate::engine::core::Core;
use crate::engine::entry::{Entry, Role};
use crate::engine::shutdown::Closing;
use crate::system::Process;

/// Delay before non-urgent work wakes the driver: half of the documented 100 ms. At least a tick.
const LAZY_WAKEUP: Duration = Duration::from_millis(50);

/// Number of free entries that are always retained: 1 MiB.
const MIN_RETAINED: usize = 1 << 14;

/// Number of ended threads whose counters are always retained: 4 KiB each for threads that have run callbacks.
const RETAINED_COUNTERS: usize = 16;

/// The user's `on_panic`, called with the payload of a panic.
pub(crate) type PanicHook = dyn Fn(Box<dyn Any + Send>) + Send + Sync;

/// One shard of a service.
pub(crate) struct Shard {
    pub(super) core: Core,
    pub(crate) ticks: Ticks,
    /// The process that created the shard, and has its driver.
    process: Process,
    /// A weak reference to this shard, for the thread states.
    pub(super) this: Weak<Shard>,
    pub(super) registry: Registry,
    /// The counters of all threads whose thread-locals are already destroyed.
    pub(super) common: Arc<Registered>,
    /// Number of live threads whose home this is. On a cache line of its own, as threads write it when they start and
    /// end.
    pub(super) homes: CachePadded<AtomicUsize>,
    pub(super) virtual_time: Option<VirtualTime>,
    pub(super) limit: Option<Arc<Limit>>,
    pub(super) on_panic: Option<Arc<PanicHook>>,
    pub(super) on_slow: Option<SlowMonitor>,
    /// What the close has found. A shutdown closes the shard, or a driver that has panicked.
    pub(super) closing: OnceLock<Closing>,
    /// Makes the driver panic after it has next taken a timer out of the wheel.
    #[cfg(test)]
    pub(crate) fault: std::sync::atomic::AtomicBool,
}

impl Shard {
    /// Creates an open shard without a driver. `needs_this_thread` returns whether callbacks may be unable to run
    /// before the calling thread is free.
    pub(crate) fn new(
        ticks: Ticks,
        limit: Option<Arc<Limit>>,
        on_panic: Option<Arc<PanicHook>>,
        on_slow: Option<SlowMonitor>,
        needs_this_thread: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Arc<Self> {
        let registry = Registry::new(RETAINED_COUNTERS);
        Arc::new_cyclic(|this| Self {
            // Virtual time needs no lazy wake-up: the driver runs whenever the clock moves.
            core: Core::new(ticks.manual().is_none().then(|| ticks.count(LAZY_WAKEUP).max(1)), MIN_RETAINED),
            process: Process::current(),
            this: this.clone(),
            common: registry.register(),
            registry,
            homes: CachePadded::new(AtomicUsize::new(0)),
            virtual_time: ticks.manual().map(|clock| VirtualTime::new(clock, this.clone(), needs_this_thread)),
            ticks,
            limit,
            on_panic,
            on_slow,
            closing: OnceLock::new(),
            #[cfg(test)]
            fault: false.into(),
        })
    }

    /// Returns whether the calling thread is in a child that was forked from the driver's process.
    ///
    /// The pending timers belong to the parent. In the child each timer counts as ended. The child ends none itself, as
    /// it must not drop what their closures captured.
    #[inline]
    pub(crate) fn is_inherited(&self) -> bool {
        self.process.has_forked()
    }

    /// Returns the role of a dispatched entry's callback.
    pub(super) fn role(&self, index: u32) -> Role {
        self.core.slab.get(index).role()
    }
}

// `Timer`s, handles and futures share only shards and entries. A panic cannot leave these half changed. Their state
// changes in single atomic steps. Foreign code (a closure, a waker, a hook) is called between two steps, while nothing
// is borrowed or locked. `tests/unwind.rs` lists the public types that are unwind-safe because of this.
impl RefUnwindSafe for Shard {}
impl RefUnwindSafe for Entry {}

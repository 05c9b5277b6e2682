//! One shard: its [engine](crate::engine), and the clock, the counters and the hooks that it is bound to.

use std::any::Any;
use std::panic::RefUnwindSafe;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use crossbeam_utils::CachePadded;

use super::limit::Limit;
use super::registry::{Registered, Registry};
use super::slow::SlowMonitor;
use super::virtual_time::VirtualTime;
use crate::clock::Ticks;
use crate::engine::core::{Closing, Core};
use crate::engine::entry::Entry;
use crate::system::Process;

/// For how long what nobody waits for is left to do: half of what is promised.
const LAZY_WAKEUP: Duration = Duration::from_millis(50);

/// As many free entries are never given back to the system: 1 MiB.
const MIN_RETAINED: usize = 1 << 14;

/// The counters of so many ended threads are retained, with 4 KiB each if they have run callbacks.
const RETAINED_COUNTERS: usize = 16;

/// Returns an id that no other shard and no other service has, ever. Not zero.
pub(crate) fn new_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // Relaxed: a number for itself.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// What is called with the payload of a panic.
pub(crate) type PanicHook = dyn Fn(Box<dyn Any + Send>) + Send + Sync;

/// One shard of a service.
pub(crate) struct Shard {
    pub(super) core: Core,
    pub(crate) ticks: Ticks,
    /// Unlike any other shard's, ever.
    pub(super) id: u64,
    /// The one that has the driver.
    pub(super) process: Process,
    pub(super) this: Weak<Shard>,
    pub(super) registry: Registry,
    /// The counters of threads whose thread-locals are gone.
    pub(super) common: Arc<Registered>,
    /// How many living threads schedule here. On a line of its own: threads that come and go write it.
    pub(super) homes: CachePadded<AtomicUsize>,
    pub(super) virtual_time: Option<VirtualTime>,
    pub(super) limit: Option<Arc<Limit>>,
    pub(super) on_panic: Option<Arc<PanicHook>>,
    pub(super) on_slow: Option<SlowMonitor>,
    /// What there was when the shard was closed, by a shutdown or by its driver.
    pub(super) closing: OnceLock<Closing>,
    /// The driver is to panic, when it has taken a timer out of the wheel.
    #[cfg(test)]
    pub(crate) fault: std::sync::atomic::AtomicBool,
}

impl Shard {
    /// `needs_this_thread` tells whether the callbacks may have to wait until the calling thread is free.
    pub(crate) fn new(
        ticks: Ticks,
        limit: Option<Arc<Limit>>,
        on_panic: Option<Arc<PanicHook>>,
        on_slow: Option<SlowMonitor>,
        needs_this_thread: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Arc<Self> {
        let registry = Registry::new(RETAINED_COUNTERS);
        Arc::new_cyclic(|this| Self {
            // In virtual time the driver looks when the clock is moved.
            core: Core::new(ticks.manual().is_none().then(|| ticks.count(LAZY_WAKEUP)), MIN_RETAINED),
            id: new_id(),
            process: Process::this(),
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

    /// Whether the calling thread is in another process than the driver, the child of a fork. What is pending here is the
    /// parent's then: to the child every timer has ended, and it ends none, as it must not drop what they hold.
    #[inline]
    pub(crate) fn is_inherited(&self) -> bool {
        self.process.is_gone()
    }

    /// Whether the callback of an entry in a batch wakes a task, which the driver does itself.
    pub(super) fn wakes(&self, index: u32) -> bool {
        self.core.slab.get(index).is_waker()
    }
}

// What `Timer`s, handles and futures share is a shard and its entries. A panic cannot leave them half changed: their state
// changes by single atomic steps, foreign code (a closure, a waker, a hook) is called between two such steps, and nothing is
// borrowed or locked meanwhile. `tests/unwind.rs` has the list of public types for which this makes it hold.
impl RefUnwindSafe for Shard {}
impl RefUnwindSafe for Entry {}

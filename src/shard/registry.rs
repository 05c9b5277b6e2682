//! `Registry`: the counters of all threads that use a shard, while threads come and go.
//!
//! ```text
//! first ────next──► counters ──next──► counters ──next──► counters ──► ..     of every thread
//!                      ▲                                     ▲
//! orphans ──below──────┴───────────────below─────────────────┘                of ended threads
//!
//! folded ──► { version, the sum of the counters that were folded }
//! ```
//!
//! A thread **registers** when it first uses the shard. It takes over the counters of an ended thread, an *orphan*, and
//! continues its counts. Without an orphan it pushes new counters. A thread **unregisters** when it ends: it pushes its
//! counters onto the stack of orphans. No count is ever copied, so the sum stays exact. The cost of both does not
//! depend on the number of threads. Neither pins the epoch: crossbeam-epoch keeps a list of pinning threads, and each
//! costs the others.
//!
//! One thread at a time pops from the stack, guarded by the flag `popping`. So the top counters cannot be freed or
//! pushed again while a pop reads the link below them. A thread that finds the flag set pushes new counters instead of
//! waiting. Both calls are lock-free.
//!
//! # Trimming
//!
//! After a peak of threads most counters are surplus. Those of a thread that has run callbacks include a histogram of 4
//! KiB. The driver [trims](Registry::trim) them in bounded turns:
//!
//! 1. *Fold*: it pops some orphans, marks each with the next version, and adds them to the sum. Then it publishes the
//!    sum as a new version of `folded`. This is copy on write (RCU).
//! 2. *Unlink*: it unlinks the marked counters from the list. No other thread unlinks, and all others insert at
//!    `first`. So a turn can continue where the last one stopped.
//! 3. *Free*: [`crossbeam_epoch`] frees them when no reader can have a reference.
//!
//! # Why a reader counts everything once
//!
//! A reader walks the list, and then loads `folded`. It skips counters whose mark is at most the version that it has
//! loaded, because that sum contains them. Counters that the walk has not found were unlinked earlier. Their sum was
//! published before that, so the later load finds it. A reader never retries: reading is wait-free.
//!
//! Loom model `registry`, explored with an epoch that loom knows (`--cfg crossbeam_loom`).

use std::ptr;

use crossbeam_epoch::{self as epoch, Atomic, Guard, Owned};

use crate::stats::{ShardStats, ThreadCounters};
use crate::sync::{Arc, AtomicBool, AtomicI64, AtomicPtr, AtomicU64, Mutex, Ordering};

/// Maximum number of counters that a turn folds: some 50 µs, if each has a histogram that is in no CPU cache.
const MAX_FOLDED: usize = 16;
/// Maximum number of counters that a turn visits to unlink: some 50 µs, as each is a cache miss.
const MAX_STEPS: usize = 512;
/// Number of attempts to free unlinked counters before the driver sleeps. More than the number of times that the epoch
/// must advance.
const FLUSHES: u32 = 8;

// On cache lines of its own: threads write here when they start and end, and all calls read the neighbouring fields.
#[repr(align(128))]
pub(crate) struct Registry {
    /// The list of all linked counters, the newest first.
    first: AtomicPtr<Registered>,
    /// The stack of the counters of ended threads, the last to end first.
    orphans: AtomicPtr<Registered>,
    /// A thread pops from `orphans`.
    popping: AtomicBool,
    /// Number of counters that are linked and not folded.
    total: AtomicI64,
    /// Number of those that a live thread uses.
    in_use: AtomicI64,
    /// Minimum number of orphans that are retained.
    retain_min: i64,
    folded: Atomic<Folded>,
    sweep: Mutex<Sweep>,
}

/// The counters of one thread, on cache lines that no other thread writes while it counts.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Registered {
    pub(crate) counters: ThreadCounters,
    /// The next older counters in the list.
    next: AtomicPtr<Registered>,
    /// The next counters on the stack of orphans.
    below: AtomicPtr<Registered>,
    /// The mark: the first version of `folded` that contains these counters. Zero: none does.
    folded_in: AtomicU64,
}

/// The sum of all counters that were folded, and its version.
struct Folded {
    version: u64,
    sum: ShardStats,
}

/// The progress of the trim.
#[derive(Default)]
struct Sweep {
    /// The trim is folding, until no orphan is surplus.
    folding: bool,
    /// Number of folded counters that are still linked.
    linked: usize,
    /// The last counters that the current walk has visited. Null: the walk begins at `first`.
    last_visited: *const Registered,
    /// Number of unlinked groups that crossbeam-epoch has not freed yet.
    unfreed: Arc<AtomicI64>,
    /// Number of attempts to free them that are left.
    flushes: u32,
}

// SAFETY: `last_visited` points to counters that are `Sync` and belong to the registry, not to a thread.
unsafe impl Send for Sweep {}

impl Registry {
    /// Creates a registry that retains the counters of at least `retain_min` ended threads.
    pub(crate) fn new(retain_min: usize) -> Self {
        Self {
            first: AtomicPtr::default(),
            orphans: AtomicPtr::default(),
            popping: AtomicBool::new(false),
            total: AtomicI64::new(0),
            in_use: AtomicI64::new(0),
            retain_min: retain_min as i64,
            folded: Atomic::new(Folded { version: 0, sum: ShardStats::default() }),
            sweep: Mutex::default(),
        }
    }

    /// Returns counters that only the caller uses until it [unregisters](Self::unregister) them. Lock-free.
    pub(crate) fn register(&self) -> Arc<Registered> {
        // Relaxed, here and wherever `in_use` and `total` change: they only decide when to trim. `in_use` is
        // incremented first here and decremented last in `unregister`, so that counters in use are never taken for
        // orphans.
        self.in_use.fetch_add(1, Ordering::Relaxed);
        let Some(orphan) = self.pop_orphan() else {
            return self.push_new();
        };
        // SAFETY: the pointer comes from `Arc::into_raw`. The list still has its count, because these are not folded.
        unsafe {
            Arc::increment_strong_count(orphan);
            Arc::from_raw(orphan)
        }
    }

    /// Leaves the counters to the next thread. Returns whether so many are orphans that the driver should
    /// [trim](Self::trim). Lock-free.
    ///
    /// # Safety
    /// The counters must come from [`register`](Self::register) of this registry. The caller must unregister them once,
    /// and must not count afterwards.
    pub(crate) unsafe fn unregister(&self, counters: &Arc<Registered>) -> bool {
        let new: *mut Registered = Arc::as_ptr(counters).cast_mut();
        // Release, in `push`: publishes the counts to the next owner; pairs with the Acquire in `pop_orphan`.
        push(&self.orphans, new, &counters.below);
        self.in_use.fetch_sub(1, Ordering::Relaxed);
        self.has_surplus()
    }

    /// Returns the sum of all counts. Wait-free.
    pub(crate) fn read(&self) -> ShardStats {
        self.walk(ShardStats::clone, |sum, counters| counters.add_to(sum))
    }

    /// Returns the sum of one count: `count` reads it from a thread's counters, `folded` from the sum of those that
    /// were folded. Wait-free.
    pub(super) fn sum(&self, count: impl Fn(&ThreadCounters) -> u64, folded: impl FnOnce(&ShardStats) -> u64) -> u64 {
        self.walk(folded, |sum, counters| *sum += count(counters))
    }

    /// Begins with the sum of the folded counters, and adds all others to it.
    fn walk<S>(&self, begin: impl FnOnce(&ShardStats) -> S, mut add: impl FnMut(&mut S, &ThreadCounters)) -> S {
        let guard = epoch::pin();
        let mut found = Vec::with_capacity(self.total.load(Ordering::Relaxed).max(0) as usize);
        // Acquire: pairs with the Release in `push`, for the counters, and with that in `unlink`, for `folded`.
        let mut link = &self.first;
        // SAFETY: the counters exist, because they were linked at some time after the guard pinned. Such counters are
        // not freed before it unpins.
        while let Some(counters) = unsafe { link.load(Ordering::Acquire).as_ref() } {
            found.push(counters);
            link = &counters.next;
        }
        // After the walk: see the head of this file. Acquire: pairs with the Release in `fold`, for the sum and the
        // marks.
        let folded = self.folded.load(Ordering::Acquire, &guard);
        // SAFETY: `folded` is never null, and it is not freed while the guard is pinned.
        let folded = unsafe { folded.deref() };
        let mut sum = begin(&folded.sum);
        for counters in found {
            // Relaxed: the load of `folded` has acquired all marks up to its version.
            let version = counters.folded_in.load(Ordering::Relaxed);
            if version == 0 || version > folded.version {
                add(&mut sum, &counters.counters);
            }
        }
        sum
    }

    /// Returns whether so many counters are orphans that the driver should [trim](Self::trim).
    pub(super) fn has_surplus(&self) -> bool {
        let (orphaned, retained) = self.orphaned_and_retained();
        orphaned > 2 * retained
    }

    /// Returns the number of orphans, and how many of them are retained.
    fn orphaned_and_retained(&self) -> (i64, i64) {
        let in_use = self.in_use.load(Ordering::Relaxed);
        (self.total.load(Ordering::Relaxed) - in_use, in_use.max(self.retain_min))
    }

    /// Makes a bounded turn of folding, unlinking or freeing. Returns whether it should be called again.
    pub(crate) fn trim(&self) -> bool {
        let Ok(mut sweep) = self.sweep.try_lock() else {
            return false;
        };
        let (orphaned, retained) = self.orphaned_and_retained();
        sweep.folding = orphaned > if sweep.folding { retained } else { 2 * retained };
        // Relaxed: it only decides whether to try again.
        let unfreed = sweep.unfreed.load(Ordering::Relaxed) > 0;
        if !sweep.folding && sweep.linked == 0 && !unfreed {
            return false;
        }
        let guard = epoch::pin();
        let again = if sweep.folding {
            sweep.linked += self.fold(&guard);
            true
        } else if sweep.linked > 0 {
            self.unlink(&mut sweep, &guard);
            sweep.flushes = FLUSHES;
            true
        } else {
            sweep.flushes = sweep.flushes.saturating_sub(1);
            sweep.flushes > 0
        };
        guard.flush();
        again
    }

    /// Folds some orphans, and returns their number.
    fn fold(&self, guard: &Guard) -> usize {
        let old = self.folded.load(Ordering::Acquire, guard);
        // SAFETY: `folded` is never null. No other thread replaces it, because the caller holds the lock of the sweep.
        let Folded { version, sum } = unsafe { old.deref() };
        let (version, mut sum) = (version + 1, sum.clone());
        let mut count = 0;
        while count < MAX_FOLDED && self.orphaned_and_retained().0 > self.orphaned_and_retained().1 {
            let Some(counters) = self.pop_orphan() else { break };
            self.total.fetch_sub(1, Ordering::Relaxed);
            // SAFETY: the counters exist, because they are linked, and no other thread unlinks.
            let counters = unsafe { &*counters };
            // Relaxed: published by the swap below.
            counters.folded_in.store(version, Ordering::Relaxed);
            counters.counters.add_to(&mut sum);
            count += 1;
        }
        if count > 0 {
            // Release: publishes the sum and the marks to readers; pairs with the Acquire in `walk`.
            let old = self.folded.swap(Owned::new(Folded { version, sum }), Ordering::AcqRel, guard);
            // SAFETY: later readers find the new version, and the old one is retired once.
            unsafe { guard.defer_destroy(old) };
        }
        count
    }

    /// Visits some counters of the list, and unlinks those that are folded.
    fn unlink(&self, sweep: &mut Sweep, guard: &Guard) {
        let mut unlinked = Vec::new();
        for _ in 0..MAX_STEPS {
            // SAFETY: the counters exist, because they are still linked. Only the holder of the sweep's lock unlinks,
            // and it never unlinks `last_visited`.
            let link = unsafe { sweep.last_visited.as_ref() }.map_or(&self.first, |counters| &counters.next);
            let found = link.load(Ordering::Acquire);
            // SAFETY: the counters exist, because they are linked, as above.
            let Some(counters) = (unsafe { found.as_ref() }) else {
                sweep.last_visited = ptr::null();
                break;
            };
            if counters.folded_in.load(Ordering::Relaxed) == 0 {
                sweep.last_visited = found;
                continue;
            }
            let next = counters.next.load(Ordering::Acquire);
            // Release: publishes the sum that contains the counters to readers that do not find them; pairs with the
            // Acquire in `walk`. This fails only at `first`, if a thread has registered meanwhile. Then the next step
            // visits that thread's counters, and later finds these again.
            if link.compare_exchange(found, next, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                // SAFETY: we own the list's count, because the exchange has unlinked it. It comes from `Arc::into_raw`.
                unlinked.push(unsafe { Arc::from_raw(found) });
                sweep.linked -= 1;
                if sweep.linked == 0 {
                    sweep.last_visited = ptr::null();
                    break;
                }
            }
        }
        if !unlinked.is_empty() {
            let unfreed = sweep.unfreed.clone();
            unfreed.fetch_add(1, Ordering::Relaxed);
            // SAFETY: later readers cannot find the counters. These and the number may be dropped on any thread.
            unsafe {
                guard.defer_unchecked(move || {
                    drop(unlinked);
                    unfreed.fetch_sub(1, Ordering::Relaxed);
                });
            }
        }
    }

    /// Pops the counters of an ended thread. Returns `None` if there are none, or if another thread is popping.
    fn pop_orphan(&self) -> Option<*const Registered> {
        // Acquire: pairs with the Release below, for what the previous thread that popped has done.
        if self.orphans.load(Ordering::Relaxed).is_null() || self.popping.swap(true, Ordering::Acquire) {
            return None;
        }
        // Acquire: pairs with the Release in `unregister`, for the counts and `below`.
        let popped = self.orphans.fetch_update(Ordering::Acquire, Ordering::Acquire, |top| {
            // SAFETY: the orphan exists, because it is linked until it is folded. Only a thread that has popped it
            // folds it.
            let top = unsafe { top.as_ref() }?;
            Some(top.below.load(Ordering::Relaxed))
        });
        // Release: publishes the pop to the next thread; pairs with the Acquire above. A read-modify-write, because
        // loom cannot order a plain store against the swap above.
        self.popping.swap(false, Ordering::Release);
        popped.ok().map(<*mut _>::cast_const)
    }

    /// Links new counters for the calling thread.
    fn push_new(&self) -> Arc<Registered> {
        let new = Arc::<Registered>::default();
        // One count is the list's.
        let linked = Arc::into_raw(new.clone()).cast_mut();
        // Release, in `push`: publishes the counters to readers; pairs with the Acquire in `walk`.
        push(&self.first, linked, &new.next);
        self.total.fetch_add(1, Ordering::Relaxed);
        new
    }
}

/// Pushes `new` onto `list`, and publishes it. `link` is its field that refers to the previous top.
fn push(list: &AtomicPtr<Registered>, new: *mut Registered, link: &AtomicPtr<Registered>) {
    // Relaxed for the link: published by the exchange.
    let _ = list.fetch_update(Ordering::Release, Ordering::Relaxed, |top| {
        link.store(top, Ordering::Relaxed);
        Some(new)
    });
}

impl Drop for Registry {
    fn drop(&mut self) {
        let mut next = self.first.load(Ordering::Acquire);
        while !next.is_null() {
            // SAFETY: we own the list and its counts, because the registry is being dropped. They come from
            // `Arc::into_raw`.
            let counters = unsafe { Arc::from_raw(next.cast_const()) };
            next = counters.next.load(Ordering::Acquire);
        }
        // SAFETY: as above: no reader is left.
        drop(unsafe { std::mem::take(&mut self.folded).into_owned() });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Unregisters counters of this registry.
    fn leave(registry: &Registry, counters: Arc<Registered>) -> bool {
        // SAFETY: each test unregisters its counters once.
        unsafe { registry.unregister(&counters) }
    }

    /// Returns the number of counters in the list.
    fn linked(registry: &Registry) -> usize {
        let mut count = 0;
        let mut link = &registry.first;
        // SAFETY: the counters exist, because no thread unlinks any meanwhile.
        while let Some(counters) = unsafe { link.load(Ordering::Acquire).as_ref() } {
            (count, link) = (count + 1, &counters.next);
        }
        count
    }

    #[test]
    fn counters_are_left_to_the_next_thread_with_their_counts() {
        let registry = Registry::new(16);
        let (stays, leaves) = (registry.register(), registry.register());
        stays.counters.scheduled.add(1, false);
        leaves.counters.scheduled.add(10, false);
        let left = Arc::as_ptr(&leaves);
        leave(&registry, leaves);
        assert_eq!(registry.read().scheduled, 11);
        let next = registry.register();
        assert_eq!((Arc::as_ptr(&next), linked(&registry)), (left, 2));
        next.counters.scheduled.add(100, false);
        assert_eq!(registry.read().scheduled, 111);
        assert_eq!(registry.sum(|counters| counters.scheduled.get(), |folded| folded.scheduled), 111);
    }

    #[test]
    fn counters_of_a_peak_are_folded_and_freed() {
        const PEAK: usize = 10_000;
        let registry = Registry::new(16);
        let stays = registry.register();
        let all: Vec<_> = (0..PEAK).map(|_| registry.register()).collect();
        let weak: Vec<_> = all.iter().map(Arc::downgrade).collect();
        for counters in all {
            counters.counters.fired.add(1, false);
            counters.counters.record_lateness(Duration::from_millis(1), false);
            leave(&registry, counters);
        }
        assert!(registry.has_surplus());
        let mut turns = 0;
        while registry.trim() {
            turns += 1;
            if turns % 100 == 0 {
                let read = registry.read();
                assert_eq!((read.fired, read.lateness.count()), (PEAK as u64, PEAK as u64));
            }
        }
        assert!(!registry.has_surplus());
        let read = registry.read();
        assert_eq!((read.fired, read.lateness.count()), (PEAK as u64, PEAK as u64));
        assert_eq!(linked(&registry), 17);
        // Other tests may have pinned the epoch.
        let freed = || weak.iter().filter(|counters| counters.strong_count() == 0).count();
        while freed() < PEAK - 16 {
            std::thread::yield_now();
            registry.trim();
        }
        stays.counters.fired.add(1, false);
        assert_eq!(registry.read().fired, PEAK as u64 + 1);
    }

    #[test]
    fn threads_that_come_and_go_lose_no_count() {
        let registry = Registry::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let counters = registry.register();
                        counters.counters.fired.add(1, false);
                        leave(&registry, counters);
                    }
                });
            }
            let mut last = 0;
            while last < 800 {
                let now = registry.read().fired;
                assert!((last..=800).contains(&now));
                last = now;
                registry.trim();
            }
        });
    }
}

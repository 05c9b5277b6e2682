//! The registry: the counters of all threads that use a shard, while threads come and go.
//!
//! ```text
//! first ──next──► counters ──next──► counters ──next──► counters ──► ..     every thread's
//!                    ▲                                     ▲
//! left  ──below──────┴───────────────below─────────────────┘                those of ended threads
//! folded ──► { version, the sum of counters that were removed }
//! ```
//!
//! A thread **registers** when it first uses the shard: it takes over the counters that an ended thread has left, and
//! counts on from there, or it pushes new ones. It **unregisters** when it ends: it pushes its counters onto the stack of
//! those that are left. No count is ever copied, so the sum stays exact. Both cost the same beside any number of threads.
//! Neither pins the epoch, in whose own list every thread that pins costs the others time.
//!
//! One thread at a time pops from the stack, by the flag `popping`. So the counters on top stay what they are while a pop
//! looks below them: they are not freed, and do not come back. A thread that finds the flag set registers new counters
//! instead of waiting. Registering and unregistering are lock-free.
//!
//! # Trimming
//!
//! When many threads have ended, most of the counters are surplus, and a thread that has run callbacks leaves a histogram
//! of 4 KiB with them. The driver [trims](Registry::trim) in bounded turns:
//!
//! 1. It takes some off the stack, marks each with the next version, adds them to the sum, and publishes that as a new
//!    version of `folded`.
//! 2. It unlinks those that are marked from the list. Nobody else unlinks, and nobody inserts anywhere but at `first`,
//!    so a turn can go on where the turn before has stopped.
//! 3. It frees them through [`crossbeam_epoch`], when no reader is left that can have found them.
//!
//! A reader walks the list first and loads `folded` afterwards. It skips counters whose mark is not above the version that
//! it has loaded: the sum contains them. Counters that the reader has not found were unlinked before, and so are in the
//! sum that the reader loads later. So it sees every count once. Reading is wait-free.
//!
//! Loom model `registry`, explored with an epoch that loom knows.

use std::ptr;

use crossbeam_epoch::{self as epoch, Atomic, Guard, Owned};

use crate::stats::{ShardStats, ThreadCounters};
use crate::sync::{Arc, AtomicBool, AtomicI64, AtomicPtr, AtomicU64, Mutex, Ordering};

/// The most counters that are folded in a turn: some 50 µs, if each has a histogram that is in no cache.
const MAX_FOLDED: usize = 16;
/// The most counters that are passed in a turn: some 50 µs, as each lies elsewhere in memory.
const MAX_STEPS: usize = 512;
/// How often the driver tries to free what it has unlinked, before it sleeps: more often than the epoch must advance.
const FLUSHES: u32 = 8;

// On cache lines of its own: threads that come and go write here, and all calls read what lies beside it.
#[repr(align(128))]
pub(crate) struct Registry {
    /// The counters registered last.
    first: AtomicPtr<Registered>,
    /// The counters left last.
    orphans: AtomicPtr<Registered>,
    /// A thread pops from `left`.
    popping: AtomicBool,
    /// How many counters are linked and not folded, and how many of these are in use.
    total: AtomicI64,
    in_use: AtomicI64,
    /// At least so many left counters are retained.
    retain_min: i64,
    folded: Atomic<Folded>,
    sweep: Mutex<Sweep>,
}

/// The counters of one thread, on cache lines that no other thread writes while it counts.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Registered {
    pub(crate) counters: ThreadCounters,
    /// The counters registered before.
    next: AtomicPtr<Registered>,
    /// The counters left before.
    below: AtomicPtr<Registered>,
    /// The first version of `folded` that contains these. Zero: none does.
    folded_in: AtomicU64,
}

struct Folded {
    version: u64,
    sum: ShardStats,
}

/// How far the trimming has come.
#[derive(Default)]
struct Sweep {
    /// Counters are being folded, until few enough are left.
    folding: bool,
    /// How many of those folded are still linked.
    linked: usize,
    /// Those up to these have been passed. Null: none.
    last_visited: *const Registered,
    /// How many batches wait until no reader has them.
    unfreed: Arc<AtomicI64>,
    /// How often to try to free them before the driver sleeps.
    flushes: u32,
}

// SAFETY: what `passed` points to is `Sync`, and belongs to the registry, not to a thread.
unsafe impl Send for Sweep {}

impl Registry {
    /// Retains the counters of at least so many ended threads.
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

    /// Returns counters that are the caller's alone until it [unregisters](Self::unregister) them. Lock-free.
    pub(crate) fn register(&self) -> Arc<Registered> {
        // Relaxed, here and wherever these two are counted: they only tell when to trim. Those in use are counted first
        // here and last in `unregister`, so that no counters are taken for left ones before they are.
        self.in_use.fetch_add(1, Ordering::Relaxed);
        let Some(orphan) = self.pop_orphan() else {
            return self.push_new();
        };
        // SAFETY: it comes from `Arc::into_raw`, and the list has a count of it, as it is not folded.
        unsafe {
            Arc::increment_strong_count(orphan);
            Arc::from_raw(orphan)
        }
    }

    /// Leaves counters to the next thread. Returns whether so many are left that the driver should [trim](Self::trim).
    /// Lock-free.
    ///
    /// # Safety
    /// They come from [`register`](Self::register) of this registry, are left once, and are not counted on any more.
    pub(crate) unsafe fn unregister(&self, counters: &Arc<Registered>) -> bool {
        let new: *mut Registered = Arc::as_ptr(counters).cast_mut();
        // Release: publishes the counts to the thread that takes them; pairs with the Acquire in `take`.
        push(&self.orphans, new, &counters.below);
        self.in_use.fetch_sub(1, Ordering::Relaxed);
        self.has_surplus()
    }

    /// Returns the sum of everything that was counted. Wait-free.
    pub(crate) fn read(&self) -> ShardStats {
        self.walk(ShardStats::clone, |sum, counters| counters.add_to(sum))
    }

    /// Returns the sum of one number: `count` reads it from a thread's counters, `folded` from the sum of those that were
    /// removed. Wait-free.
    pub(crate) fn sum(&self, count: impl Fn(&ThreadCounters) -> u64, folded: impl FnOnce(&ShardStats) -> u64) -> u64 {
        self.walk(folded, |sum, counters| *sum += count(counters))
    }

    fn walk<S>(&self, begin: impl FnOnce(&ShardStats) -> S, mut add: impl FnMut(&mut S, &ThreadCounters)) -> S {
        let guard = epoch::pin();
        let mut found = Vec::with_capacity(self.total.load(Ordering::Relaxed).max(0) as usize);
        // Acquire: pairs with the Release of each push, for the counters, and of each unlinking, for `folded`.
        let mut link = &self.first;
        // SAFETY: what is linked is not freed, and what was linked when the guard pinned is not freed before it unpins.
        while let Some(counters) = unsafe { link.load(Ordering::Acquire).as_ref() } {
            found.push(counters);
            link = &counters.next;
        }
        // After the walk. Acquire: pairs with the Release in `fold`, for the sum and the marks.
        let folded = self.folded.load(Ordering::Acquire, &guard);
        // SAFETY: it is never null, and the guard keeps it from being freed.
        let folded = unsafe { folded.deref() };
        let mut sum = begin(&folded.sum);
        for counters in found {
            // Relaxed: a mark up to this version was set before this version was published.
            let version = counters.folded_in.load(Ordering::Relaxed);
            if version == 0 || version > folded.version {
                add(&mut sum, &counters.counters);
            }
        }
        sum
    }

    /// Whether so many counters are left that the driver should [trim](Self::trim).
    pub(crate) fn has_surplus(&self) -> bool {
        let (orphaned, retained) = self.orphaned_and_retained();
        orphaned > 2 * retained
    }

    /// How many counters are left, and how many of them are retained.
    fn orphaned_and_retained(&self) -> (i64, i64) {
        let in_use = self.in_use.load(Ordering::Relaxed);
        (self.total.load(Ordering::Relaxed) - in_use, in_use.max(self.retain_min))
    }

    /// Folds and frees counters that are surplus, in a bounded turn. Returns whether it should be called again.
    pub(crate) fn trim(&self) -> bool {
        let Ok(mut sweep) = self.sweep.try_lock() else {
            return false;
        };
        let (orphaned, retained) = self.orphaned_and_retained();
        sweep.folding = orphaned > if sweep.folding { retained } else { 2 * retained };
        // Relaxed: it only tells whether to try again.
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

    /// Adds some of the left counters to the sum, and returns how many.
    fn fold(&self, guard: &Guard) -> usize {
        let old = self.folded.load(Ordering::Acquire, guard);
        // SAFETY: it is never null, and nobody else replaces it, as the caller has the lock of the sweep.
        let Folded { version, sum } = unsafe { old.deref() };
        let (version, mut sum) = (version + 1, sum.clone());
        let mut count = 0;
        while count < MAX_FOLDED && self.orphaned_and_retained().0 > self.orphaned_and_retained().1 {
            let Some(counters) = self.pop_orphan() else { break };
            self.total.fetch_sub(1, Ordering::Relaxed);
            // SAFETY: it is linked, and nobody else unlinks it.
            let counters = unsafe { &*counters };
            // Relaxed: published by the exchange below.
            counters.folded_in.store(version, Ordering::Relaxed);
            counters.counters.add_to(&mut sum);
            count += 1;
        }
        if count > 0 {
            // Release: publishes the sum and the marks to readers; pairs with the Acquire in `walk`.
            let old = self.folded.swap(Owned::new(Folded { version, sum }), Ordering::AcqRel, guard);
            // SAFETY: readers to come find the new one, and it is retired once.
            unsafe { guard.defer_destroy(old) };
        }
        count
    }

    /// Passes some of the list, and unlinks what is folded.
    fn unlink(&self, sweep: &mut Sweep, guard: &Guard) {
        let mut unlinked = Vec::new();
        for _ in 0..MAX_STEPS {
            // SAFETY: what was passed is linked, and nobody else unlinks it, as the caller has the lock of the sweep.
            let link = unsafe { sweep.last_visited.as_ref() }.map_or(&self.first, |counters| &counters.next);
            let found = link.load(Ordering::Acquire);
            // SAFETY: it is linked, as above.
            let Some(counters) = (unsafe { found.as_ref() }) else {
                sweep.last_visited = ptr::null();
                break;
            };
            if counters.folded_in.load(Ordering::Relaxed) == 0 {
                sweep.last_visited = found;
                continue;
            }
            let next = counters.next.load(Ordering::Acquire);
            // Release: a reader that does not find the counters sees the sum that contains them; pairs with the Acquire
            // in `walk`. It fails only at `first`, where a thread has registered meanwhile: then the next step passes
            // that thread's counters, and finds these again.
            if link.compare_exchange(found, next, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                // SAFETY: it comes from `Arc::into_raw`, and was the list's.
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
            // SAFETY: readers to come do not find them. They, and the number, may be dropped on any thread.
            unsafe {
                guard.defer_unchecked(move || {
                    drop(unlinked);
                    unfreed.fetch_sub(1, Ordering::Relaxed);
                });
            }
        }
    }

    /// Pops counters that are left, unless there are none, or another thread is about to.
    fn pop_orphan(&self) -> Option<*const Registered> {
        // Acquire: pairs with the Release below, for what the last thread to pop has done.
        if self.orphans.load(Ordering::Relaxed).is_null() || self.popping.swap(true, Ordering::Acquire) {
            return None;
        }
        // Acquire: pairs with the Release in `unregister`, for the counts and `below`.
        let popped = self.orphans.fetch_update(Ordering::Acquire, Ordering::Acquire, |top| {
            // SAFETY: what is left is linked until it is folded, and only a thread that has popped it folds it.
            let top = unsafe { top.as_ref() }?;
            Some(top.below.load(Ordering::Relaxed))
        });
        // A read-modify-write, as loom cannot order a plain store against the swap above.
        self.popping.swap(false, Ordering::Release);
        popped.ok().map(<*mut _>::cast_const)
    }

    fn push_new(&self) -> Arc<Registered> {
        let new = Arc::<Registered>::default();
        // One count is the list's.
        let linked = Arc::into_raw(new.clone()).cast_mut();
        // Release: publishes the counters to readers.
        push(&self.first, linked, &new.next);
        self.total.fetch_add(1, Ordering::Relaxed);
        new
    }
}

/// Pushes counters onto a list, in which `link` leads to the others, and publishes them.
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
            // SAFETY: it comes from `Arc::into_raw`, is the list's, and nobody else has the list any more.
            let counters = unsafe { Arc::from_raw(next.cast_const()) };
            next = counters.next.load(Ordering::Acquire);
        }
        // SAFETY: as above.
        drop(unsafe { std::mem::take(&mut self.folded).into_owned() });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Leaves counters that were registered here.
    fn leave(registry: &Registry, counters: Arc<Registered>) -> bool {
        // SAFETY: each is left once.
        unsafe { registry.unregister(&counters) }
    }

    /// How many counters the list has.
    fn linked(registry: &Registry) -> usize {
        let mut count = 0;
        let mut link = &registry.first;
        // SAFETY: nobody unlinks any.
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
        // Other tests may be pinned.
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

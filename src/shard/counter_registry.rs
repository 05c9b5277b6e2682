//! `Registry`: the counters of all threads that use a shard, while threads come and go.
//!
//! ```text
//! list ──► counters ──next──► counters ──next──► counters ──► ..     of every thread, the newest first
//!
//! merged ──► { version, the sum of the counters that were merged }
//! ```
//!
//! A thread **registers** when it first uses the shard: it pushes new counters to the list. It **unregisters** when it
//! ends: it marks its counters as ended. The cost of both does not depend on the number of threads. Only a thread that
//! trims pins the epoch: crossbeam-epoch keeps a list of pinning threads, and each costs the others.
//!
//! # Trimming
//!
//! The counters of a thread that has run callbacks include a histogram of 4 KiB. A thread that ends when more threads
//! have ended than are left trims the list, in one pass:
//!
//! 1. *Merge*: it marks the counters of ended threads with the next version, and adds them to the sum. Then it publishes
//!    the sum as a new version of `merged`. This is copy on write (RCU).
//! 2. *Unlink*: it unlinks them by plain stores, because only the trim changes the links of listed counters. It leaves
//!    the first counters, before which other threads push.
//! 3. *Free*: [`crossbeam_epoch`] frees them when no reader can have a reference.
//!
//! More than half of the counters that a pass visits have ended. So the end of a thread takes constant time, amortised.
//!
//! # Why a reader counts everything once
//!
//! A reader walks the list, and then loads `merged`. It skips counters whose mark is at most the version that it has
//! loaded, because that sum contains them. Counters that the walk has not found were unlinked earlier. Their sum was
//! published before that, so the later load finds it. A reader never retries: reading is wait-free, apart from the
//! allocator.
//!
//! Loom model `registry`, explored with an epoch that loom knows (`--cfg crossbeam_loom`).

use std::iter;

use crossbeam_epoch::{self as epoch, Atomic, Guard, Owned};

use crate::stats::{ShardStats, ThreadCounters};
use crate::sync::{Arc, AtomicBool, AtomicI64, AtomicPtr, AtomicU64, Mutex, Ordering, limit};

/// Number of attempts to free what a trim has unlinked. Each advances the epoch if no reader is in its way, and a few
/// advances free it. What is left goes with a later trim.
const FLUSHES: usize = limit(8);

// On cache lines of its own: threads write here when they start and end, and all calls read the neighbouring fields.
#[repr(align(128))]
pub(crate) struct Registry {
    /// The counters registered last. The list owns a count of each.
    head: AtomicPtr<ListedCounters>,
    /// Number of counters in the list.
    listed: AtomicI64,
    /// Number of those whose threads have ended.
    ended: AtomicI64,
    /// Number of ended threads whose counters stay in the list in any case.
    retain_min: i64,
    /// The sum of all counters that were merged, and its version.
    merged: Atomic<(u64, ShardStats)>,
    /// Held by the thread that trims.
    trims: Mutex<()>,
}

/// The counters of one thread, on cache lines that no other thread writes while it counts.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct ListedCounters {
    pub(crate) counters: ThreadCounters,
    /// The next older counters in the list.
    next: AtomicPtr<ListedCounters>,
    /// The thread has ended.
    ended: AtomicBool,
    /// The mark: the first version of `merged` that contains these counters. Zero: none does.
    merged_in: AtomicU64,
}

impl Registry {
    /// Creates a registry that is not trimmed for as few as `retain_min` ended threads.
    pub(crate) fn new(retain_min: usize) -> Self {
        assert!(retain_min > 0, "the first counters always stay");
        Self {
            head: AtomicPtr::default(),
            listed: AtomicI64::new(0),
            ended: AtomicI64::new(0),
            retain_min: retain_min as i64,
            merged: Atomic::new((0, ShardStats::default())),
            trims: Mutex::default(),
        }
    }

    /// Returns new counters, which only the caller uses until it [unregisters](Self::unregister) them. Lock-free.
    pub(crate) fn register(&self) -> Arc<ListedCounters> {
        let new = Arc::<ListedCounters>::default();
        let listed = Arc::into_raw(new.clone()).cast_mut();
        // Release: publishes the counters and their link; pairs with `list_from` and `head`. Relaxed for the link
        // itself: published by this. No counters are popped, so there is no ABA. Loom model `registry`.
        let _ = self.head.fetch_update(Ordering::Release, Ordering::Relaxed, |head| {
            new.next.store(head, Ordering::Relaxed);
            Some(listed)
        });
        // Relaxed, here and wherever `listed` and `ended` change but in `unregister`: they only decide when to trim.
        self.listed.fetch_add(1, Ordering::Relaxed);
        new
    }

    /// Leaves the counters to the registry, when their thread ends. The caller must not count afterwards. Trims the list if
    /// more threads have ended than are left, unless another thread does.
    pub(crate) fn unregister(&self, counters: &ListedCounters) {
        // Release: publishes the counts; pairs with `trim`.
        counters.ended.store(true, Ordering::Release);
        // Release: publishes the mark; pairs with `has_surplus`. Otherwise a trim could find too few, again and again.
        self.ended.fetch_add(1, Ordering::Release);
        // Again after each trim, for those that have ended meanwhile.
        while self.has_surplus() {
            let Ok(only) = self.trims.try_lock() else { return };
            self.trim();
            drop(only);
            (0..FLUSHES).for_each(|_| epoch::pin().flush());
        }
    }

    /// Returns the sum of all counts. Wait-free.
    pub(crate) fn read(&self) -> ShardStats {
        self.walk(ShardStats::clone, |sum, counters| counters.add_to(sum))
    }

    /// Begins with what `begin` makes of the sum of the merged counters, and adds all others to it. Wait-free.
    pub(super) fn walk<S>(
        &self,
        begin: impl FnOnce(&ShardStats) -> S,
        mut add: impl FnMut(&mut S, &ThreadCounters),
    ) -> S {
        let guard = epoch::pin();
        let mut found = Vec::with_capacity(self.listed.load(Ordering::Relaxed).max(0) as usize);
        // SAFETY: the first counters are in the list, after the guard has pinned.
        found.extend(unsafe { list_from(self.head(), &guard) });
        // After the walk: see the head of this file. Acquire: pairs with the Release in `trim`, for the sum and the
        // marks.
        let merged = self.merged.load(Ordering::Acquire, &guard);
        // SAFETY: `merged` is never null, and it is not freed while the guard is pinned.
        let (version, sum) = unsafe { merged.deref() };
        let mut sum = begin(sum);
        for counters in found {
            // Relaxed: the load of `merged` has acquired all marks up to its version.
            let mark = counters.merged_in.load(Ordering::Relaxed);
            if mark == 0 || mark > *version {
                add(&mut sum, &counters.counters);
            }
        }
        sum
    }

    /// Returns the counters registered last, or null.
    fn head(&self) -> *mut ListedCounters {
        // Acquire: pairs with every push, as later pushes continue the release sequence of earlier ones.
        self.head.load(Ordering::Acquire)
    }

    /// Returns whether more threads have ended than are left, or than are always retained.
    fn has_surplus(&self) -> bool {
        let ended = self.ended.load(Ordering::Acquire);
        let in_use = self.listed.load(Ordering::Relaxed) - ended;
        ended > in_use.max(self.retain_min)
    }

    /// Merges and unlinks the counters of ended threads. The caller must hold the lock of `trims`.
    #[cold]
    fn trim(&self) {
        let guard = epoch::pin();
        // SAFETY: the first counters are in the list, after the guard has pinned.
        let mut list = unsafe { list_from(self.head(), &guard) };
        let Some(mut kept) = list.next() else { return };
        // SAFETY: `merged` is never null. No other thread replaces it, because the caller holds the lock.
        let (last, sum) = unsafe { self.merged.load(Ordering::Acquire, &guard).deref() };
        let (version, mut sum) = (last + 1, sum.clone());
        // Counters to be unlinked, each with the last ones before it that are kept.
        let mut surplus = Vec::new();
        for counters in list {
            // Acquire: we see all counts of the thread; pairs with `unregister`.
            if !counters.ended.load(Ordering::Acquire) {
                kept = counters;
                continue;
            }
            // Relaxed: published by the swap below.
            counters.merged_in.store(version, Ordering::Relaxed);
            counters.counters.add_to(&mut sum);
            surplus.push((kept, counters));
        }
        // Release: publishes the sum and the marks to readers; pairs with the Acquire in `walk`.
        let old = self.merged.swap(Owned::new((version, sum)), Ordering::AcqRel, &guard);
        // SAFETY: later readers find the new version, and the old one is passed to the collector once.
        unsafe { guard.defer_destroy(old) };

        self.listed.fetch_sub(surplus.len() as i64, Ordering::Relaxed);
        self.ended.fetch_sub(surplus.len() as i64, Ordering::Relaxed);
        let unlink = |(kept, counters): (&ListedCounters, &ListedCounters)| {
            let unlinked = kept.next.load(Ordering::Relaxed).cast_const();
            // Release: publishes the sum that contains the counters to readers that do not find them; pairs with the
            // Acquire in `list_from`. A store, because no other thread changes this link.
            kept.next.store(counters.next.load(Ordering::Relaxed), Ordering::Release);
            // SAFETY: we own the list's count, because the store has unlinked it. It comes from `Arc::into_raw`.
            unsafe { Arc::from_raw(unlinked) }
        };
        let unlinked: Vec<_> = surplus.into_iter().map(unlink).collect();
        // SAFETY: later readers cannot find the counters. They may be dropped on any thread.
        unsafe { guard.defer_unchecked(move || drop(unlinked)) };
    }
}

/// Returns the counters from `first` on, which is null if there are none.
///
/// # Safety
/// `first` must be null, or have been in the list at some time after the guard has pinned.
unsafe fn list_from(first: *mut ListedCounters, _guard: &Guard) -> impl Iterator<Item = &ListedCounters> {
    // SAFETY: the counters exist. By this function's contract, the first were in the list after the guard has pinned.
    // So were those to which their link refers, because a link changes no more once its counters are unlinked. Such
    // counters are not freed before the guard unpins.
    let get = |counters: *mut ListedCounters| unsafe { counters.as_ref() };
    // Acquire: pairs with the push, for the counters, and with the unlinking store in `trim`, for `merged`.
    iter::successors(get(first), move |counters| get(counters.next.load(Ordering::Acquire)))
}

impl Drop for Registry {
    fn drop(&mut self) {
        // SAFETY: we own the sum, because the registry is being dropped: no reader is left.
        drop(unsafe { std::mem::take(&mut self.merged).into_owned() });
        let mut next = self.head();
        while !next.is_null() {
            // SAFETY: we own the count of each counters in the list: see `register`.
            let counters = unsafe { Arc::from_raw(next) };
            next = counters.next.load(Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "counter_registry_tests.rs"]
mod tests;

//! `Registry`: the counters of all threads that use a shard, while threads come and go.
//!
//! A thread **registers** when it first uses the shard: it pushes new counters to a lock-free [stack](crate::sync::stack).
//! It **unregisters** when it ends: it marks its counters as ended. Neither takes the lock, and the cost of both does not
//! depend on the number of threads.
//!
//! The lock guards the list of counters, and the sum of those that are no longer listed. A reader takes over what is on
//! the stack, and adds up the sum and the list. So it finds each count once.
//!
//! The counters of a thread that has run callbacks include a histogram of 4 KiB. When more threads have ended than are
//! left, the driver [trims](Registry::trim): in bounded turns, it passes over the list, and *folds* the counters of ended
//! threads into the sum. Then more than half of the list has ended, so folding costs an ended thread a constant time.
//! The driver only tries the lock. If a reader has it, the driver comes again.
//!
//! Loom model `registry`.

use crate::stats::{ShardStats, ThreadCounters};
use crate::sync::stack::Stack;
use crate::sync::{Arc, AtomicBool, AtomicI64, AtomicPtr, Mutex, MutexGuard, Ordering, lock};

/// Maximum number of counters that a turn folds: some 50 µs, if each has a histogram that is in no CPU cache.
const MAX_FOLDED: i64 = 16;

/// Maximum number of counters that a turn visits: some 50 µs, as each is a cache miss.
const MAX_STEPS: usize = 512;

// On cache lines of its own: threads write here when they start and end, and all calls read the neighbouring fields.
#[repr(align(128))]
pub(crate) struct Registry {
    /// Counters that were registered since the lock was last taken.
    entered: Stack<Registered>,
    list: Mutex<List>,
    /// Number of counters that are registered and not folded.
    registered: AtomicI64,
    /// Number of those whose threads have ended.
    ended: AtomicI64,
    /// Number of ended threads whose counters stay in the list in any case.
    retain_min: i64,
}

/// The counters of one thread, on cache lines that no other thread writes while it counts.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Registered {
    pub(crate) counters: ThreadCounters,
    /// The counters that were registered before these.
    next: AtomicPtr<Registered>,
    /// The thread has ended.
    ended: AtomicBool,
}

#[derive(Default)]
struct List {
    counters: Vec<Arc<Registered>>,
    /// The sum of all counters that are no longer listed.
    folded: ShardStats,
    /// Number of listed counters, from the first on, that the trim's pass has yet to visit. Zero: there is no pass.
    unvisited: usize,
}

impl Registry {
    /// Creates a registry that is not trimmed for as few as `retain_min` ended threads.
    pub(crate) fn new(retain_min: usize) -> Self {
        Self {
            entered: Stack::new(|counters| &counters.next),
            list: Mutex::new(List::default()),
            registered: AtomicI64::new(0),
            ended: AtomicI64::new(0),
            retain_min: retain_min as i64,
        }
    }

    /// Returns new counters, which only the caller uses until it [unregisters](Self::unregister) them. Lock-free.
    pub(crate) fn register(&self) -> Arc<Registered> {
        let new = Arc::<Registered>::default();
        self.entered.push(new.clone());
        // Relaxed, here and wherever `registered` and `ended` change: they only decide when to trim.
        self.registered.fetch_add(1, Ordering::Relaxed);
        new
    }

    /// Leaves the counters to the registry, when their thread ends. The caller must not count afterwards. Returns whether
    /// so many threads have ended that the driver should [trim](Self::trim). Wait-free.
    pub(crate) fn unregister(&self, counters: &Registered) -> bool {
        // Release: publishes the counts to the driver; pairs with `trim`.
        counters.ended.store(true, Ordering::Release);
        self.ended.fetch_add(1, Ordering::Relaxed);
        self.has_surplus()
    }

    /// Returns the sum of all counts. Takes the lock.
    pub(crate) fn read(&self) -> ShardStats {
        let list = self.lock();
        let mut sum = list.folded.clone();
        list.counters.iter().for_each(|registered| registered.counters.add_to(&mut sum));
        sum
    }

    /// Returns the sum of one count: `count` reads it from a thread's counters, `folded` from the sum of those that
    /// were folded. Takes the lock.
    pub(super) fn sum(&self, count: impl Fn(&ThreadCounters) -> u64, folded: impl FnOnce(&ShardStats) -> u64) -> u64 {
        let list = self.lock();
        folded(&list.folded) + list.counters.iter().map(|registered| count(&registered.counters)).sum::<u64>()
    }

    /// Locks the list, with all counters that were registered before.
    fn lock(&self) -> MutexGuard<'_, List> {
        let mut list = lock(&self.list);
        list.counters.extend(self.entered.take_all());
        list
    }

    /// Returns whether so many threads have ended that the driver should [trim](Self::trim).
    pub(super) fn has_surplus(&self) -> bool {
        let ended = self.ended.load(Ordering::Relaxed);
        let in_use = self.registered.load(Ordering::Relaxed) - ended;
        ended > in_use.max(self.retain_min)
    }

    /// Makes a bounded turn: visits some counters, and folds those of ended threads. Returns whether it should be called
    /// again.
    pub(crate) fn trim(&self) -> bool {
        let Ok(mut list) = self.list.try_lock() else { return false };
        let List { counters, folded, unvisited } = &mut *list;
        if *unvisited == 0 && self.has_surplus() {
            counters.extend(self.entered.take_all());
            *unvisited = counters.len();
        }
        let mut turn = 0;
        for index in (0..*unvisited).rev().take(MAX_STEPS) {
            *unvisited = index;
            // Acquire: we see all counts of the thread; pairs with `unregister`.
            if counters[index].ended.load(Ordering::Acquire) {
                counters[index].counters.add_to(folded);
                // What takes its place was visited before, or has entered since.
                counters.swap_remove(index);
                turn += 1;
            }
            if turn == MAX_FOLDED {
                break;
            }
        }
        self.registered.fetch_sub(turn, Ordering::Relaxed);
        self.ended.fetch_sub(turn, Ordering::Relaxed);
        *unvisited > 0
    }
}

#[cfg(all(test, not(loom)))]
#[path = "registry_tests.rs"]
mod tests;

//! `Core`: what all threads share of a shard, and the steps that a timer makes through it.
//!
//! | a timer is              | by                                                          |
//! |-------------------------|-------------------------------------------------------------|
//! | armed                   | [`Entry::arm_written`], in a [free entry](Core::free_entry) |
//! | brought to the driver   | [`Core::notify_driver`], [`Core::enqueue`]                  |
//! | linked, then dispatched | a turn of the [driver](super::driver)                        |
//! | run                     | a worker: [`Shard::run`](crate::shard)                      |
//! | recycled                | [`Core::recycle`]                                           |
//!
//! Free entries come from the calling thread's cache, else from the depot, else from the slab. They go back the same
//! way, or are set aside if their block is sparse: see [`memory`](super::memory).

use std::alloc::{Layout, handle_alloc_error};
use std::time::{Duration, Instant};

use super::call_stack;
use super::entry::{DriverNotice, Entry};
use super::memory::{AllocError, BLOCK, Cache, Depot, MAGAZINE, Slab};
use super::seat::PROGRAM;
use super::stack::Stack;
use super::wakeup::DriverWakeup;
use crate::sync::{AtomicBool, AtomicI64, Condvar, Mutex, fence_between_seq_cst, lock, unpoisoned};

/// What all threads share of a shard.
pub(crate) struct Core {
    // Models explore these three by themselves, too.
    pub(crate) slab: Slab,
    pub(crate) depot: Depot,
    pub(crate) wakeup: DriverWakeup,
    /// The entries that callers have pushed and the driver has not taken.
    pub(crate) intake: Stack,
    /// The shard has been shut down: its driver must end.
    pub(super) closing: AtomicBool,
    /// Number of handles that keep a closed shard's memory. Below zero while the shutdown is still counting them.
    pub(super) handles: AtomicI64,
    /// Wakes the threads that wait for the end of a callback.
    run_ended: (Mutex<()>, Condvar),
    /// Delay in ticks before chores wake the driver.
    lazy_wakeup: u64,
    /// Free entries that are always retained.
    retain_min: usize,
}

impl Core {
    pub(crate) fn new(slab: Slab, lazy_wakeup: u64, retain_min: usize, wakeup: DriverWakeup) -> Self {
        Self {
            slab,
            depot: Depot::default(),
            intake: Stack::default(),
            wakeup,
            closing: AtomicBool::new(false),
            handles: AtomicI64::new(0),
            run_ended: (Mutex::new(()), Condvar::new()),
            lazy_wakeup,
            retain_min,
        }
    }

    /// Reserves a free entry for a future that is not armed yet; sets `HANDLE`. Returns `None` if the shard has been
    /// shut down. Lock-free; allocates if cache and depot are empty, and ends the process if there is no memory, as
    /// `Box::new` does.
    #[inline]
    pub(crate) fn reserve(&self, cache: &mut Cache) -> Option<(&Entry, u32)> {
        let index = match self.free_entry(cache) {
            Ok(index) => index,
            Err(AllocError::Closed) => return None,
            Err(AllocError::NoMemory) => handle_alloc_error(Layout::new::<Entry>()),
        };
        let entry = self.slab.get(index);
        // SAFETY: we own the entry, and it is unused, because it came from the cache.
        unsafe { entry.reserve() }.then_some((entry, index))
    }

    /// Returns an entry of the cache, which it refills if it is empty.
    #[inline(always)]
    pub(crate) fn free_entry(&self, cache: &mut Cache) -> Result<u32, AllocError> {
        loop {
            if let Some(index) = cache.pop() {
                return Ok(index);
            }
            self.refill(cache)?;
        }
    }

    /// Refills an empty cache from the depot, else from the slab. In rare cases it stays empty: all entries of the
    /// magazine from the depot were in sparse blocks.
    #[cold]
    fn refill(&self, cache: &mut Cache) -> Result<(), AllocError> {
        if !self.depot.pop(&self.slab, |index| self.receive(cache, index)) {
            // The slab yields entries in descending order. As the cache is a stack, neighbours in memory are then used
            // in ascending order. Entries of a large page that do not fit into the cache go to the depot.
            self.slab.alloc(|index| self.keep(cache, index))?;
        }
        if cache.was_filled_before() && self.wakeup.seat.role() != PROGRAM {
            // Wake the driver early, so that it need not link a large backlog when the first timer expires. A program's
            // loop sleeps as long as `next_wakeup` has said.
            self.wake_lazily();
        }
        Ok(())
    }

    /// Puts an entry from the depot into a cache, or sets it aside if its block is sparse.
    #[inline]
    pub(super) fn receive(&self, cache: &mut Cache, index: u32) {
        if self.slab.is_sparse(index) {
            // SAFETY: we own the entry, which is unused, because it comes from the depot.
            unsafe { self.set_aside(index) };
        } else {
            self.keep(cache, index);
        }
    }

    /// Puts an entry that the caller owns into a cache, or sets it aside if its block is sparse. Lock-free.
    #[inline]
    pub(crate) fn recycle(&self, cache: &mut Cache, index: u32) {
        if self.slab.is_sparse(index) {
            // SAFETY: the caller owns the entry, which is unused, because only its owner could arm it.
            unsafe { self.recycle_sparse(cache, index) };
        } else {
            self.keep(cache, index);
        }
    }

    /// Sets an entry of a sparse block aside, and gives back all entries of the cache. They are from the time before
    /// the blocks were marked, and each may keep a page. Lock-free.
    ///
    /// # Safety
    /// The caller must own the entry, which must be unused.
    #[cold]
    pub(crate) unsafe fn recycle_sparse(&self, cache: &mut Cache, index: u32) {
        // SAFETY: by this function's contract.
        unsafe { self.set_aside(index) };
        self.drain_cache(cache);
    }

    /// Puts an entry into a cache. If the cache is full, half of it is given back.
    #[inline]
    pub(super) fn keep(&self, cache: &mut Cache, index: u32) {
        cache.push(index, |magazine| self.give_back(magazine));
    }

    /// Moves entries from a cache to the depot, at most a magazine. Sets those of sparse blocks aside. Lock-free.
    pub(crate) fn give_back(&self, magazine: &[u32]) {
        let mut rest = [0; MAGAZINE];
        let mut len = 0;
        for &index in magazine {
            if self.slab.is_sparse(index) {
                // SAFETY: we own the entry, which is unused, because it comes from a cache.
                unsafe { self.set_aside(index) };
            } else {
                rest[len] = index;
                len += 1;
            }
        }
        self.push_to_depot(&rest[..len]);
    }

    /// Sets an entry of a sparse block aside. If the block is not sparse any more, all that is set aside there goes to
    /// the depot. Lock-free.
    ///
    /// # Safety
    /// The caller must own the entry, which must be unused.
    #[cold]
    pub(crate) unsafe fn set_aside(&self, index: u32) {
        // SAFETY: the caller owns the entry, which is unused, because of this function's contract.
        unsafe { self.slab.set_aside(index, |back| self.push_to_depot(&[back])) };
        if self.has_free_blocks() {
            self.wake_lazily();
        }
    }

    /// Pushes entries to the depot, at most a magazine. Wakes the driver lazily if there is much to trim. Lock-free.
    pub(crate) fn push_to_depot(&self, magazine: &[u32]) {
        // SAFETY: we own the entries, and they are unused, because they come from a cache, or were set aside.
        unsafe { self.depot.push(&self.slab, magazine) };
        if self.is_mostly_free() {
            self.wake_lazily();
        }
    }

    /// Gives back all entries of a cache. Lock-free.
    pub(crate) fn drain_cache(&self, cache: &mut Cache) {
        cache.drain(|magazine| self.give_back(magazine));
    }

    /// Returns whether the driver should look for memory to trim.
    pub(crate) fn has_surplus_memory(&self) -> bool {
        self.is_mostly_free() || self.has_free_blocks()
    }

    /// Returns whether the depot has at least three quarters of the entries outside of sparse blocks, and at least as
    /// many as are always retained.
    pub(super) fn is_mostly_free(&self) -> bool {
        let free = self.depot.len();
        free >= self.retain_min && free >= self.slab.len_outside_sparse() / 4 * 3
    }

    /// Returns whether enough sparse blocks have become completely free to make a search for them worthwhile: at least
    /// a 16th of the entries that are always retained, and at least one in 256 of the blocks that the search visits.
    pub(super) fn has_free_blocks(&self) -> bool {
        let free = self.slab.free_blocks() as usize;
        free > 0 && free >= (self.retain_min / (16 * BLOCK as usize)).max(self.slab.blocks() as usize / 256)
    }

    /// Pushes an entry with the flag `ENQUEUED` to the intake, and makes sure that the driver looks there in time.
    ///
    /// `deadline` is the deadline that the caller gave the entry at tick `now`. Another thread may have set an earlier one
    /// since. Lock-free.
    #[inline]
    pub(crate) fn enqueue(&self, index: u32, deadline: u64, now: u64) {
        let entry = self.slab.get(index);
        self.intake.push(index, &entry.next_in_intake);
        // The push comes before the loads of the state word and of `wake_tick`: see the head of `wakeup`. Loom models
        // `sleep` and `in_flight`.
        fence_between_seq_cst();
        // Another deadline may have come already when it was set, and that thread could only wake a driver that had not
        // the entry yet.
        let is_due = deadline <= now || entry.is_replaced(deadline, now);
        self.wake_for(is_due, deadline);
    }

    /// Wakes the driver by the deadline of an entry that it finds when it comes.
    #[inline]
    fn wake_for(&self, is_due: bool, deadline: u64) {
        if is_due { self.wakeup.wake_for_due() } else { self.wakeup.wake_by_ordered(deadline) }
    }

    /// Notifies the driver of an entry's new deadline, as [`enqueue`](Self::enqueue) does. Lock-free.
    #[inline]
    pub(crate) fn notify_driver(&self, index: u32, notice: DriverNotice, deadline: u64, now: u64) {
        match notice {
            DriverNotice::None => {}
            DriverNotice::Wake => {
                // The transition of the state word comes before the load of `wake_tick`. Loom model `in_flight`.
                fence_between_seq_cst();
                self.wake_for(deadline <= now, deadline);
            }
            DriverNotice::Enqueue => self.enqueue(index, deadline, now),
        }
    }

    /// Wakes the driver for chores: for a program's loop, only memory to be given back.
    #[inline]
    pub(crate) fn wake_lazily(&self) {
        self.wakeup.wake_lazily(self.lazy_wakeup);
    }

    /// Waits until no thread is inside the callback of `entry`. Returns at once if the calling thread is. Returns false
    /// if the run has not ended at the instant `until`. Loom models `periodic`, `shutdown_inside`.
    pub(crate) fn wait_for_run(&self, entry: &Entry, until: Option<Instant>) -> bool {
        if call_stack::inside_entry(entry) {
            return true;
        }
        let (mutex, ended) = &self.run_ended;
        let mut guard = lock(mutex);
        // This thread sets `HAS_WAITER` under the lock. The worker that clears it takes the lock before it notifies, so
        // the notification cannot come before this thread waits.
        while entry.wait_for_run() {
            guard = match until.map(|until| until.saturating_duration_since(Instant::now())) {
                None => unpoisoned(ended.wait(guard)),
                Some(Duration::ZERO) => return false,
                Some(left) => unpoisoned(ended.wait_timeout(guard, left)).0,
            };
        }
        true
    }

    /// Wakes the threads in [`wait_for_run`](Self::wait_for_run) after a run, if there are any.
    pub(crate) fn wake_waiters(&self, has_waiter: bool) {
        if has_waiter {
            drop(lock(&self.run_ended.0));
            self.run_ended.1.notify_all();
        }
    }
}

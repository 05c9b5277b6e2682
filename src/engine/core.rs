//! What all threads share of a shard, and the steps of a timer's way through it.
//!
//! Everything here is said in ticks and entries: no clock, no executor, no counters. That is what lets loom run it.

use std::alloc::{Layout, handle_alloc_error};
use std::ptr::NonNull;

use super::call_stack;
use super::entry::{Callback, Claim, DriverNotice, Entry, Held, Role};
use super::intake::Intake;
use super::memory::{BATCH, Cache, Pool, Refusal, Slab};
use super::wakeup::DriverWakeup;
use crate::sync::{AtomicBool, AtomicI64, BLOCK, Condvar, Mutex, MutexGuard, Ordering, fence_between_seq_cst};

/// The shared half of a shard; the other half, [`DriverCore`](super::turn::DriverCore), is its driver's own.
pub(crate) struct Core {
    pub(crate) slab: Slab,
    pub(crate) pool: Pool,
    pub(super) intake: Intake,
    pub(crate) wakeup: DriverWakeup,
    /// The shard is to be shut down: its driver ends.
    closing: AtomicBool,
    /// Handles that keep a closed shard's memory; below zero while the shutdown still counts them.
    pins: AtomicI64,
    /// For those who sleep until a callback is over.
    run_ended: (Mutex<()>, Condvar),
    /// For how many ticks what nobody waits for may be left to do. `None`: until the driver looks for another reason.
    lazy_wakeup: Option<u64>,
    /// It is no use to give back as few free entries.
    retain_min: usize,
}

/// A timer that has just been made.
pub(crate) struct Armed<'a> {
    pub(crate) entry: &'a Entry,
    pub(crate) index: u32,
    /// What the driver must be told.
    pub(crate) notice: DriverNotice,
}

/// What a shutdown has before it when all entries are closed. More than that does not come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Closing {
    /// Pending closures, without those that are running.
    pub(crate) closures: usize,
    /// Pending wakers.
    pub(crate) wakers: usize,
    /// Callbacks that are running.
    pub(crate) running: usize,
    /// No handle keeps the shard's memory.
    pub(crate) unpinned: bool,
}

/// What a shutdown finds.
pub(crate) enum Found {
    /// A timer that has not fired. It was in a batch, if `dispatched`.
    Unfired { deadline: u64, callback: Callback, dispatched: bool },
    /// A repeating timer that ends with the run that it is in.
    Ended,
}

/// Closed entries whose callbacks were running.
pub(crate) struct Running<'a>(Vec<&'a Entry>);

/// Takes the timer of a closed entry. False if it is running, and not to be ended.
fn claim(entry: &Entry, end_run: bool, now: u64, found: &mut impl FnMut(Found)) -> bool {
    match entry.claim(end_run, now) {
        Claim::Over => {}
        Claim::Taken { deadline, callback, dispatched } => found(Found::Unfired { deadline, callback, dispatched }),
        Claim::Ended => found(Found::Ended),
        Claim::Running => return end_run,
    }
    true
}

/// Waits for a wake-up.
fn wait<'a>(guard: MutexGuard<'a, ()>, ended: &Condvar) -> MutexGuard<'a, ()> {
    ended.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Core {
    pub(crate) fn new(lazy_wakeup: Option<u64>, retain_min: usize) -> Self {
        Self {
            slab: Slab::new(),
            pool: Pool::new(),
            intake: Intake::new(),
            wakeup: DriverWakeup::new(),
            closing: AtomicBool::new(false),
            pins: AtomicI64::new(0),
            run_ended: (Mutex::new(()), Condvar::new()),
            lazy_wakeup,
            retain_min,
        }
    }

    /// Makes a pending timer of an entry of the cache, or of a new one. The driver must be [told](Self::notify_driver). Gives the
    /// callback back if it is refused. Lock-free; allocates where no entry is to be had.
    #[cfg(any(test, loom))]
    pub(crate) fn arm(
        &self,
        cache: &mut Cache,
        callback: Callback,
        deadline: u64,
        now: u64,
    ) -> Result<Armed<'_>, (Refusal, Callback)> {
        let callback = std::mem::ManuallyDrop::new(callback);
        // SAFETY: the callback is moved, and used again only if it is refused.
        let write = |cell: *mut Callback| unsafe { callback.write(cell) };
        let armed = self.arm_with(cache, callback.role(), write, || (deadline, now));
        armed.map_err(|refusal| (refusal, std::mem::ManuallyDrop::into_inner(callback)))
    }

    /// As [`arm`](Self::arm), with a callback in this role that `write` writes into the entry, and the deadline and the present
    /// that `when` returns then. If it is refused, what may have been written must be treated as uninitialised.
    #[inline(always)]
    pub(crate) fn arm_with(
        &self,
        cache: &mut Cache,
        role: Role,
        write: impl FnOnce(*mut Callback),
        when: impl FnOnce() -> (u64, u64),
    ) -> Result<Armed<'_>, Refusal> {
        let index = self.free_entry(cache)?;
        let entry = self.slab.get(index);
        // SAFETY: what was in the cache is free or cached, and the cache's owner owns it.
        let notice = unsafe { entry.arm_with(role, write, when) }.ok_or(Refusal::Closed)?;
        Ok(Armed { entry, index, notice })
    }

    /// Takes an entry of the cache, or a new one, for a timer to be, which has a handle already. `None` if the shard has
    /// been shut down. Lock-free; allocates where no entry is to be had, and ends the process if there is no memory, as
    /// `Box::new` does.
    #[inline]
    pub(crate) fn reserve(&self, cache: &mut Cache) -> Option<(&Entry, u32)> {
        let index = match self.free_entry(cache) {
            Ok(index) => index,
            Err(Refusal::Closed) => return None,
            Err(Refusal::NoMemory) => handle_alloc_error(Layout::new::<Entry>()),
        };
        let entry = self.slab.get(index);
        // SAFETY: what was in the cache is free or cached, and the cache's owner owns it.
        unsafe { entry.reserve() }.then_some((entry, index))
    }

    #[inline(always)]
    fn free_entry(&self, cache: &mut Cache) -> Result<u32, Refusal> {
        loop {
            if let Some(index) = cache.pop() {
                return Ok(index);
            }
            self.refill(cache)?;
        }
    }

    /// Takes entries into an empty cache; hardly ever none, if all that the pool had were of sparse blocks.
    #[cold]
    fn refill(&self, cache: &mut Cache) -> Result<(), Refusal> {
        if !self.pool.pop(&self.slab, |index| self.recycle(cache, index)) {
            // In falling order, as the cache is a stack: neighbours in memory are used in order. What it has no room for,
            // of a large frame, goes to the pool.
            self.slab.take(|index| self.keep(cache, index))?;
        }
        if cache.was_filled_before() {
            // A thread that schedules many: the driver shall not find them all when the first of them is due.
            self.wake_lazily();
        }
        Ok(())
    }

    /// Takes an entry, which the caller owns, into a cache, or sets it aside in a sparse block. Lock-free.
    #[inline]
    pub(crate) fn recycle(&self, cache: &mut Cache, index: u32) {
        if self.slab.is_sparse(index) {
            // SAFETY: the caller owns it, and nobody arms it.
            unsafe { self.set_aside(index) };
        } else {
            self.keep(cache, index);
        }
    }

    #[inline]
    fn keep(&self, cache: &mut Cache, index: u32) {
        cache.push(index, |batch| self.give(batch));
    }

    /// Sets an entry of a sparse block aside. Lock-free.
    ///
    /// # Safety
    /// The caller must own the entry, which must be free or cached.
    #[cold]
    pub(crate) unsafe fn set_aside(&self, index: u32) {
        let (mut back, mut len) = ([0; BLOCK as usize], 0);
        let receive = |index| {
            back[len] = index;
            len += 1;
        };
        // SAFETY: by this function's contract.
        unsafe { self.slab.set_aside(index, receive) };
        back[..len].chunks(BATCH).for_each(|batch| self.give(batch));
        if self.have_completed() {
            self.wake_lazily();
        }
    }

    /// Gives entries of a cache to the threads that need them. Lock-free.
    pub(crate) fn give(&self, batch: &[u32]) {
        // SAFETY: what was in the cache is free or cached, and the cache's owner owns it.
        unsafe { self.pool.push(&self.slab, batch) };
        if self.is_mostly_free() {
            self.wake_lazily();
        }
    }

    /// The same with all that is in a cache.
    pub(crate) fn give_back(&self, cache: &mut Cache) {
        cache.drain(|batch| self.give(batch));
    }

    /// Whether the driver should look for memory to give back.
    pub(crate) fn has_surplus_memory(&self) -> bool {
        self.is_mostly_free() || self.have_completed()
    }

    /// Whether most of the entries that may be used are in the pool.
    pub(super) fn is_mostly_free(&self) -> bool {
        let free = self.pool.len();
        free >= self.retain_min && free >= self.slab.dense_len() / 4 * 3
    }

    /// Whether so many sparse blocks have come to be all free that it is worth to look for them: a 16th of what is never
    /// given back otherwise, and one of 256 that are looked at.
    pub(super) fn have_completed(&self) -> bool {
        let completed = self.slab.completed() as usize;
        completed > 0 && completed >= (self.retain_min / (16 * BLOCK as usize)).max(self.slab.blocks() as usize / 256)
    }

    /// Puts an entry with the flag `ENQUEUED` into the intake, and has the driver look there in time. `deadline` is the one
    /// that the caller gave the entry; another thread may have given it an earlier one since. `present` reads the
    /// present tick. Returns the tick by which the driver looks. Lock-free.
    #[inline]
    pub(crate) fn enqueue(&self, index: u32, deadline: u64, present: impl FnOnce() -> u64) -> u64 {
        self.intake.push(&self.slab, index);
        // The push comes before the loads of the state word and of the driver's sleep: see the head of `wakeup`. Loom models
        // `sleep` and `in_flight`.
        fence_between_seq_cst();
        let tick = self.slab.get(index).earliest_deadline(deadline, present);
        self.wakeup.wake_by_ordered(tick);
        tick
    }

    /// Tells the driver what it must know of an entry's new deadline. Returns the tick by which the driver looks at the
    /// entry, as [`enqueue`](Self::enqueue) does. Lock-free.
    #[inline]
    pub(crate) fn notify_driver(
        &self,
        index: u32,
        notice: DriverNotice,
        deadline: u64,
        present: impl FnOnce() -> u64,
    ) -> u64 {
        match notice {
            DriverNotice::None => deadline,
            DriverNotice::Wake => {
                self.wakeup.wake_by_after_update(deadline);
                deadline
            }
            DriverNotice::Enqueue => self.enqueue(index, deadline, present),
        }
    }

    /// There is something to collect, in no hurry.
    #[inline]
    pub(crate) fn wake_lazily(&self) {
        if let Some(lazy_wakeup) = self.lazy_wakeup {
            self.wakeup.wake_lazily(lazy_wakeup);
        }
    }

    /// Sleeps until nobody is inside the callback. Returns at once if that is the calling thread. Loom models `repeat`,
    /// `shutdown_inside`.
    pub(crate) fn wait_for_run(&self, entry: &Entry) {
        self.wait_for_run_with(entry, |guard, ended| Some(wait(guard, ended)));
    }

    /// Waits as [`wait_for_run`](Self::wait_for_run) does, by `wait`. Returns false if the run has not ended and `wait`
    /// returns `None`.
    fn wait_for_run_with<'a>(
        &'a self,
        entry: &Entry,
        mut wait: impl FnMut(MutexGuard<'a, ()>, &'a Condvar) -> Option<MutexGuard<'a, ()>>,
    ) -> bool {
        if call_stack::inside_entry(entry) {
            return true;
        }
        let mut guard = self.lock_run_ended();
        // The flag is set under the lock, under which the worker that has cleared it wakes: no wake-up is lost.
        while entry.wait_for_run() {
            match wait(guard, &self.run_ended.1) {
                Some(again) => guard = again,
                None => return false,
            }
        }
        true
    }

    /// A run is over: wakes those that sleep in [`wait_for_run`](Self::wait_for_run), if any do.
    pub(super) fn wake_waiting(&self, has_waiter: bool) {
        if has_waiter {
            drop(self.lock_run_ended());
            self.run_ended.1.notify_all();
        }
    }

    fn lock_run_ended(&self) -> MutexGuard<'_, ()> {
        self.run_ended.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Shuts the shard down: from here on no callback starts, and no timer is accepted or reset; the driver ends. The
    /// pending timers stay where they are: [`claim_wakers`](Self::claim_wakers) and [`claim_closures`](Self::claim_closures)
    /// take them. To be called once.
    ///
    /// An entry is closed by one move on its word, so a timer that is armed or moved at the same time is either
    /// accepted and found here, or refused there. Calls no foreign code. Loom models `shutdown`, `shutdown_sleep`,
    /// `shutdown_memory`, `backlog`.
    pub(crate) fn close(&self) -> Closing {
        // Release, for the driver's acquire; the bell, which fences it, makes sure that it looks. Loom model `sleep`.
        self.closing.store(true, Ordering::Release);
        self.wakeup.wake_by(0);
        let mut closing = Closing { closures: 0, wakers: 0, running: 0, unpinned: false };
        let mut handles = 0;
        for entry in self.slab.close() {
            let closed = entry.close();
            handles += i64::from(closed.handle);
            match closed.timer {
                Held::None => {}
                Held::Closure => closing.closures += 1,
                Held::Waker => closing.wakers += 1,
                Held::Running => closing.running += 1,
            }
        }
        // AcqRel: the last to let go has seen all that the others did. Loom model `shutdown_memory`.
        closing.unpinned = self.pins.fetch_add(handles, Ordering::AcqRel) == -handles;
        closing
    }

    /// Takes the wakers of a closed shard. To be called before anything that may wait for a task that they wake.
    pub(crate) fn claim_wakers(&self, now: u64, mut found: impl FnMut(Found)) {
        for entry in self.slab.close().filter(|entry| entry.holds_waker()) {
            claim(entry, false, now, &mut found);
        }
    }

    /// Takes what is pending in a closed shard, and returns what is running.
    pub(crate) fn claim_closures(&self, now: u64, mut found: impl FnMut(Found)) -> Running<'_> {
        Running(self.slab.close().filter(|entry| !claim(entry, false, now, &mut found)).collect())
    }

    /// Takes what was running in a closed shard, and wants to run again: with `wait` when the run is over. A run that is
    /// not waited for, or that the calling thread is in the middle of, ends its timer.
    pub(crate) fn claim_running(&self, running: Running<'_>, wait: bool, now: u64, found: impl FnMut(Found)) {
        self.claim_running_with(running, wait, |guard, ended| Some(self::wait(guard, ended)), now, found);
    }

    /// Claims as [`claim_running`](Self::claim_running) does, and waits by `sleep`. A run that has not ended when `sleep`
    /// returns `None` ends its timer. Returns whether all runs that were waited for have ended.
    pub(crate) fn claim_running_with<'a>(
        &'a self,
        running: Running<'_>,
        wait: bool,
        mut sleep: impl FnMut(MutexGuard<'a, ()>, &'a Condvar) -> Option<MutexGuard<'a, ()>>,
        now: u64,
        mut found: impl FnMut(Found),
    ) -> bool {
        let mut all_ended = true;
        for entry in running.0 {
            if wait {
                all_ended &= self.wait_for_run_with(entry, &mut sleep);
            }
            claim(entry, true, now, &mut found);
        }
        all_ended
    }

    /// Takes one handle of a closed shard away. True if it was the last: then nothing keeps the memory.
    ///
    /// # Safety
    /// `this` must be valid, and is not used any more once the handle is taken away: another thread may free it then.
    pub(crate) unsafe fn unpin(this: NonNull<Self>) -> bool {
        // A reference to the count alone, which is an atomic: one to the whole would promise that it outlives this call.
        // SAFETY: by this function's contract.
        let pins = unsafe { &(*this.as_ptr()).pins };
        // AcqRel: as above. Below one while `close` has not added the handles it counted.
        pins.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Whether the calling thread is the driver, or inside a callback of this shard: so that the shard may be waiting for
    /// it.
    pub(crate) fn is_on_this_thread(&self) -> bool {
        self.is_inside_callback() || self.wakeup.is_attached_here()
    }

    /// Whether the calling thread is inside a callback of this shard.
    pub(crate) fn is_inside_callback(&self) -> bool {
        call_stack::inside_shard(self)
    }

    /// Whether the driver is to end.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Whether the driver has nothing to collect.
    pub(crate) fn intake_is_empty(&self) -> bool {
        self.intake.is_empty()
    }
}

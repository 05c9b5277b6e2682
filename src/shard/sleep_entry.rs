//! `SleepEntry`: the entry of a future, which it owns from its creation to its drop, armed or not.
//!
//! | phase           | the entry                                        | left by                                     |
//! |-----------------|--------------------------------------------------|---------------------------------------------|
//! | `Idle`          | is reserved, not armed                           | the next poll: arms it, or finds the deadline come |
//! | `Armed`         | was armed with the waker of the last poll, and may have fired since | a poll or a reset that finds it ended |
//! | `Elapsed`       | is not armed: the deadline has come              | a reset                                     |
//! | `Shutdown`      | is not armed: a shutdown came before its deadline | a reset                                    |
//! | `AfterShutdown` | is not armed: the deadline was set after the shutdown | a poll that finds the deadline come, or a reset |
//!
//! A future that is made after the shutdown has no entry, and is `AfterShutdown` or `Elapsed`.
//!
//! A poll by another task replaces the waker by two of the transitions that every timer has:
//!
//! 1. `cancel` takes the old callback back. If the timer has ended before, the poll is ready.
//! 2. `arm` arms the entry with the new waker. An entry in a batch cannot be armed again: the future leaves it to the
//!    driver and takes another. So no thread waits for another.
//!
//! Each waker is thus called or dropped once, by the thread that clears `ARMED`, as is any callback. A poll at or after
//! the deadline ends the timer by a cancel, even if the driver is late. The driver then does not wake the task.
//!
//! The drop of a pending future cancels the timer. The entry keeps the shard's memory, so a future need not count itself
//! as an owner of the service. That count would be a cache line that all threads write.
//!
//! Whether a poll that could complete must be pending once more is decided by [`budget`](super::budget). Loom models
//! `wake` and `sleep_entry`.

use std::ptr::NonNull;
use std::task::Waker;

use super::budget::Waited;
use super::raw_handle::RawHandle;
use crate::clock::Deadline;
use crate::engine::entry::{ARMED, CLOSED, DISPATCHED, Entry, RUNNING};
use crate::shard::Shard;
use crate::shard::thread_state::{self, ThreadState};
use crate::sync::Arc;

/// An entry that one future owns.
///
/// It stores the fields of a [`RawHandle`] one by one, so that the others fit in their padding.
pub(crate) struct SleepEntry {
    shard: NonNull<Shard>,
    /// `None` if the future was made after the shutdown: it then owns a count of the shard.
    entry: Option<NonNull<Entry>>,
    index: u32,
    pub(crate) phase: Phase,
    /// The future has been pending since its deadline was set, or since it completed.
    pub(super) waited: Waited,
    /// The phase that begins when a shutdown finds the future pending: `Shutdown`, or `AfterShutdown` if it does not
    /// complete the future.
    pub(crate) at_shutdown: Phase,
}

/// What a future knows of its timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// The future was not polled since its deadline was set.
    Idle,
    /// The entry was armed, and no call has seen its end since.
    Armed,
    /// The deadline has come.
    Elapsed,
    /// A shutdown ended the timer before its deadline.
    Shutdown,
    /// The deadline is still ahead, and was set after the shutdown. No thread wakes the task.
    AfterShutdown,
}

impl SleepEntry {
    /// Reserves an entry in the calling thread's home shard of `service`. Returns `None` if that shard is closed.
    /// `choose` is as for `NewTimer::new`.
    #[inline]
    pub(crate) fn new<'a>(service: u64, choose: impl FnOnce() -> &'a Shard) -> Option<Self> {
        let raw = reserve(&mut thread_state::home(service, choose))?;
        Some(Self::of(raw.shard, Some(raw.entry), raw.index(), Phase::Idle))
    }

    /// Makes a future's part without an entry, after the shutdown. `shard` is any shard of the service: it has the
    /// clock.
    pub(crate) fn closed(shard: Arc<Shard>) -> Self {
        let shard = NonNull::new(Arc::into_raw(shard).cast_mut()).expect("a pointer into an allocation");
        Self::of(shard, None, 0, Phase::AfterShutdown)
    }

    #[inline]
    fn of(shard: NonNull<Shard>, entry: Option<NonNull<Entry>>, index: u32, phase: Phase) -> Self {
        Self { shard, entry, index, phase, waited: Waited::No, at_shutdown: Phase::Shutdown }
    }

    /// Returns the shard of the timer; after a shutdown, any shard of the service.
    #[inline]
    pub(crate) fn shard(&self) -> &Shard {
        // SAFETY: it is alive, because the handle or the count keeps it, and the future releases that last.
        unsafe { self.shard.as_ref() }
    }

    /// Returns the entry, of a future that has one.
    #[inline]
    fn entry(&self) -> &Entry {
        // SAFETY: it is alive, because the handle keeps it, and the future releases that last.
        unsafe { self.entry.expect("a timer that may be pending").as_ref() }
    }

    /// Returns whether the timer may be pending. In the child of a fork, no timer of the parent is.
    #[inline]
    fn is_armed(&self) -> bool {
        self.phase == Phase::Armed && !self.shard().is_inherited()
    }

    /// Polls the timer. While it is pending, `waker` is called at tick `deadline`.
    pub(crate) fn poll(&mut self, deadline: u64, waker: &Waker) -> Phase {
        let now = self.shard().ticks.now_tick_against(deadline);
        self.phase = match self.phase {
            Phase::Idle | Phase::AfterShutdown if deadline <= now => Phase::Elapsed,
            Phase::Idle | Phase::Armed if self.shard().is_inherited() => self.at_shutdown,
            Phase::Idle => self.arm(deadline, now, waker.clone(), true),
            Phase::Armed => self.poll_entry(deadline, now, waker),
            Phase::Elapsed | Phase::Shutdown | Phase::AfterShutdown => self.phase,
        };
        self.phase
    }

    /// Polls an entry that was armed: makes it wake the task of `waker`, or ends the timer if it is due.
    fn poll_entry(&mut self, deadline: u64, now: u64, waker: &Waker) -> Phase {
        let (shard, entry) = (self.shard(), self.entry());
        let waits = deadline > now && entry.state().has(ARMED);
        // SAFETY: the future owns the only handle, and has armed the entry.
        if waits && unsafe { entry.will_wake(waker) } {
            return Phase::Armed;
        }
        // The clone is the task's own code and may panic. Nothing has changed yet.
        let waker = waits.then(|| waker.clone());
        let Some(cancelled) = entry.cancel() else { return self.ended(deadline) };
        // SAFETY: we own the callback, because this call ended the timer. It does not run, because a waker that runs is
        // not armed.
        shard.catch_panic(None, true, || unsafe { entry.drop_callback() });
        if waker.is_none() {
            // It was armed, so it is due. The waker is not called: this counts as a completed timer, but not as a run.
            shard.count_completed();
        }
        if cancelled.has(DISPATCHED) {
            shard.finish_in_flight();
        }
        waker.map_or(Phase::Elapsed, |waker| self.arm(deadline, now, waker, false))
    }

    /// Arms the entry, or another one if it is still in a batch or running. `is_new`: the timer is not counted yet.
    #[inline]
    fn arm(&mut self, deadline: u64, now: u64, waker: Waker, is_new: bool) -> Phase {
        let free = self.replace_if_busy();
        let (shard, entry) = (self.shard(), self.entry());
        let now = shard.ticks.present(now);
        // SAFETY: the future owns the entry, and `replace_if_busy` has checked that it is neither in a batch nor
        // running.
        let armed = if free { unsafe { entry.arm_waking(waker, deadline, now) } } else { Err(waker) };
        let notice = match armed {
            Ok(notice) => notice,
            Err(waker) => {
                if !is_new {
                    shard.count_completed();
                }
                shard.catch_panic(None, true, || drop(waker));
                return self.at_shutdown;
            }
        };
        let thread = thread_state::of(shard);
        if is_new {
            thread.count(|counters| &counters.scheduled);
        }
        shard.notify_driver(&thread, self.index, notice, deadline, now);
        Phase::Armed
    }

    /// Returns why an armed timer has ended.
    fn ended(&self, deadline: u64) -> Phase {
        let (shard, entry) = (self.shard(), self.entry());
        if entry.state().has(CLOSED) && deadline > shard.ticks.now_tick() { self.at_shutdown } else { Phase::Elapsed }
    }

    /// Replaces an entry that is still in a batch or running by a free one. Returns false if the shard is closed.
    fn replace_if_busy(&mut self) -> bool {
        let (shard, entry) = (self.shard(), self.entry());
        if !entry.state().has(DISPATCHED | RUNNING) {
            return true;
        }
        let Some(raw) = reserve(&mut thread_state::of(shard)) else { return false };
        // SAFETY: the future owns this handle, and it is not used any more.
        unsafe { Shard::release(RawHandle::new(self.shard, entry.into(), self.index)) };
        (self.entry, self.index) = (Some(raw.entry), raw.index());
        true
    }

    /// Fetches the entry for a reset.
    #[inline]
    pub(crate) fn prefetch(&self) {
        if self.phase == Phase::Armed {
            self.entry().prefetch();
        }
    }

    /// Resets the timer to `deadline`. A timer that is not pending is armed by the next poll.
    #[inline]
    pub(crate) fn reset(&mut self, deadline: Deadline) {
        let moved = self.is_armed() && self.shard().reset(self.entry(), self.index, deadline);
        if !moved {
            // A closed entry must not be armed, as the shutdown may not have taken the old waker yet.
            let is_closed = self.entry.is_none() || self.shard().core.is_closing() || self.shard().is_inherited();
            self.phase = if is_closed { Phase::AfterShutdown } else { Phase::Idle };
        }
        if !moved || deadline.tick <= deadline.now {
            // The future was pending for its old deadline. It has not been for this one.
            self.waited.forget();
        }
    }

    /// Returns the phase that a poll would find, but leaves an idle future idle. Registers no waker.
    #[inline]
    pub(crate) fn phase(&self, deadline: u64) -> Phase {
        let shard = self.shard();
        match self.phase {
            Phase::Elapsed | Phase::Shutdown => self.phase,
            // The deadline decides, as the driver may be late.
            _ if deadline <= shard.ticks.now_tick_against(deadline) => Phase::Elapsed,
            Phase::Idle | Phase::Armed if shard.is_inherited() => self.at_shutdown,
            // Before the deadline, only a shutdown ends a timer. While the shard is open, the entry need not be read: it
            // may be in no cache of the processor.
            Phase::Idle | Phase::Armed if shard.core.is_closing() && !self.entry().state().has(ARMED) => {
                self.at_shutdown
            }
            Phase::Idle | Phase::Armed | Phase::AfterShutdown => self.phase,
        }
    }
}

/// Reserves an entry of the thread state's shard.
#[inline]
fn reserve(thread: &mut ThreadState) -> Option<RawHandle> {
    let shard = thread.shard();
    // SAFETY: the shard is alive, because the caller's service or entry keeps it.
    let (entry, index) = unsafe { shard.as_ref() }.core.reserve(&mut thread.cache)?;
    Some(RawHandle::new(shard, entry.into(), index))
}

impl Drop for SleepEntry {
    #[inline]
    fn drop(&mut self) {
        self.waited.forget();
        if let Some(cancelled) = self.is_armed().then(|| self.entry().cancel()).flatten() {
            // SAFETY: the transition above cancelled the timer, and the future owns its handle.
            unsafe { self.shard().finish_cancel(self.entry(), cancelled) };
        }
        match self.entry {
            // SAFETY: the future owns the only handle, and is not used after this drop.
            Some(entry) => unsafe { Shard::release(RawHandle::new(self.shard, entry, self.index)) },
            // SAFETY: we own the count that `closed` was given, and the future is not used after this drop.
            None => drop(unsafe { Arc::from_raw(self.shard.as_ptr()) }),
        }
    }
}

// SAFETY: the pointers lead to a shard, which is `Sync`, and to an entry, which is accessed by atomic transitions. The
// waker in the entry is `Send` and `Sync`.
unsafe impl Send for SleepEntry {}
// SAFETY: as above.
unsafe impl Sync for SleepEntry {}

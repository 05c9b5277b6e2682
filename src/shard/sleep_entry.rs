//! `SleepEntry`: the entry of a future, which it owns from its creation to its drop, armed or not.
//!
//! | phase   | the entry                                        | left by                                              |
//! |---------|--------------------------------------------------|------------------------------------------------------|
//! | `Idle`  | is reserved, not armed                           | the next poll: arms it, or finds the deadline come   |
//! | `Armed` | was armed with the waker of the last poll. It may have fired since | a poll or a reset that finds it ended |
//! | `Over`  | is not armed; the result is known                | a reset                                              |
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
//! Whether a poll that could complete must be pending once more is decided by [`coop`](super::coop). Loom models `wake`
//! and `sleep_entry`.

use std::ptr::NonNull;
use std::task::Waker;

use super::coop::{Coop, Progress};
use super::raw_handle::RawHandle;
use crate::clock::Deadline;
use crate::engine::entry::{ARMED, CLOSED, Callback, DISPATCHED, Entry, RUNNING};
use crate::shard::Shard;
use crate::shard::thread_state::{self, ThreadState};

/// An entry that one future owns.
///
/// It stores the fields of a [`RawHandle`] one by one, so that the phase fits in their padding.
pub(crate) struct SleepEntry {
    shard: NonNull<Shard>,
    entry: NonNull<Entry>,
    index: u32,
    phase: Phase,
    /// A part of the future, stored here because it fits in the padding.
    pub(crate) coop: Coop,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The future was not polled since its deadline was set.
    Idle,
    /// The entry was armed, and no call has seen its end since.
    Armed,
    /// The timer has ended.
    Over(Progress),
}

impl SleepEntry {
    /// Reserves an entry in the calling thread's home shard of `service`. Returns `None` if that shard is closed.
    /// `choose` is as for `Shard::schedule`.
    #[inline]
    pub(crate) fn new<'a>(service: u64, choose: impl FnOnce() -> &'a Shard) -> Option<Self> {
        let raw = thread_state::with_home(service, choose, reserve)?;
        let index = raw.index();
        Some(Self { shard: raw.shard, entry: raw.entry, index, phase: Phase::Idle, coop: Coop::new(false) })
    }

    /// Returns the shard of the entry.
    #[inline]
    pub(crate) fn shard(&self) -> &Shard {
        self.parts().0
    }

    #[inline]
    fn parts(&self) -> (&Shard, &Entry) {
        // SAFETY: both are alive, because the handle keeps them, and the future releases it last.
        unsafe { (self.shard.as_ref(), self.entry.as_ref()) }
    }

    #[inline]
    fn raw(&self) -> RawHandle {
        RawHandle::new(self.shard, self.entry, self.index)
    }

    /// Returns whether the timer may be pending. In the child of a fork, no timer of the parent is.
    #[inline]
    fn is_armed(&self) -> bool {
        self.phase == Phase::Armed && !self.shard().is_inherited()
    }

    /// Polls the timer. While it is pending, `waker` is called at tick `deadline`.
    pub(crate) fn poll(&mut self, deadline: u64, waker: &Waker) -> Progress {
        let now = self.shard().ticks.now_tick();
        let progress = match self.phase {
            Phase::Over(progress) => progress,
            _ if self.shard().is_inherited() => Progress::Shutdown,
            Phase::Idle if deadline <= now => Progress::Elapsed,
            Phase::Idle => self.arm(deadline, now, Callback::waking(waker.clone()), true),
            Phase::Armed => self.poll_entry(deadline, now, waker),
        };
        self.phase = if progress == Progress::Pending { Phase::Armed } else { Phase::Over(progress) };
        progress
    }

    /// Polls an entry that was armed: makes it wake the task of `waker`, or ends the timer if it is due.
    fn poll_entry(&mut self, deadline: u64, now: u64, waker: &Waker) -> Progress {
        let (shard, entry) = self.parts();
        let is_due = deadline <= now;
        if !entry.state().has(ARMED) {
            return self.ended(deadline);
        }
        // SAFETY: the future owns the only handle, and has armed the entry.
        if !is_due && unsafe { entry.will_wake(waker) } {
            return Progress::Pending;
        }
        // The clone is the task's own code and may panic. Nothing has changed yet.
        let callback = (!is_due).then(|| Callback::waking(waker.clone()));
        let Some(cancelled) = entry.cancel() else { return self.ended(deadline) };
        // SAFETY: we own the callback, because this call ended the timer. It does not run, because a waker that runs is
        // not armed.
        shard.catch_panic(|| unsafe { entry.drop_callback() });
        if is_due {
            // The waker is not called, so this counts as a completed timer, but not as a run.
            shard.count_completed();
        }
        if cancelled.has(DISPATCHED) {
            shard.finish_in_flight();
        }
        callback.map_or(Progress::Elapsed, |callback| self.arm(deadline, now, callback, false))
    }

    /// Arms the entry, or another one if it is still in a batch or running. `is_new`: the timer is not counted yet.
    #[inline]
    fn arm(&mut self, deadline: u64, now: u64, callback: Callback, is_new: bool) -> Progress {
        let free = self.replace_if_busy();
        let (shard, entry) = self.parts();
        let now = shard.ticks.present(now);
        // SAFETY: the future owns the entry, and `replace_if_busy` has checked that it is neither in a batch nor
        // running.
        let armed = if free { unsafe { entry.arm(callback, deadline, now) } } else { Err(callback) };
        let notice = match armed {
            Ok(notice) => notice,
            Err(callback) => {
                if !is_new {
                    shard.count_completed();
                }
                shard.drop_unfired(callback);
                return Progress::Shutdown;
            }
        };
        thread_state::with(shard, |thread| {
            if is_new {
                thread.count(|counters| &counters.scheduled);
            }
            shard.notify_driver(thread, self.index, notice, deadline);
        });
        Progress::Pending
    }

    /// Returns why an armed timer has ended.
    fn ended(&self, deadline: u64) -> Progress {
        let (shard, entry) = self.parts();
        if entry.state().has(CLOSED) && deadline > shard.ticks.now_tick() {
            Progress::Shutdown
        } else {
            Progress::Elapsed
        }
    }

    /// Replaces an entry that is still in a batch or running by a free one. Returns false if the shard is closed.
    fn replace_if_busy(&mut self) -> bool {
        let (shard, entry) = self.parts();
        if !entry.state().has(DISPATCHED | RUNNING) {
            return true;
        }
        let Some(raw) = thread_state::with(shard, reserve) else { return false };
        // SAFETY: the future owns this handle, and it is not used any more.
        unsafe { Shard::release(self.raw()) };
        (self.entry, self.index) = (raw.entry, raw.index());
        true
    }

    /// Resets the timer to `deadline`. A timer that is not pending is armed by the next poll.
    #[inline]
    pub(crate) fn reset(&mut self, deadline: Deadline) {
        let (shard, entry) = self.parts();
        let moved = self.is_armed() && shard.reset(entry, self.index, deadline);
        if !moved {
            // A closed entry must not be armed, as the shutdown may not have taken the old waker yet.
            let closed = self.is_closed();
            self.phase = if closed { Phase::Over(Progress::after_shutdown(deadline)) } else { Phase::Idle };
            self.coop.renew(closed);
        } else if deadline.tick <= deadline.now {
            // The future was pending for its old deadline. It has not been for this one.
            self.coop.renew(false);
        }
    }

    /// Returns the progress of the timer. Registers no waker.
    #[inline]
    pub(crate) fn progress(&self, deadline: u64) -> Progress {
        let (shard, entry) = self.parts();
        match self.phase {
            Phase::Over(progress) => progress,
            _ if shard.is_inherited() => Progress::Shutdown,
            Phase::Armed if !entry.state().has(ARMED) => self.ended(deadline),
            // The deadline decides, as the driver may be late.
            Phase::Armed | Phase::Idle if deadline <= shard.ticks.now_tick() => Progress::Elapsed,
            Phase::Idle if entry.state().has(CLOSED) => Progress::Shutdown,
            Phase::Armed | Phase::Idle => Progress::Pending,
        }
    }

    /// Returns whether the shard was shut down.
    pub(crate) fn is_closed(&self) -> bool {
        let (shard, entry) = self.parts();
        entry.state().has(CLOSED) || shard.is_inherited()
    }

    /// Cancels an armed timer.
    fn cancel(&self) {
        let (shard, entry) = self.parts();
        if let Some(ended) = entry.cancel() {
            // SAFETY: the transition above cancelled the timer, and the future owns its handle.
            unsafe { shard.finish_cancel(entry, ended) };
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
        if self.is_armed() {
            self.cancel();
        }
        // SAFETY: the future owns the only handle, and is not used after this drop.
        unsafe { Shard::release(self.raw()) };
    }
}

// SAFETY: the pointers lead to a shard, which is `Sync`, and to an entry, which is accessed by atomic transitions. The
// waker in the entry is `Send` and `Sync`.
unsafe impl Send for SleepEntry {}
// SAFETY: as above.
unsafe impl Sync for SleepEntry {}

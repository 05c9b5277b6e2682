//! What a future has of a shard: an entry, from the beginning to the end, armed or not.
//!
//! As the entry keeps the shard's memory, a future need not count itself among the owners of the service, which would be
//! a line that all threads write. Loom models `wake` and `hold`.

use std::ptr::NonNull;
use std::task::Waker;

use super::coop::{Coop, Progress};
use super::raw_handle::RawHandle;
use crate::clock::{Deadline, Ticks};
use crate::engine::entry::Callback;
use crate::engine::entry::{Entry, PollOutcome};
use crate::shard::Shard;
use crate::shard::thread_state::{self, ThreadState};
use crate::sync::Arc;

/// An entry in the hands of one future. Of a lease and a stage it has the parts, not both as they are: so it is as small
/// as a lease.
pub(crate) struct SleepEntry {
    shard: NonNull<Shard>,
    entry: NonNull<Entry>,
    index: u32,
    phase: Phase,
    /// Belongs to the future. It is here because the entry's fields leave room for it.
    pub(crate) coop: Coop,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Not polled since the deadline was set.
    Idle,
    /// The entry was armed, and was not seen to have ended since.
    Armed,
    Over(Progress),
}

impl SleepEntry {
    /// Holds an entry of the shard that is the calling thread's home in `service`; see [`Shard::schedule`]. `None` if it
    /// has been shut down.
    #[inline]
    pub(crate) fn new<'a>(service: u64, choose: impl FnOnce() -> &'a Arc<Shard>) -> Option<Self> {
        let raw = thread_state::with_home(service, || &**choose(), raw)?;
        let (shard, entry, index) = (raw.shard, raw.entry, raw.index());
        Some(Self { shard, entry, index, phase: Phase::Idle, coop: Coop::new(false) })
    }

    #[inline]
    pub(crate) fn ticks(&self) -> &Ticks {
        &self.parts().0.ticks
    }

    #[inline]
    fn parts(&self) -> (&Shard, &Entry) {
        // SAFETY: a lease keeps its entry and its shard in memory.
        unsafe { (self.shard.as_ref(), self.entry.as_ref()) }
    }

    #[inline]
    fn raw(&self) -> RawHandle {
        RawHandle::new(self.shard, self.entry, self.index)
    }

    /// Has `waker` called at `deadline`, a tick, unless that has come.
    pub(crate) fn poll(&mut self, deadline: u64, waker: &Waker) -> Progress {
        let now = self.ticks().now_tick_for(deadline);
        let progress = match self.phase {
            Phase::Over(progress) => progress,
            _ if self.parts().0.is_inherited() => Progress::Shutdown,
            Phase::Idle if deadline <= now => Progress::Elapsed,
            Phase::Idle => self.arm(deadline, now, Callback::waking(waker.clone()), true),
            Phase::Armed => self.poll_entry(deadline, now, waker),
        };
        self.phase = if progress == Progress::Pending { Phase::Armed } else { Phase::Over(progress) };
        progress
    }

    fn poll_entry(&mut self, deadline: u64, now: u64, waker: &Waker) -> Progress {
        let (shard, entry) = self.parts();
        let pin = || shard.ticks.pin(now);
        // SAFETY: the future has the handle to itself, and has armed the entry.
        let callback = match unsafe { entry.poll(waker, deadline, now, pin, |old| shard.discard_waker(old)) } {
            PollOutcome::Waiting => return Progress::Pending,
            PollOutcome::Renewed(notice, pinned) => {
                thread_state::with(shard, |thread| shard.notify_driver(thread, self.index, notice, deadline, pinned));
                return Progress::Pending;
            }
            PollOutcome::Taken(callback) => callback,
            PollOutcome::Over => return self.ended(deadline),
            PollOutcome::Expired { dispatched } => {
                // The waker does not run, so this counts as the end of a timer and not as a run.
                shard.complete();
                if dispatched {
                    shard.finish_in_flight();
                }
                return Progress::Elapsed;
            }
            PollOutcome::Closed => {
                shard.complete();
                return Progress::Shutdown;
            }
        };
        shard.finish_in_flight();
        self.arm(deadline, now, callback, false)
    }

    /// Arms the entry, or another. `anew` tells whether this is a timer that has not been counted.
    #[inline]
    fn arm(&mut self, deadline: u64, now: u64, callback: Callback, anew: bool) -> Progress {
        let free = self.take_another_if_busy();
        let (shard, entry) = self.parts();
        let (pinned, now) = shard.ticks.pin(now);
        // SAFETY: the future holds the entry, which nobody has in his hands.
        let armed = if free { unsafe { entry.arm(callback, deadline, now) } } else { Err(callback) };
        let notice = match armed {
            Ok(notice) => notice,
            Err(callback) => {
                drop(pinned);
                if !anew {
                    shard.complete();
                }
                shard.discard_waker(callback);
                return Progress::Shutdown;
            }
        };
        thread_state::with(shard, |thread| {
            if anew {
                thread.count(|counters| &counters.scheduled);
            }
            shard.notify_driver(thread, self.index, notice, deadline, pinned);
        });
        Progress::Pending
    }

    /// Why the timer has ended.
    fn ended(&self, deadline: u64) -> Progress {
        let (shard, entry) = self.parts();
        if entry.is_closed() && deadline > shard.ticks.now_tick() { Progress::Shutdown } else { Progress::Elapsed }
    }

    /// Leaves an entry that the driver has in its hands for one that is free. False if there is none any more.
    fn take_another_if_busy(&mut self) -> bool {
        let (shard, entry) = self.parts();
        if !entry.is_dispatched_or_running() {
            return true;
        }
        let Some(raw) = thread_state::with(shard, raw) else { return false };
        // SAFETY: it was this future's, and is not used any more.
        unsafe { Shard::release(self.raw()) };
        (self.entry, self.index) = (raw.entry, raw.index());
        true
    }

    /// Moves the deadline; that of a timer that is not pending counts from the next poll on.
    #[inline]
    pub(crate) fn reset(&mut self, deadline: Deadline) {
        let (shard, entry) = self.parts();
        let moved = self.phase == Phase::Armed && shard.reset(entry, self.index, deadline);
        if !moved {
            // A closed entry must not be armed: the shutdown may not have taken the waker yet.
            let closed = self.is_closed();
            self.phase = if closed { Phase::Over(Progress::after_shutdown(deadline)) } else { Phase::Idle };
            self.coop.renew(closed);
        } else if deadline.tick <= deadline.now {
            // The future was pending for its old deadline, and need not be for this one.
            self.coop.renew(false);
        }
    }

    /// How far the timer has come, without a waker.
    #[inline]
    pub(crate) fn progress(&self, deadline: u64) -> Progress {
        let (shard, entry) = self.parts();
        match self.phase {
            Phase::Over(progress) => progress,
            _ if shard.is_inherited() => Progress::Shutdown,
            Phase::Armed if !shard.is_pending(entry) => self.ended(deadline),
            // The driver may be late.
            Phase::Armed | Phase::Idle if deadline <= shard.ticks.now_tick_for(deadline) => Progress::Elapsed,
            Phase::Idle if entry.is_closed() => Progress::Shutdown,
            Phase::Armed | Phase::Idle => Progress::Pending,
        }
    }

    /// Whether the shard has been shut down.
    pub(crate) fn is_closed(&self) -> bool {
        let (shard, entry) = self.parts();
        entry.is_closed() || shard.is_inherited()
    }

    /// Ends an armed timer.
    fn cancel(&self) {
        let (shard, entry) = self.parts();
        if let Some(ended) = entry.cancel() {
            // SAFETY: this call ended the timer, and the future has the handle.
            unsafe { shard.cancelled(entry, ended) };
        }
    }
}

/// Takes an entry of the shard that the calling thread has this part of.
#[inline]
fn raw(thread: &mut ThreadState) -> Option<RawHandle> {
    let shard = thread.shard();
    // SAFETY: whoever uses a thread's part of a shard keeps the shard.
    let (entry, index) = unsafe { shard.as_ref() }.core.reserve(&mut thread.cache)?;
    Some(RawHandle::new(shard, entry.into(), index))
}

impl Drop for SleepEntry {
    #[inline]
    fn drop(&mut self) {
        if self.phase == Phase::Armed {
            // The waker is the parent's.
            if self.parts().0.is_inherited() {
                return;
            }
            // SAFETY: the future has the lease to itself, has armed the entry, and is being dropped.
            if unsafe { Shard::cancel_and_release_at_once(&self.raw()) } {
                return;
            }
            self.cancel();
        }
        // SAFETY: the lease was this future's alone.
        unsafe { Shard::release(self.raw()) };
    }
}

// SAFETY: a hold gives access to its entry by moves on its atomic word, and to its shard, which is `Sync`. The waker in
// the entry is `Send` and `Sync`.
unsafe impl Send for SleepEntry {}
// SAFETY: as above.
unsafe impl Sync for SleepEntry {}

//! What a future has of a shard: an entry, from the beginning to the end, armed or not.
//!
//! As the entry keeps the shard's memory, a future need not count itself among the owners of the service, which would be
//! a line that all threads write. Loom models `wake` and `hold`.

use std::ptr::NonNull;
use std::task::Waker;

use super::coop::{Coop, Progress};
use super::entry::{Entry, Look};
use super::local::{self, Local};
use super::{Callback, Lease, Shard};
use crate::clock::{Due, Ticks};
use crate::sync::Arc;

/// An entry in the hands of one future. Of a lease and a stage it has the parts, not both as they are: so it is as small
/// as a lease.
pub(crate) struct Hold {
    shard: NonNull<Shard>,
    entry: NonNull<Entry>,
    index: u32,
    stage: Stage,
    /// Belongs to the future. It is here because the entry's fields leave room for it.
    pub(crate) coop: Coop,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Not polled since the deadline was set.
    Idle,
    /// The entry was armed, and was not seen to have ended since.
    Armed,
    Over(Progress),
}

impl Hold {
    /// Holds an entry of the shard that is the calling thread's home in `service`; see [`Shard::schedule`]. `None` if it
    /// has been shut down.
    #[inline]
    pub(crate) fn new<'a>(service: u64, choose: impl FnOnce() -> &'a Arc<Shard>) -> Option<Self> {
        let lease = local::with_home(service, || &**choose(), lease)?;
        let (shard, entry, index) = (lease.shard, lease.entry, lease.index());
        Some(Self { shard, entry, index, stage: Stage::Idle, coop: Coop::new(false) })
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
    fn lease(&self) -> Lease {
        Lease::new(self.shard, self.entry, self.index)
    }

    /// Has `waker` called at `deadline`, a tick, unless that has come.
    pub(crate) fn poll(&mut self, deadline: u64, waker: &Waker) -> Progress {
        let now = self.ticks().tick_to_tell(deadline);
        let progress = match self.stage {
            Stage::Over(progress) => progress,
            _ if self.parts().0.is_inherited() => Progress::Shutdown,
            Stage::Idle if deadline <= now => Progress::Elapsed,
            Stage::Idle => self.arm(deadline, now, Callback::waking(waker.clone()), true),
            Stage::Armed => self.look(deadline, now, waker),
        };
        self.stage = if progress == Progress::Pending { Stage::Armed } else { Stage::Over(progress) };
        progress
    }

    fn look(&mut self, deadline: u64, now: u64, waker: &Waker) -> Progress {
        let (shard, entry) = self.parts();
        let pin = || shard.ticks.pin(now);
        // SAFETY: the future has the handle to itself, and has armed the entry.
        let callback = match unsafe { entry.look(waker, deadline, now, pin, |old| shard.discard_waker(old)) } {
            Look::Waiting => return Progress::Pending,
            Look::Renewed(notice, pinned) => {
                local::with(shard, |local| shard.tell(local, self.index, notice, deadline, pinned));
                return Progress::Pending;
            }
            Look::Taken(callback) => callback,
            Look::Over => return self.ended(deadline),
            Look::Due { queued } => {
                // The waker does not run, so this counts as the end of a timer and not as a run.
                shard.complete();
                if queued {
                    shard.settled_one();
                }
                return Progress::Elapsed;
            }
            Look::Closed => {
                shard.complete();
                return Progress::Shutdown;
            }
        };
        shard.settled_one();
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
        local::with(shard, |local| {
            if anew {
                local.count(|record| &record.scheduled);
            }
            shard.tell(local, self.index, notice, deadline, pinned);
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
        if !entry.is_in_hands() {
            return true;
        }
        let Some(lease) = local::with(shard, lease) else { return false };
        // SAFETY: it was this future's, and is not used any more.
        unsafe { Shard::release(self.lease()) };
        (self.entry, self.index) = (lease.entry, lease.index());
        true
    }

    /// Moves the deadline; that of a timer that is not pending counts from the next poll on.
    #[inline]
    pub(crate) fn reset(&mut self, due: Due) {
        let (shard, entry) = self.parts();
        let moved = self.stage == Stage::Armed && shard.reset(entry, self.index, due);
        if !moved {
            // A closed entry must not be armed: the shutdown may not have taken the waker yet.
            let closed = self.is_closed();
            self.stage = if closed { Stage::Over(Progress::after_shutdown(due)) } else { Stage::Idle };
            self.coop.renew(closed);
        } else if due.tick <= due.now {
            // The future was pending for its old deadline, and need not be for this one.
            self.coop.renew(false);
        }
    }

    /// How far the timer has come, without a waker.
    #[inline]
    pub(crate) fn progress(&self, deadline: u64) -> Progress {
        let (shard, entry) = self.parts();
        match self.stage {
            Stage::Over(progress) => progress,
            _ if shard.is_inherited() => Progress::Shutdown,
            Stage::Armed if !shard.is_pending(entry) => self.ended(deadline),
            // The driver may be late.
            Stage::Armed | Stage::Idle if deadline <= shard.ticks.tick_to_tell(deadline) => Progress::Elapsed,
            Stage::Idle if entry.is_closed() => Progress::Shutdown,
            Stage::Armed | Stage::Idle => Progress::Pending,
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
fn lease(local: &mut Local) -> Option<Lease> {
    let shard = local.shard();
    // SAFETY: whoever uses a thread's part of a shard keeps the shard.
    let (entry, index) = unsafe { shard.as_ref() }.core.hold(&mut local.cache)?;
    Some(Lease::new(shard, entry.into(), index))
}

impl Drop for Hold {
    #[inline]
    fn drop(&mut self) {
        if self.stage == Stage::Armed {
            // The waker is the parent's.
            if self.parts().0.is_inherited() {
                return;
            }
            // SAFETY: the future has the lease to itself, has armed the entry, and is being dropped.
            if unsafe { Shard::cancel_and_release_at_once(&self.lease()) } {
                return;
            }
            self.cancel();
        }
        // SAFETY: the lease was this future's alone.
        unsafe { Shard::release(self.lease()) };
    }
}

// SAFETY: a hold gives access to its entry by moves on its atomic word, and to its shard, which is `Sync`. The waker in
// the entry is `Send` and `Sync`.
unsafe impl Send for Hold {}
// SAFETY: as above.
unsafe impl Sync for Hold {}

//! What a future has of a shard: an entry, from the beginning to the end, armed or not.
//!
//! As the entry keeps the shard's memory, a future need not count itself among the owners of the service, which would be
//! a line that all threads write.

use std::sync::Arc;
use std::task::Waker;

use super::entry::Entry;
use super::local::{self, Local};
use super::look::Look;
use super::{Callback, Lease, Shard};
use crate::clock::{Due, Ticks};

/// An entry in the hands of one future.
pub(crate) struct Hold {
    lease: Lease,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Not polled since the deadline was set.
    Idle,
    /// The entry was armed, and was not seen to have ended since.
    Armed,
    Over(Progress),
}

/// How far a timer has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    Pending,
    Elapsed,
    /// It ended early, with the service.
    Shutdown,
}

impl Hold {
    /// Holds an entry of the shard that is the calling thread's home in `service`; see [`Shard::schedule`]. `None` if it
    /// has been shut down.
    pub(crate) fn new<'a>(service: u64, choose: impl FnOnce() -> &'a Arc<Shard>) -> Option<Self> {
        let lease = local::with_home(service, || &**choose(), lease)?;
        Some(Self { lease, stage: Stage::Idle })
    }

    pub(crate) fn ticks(&self) -> &Ticks {
        &self.parts().0.ticks
    }

    fn parts(&self) -> (&Shard, &Entry) {
        // SAFETY: a lease keeps its entry and its shard in memory.
        unsafe { (self.lease.shard.as_ref(), self.lease.entry.as_ref()) }
    }

    /// Has `waker` called when it is `due`, unless that has come.
    pub(crate) fn poll(&mut self, due: &Due, waker: &Waker) -> Progress {
        let now = self.ticks().about_tick();
        let progress = match self.stage {
            Stage::Over(progress) => progress,
            Stage::Idle if due.tick <= now => Progress::Elapsed,
            Stage::Idle => self.arm(due.tick, now, Callback::waking(waker.clone()), true),
            Stage::Armed => self.look(due, now, waker),
        };
        self.stage = if progress == Progress::Pending { Stage::Armed } else { Stage::Over(progress) };
        progress
    }

    fn look(&mut self, due: &Due, now: u64, waker: &Waker) -> Progress {
        let (shard, entry) = self.parts();
        // SAFETY: the future has the handle to itself, and has armed the entry.
        match unsafe { entry.look(waker, due.tick, now, |callback| shard.discard_waker(callback)) } {
            Look::Waiting => Progress::Pending,
            Look::Renewed(notice) => {
                local::with(shard, |local| shard.tell(local, self.lease.index, notice, due.tick));
                Progress::Pending
            }
            Look::Taken(callback) => {
                shard.settled_one();
                self.arm(due.tick, now, callback, false)
            }
            Look::Over => self.ended(due),
            Look::Closed => {
                shard.complete();
                Progress::Shutdown
            }
        }
    }

    /// Arms the entry, or another. `anew` tells whether this is a timer that has not been counted.
    fn arm(&mut self, deadline: u64, now: u64, callback: Callback, anew: bool) -> Progress {
        let free = self.take_another_if_busy();
        let (shard, entry) = self.parts();
        // SAFETY: the future holds the entry, which nobody has in his hands.
        let armed = if free { unsafe { entry.arm(callback, deadline, now) } } else { Err(callback) };
        let notice = match armed {
            Ok(notice) => notice,
            Err(callback) => {
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
            shard.tell(local, self.lease.index, notice, deadline);
        });
        Progress::Pending
    }

    /// Why the timer has ended.
    fn ended(&self, due: &Due) -> Progress {
        let (shard, entry) = self.parts();
        if entry.is_closed() && due.tick > shard.ticks.now_tick() { Progress::Shutdown } else { Progress::Elapsed }
    }

    /// Leaves an entry that the driver has in its hands for one that is free. False if there is none any more.
    fn take_another_if_busy(&mut self) -> bool {
        let (shard, entry) = self.parts();
        if !entry.is_in_hands() {
            return true;
        }
        let Some(lease) = local::with(shard, lease) else { return false };
        let left = std::mem::replace(&mut self.lease, lease);
        // SAFETY: it was this future's, and is not used any more.
        unsafe { Shard::release(left) };
        true
    }

    /// Moves the deadline; that of a timer that is not pending counts from the next poll on.
    pub(crate) fn reset(&mut self, due: Due) {
        let (shard, entry) = self.parts();
        let moved = self.stage == Stage::Armed && shard.reset(entry, self.lease.index, due);
        self.stage = if moved { Stage::Armed } else { Stage::Idle };
    }

    /// How far the timer has come, without a waker.
    pub(crate) fn progress(&self, due: &Due) -> Progress {
        let (shard, entry) = self.parts();
        match self.stage {
            Stage::Over(progress) => progress,
            Stage::Armed if shard.is_pending(entry) => Progress::Pending,
            Stage::Armed => self.ended(due),
            Stage::Idle if due.tick <= shard.ticks.now_tick() => Progress::Elapsed,
            Stage::Idle if entry.is_closed() => Progress::Shutdown,
            Stage::Idle => Progress::Pending,
        }
    }

    /// Ends the timer if it is armed.
    fn cancel(&self) {
        let (shard, entry) = self.parts();
        if self.stage == Stage::Armed
            && let Some(ended) = entry.cancel()
        {
            // SAFETY: this call ended the timer, and the future has the handle.
            unsafe { shard.cancelled(entry, ended) };
        }
    }
}

/// Takes an entry of the shard that the calling thread has this part of.
fn lease(local: &mut Local) -> Option<Lease> {
    let shard = local.shard();
    // SAFETY: whoever uses a thread's part of a shard keeps the shard.
    let (entry, index) = unsafe { shard.as_ref() }.core.hold(&mut local.cache)?;
    Some(Lease { shard, entry: entry.into(), index })
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.cancel();
        // SAFETY: the lease was this future's alone.
        unsafe { Shard::release(self.lease) };
    }
}

// SAFETY: a hold gives access to its entry by moves on its atomic word, and to its shard, which is `Sync`. The waker in
// the entry is `Send` and `Sync`.
unsafe impl Send for Hold {}
// SAFETY: as above.
unsafe impl Sync for Hold {}

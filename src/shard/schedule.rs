//! `NewTimer`: accepts or refuses a new timer.
//!
//! This is the first step of a timer's life:
//!
//! 1. The thread finds its state for its [home](Shard::choose_home) shard.
//! 2. It takes a permit, if `max_pending` is set.
//! 3. It takes an entry from its cache, writes the callback, reads the clock, and arms the entry.
//! 4. It counts the timer, and [notifies](Shard::notify_driver) the driver if the driver must know.
//!
//! A refusal returns the permit, and counts the timer as rejected. Periodic timers and one-shots come this way; the
//! timers of futures are armed by [`sleep_entry`](super::sleep_entry), without a permit.
//!
//! The thread that ends a timer releases its permit: when a one-shot starts, when a periodic timer ends, at a cancel, or
//! when a shutdown takes the closure.

use std::mem::ManuallyDrop;
use std::sync::atomic::Ordering;

use super::raw_handle::RawHandle;
use super::shard::Shard;
use super::thread_state::{self, Guard};
use crate::clock::Deadline;
use crate::engine::entry::{Callback, CallbackKind, Data, Entry, Table};
use crate::engine::memory::AllocError;
use crate::error::ScheduleErrorKind;

/// A timer that is accepted, and not armed yet: a free entry in the calling thread's home shard, and a permit.
pub(crate) struct NewTimer {
    thread: Guard,
    raw: RawHandle,
}

impl NewTimer {
    /// Takes an entry of the calling thread's home shard of `service`, which the caller keeps; see [`thread_state::home`].
    #[inline(always)]
    pub(crate) fn new<'a>(service: u64, choose: impl FnOnce() -> &'a Shard) -> Result<Self, ScheduleErrorKind> {
        let mut thread = thread_state::home(service, choose);
        let shard = thread.shard();
        // SAFETY: the shard is alive, because the caller keeps the service.
        let this = unsafe { shard.as_ref() };
        if !this.acquire_permit() {
            thread.count(|counters| &counters.rejected);
            return Err(ScheduleErrorKind::Full);
        }
        let index = this.core.free_entry(&mut thread.cache).map_err(|refusal| this.refused(&thread, refusal))?;
        Ok(Self { thread, raw: RawHandle::new(shard, this.core.slab.get(index).into(), index) })
    }

    fn entry(&self) -> &Entry {
        // SAFETY: the shard is alive, because the caller of `new` keeps the service.
        unsafe { self.raw.entry.as_ref() }
    }

    /// Lets `write` write the data of a callback into the entry, and return its table.
    #[inline(always)]
    pub(crate) fn write(&mut self, write: impl FnOnce(*mut Data) -> Table) {
        // SAFETY: we own the entry, and it is unused, because it came from the cache.
        unsafe { self.entry().write_callback(write) };
    }

    /// Arms a timer with a callback of this kind. After a refusal, the caller must treat what was written as
    /// uninitialised. Otherwise it must [`release`](Shard::release) the returned handle.
    ///
    /// The deadline should be computed after the callback was written: an ordered clock read waits for all earlier loads,
    /// so it is cheapest when none is outstanding.
    ///
    /// # Safety
    /// A callback of this kind must have been [written](Self::write).
    #[inline(always)]
    pub(crate) unsafe fn arm(self, kind: CallbackKind, due: Deadline) -> Result<RawHandle, ScheduleErrorKind> {
        let Self { thread, raw } = &self;
        // SAFETY: as in `entry`.
        let shard = unsafe { raw.shard.as_ref() };
        let now = shard.ticks.present(due.now);
        // SAFETY: we own the entry, which came from the cache, and by this function's contract.
        let notice = unsafe { self.entry().arm_written(kind, due.tick, now) };
        let notice = notice.ok_or_else(|| shard.refused(thread, AllocError::Closed))?;
        thread.count(|counters| &counters.scheduled);
        shard.notify_driver(thread, raw.index(), notice, due.tick, now);
        Ok(*raw)
    }

    /// Arms a timer with this callback, and returns the callback after a refusal.
    pub(crate) fn arm_with(
        mut self,
        callback: Callback,
        due: Deadline,
    ) -> Result<RawHandle, (ScheduleErrorKind, Callback)> {
        let callback = ManuallyDrop::new(callback);
        // SAFETY: this moves the callback, which is used again only if the timer is refused.
        self.write(|data| unsafe { callback.write(data) });
        // SAFETY: it was written above.
        let armed = unsafe { self.arm(callback.kind(), due) };
        armed.map_err(|kind| (kind, ManuallyDrop::into_inner(callback)))
    }
}

impl Shard {
    /// Takes a permit under `max_pending`. Returns false if none is left. Without `max_pending` there is no counter, and no
    /// cache line that threads share.
    #[inline]
    fn acquire_permit(&self) -> bool {
        let Some(permits) = &self.settings.permits else { return true };
        // Relaxed, here and below: the count guards no other memory.
        permits.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    /// Releases the permit of a timer that has ended or was refused, if timers have permits.
    #[inline]
    pub(super) fn release_permit(&self) {
        if let Some(permits) = &self.settings.permits {
            permits.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Undoes what [`NewTimer::new`] has done for a timer that the engine refuses.
    #[cold]
    fn refused(&self, thread: &Guard, refusal: AllocError) -> ScheduleErrorKind {
        self.release_permit();
        thread.count(|counters| &counters.rejected);
        match refusal {
            AllocError::Closed => ScheduleErrorKind::Shutdown,
            AllocError::NoMemory => ScheduleErrorKind::OutOfMemory,
        }
    }

    /// Counts a timer that the service refused, in the calling thread's home shard.
    pub(crate) fn reject<'a>(service: u64, choose: impl FnOnce() -> &'a Shard) {
        thread_state::home(service, choose).count(|counters| &counters.rejected);
    }
}

//! `schedule`: accepts or refuses a new timer.
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

use std::sync::atomic::Ordering;

use super::raw_handle::RawHandle;
use super::shard::Shard;
use super::thread_state::{self, ThreadState};
use crate::clock::{Deadline, Ticks};
use crate::engine::entry::{CallbackKind, Data, Table};
use crate::engine::memory::AllocError;
use crate::error::{ScheduleError, ScheduleErrorKind};

impl Shard {
    /// Schedules a timer in the calling thread's home shard of `service`; see [`thread_state::home`].
    ///
    /// `write` writes a callback of this kind into the entry. After a refusal the caller must treat the bits that
    /// `write` was given as uninitialised, and keeps the closure. The caller must [`release`](Self::release) the
    /// returned handle.
    ///
    /// `due` is called last. An ordered clock read waits for all earlier loads, so it is cheapest when none is
    /// outstanding.
    #[inline(always)]
    pub(crate) fn schedule<'a>(
        service: u64,
        choose: impl FnOnce() -> &'a Shard,
        due: impl FnOnce(&Ticks) -> Deadline,
        kind: CallbackKind,
        write: impl FnOnce(*mut Data) -> Table,
    ) -> Result<(RawHandle, Deadline), ScheduleError<()>> {
        let mut thread = thread_state::home(service, choose);
        let shard = thread.shard();
        // SAFETY: the shard is alive, because the caller keeps the service.
        let this = unsafe { shard.as_ref() };
        if !this.acquire_permit() {
            thread.count(|counters| &counters.rejected);
            return Err(ScheduleError::new(ScheduleErrorKind::Full, ()));
        }
        let index = this.core.free_entry(&mut thread.cache).map_err(|refusal| this.refused(&thread, refusal))?;
        let entry = this.core.slab.get(index);
        // SAFETY: we own the entry, and it is free or cached, because it came from the cache.
        unsafe { entry.write_callback(write) };
        let due = due(&this.ticks);
        let now = this.ticks.present(due.now);
        // SAFETY: as above, and `write` has written a callback of this kind.
        let notice = unsafe { entry.arm_written(kind, due.tick, now) };
        let notice = notice.ok_or_else(|| this.refused(&thread, AllocError::Closed))?;
        thread.count(|counters| &counters.scheduled);
        this.notify_driver(&thread, index, notice, due.tick, now);
        Ok((RawHandle::new(shard, entry.into(), index), due))
    }

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

    /// Undoes what `schedule` has done for a timer that the engine refuses.
    #[cold]
    fn refused(&self, thread: &ThreadState, refusal: AllocError) -> ScheduleError<()> {
        self.release_permit();
        thread.count(|counters| &counters.rejected);
        let kind = match refusal {
            AllocError::Closed => ScheduleErrorKind::Shutdown,
            AllocError::NoMemory => ScheduleErrorKind::OutOfMemory,
        };
        ScheduleError::new(kind, ())
    }

    /// Counts a timer that the service refused, in the calling thread's home shard.
    pub(crate) fn reject<'a>(service: u64, choose: impl FnOnce() -> &'a Shard) {
        thread_state::home(service, choose).count(|counters| &counters.rejected);
    }
}

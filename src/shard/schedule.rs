//! `schedule`: accepts or refuses a new timer.
//!
//! This is the first step of a timer's life:
//!
//! 1. The thread finds its state for its [home](super::home) shard.
//! 2. It takes a permit, if `max_pending` is set.
//! 3. It takes an entry from its cache, writes the callback, reads the clock, and arms the entry.
//! 4. It counts the timer, and [notifies](Shard::notify_driver) the driver if the driver must know.
//!
//! A refusal returns the permit, and counts the timer as rejected. Periodic timers and one-shots come this way; the
//! timers of futures are armed by [`sleep_entry`](super::sleep_entry), without a limit.

use std::sync::Arc;

use super::raw_handle::RawHandle;
use super::shard::Shard;
use super::thread_state::{self, ThreadState};
use crate::clock::{Deadline, Ticks};
use crate::engine::core::Armed;
use crate::engine::entry::{Callback, Role};
use crate::engine::memory::AllocError;
use crate::error::Rejection;

impl Shard {
    /// Schedules a timer in the calling thread's home shard of `service`; see [`thread_state::with_home`].
    ///
    /// `write` writes a callback of this role into the entry. After a refusal the caller must treat the bits that
    /// `write` was given as uninitialised, and keeps the closure. The caller must [`release`](Self::release) the
    /// returned handle.
    ///
    /// `due` is called last. An ordered clock read waits for all earlier loads, so it is cheapest when none is
    /// outstanding.
    #[inline(always)]
    pub(crate) fn schedule<'a>(
        service: u64,
        choose: impl FnOnce() -> &'a Arc<Shard>,
        due: impl FnOnce(&Ticks) -> Deadline,
        role: Role,
        write: impl FnOnce(*mut Callback),
    ) -> Result<(RawHandle, Deadline), Rejection> {
        thread_state::with_home(
            service,
            || &**choose(),
            |thread| {
                let shard = thread.shard();
                // SAFETY: the shard is alive, because the caller keeps the service.
                let this = unsafe { shard.as_ref() };
                let (Armed { entry, index, .. }, due) = this.accept(thread, due, role, write)?;
                Ok((RawHandle::new(shard, entry.into(), index), due))
            },
        )
    }

    /// Arms an entry of this shard, with the calling thread's state for it.
    #[inline(always)]
    fn accept(
        &self,
        thread: &mut ThreadState,
        due: impl FnOnce(&Ticks) -> Deadline,
        role: Role,
        write: impl FnOnce(*mut Callback),
    ) -> Result<(Armed<'_>, Deadline), Rejection> {
        if self.limit.as_ref().is_some_and(|limit| !limit.acquire()) {
            thread.count(|counters| &counters.rejected);
            return Err(Rejection::Full);
        }
        let mut known = None;
        let when = || {
            let due = due(&self.ticks);
            known = Some(due);
            (due.tick, self.ticks.present(due.now))
        };
        let armed = self.core.arm_with(&mut thread.cache, role, write, when);
        match (armed, known) {
            (Ok(armed), Some(due)) => {
                thread.count(|counters| &counters.scheduled);
                self.notify_driver(thread, armed.index, armed.notice, due.tick);
                Ok((armed, due))
            }
            (Ok(_), None) => unreachable!("an entry is armed for a deadline"),
            (Err(refusal), _) => Err(self.refused(thread, refusal)),
        }
    }

    /// Undoes what `accept` has done for a timer that the engine refuses.
    #[cold]
    fn refused(&self, thread: &ThreadState, refusal: AllocError) -> Rejection {
        self.release_permit();
        thread.count(|counters| &counters.rejected);
        match refusal {
            AllocError::Closed => Rejection::Shutdown,
            AllocError::NoMemory => Rejection::OutOfMemory,
        }
    }

    /// Releases the permit of a timer that has ended or was refused, if timers have permits.
    #[inline]
    pub(super) fn release_permit(&self) {
        if let Some(limit) = &self.limit {
            limit.release();
        }
    }

    /// Counts a timer that the service refused, in the calling thread's home shard.
    pub(crate) fn reject<'a>(service: u64, choose: impl FnOnce() -> &'a Arc<Shard>) {
        thread_state::with_home(service, || &**choose(), |thread| thread.count(|counters| &counters.rejected));
    }
}

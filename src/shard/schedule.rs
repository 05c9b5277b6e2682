//! Accepts or refuses a new timer.

use std::sync::Arc;

use super::binding::Shard;
use super::raw_handle::RawHandle;
use super::thread_state::{self, ThreadState};
use crate::clock::{Deadline, Ticks};
use crate::engine::core::Armed;
use crate::engine::entry::{Callback, Role};
use crate::engine::memory::AllocError;
use crate::error::Rejection;

impl Shard {
    /// Accepts a timer, in the shard that is the calling thread's home in `service`; see [`thread_state::with_home`]. `write` writes
    /// its callback, in this role, into its entry. If the timer is refused, what may have been written must be treated as
    /// uninitialised. The lease that comes back must be [`release`](Self::release)d.
    ///
    /// `due` is called last: a clock is read in order, so it is best read while nothing else is to be waited for.
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
                // The caller has the service, so the shard is there.
                let shard = thread.shard();
                // SAFETY: as above.
                let this = unsafe { shard.as_ref() };
                let (Armed { entry, index, .. }, due) = this.accept(thread, due, role, write)?;
                Ok((RawHandle::new(shard, entry.into(), index), due))
            },
        )
    }

    #[inline(always)]
    pub(super) fn accept(
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
            let (pinned, now) = self.ticks.pin(due.now);
            known = Some((due, pinned));
            (due.tick, now)
        };
        let armed = self.core.arm_with(&mut thread.cache, role, write, when);
        match (armed, known) {
            (Ok(armed), Some((due, pinned))) => {
                thread.count(|counters| &counters.scheduled);
                self.notify_driver(thread, armed.index, armed.notice, due.tick, pinned);
                Ok((armed, due))
            }
            (Ok(_), None) => unreachable!("an entry is armed for a deadline"),
            (Err(refusal), _) => Err(self.refused(thread, refusal)),
        }
    }

    #[cold]
    pub(super) fn refused(&self, thread: &ThreadState, refusal: AllocError) -> Rejection {
        self.release_permit();
        thread.count(|counters| &counters.rejected);
        match refusal {
            AllocError::Closed => Rejection::Shutdown,
            AllocError::NoMemory => Rejection::OutOfMemory,
        }
    }

    /// Counts a timer that was refused before it came to any shard, in the shard that is the calling thread's home in
    /// `service`.
    pub(crate) fn reject<'a>(service: u64, choose: impl FnOnce() -> &'a Arc<Shard>) {
        thread_state::with_home(service, || &**choose(), |thread| thread.count(|counters| &counters.rejected));
    }
}

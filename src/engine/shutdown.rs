//! The shutdown of a shard: closes all entries, then takes the pending timers.
//!
//! [`Core::close`] closes every entry in memory, each by one transition. A timer that another thread arms or resets
//! meanwhile is either accepted and found by the shutdown, or refused. Then the shutdown takes what is pending, by
//! [`claim_of`](Core::claim_of), [`claim_closures`](Core::claim_closures), [`take_claimed`](Core::take_claimed) and
//! [`claim_running`](Core::claim_running). The head of `timer/service.rs` has their order, and its reasons.
//!
//! Loom models `shutdown`, `shutdown_inside`, `shutdown_sleep`, `shutdown_memory`, `in_flight`, `backlog` and `sleep`.

use std::ptr::NonNull;
use std::time::Instant;

use super::core::Core;
use super::entry::{ARMED, CLAIMED, Callback, CallbackKind, Entry, HANDLE, RUNNING, State};
use crate::sync::Ordering;

impl Core {
    /// Shuts the shard down: no callback starts any more, no timer is accepted or reset, and the driver ends. Pending
    /// timers stay where they are until the `claim` functions take them. Must be called once. Calls no foreign code
    /// but the waker of a program's loop. Returns whether no handle keeps the shard's memory.
    ///
    /// The file's head explains what happens to timers that other threads arm or reset meanwhile.
    pub(crate) fn close(&self) -> bool {
        // Release: pairs with `is_closing`. The fence in `wake_for_close` makes sure that the driver sees it. A thread that
        // finds an entry closed sees it, too, because it comes before. Loom models `sleep`, `sleep_entry`.
        self.closing.store(true, Ordering::Release);
        self.wakeup.wake_for_close();
        let handles: i64 = self.slab.close().map(|entry| i64::from(entry.close().has(HANDLE))).sum();
        // Release: publishes what this thread did to the thread that frees the shard; pairs with `subtract_handle`.
        // Acquire: if no handle is left, this thread frees the shard, and sees what the threads did that dropped the
        // handles. Loom model `shutdown_memory`.
        self.handles.fetch_add(handles, Ordering::AcqRel) == -handles
    }

    /// Takes the pending timers of a closed shard whose callbacks have this kind. Sleeps must be taken before anything
    /// that may wait for a task that they wake, and values before wakers are called.
    pub(crate) fn claim_of(&self, kind: CallbackKind, now: u64, mut found: impl FnMut(State, Callback)) {
        let of_kind = self.slab.close().filter(|entry| entry.state().kind() == kind);
        of_kind.filter_map(|entry| entry.take(ARMED, now)).for_each(|(state, (_, callback))| found(state, callback));
    }

    /// Ends the pending closures of a closed shard, and passes the state of each to `ended`. They stay until they are
    /// [taken](Self::take_claimed). Returns the entries whose callbacks are running.
    pub(crate) fn claim_closures(&self, mut ended: impl FnMut(State)) -> Vec<&Entry> {
        let mut claim = |entry: &Entry| entry.claim(false).map(&mut ended);
        self.slab.close().filter(|entry| claim(entry).is_err_and(|state| state.has(RUNNING))).collect()
    }

    /// Takes the closures that were [claimed](Self::claim_closures), each with its deadline. No two calls return the same
    /// closure.
    pub(crate) fn take_claimed(&self, now: u64) -> impl Iterator<Item = (u64, Callback)> {
        self.slab.close().filter_map(move |entry| entry.take(CLAIMED, now)).map(|(_, closure)| closure)
    }

    /// Claims a periodic timer that was running in a closed shard, as [`claim_closures`](Self::claim_closures) does. First
    /// waits for the end of the run, until the instant `until`. Returns false if the run has not ended by then.
    ///
    /// A run ends its timer if it takes longer, or if the calling thread is inside of it.
    pub(crate) fn claim_running(&self, entry: &Entry, until: Option<Instant>, ended: impl FnOnce(State)) -> bool {
        let in_time = self.wait_for_run(entry, until);
        _ = entry.claim(true).map(ended);
        in_time
    }

    /// Subtracts one from the handles of a closed shard. Returns true if it was the last: then nothing keeps the
    /// shard's memory.
    ///
    /// # Safety
    /// `this` must be valid. The caller must not use it after this call unless it returns true, because another thread
    /// may have freed it.
    pub(crate) unsafe fn subtract_handle(this: NonNull<Self>) -> bool {
        // SAFETY: `handles` is valid, because `this` is by this function's contract. We take a reference to the atomic
        // alone: one to the whole `Core` would promise that the `Core` outlives this call.
        let handles = unsafe { &(*this.as_ptr()).handles };
        // Release, Acquire: as in `close`. The count is below one until `close` has added the handles that it counted.
        handles.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Returns whether the driver must end.
    pub(crate) fn is_closing(&self) -> bool {
        // Acquire: pairs with `close`.
        self.closing.load(Ordering::Acquire)
    }
}

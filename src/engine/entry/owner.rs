//! The transitions of the thread that owns an unused entry, or that has the handle of a timer.

use std::mem::ManuallyDrop;
use std::task::Waker;

use super::callback::{Callback, CallbackKind};
use super::layout::Entry;
use super::notice::DriverNotice;
use super::state::{ARMED, CACHED, CLOSED, DISPATCHED, ENQUEUED, HANDLE, HAS_WAITER, LINKED, RESET, RUNNING, State};

impl Entry {
    /// Reserves the entry for a timer that is not armed yet: sets `HANDLE`. Returns false if the shard has been shut
    /// down.
    ///
    /// # Safety
    /// The caller must own the entry, which must be free or cached.
    #[inline]
    pub(crate) unsafe fn reserve(&self) -> bool {
        self.try_transition(|state| (!state.has(CLOSED)).then(|| state.without(CACHED).with(HANDLE))).is_ok()
    }

    /// Returns whether the callback wakes the same task as `waker`.
    ///
    /// # Safety
    /// The caller must have the entry's handle to itself, and have armed it since it last ended the timer.
    #[inline]
    pub(crate) unsafe fn will_wake(&self, waker: &Waker) -> bool {
        // SAFETY: no thread writes the callback meanwhile, because only the thread with the handle arms the entry
        // again, and we are that thread. A callback that was taken has left its bits in the cell, which are compared
        // but not used.
        self.data.with(|data| unsafe { self.vtable().will_wake(data, waker) })
    }

    /// Makes a pending timer of the entry, with a handle, that wakes the task of `waker`. Otherwise as
    /// [`arm_written`](Self::arm_written), but a refusal returns the waker.
    ///
    /// # Safety
    /// As for `arm_written`. The cell must contain no callback.
    #[inline]
    pub(crate) unsafe fn arm_waking(&self, waker: Waker, deadline: u64, now: u64) -> Result<DriverNotice, Waker> {
        let waker = ManuallyDrop::new(waker);
        // SAFETY: we own the entry by this function's contract, and the waker, because it is moved into the cell, and
        // is used again only if the transition is refused.
        unsafe { self.write_callback(|data| Callback::write_waking(data, &*waker)) };
        // SAFETY: by this function's contract, and the callback was written above.
        let armed = unsafe { self.arm_written(CallbackKind::Waker, deadline, now) };
        armed.ok_or_else(|| ManuallyDrop::into_inner(waker))
    }

    /// Makes a pending timer of the entry, with a handle and the callback that was written. The caller must then notify
    /// the driver. Returns `None` if the shard has been shut down: the caller must then treat what was written as
    /// uninitialised. `now` is the present tick.
    ///
    /// # Safety
    /// The caller must own the entry, which must be free, cached or [reserved](Self::reserve). It must not be in a
    /// batch, and its callback must not run. A callback of this kind must have been [written](Self::write_callback).
    #[inline(always)]
    pub(crate) unsafe fn arm_written(&self, kind: CallbackKind, deadline: u64, now: u64) -> Option<DriverNotice> {
        let mut notice = DriverNotice::None;
        let armed = self.try_transition(|state| {
            notice = if state.has(ENQUEUED) {
                DriverNotice::wake_if(deadline < state.deadline(now) || deadline <= now)
            } else if state.has(LINKED)
                && self.registered_tick(now).is_some_and(|registered_tick| deadline >= registered_tick)
            {
                DriverNotice::wake_if(deadline <= now)
            } else {
                DriverNotice::Enqueue
            };
            let armed = State(ARMED | HANDLE | kind as u64 | notice.flag() | state.0 & (LINKED | ENQUEUED));
            (!state.has(CLOSED)).then(|| armed.with_deadline(deadline, now))
        });
        armed.ok().map(|_| notice)
    }

    /// Cancels the timer, or returns `None` if it has ended already. The entry stays where it is. Returns the state
    /// before: unless it was `RUNNING`, the canceller owns the callback, and must [drop](Self::drop_callback) it.
    #[inline]
    pub(crate) fn cancel(&self) -> Option<State> {
        self.try_transition(|state| state.has(ARMED).then(|| state.without(ARMED))).ok()
    }

    /// Replaces the deadline, or returns `None` if the timer has ended or the shard was shut down. `now` is the present
    /// tick.
    #[inline]
    pub(crate) fn reset(&self, deadline: u64, now: u64) -> Option<DriverNotice> {
        let mut notice = DriverNotice::None;
        let reset = self.try_transition(|state| {
            let is_earlier = deadline < state.deadline(now);
            notice = if state.has(RUNNING | DISPATCHED) {
                DriverNotice::None
            } else if is_earlier && !state.has(ENQUEUED) {
                DriverNotice::Enqueue
            } else {
                DriverNotice::wake_if(is_earlier || deadline <= now)
            };
            let pending = state.has(ARMED) && !state.has(CLOSED);
            pending.then(|| state.with(RESET | notice.flag()).with_deadline(deadline, now))
        });
        reset.ok().map(|_| notice)
    }

    /// Releases the handle, and returns the state after. If that is `CLOSED`, the caller must subtract its handle from
    /// those of the shard. Otherwise the caller owns the entry and must recycle it, unless it is still in use: `ARMED`,
    /// `RUNNING` or `DISPATCHED`. An entry that it does not own must not be touched afterwards.
    #[inline]
    pub(crate) fn release(&self) -> State {
        let (_, after) = self.transition(|state| {
            let state = state.without(HANDLE);
            if state.has(ARMED | RUNNING | DISPATCHED | CLOSED) {
                state
            } else if state.has(LINKED | ENQUEUED) {
                state.with(CACHED)
            } else {
                State::FREE
            }
        });
        after
    }

    /// Asks the worker that runs the callback to wake this thread at the end of the run. Returns false if the callback
    /// does not run. Loom model `periodic`.
    pub(crate) fn wait_for_run(&self) -> bool {
        self.try_transition(|state| state.has(RUNNING).then(|| state.with(HAS_WAITER))).is_ok()
    }
}

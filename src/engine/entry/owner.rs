//! The transitions of the thread that owns an entry, or has its handle.

use std::mem::{ManuallyDrop, MaybeUninit};
use std::task::Waker;

use super::callback::{Callback, Role};
use super::layout::Entry;
use super::outcome::{DriverNotice, Ended, Release};
use super::state::{
    ARMED, CACHED, CLOSED, DISPATCHED, ENQUEUED, HANDLE, HAS_WAITER, LINKED, PERIODIC, RESET_WHILE_RUNNING, RUNNING,
    State, WAKER,
};

impl Entry {
    /// Takes hold of the entry for a timer to be, which has a handle already. False if the shard has been shut down.
    ///
    /// # Safety
    /// The caller must own the entry, which must be free or cached.
    #[inline]
    pub(crate) unsafe fn reserve(&self) -> bool {
        self.advance(|state| (!state.has(CLOSED)).then(|| state.without(CACHED).with(HANDLE))).is_ok()
    }

    /// Whether the entry is in the hands of a driver or a worker, who will look at it whatever its handle does.
    #[inline]
    pub(crate) fn is_in_hands(&self) -> bool {
        self.state().has(DISPATCHED | RUNNING)
    }

    /// Whether the callback wakes the same task as `waker`.
    ///
    /// # Safety
    /// The caller must have the entry's handle to itself, and have armed it since it last ended the timer.
    #[inline]
    pub(crate) unsafe fn wakes(&self, waker: &Waker) -> bool {
        // SAFETY: only who has the handle to itself arms the entry again, so nobody writes the callback meanwhile. One
        // that has been taken is still there to be compared.
        self.callback.with(|cell| unsafe { (*cell).assume_init_ref() }.wakes(waker))
    }

    /// Makes the entry a pending timer with a handle. The driver must be told of it then. Gives the callback back if
    /// the shard has been shut down.
    ///
    /// # Safety
    /// The caller must own the entry, which must be free, cached or [reserved](Self::reserve), and in nobody's hands.
    #[inline]
    pub(crate) unsafe fn arm(&self, callback: Callback, deadline: u64, now: u64) -> Result<DriverNotice, Callback> {
        let callback = ManuallyDrop::new(callback);
        // SAFETY: the callback is moved, and used again only if the transition is refused.
        let write = |cell: *mut Callback| unsafe { callback.write(cell) };
        // SAFETY: by this function's contract.
        let armed = unsafe { self.arm_with(callback.role(), write, || (deadline, now)) };
        armed.ok_or_else(|| ManuallyDrop::into_inner(callback))
    }

    /// As [`arm`](Self::arm), with a callback in this role that `write` writes into the entry, and the deadline and the present
    /// that `when` returns then. `None` if the shard has been shut down: what was written must be treated as uninitialised
    /// then.
    ///
    /// # Safety
    /// As for [`arm`](Self::arm).
    #[inline(always)]
    pub(crate) unsafe fn arm_with(
        &self,
        role: Role,
        write: impl FnOnce(*mut Callback),
        when: impl FnOnce() -> (u64, u64),
    ) -> Option<DriverNotice> {
        let role = match role {
            Role::Once => 0,
            Role::Periodic => PERIODIC,
            // The driver runs both itself.
            Role::Waker | Role::Value => WAKER,
        };
        // Such an entry has no callback, and its owner has the cell to itself.
        self.callback.with_mut(|cell| write(cell.cast()));
        let (deadline, now) = when();
        let mut notice = DriverNotice::None;
        let moved = self.advance(|state| {
            notice = if state.has(ENQUEUED) {
                if deadline < self.deadline_in(state, now) { DriverNotice::Wake } else { DriverNotice::None }
            } else if state.has(LINKED)
                && self.registered_tick(now).is_some_and(|registered_tick| deadline >= registered_tick)
            {
                DriverNotice::None
            } else {
                DriverNotice::Enqueue
            };
            let armed = State(ARMED | HANDLE | role | notice.flag() | state.only(LINKED | ENQUEUED));
            (!state.has(CLOSED)).then(|| self.with_exact_deadline(armed, deadline, now))
        });
        moved.ok().map(|_| notice)
    }

    /// Ends the timer; `None` if it had ended already. The entry stays where it is.
    #[inline]
    pub(crate) fn cancel(&self) -> Option<Ended> {
        let state = self.advance(|state| state.has(ARMED).then(|| state.without(ARMED))).ok()?;
        Some(Ended { idle: !state.has(RUNNING), dispatched: state.has(DISPATCHED) })
    }

    /// Moves the deadline; `None` if the timer had ended.
    #[inline]
    pub(crate) fn reset(&self, deadline: u64, now: u64) -> Option<DriverNotice> {
        let mut notice = DriverNotice::None;
        let moved = self.advance(|state| {
            notice = if state.has(RUNNING | DISPATCHED) || deadline >= self.deadline_in(state, now) {
                DriverNotice::None
            } else if state.has(ENQUEUED) {
                DriverNotice::Wake
            } else {
                DriverNotice::Enqueue
            };
            let moved = if state.has(RUNNING) { RESET_WHILE_RUNNING } else { notice.flag() };
            let pending = state.has(ARMED) && !state.has(CLOSED);
            pending.then(|| state.with(moved).with_deadline(deadline, now))
        });
        moved.ok().map(|_| notice)
    }

    /// Lets go of the handle. Unless it is `Kept`, the caller must not touch the entry any more.
    #[inline]
    pub(crate) fn release(&self) -> Release {
        let state = self.change(|state| {
            let state = state.without(HANDLE);
            if state.has(ARMED | RUNNING | DISPATCHED | CLOSED) {
                state
            } else if state.has(LINKED | ENQUEUED) {
                state.with(CACHED)
            } else {
                State::FREE
            }
        });
        if state.has(CLOSED) {
            Release::Closed
        } else if state.has(ARMED | RUNNING | DISPATCHED) {
            Release::Held
        } else {
            Release::Kept
        }
    }

    /// Ends the timer and releases the handle in one transition, and moves the callback to `callback`: from then on that and
    /// the entry are the caller's. False if the timer has ended, runs again and again, or is in the hands of the driver or of
    /// a worker, or if the shard is shut down: then nothing is done, and what `callback` holds must be treated as
    /// uninitialised.
    ///
    /// # Safety
    /// The caller must have the handle to itself, and have armed the entry since it last ended the timer. It must not
    /// touch the entry any more if this succeeds, but keep its index for the cache.
    #[inline(always)]
    pub(crate) unsafe fn cancel_and_release(&self, callback: &mut MaybeUninit<Callback>) -> bool {
        if self.state().has(PERIODIC) {
            // A worker may be writing the callback.
            return false;
        }
        // Before the transition, after which the memory of a closed shard may be freed.
        // SAFETY: nobody writes the callback of a one-shot but the owner of its handle.
        self.callback.with(|cell| unsafe { callback.as_mut_ptr().copy_from_nonoverlapping(cell.cast(), 1) });
        // A one-shot that runs is not armed. If it is armed and in no batch, it is in the wheel or in the intake.
        let alone = |state: State| state.has(ARMED) && !state.has(DISPATCHED | CLOSED);
        self.advance(|state| alone(state).then(|| state.without(ARMED | HANDLE).with(CACHED))).is_ok()
    }

    /// Asks the worker that runs the callback to say when it is done. False if nobody runs it.
    pub(crate) fn wait_for_run(&self) -> bool {
        self.advance(|state| state.has(RUNNING).then(|| state.with(HAS_WAITER))).is_ok()
    }
}

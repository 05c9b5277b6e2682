//! The transitions of an entry, by who makes them: see the [table](super#the-transitions).

use std::mem::ManuallyDrop;
use std::task::Waker;

use super::callback::{Callback, CallbackKind};
use super::parts::{
    ARMED, CLAIMED, CLOSED, DISPATCHED, ENQUEUED, Entry, HANDLE, HAS_WAITER, LINKED, PERIODIC, RESET, RUNNING, State,
    UNUSED,
};
use crate::sync::Ordering;

/// How the driver must be notified of a new deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DriverNotice {
    /// Not at all: the thread that comes to the entry next will see the deadline in time. Never of a deadline that has
    /// come, unless the entry is in a batch or runs: by a tick that has passed, the driver may sleep behind its
    /// [gate](crate::engine::gate).
    None,
    /// The driver will find the entry when it comes: the caller must wake it by the new deadline.
    Wake,
    /// The caller must push the entry to the intake, and wake the driver by the new deadline.
    Enqueue,
}

impl DriverNotice {
    /// Returns the notice for an entry that the driver will find when it comes.
    #[inline]
    pub(super) fn wake_if(is_early: bool) -> Self {
        if is_early { Self::Wake } else { Self::None }
    }

    /// Returns the flag that the transition adds to the state.
    pub(super) fn flag(self) -> u64 {
        if self == Self::Enqueue { ENQUEUED } else { 0 }
    }
}

/// The owner of an unused entry, and the thread that has the handle of a timer.
impl Entry {
    /// Reserves the entry for a timer that is not armed yet: sets `HANDLE`. Returns false if the shard has been shut
    /// down.
    ///
    /// # Safety
    /// The caller must own the entry, which must be unused.
    #[inline]
    pub(crate) unsafe fn reserve(&self) -> bool {
        self.try_transition(|state| (!state.has(CLOSED)).then(|| state.without(UNUSED).with(HANDLE))).is_ok()
    }

    /// Returns whether the callback wakes the same task as `waker`.
    ///
    /// # Safety
    /// The caller must have the entry's handle to itself, and have armed it since it last ended the timer.
    #[inline]
    pub(crate) unsafe fn will_wake(&self, waker: &Waker) -> bool {
        // SAFETY: we have armed the entry, by this function's contract.
        let is_waker = unsafe { self.vtable() }.kind == CallbackKind::Waker;
        // SAFETY: the cell contains a waker, because only `write_waking` makes data of this kind. No thread writes it
        // meanwhile, because only the thread with the handle arms the entry again, and we are that thread. A callback
        // that was taken has left its bits in the cell, which are compared but not used.
        is_waker && self.data.with(|data| unsafe { &*data.cast::<Waker>() }.will_wake(waker))
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
    /// The caller must own the entry, which must be unused or [reserved](Self::reserve). It must not be in a
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
                state.with(UNUSED)
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

/// The driver.
impl Entry {
    /// Makes an entry that the driver has popped from the depot free. Returns whether the entry was linked: the caller
    /// must then unlink it from the wheel. Returns `None`, and changes nothing, if the entry is in the intake.
    pub(crate) fn reclaim(&self) -> Option<bool> {
        let reclaimed = |state: State| state.without(UNUSED | LINKED).free_if_idle();
        let state = self.try_transition(|state| (!state.has(ENQUEUED)).then(|| reclaimed(state))).ok()?;
        Some(state.has(LINKED))
    }

    /// Collects an entry: one from the intake, or one that [`expire`](Self::expire) has enqueued. Returns the states
    /// before and after. The driver must unlink it if it was `LINKED`, and then link it by its deadline if it is
    /// `LINKED`, or recycle it if it is free. `now` is the present tick, and `wheel` the tick of the wheel.
    pub(crate) fn collect(&self, now: u64, wheel: u64) -> (State, State) {
        self.transition(|state| {
            if state.has(ARMED) && !state.has(CLOSED) {
                self.set_registered_tick(state.deadline(now), wheel);
                state.without(ENQUEUED).with(LINKED)
            } else {
                state.without(ENQUEUED | LINKED).free_if_idle()
            }
        })
    }

    /// Decides what becomes of an entry that the driver has unlinked from the wheel, because its slot expired at tick
    /// `now`, or because it is not armed. Returns the states before and after. The driver must add the entry to what is
    /// due if it is `DISPATCHED`, collect it if it has become `ENQUEUED`, because it was reset to a later deadline, or
    /// recycle it if it is free.
    pub(crate) fn expire(&self, now: u64) -> (State, State) {
        self.transition(|state| {
            let unlinked = state.without(LINKED);
            if !state.has(ARMED) || state.has(CLOSED | ENQUEUED) {
                unlinked.free_if_idle()
            } else if state.deadline(now) > now {
                unlinked.with(ENQUEUED)
            } else {
                unlinked.with(DISPATCHED)
            }
        })
    }
}

/// A worker, and a thread that drops a batch unrun.
impl Entry {
    /// Claims the entry of a batch that expired at tick `due`, to run its callback for the deadline that is returned.
    /// Returns the state after as the error if there is none to run:
    ///
    /// - `ENQUEUED`: the timer was reset to a later deadline. The worker must push the entry to the intake.
    /// - Not `ARMED`: the timer had ended. The worker must recycle the entry if it is free.
    /// - Otherwise the shard is closed, and the shutdown claims the timer.
    #[inline]
    pub(crate) fn start(&self, due: u64) -> Result<(Callback, u64), State> {
        self.leave_batch(due, |state| {
            let running = state.without(RESET).with(RUNNING);
            if state.has(PERIODIC) { running } else { running.without(ARMED) }
        })
    }

    /// Claims the entry of a batch that expired at tick `due` and is dropped unrun. Instead of running the callback,
    /// the caller drops it.
    ///
    /// A timer that was reset to a later deadline, or whose shard was shut down, does not end: it leaves the batch as
    /// in [`start`](Self::start).
    pub(crate) fn discard(&self, due: u64) -> Result<(Callback, u64), State> {
        self.leave_batch(due, |state| state.without(ARMED).with(RUNNING))
    }

    /// Takes the entry out of a batch that expired at tick `due`. If the timer is due, `begin` claims the callback.
    #[inline]
    fn leave_batch(&self, due: u64, begin: impl Fn(State) -> State) -> Result<(Callback, u64), State> {
        let mut deadline = due;
        let (before, after) = self.transition(|state| {
            deadline = state.deadline(due);
            let state = state.without(DISPATCHED);
            if !state.has(ARMED) || state.has(CLOSED) {
                state.free_if_idle()
            } else if deadline > due {
                state.with(ENQUEUED)
            } else {
                begin(state)
            }
        });
        if !after.has(RUNNING) {
            return Err(after);
        }
        // SAFETY: we own the callback, because `begin` has set `RUNNING` on an armed entry, which did not run in a
        // batch.
        Ok((unsafe { self.take_callback_for(before, deadline) }, deadline))
    }

    /// Ends a run, after the worker has run or dropped the callback. Returns the states before and after. The worker
    /// must wake the threads that wait for the run if the entry had `HAS_WAITER`, and recycle the entry if it is free.
    pub(crate) fn finish(&self) -> (State, State) {
        self.transition(|state| state.without(RUNNING | HAS_WAITER).free_if_idle())
    }

    /// Ends a periodic timer in its run: the callback has returned `None`, or has `panicked`. Returns false if the timer
    /// had ended, or if a reset during the run wins over the `None`. [`arm_next`](Self::arm_next) then decides.
    ///
    /// One transition: a reset before it wins, and one after it is refused. Loom model `periodic`.
    pub(crate) fn complete(&self, panicked: bool) -> bool {
        let ends = |state: State| state.has(ARMED) && (panicked || !state.has(RESET));
        self.try_transition(|state| ends(state).then(|| state.without(ARMED))).is_ok()
    }

    /// Ends a run of a periodic timer, and arms it for the tick `next`, or for the deadline of a reset that came during
    /// the run. `now` is the present tick.
    ///
    /// Returns the state before and that deadline, for which the worker must push the entry to the intake. But if the
    /// shard is `CLOSED`, the shutdown claims the timer, and the worker must wake the threads that wait for the run. If
    /// the timer was cancelled during the run, returns the callback: the worker must drop it, then finish.
    pub(crate) fn arm_next(&self, callback: Callback, next: u64, now: u64) -> Result<(State, u64), Callback> {
        // SAFETY: we own the cell, because this worker has set `RUNNING`. It contains no callback, because that was taken
        // out for the run.
        unsafe { self.write_callback(|data| ManuallyDrop::new(callback).write(data)) };
        let resumed = |state: State| {
            let state = if state.has(RESET) { state } else { state.with_deadline(next, now) };
            state.without(RUNNING | HAS_WAITER)
        };
        let armed = self.try_transition(|state| {
            let enqueued = if state.has(CLOSED) { 0 } else { ENQUEUED };
            state.has(ARMED).then(|| resumed(state).with(enqueued))
        });
        match armed {
            // SAFETY: we own the callback, because the transition was refused and `RUNNING` is still set. The entry
            // contains the callback that was put there above.
            Err(_) => Err(unsafe { self.take_callback() }),
            Ok(state) => Ok((state, if state.has(RESET) { state.deadline(now) } else { next })),
        }
    }
}

/// The shutdown.
impl Entry {
    /// Closes the entry: from now on its timer is neither reset nor started, and no other is armed. A pending timer
    /// stays pending until it is cancelled, [claimed](Self::claim) or [taken](Self::take). Returns the state before.
    pub(crate) fn close(&self) -> State {
        // AcqRel: as every transition. Loom model `shutdown`.
        State(self.state.fetch_or(CLOSED, Ordering::AcqRel))
    }

    /// Ends the pending timer of a closed entry, whose callback stays until it is [taken](Self::take). Returns the state
    /// before. A timer that is running is left alone; with `end_run`, a periodic one ends with this run, and the worker
    /// drops its callback. Returns the state as the error if this ends none.
    pub(crate) fn claim(&self, end_run: bool) -> Result<State, State> {
        let claimable = |state: State| state.has(ARMED) && (end_run || !state.has(RUNNING));
        self.try_transition(|state| claimable(state).then(|| state.without(ARMED).with(CLAIMED)))
    }

    /// Clears `flag` of a closed entry, and takes its callback: `ARMED`, of a pending timer, which ends, or `CLAIMED`.
    /// Returns the state before, and the callback with its deadline. `None` if the flag is not set, or the timer is
    /// running. `now` is the present tick.
    pub(crate) fn take(&self, flag: u64, now: u64) -> Option<(State, (u64, Callback))> {
        let takable = |state: State| state.has(flag) && !state.has(RUNNING);
        let state = self.try_transition(|state| takable(state).then(|| state.without(flag))).ok()?;
        let deadline = state.deadline(now);
        // SAFETY: we own the callback, because this thread cleared `ARMED`, or `CLAIMED`, to which the thread that
        // cleared `ARMED` left the callback. It does not run, and `CLOSED` keeps the entry from being armed again.
        Some((state, (deadline, unsafe { self.take_callback_for(state, deadline) })))
    }
}

//! The transitions of a worker, and of a thread that drops a batch unrun.

use std::mem::ManuallyDrop;

use super::callback::Callback;
use super::layout::Entry;
use super::state::{ARMED, CLOSED, DISPATCHED, ENQUEUED, HAS_WAITER, PERIODIC, RESET, RUNNING, State};

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

//! The transitions of a worker, and of a thread that drops a batch.

use super::callback::Callback;
use super::layout::{Entry, free_if_idle, is_free};
use super::outcome::{Finish, NextRun, Start};
use super::state::{ARMED, CLOSED, DISPATCHED, ENQUEUED, HAS_WAITER, PERIODIC, RESET_WHILE_RUNNING, RUNNING, State};

impl Entry {
    /// A worker has come to the entry, in a batch of what was due at `due`.
    #[inline]
    pub(crate) fn start(&self, due: u64) -> Start {
        self.leave_batch(due, |state| {
            if state.has(PERIODIC) { state.with(RUNNING) } else { state.without(ARMED).with(RUNNING) }
        })
    }

    /// The batch of what was due at `due` is dropped unrun. In place of a run, the caller drops the callback, and then calls
    /// [`discarded`](Self::discarded). A timer that was reset meanwhile to a later deadline, or whose shard was shut down,
    /// does not end: it leaves the batch as it does when a worker comes to it.
    pub(crate) fn discard(&self, due: u64) -> Start {
        // `DISPATCHED` keeps the entry from being used again until the callback is dropped.
        self.leave_batch(due, |state| state.without(ARMED).with(DISPATCHED))
    }

    /// The callback that [`discard`](Self::discard) took has been dropped. True if the caller must recycle the entry.
    pub(crate) fn discarded(&self) -> bool {
        self.let_go(DISPATCHED).free
    }

    /// The entry leaves a batch of what was due at `due`. `begin` takes the callback, if that is to be run or dropped.
    #[inline]
    pub(super) fn leave_batch(&self, due: u64, begin: impl Fn(State) -> State) -> Start {
        let mut deadline = due;
        let state = self.change(|state| {
            deadline = self.deadline_in(state, due);
            let state = state.without(DISPATCHED);
            if !state.has(ARMED) {
                free_if_idle(state)
            } else if state.has(CLOSED) {
                state
            } else if deadline > due {
                state.with(ENQUEUED)
            } else {
                begin(state)
            }
        });
        if !state.has(ARMED) {
            Start::Over { free: is_free(state.without(DISPATCHED)) }
        } else if state.has(CLOSED) {
            Start::Closed
        } else if deadline > due {
            Start::Enqueue { deadline }
        } else {
            Start::Run {
                // SAFETY: we own the callback, because `begin` took it: it set `RUNNING` or cleared `ARMED` on an armed entry
                // that did not run.
                callback: unsafe { self.take() },
                deadline,
            }
        }
    }

    /// The worker is done, and has run or dropped the callback.
    pub(crate) fn finish(&self) -> Finish {
        self.let_go(RUNNING)
    }

    pub(super) fn let_go(&self, hold: u64) -> Finish {
        let state = self.change(|state| free_if_idle(state.without(hold | HAS_WAITER)));
        Finish { has_waiter: state.has(HAS_WAITER), free: is_free(state.without(hold | HAS_WAITER)) }
    }

    /// The worker has made a run, and the callback wants another at `next`.
    pub(crate) fn arm_next(&self, callback: Callback, next: u64, now: u64) -> NextRun {
        // SAFETY: the worker holds `RUNNING`, and has taken the callback out.
        unsafe { self.put(callback) };
        let resumed = |state: State| {
            let state = if state.has(RESET_WHILE_RUNNING) { state } else { self.with_exact_deadline(state, next, now) };
            state.without(RUNNING | RESET_WHILE_RUNNING | HAS_WAITER)
        };
        let moved = self.advance(|state| {
            let enqueued = if state.has(CLOSED) { 0 } else { ENQUEUED };
            state.has(ARMED).then(|| resumed(state).with(enqueued))
        });
        match moved {
            // SAFETY: the move was refused, so this worker still holds `RUNNING`, and the callback is where it put it.
            Err(_) => NextRun::Cancelled(unsafe { self.take() }),
            Ok(state) if state.has(CLOSED) => NextRun::Held { has_waiter: state.has(HAS_WAITER) },
            Ok(state) => NextRun::Enqueue {
                deadline: if state.has(RESET_WHILE_RUNNING) { self.deadline_in(state, now) } else { next },
            },
        }
    }

    /// The worker has made the last run of a repeating callback. True if that ended the timer, and not a `cancel`.
    pub(crate) fn end(&self) -> bool {
        self.advance(|state| state.has(ARMED).then(|| state.without(ARMED))).is_ok()
    }
}

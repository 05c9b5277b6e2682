//! The budget of a thread, by which no loop over timers keeps its executor from other tasks.
//!
//! A [`SleepEntry`] knows whether its timer has ended. This file decides whether the poll returns that at once.
//!
//! A future that completes without having been pending lets a loop over it go on within one poll of its task. A runtime
//! can end such a loop by a budget for each poll of a task, as tokio does. This crate has no hook into a runtime, so
//! each thread has one budget for all of its tasks: [`BUDGET`] completions that did not wait. The next one is pending
//! once: it wakes its task and completes when it is polled again.
//!
//! - *Every loop gives way.* A loop within one poll stays on its thread, and each iteration spends from the budget.
//!   Nothing else refills the budget. A pending future does not: a task that selects among futures polls one in each
//!   iteration, and still loops.
//! - *No future is delayed twice.* A future that was pending completes without spending. So a task makes progress,
//!   however much other tasks of the thread spend.
//! - *Others pay little.* A task that does not loop is polled once more for every 128 completions that did not wait.

use std::cell::Cell;
use std::task::{Poll, Waker};

use super::sleep_entry::{Phase, SleepEntry};
use crate::sync::thread_static;

/// Number of completions on one thread that need not be pending first. tokio's budget has the same value.
const BUDGET: u8 = 128;

impl SleepEntry {
    /// Returns what a poll that finds `phase` should return. If the future could complete but must be pending once,
    /// wakes the task.
    #[inline]
    pub(crate) fn complete(&mut self, phase: Phase, waker: &Waker) -> Poll<()> {
        match phase {
            Phase::Idle | Phase::Armed | Phase::AfterShutdown => {}
            _ if self.has_waited || spend() => {
                self.has_waited = false;
                return Poll::Ready(());
            }
            _ => waker.wake_by_ref(),
        }
        self.has_waited = true;
        Poll::Pending
    }
}

thread_static! {
    static LEFT: Cell<u8> = const { Cell::new(BUDGET) };
}

/// Returns whether the calling thread's budget is spent, and refills it then.
pub(crate) fn is_spent() -> bool {
    LEFT.with(|left| {
        let is_spent = left.get() == 0;
        if is_spent {
            left.set(BUDGET);
        }
        is_spent
    })
}

/// Spends one completion of the calling thread's budget. If none is left, refills the budget and returns false.
pub(crate) fn spend() -> bool {
    LEFT.with(|left| {
        let rest = left.get().checked_sub(1);
        left.set(rest.unwrap_or(BUDGET));
        rest.is_some()
    })
}

//! The budget of a thread, by which no loop over timers keeps its executor from other tasks.
//!
//! A future that completes without having been pending lets a loop over it go on within one poll of its task. A runtime
//! can end such a loop by a budget for each poll of a task, as tokio does. This crate has no hook into a runtime, so
//! each thread has one budget for all of its tasks: [`BUDGET`] completions that did not wait. Once it is spent, each
//! further one *gives way*: it wakes its task, is pending once, and completes when it is polled again. The budget stays
//! spent until something that has given way is polled again, reset or dropped. That refills it.
//!
//! - *A loop that awaits gives way.* A loop within one poll stays on its thread, and each iteration spends from the
//!   budget. A task that selects among several of these futures finds all of them pending, because the first that gives
//!   way does not refill the budget for the second. Nothing else refills it, not even a future that is pending for its
//!   deadline. Not so a loop that goes on when it has found something pending: it polls what gave way again, which then
//!   completes.
//! - *No future is delayed twice.* A future that was pending completes without spending. So a task makes progress,
//!   however much other tasks of the thread spend.
//! - *Nothing stays in step with the budget.* A task may drop or reset what gives way, and make as many completions before
//!   the next, which would come at the end of the budget again. Or a loop polls several in each iteration, and one of them
//!   always completes because it gave way in the last. So each refill is a little more than [`BUDGET`], and differs.
//! - *Others pay little.* A task that does not loop is polled once more for every 128 completions that did not wait. If
//!   what gives way is leaked, or polled again on another thread, those that follow on this thread give way as well,
//!   until one of them is polled here again.

use std::cell::Cell;
use std::task::{Poll, Waker};

use super::sleep_entry::{Phase, SleepEntry};
use crate::sync::thread_static;

/// Minimum number of completions on one thread that need not be pending first. tokio's budget has the same value.
const BUDGET: u8 = 128;

/// Whether a future, or a consumer of a queue, was pending at its last poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    No,
    Yes,
    /// Although it was ready.
    GaveWay,
}

// What is left, and what varies the refills: a linear congruential generator with all of its 256 values.
thread_static! {
    static LEFT: Cell<(u8, u8)> = const { Cell::new((BUDGET, 0)) };
}

impl Waited {
    /// Begins another poll. Returns whether this may complete: if not, it gives way.
    #[inline]
    pub(crate) fn poll(self) -> bool {
        if self == Self::GaveWay {
            refill();
        }
        self != Self::No || LEFT.with(|left| left.get().0 > 0)
    }

    /// Completes, which spends from the budget unless this has waited.
    #[inline]
    pub(crate) fn complete(&mut self) {
        if *self == Self::No {
            LEFT.with(|left| left.set((left.get().0.saturating_sub(1), left.get().1)));
        }
        *self = Self::No;
    }

    /// Forgets that this has waited, because it is reset or dropped.
    #[inline]
    pub(crate) fn forget(&mut self) {
        self.poll();
        *self = Self::No;
    }
}

/// Refills the budget of the calling thread, if it is spent.
#[cold]
fn refill() {
    LEFT.with(|cell| {
        let (left, seed) = cell.get();
        cell.set((if left == 0 { BUDGET + seed / 8 } else { left }, seed.wrapping_mul(141).wrapping_add(3)));
    });
}

impl SleepEntry {
    /// Returns what a poll that finds `phase` should return. If the future could complete but must be pending once,
    /// wakes the task.
    #[inline]
    pub(crate) fn complete(&mut self, phase: Phase, waker: &Waker) -> Poll<()> {
        let may_complete = self.waited.poll();
        match phase {
            Phase::Idle | Phase::Armed | Phase::AfterShutdown => self.waited = Waited::Yes,
            _ if may_complete => {
                self.waited.complete();
                return Poll::Ready(());
            }
            _ => {
                waker.wake_by_ref();
                self.waited = Waited::GaveWay;
            }
        }
        Poll::Pending
    }
}

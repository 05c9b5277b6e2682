//! `Coop`: decides how a future completes, so that no loop over timers keeps its executor from other tasks.
//!
//! A [`SleepEntry`](super::SleepEntry) knows whether its timer has ended. Its `Coop` decides whether the poll returns
//! that at once.
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
//!
//! After a shutdown no timer waits, so a future that is made or reset from then on is pending once each time.

use std::cell::Cell;
use std::task::{Poll, Waker};

use crate::clock::Deadline;
use crate::sync::thread_static;

/// Number of completions on one thread that need not be pending first. tokio's budget has the same value.
const BUDGET: u8 = 128;

/// The progress of a future's timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    Pending,
    /// The deadline has come.
    Elapsed,
    /// A shutdown ended the timer before its deadline.
    Shutdown,
}

impl Progress {
    /// Returns the progress of a timer that is set or reset after the shutdown.
    pub(crate) fn after_shutdown(deadline: Deadline) -> Self {
        if deadline.tick <= deadline.now { Self::Elapsed } else { Self::Shutdown }
    }
}

/// The part of a future that decides how it completes.
pub(crate) struct Coop {
    wait: Wait,
    /// Whether a shutdown leaves the future pending for ever.
    pub(crate) outlasts_shutdown: bool,
}

/// Whether the next completion needs a pending poll first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// The future has not been pending since its deadline was set, or since it completed.
    Fresh,
    /// Like `Fresh`, but the future must be pending once before it completes.
    Owed,
    /// The future has been pending.
    Waited,
}

impl Coop {
    /// Creates the part for a new future. `closed`: the service has been shut down.
    #[inline]
    pub(crate) fn new(closed: bool) -> Self {
        Self { wait: Wait::set(closed), outlasts_shutdown: false }
    }

    /// Records that a new deadline was set. `closed`: the service has been shut down.
    #[inline]
    pub(crate) fn renew(&mut self, closed: bool) {
        self.wait = Wait::set(closed);
    }

    /// Returns what a poll that finds `progress` should return. If the future could complete but must be pending once,
    /// this wakes the task.
    #[inline]
    pub(crate) fn poll(&mut self, progress: Progress, waker: &Waker) -> Poll<()> {
        match (progress, self.wait) {
            (Progress::Pending, _) => self.wait = Wait::Waited,
            (Progress::Shutdown, _) if self.outlasts_shutdown => {}
            (_, Wait::Waited) => return self.complete(),
            (_, Wait::Fresh) if spend() => return self.complete(),
            (_, Wait::Fresh | Wait::Owed) => {
                self.wait = Wait::Waited;
                waker.wake_by_ref();
            }
        }
        Poll::Pending
    }

    #[inline]
    fn complete(&mut self) -> Poll<()> {
        self.wait = Wait::Fresh;
        Poll::Ready(())
    }
}

impl Wait {
    /// Returns the value for a future whose deadline was just set.
    fn set(closed: bool) -> Self {
        if closed { Self::Owed } else { Self::Fresh }
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

//! `Periodic`: a callback that runs more than once, and the `Schedule` that says when.
//!
//! A worker calls [`PeriodicCallback::run`] for each run, and the engine arms the entry for the tick that it returns.
//!
//! | schedule     | the next run                                                    |
//! |--------------|-----------------------------------------------------------------|
//! | `FixedRate`  | one period after the deadline of the last run                   |
//! | `FixedDelay` | one delay after the end of the last run                         |
//! | `Recurring`  | at the instant that the callback returns; `None` ends the timer |

use std::time::{Duration, Instant};

use crate::clock::{Deadline, Requested, Ticks};
use crate::engine::entry::PeriodicCallback;

/// A periodic callback, and the rule for its next run.
pub(super) trait Schedule: Send {
    /// Runs the callback, whose deadline was `deadline`. Returns the next deadline, or `None` to end the timer.
    fn run(&mut self, deadline: Instant, ticks: &Ticks) -> Option<Deadline>;
}

/// Runs a period after the deadline of the last run, however long that run took.
pub(super) struct FixedRate<F> {
    pub(super) period: Duration,
    pub(super) f: F,
}

impl<F: FnMut() + Send> Schedule for FixedRate<F> {
    fn run(&mut self, deadline: Instant, ticks: &Ticks) -> Option<Deadline> {
        (self.f)();
        Some(ticks.after_instant(deadline, self.period))
    }
}

/// Runs a delay after the end of the last run.
pub(super) struct FixedDelay<F> {
    pub(super) delay: Duration,
    pub(super) f: F,
}

impl<F: FnMut() + Send> Schedule for FixedDelay<F> {
    fn run(&mut self, _: Instant, ticks: &Ticks) -> Option<Deadline> {
        (self.f)();
        Some(ticks.after(self.delay))
    }
}

/// Runs at the instant that the last run returned.
pub(super) struct Recurring<F> {
    pub(super) f: F,
}

impl<F: FnMut(Instant) -> Option<Instant> + Send> Schedule for Recurring<F> {
    fn run(&mut self, deadline: Instant, ticks: &Ticks) -> Option<Deadline> {
        (self.f)(deadline).map(|next| ticks.at(next))
    }
}

/// A schedule, with the exact deadline of its next run.
///
/// The entry has only the tick. Periods that are counted from rounded ticks would drift.
pub(super) struct Periodic<R> {
    pub(super) schedule: R,
    pub(super) ticks: Ticks,
    pub(super) next: Requested,
}

impl<R: Schedule> PeriodicCallback for Periodic<R> {
    fn run(&mut self) -> Option<u64> {
        let next = self.schedule.run(self.ticks.display_requested(self.next), &self.ticks)?;
        self.next = next.requested;
        Some(next.tick)
    }

    fn reset(&mut self, due: u64) {
        self.next = self.ticks.after_reset(due);
    }
}

//! Repeating callbacks: when each of them runs next.

use std::time::{Duration, Instant};

use crate::clock::{Deadline, Ticks, UNKNOWN};
use crate::engine::entry::PeriodicCallback;

/// Computes the deadlines of a repeating callback.
pub(super) trait Schedule: Send {
    /// Makes the run for `deadline`, and returns the deadline of the next; `None` ends the timer.
    fn run(&mut self, deadline: Instant, ticks: &Ticks) -> Option<Deadline>;
}

/// Runs a period after the deadline of the run before, however long that run took.
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

/// Runs a delay after the end of the run before.
pub(super) struct FixedDelay<F> {
    pub(super) delay: Duration,
    pub(super) f: F,
}

impl<F: FnMut() + Send> Schedule for FixedDelay<F> {
    fn run(&mut self, _: Instant, ticks: &Ticks) -> Option<Deadline> {
        (self.f)();
        Some(ticks.requested_after(self.delay))
    }
}

/// Runs at the instant that the closure returns.
pub(super) struct Recurring<F> {
    pub(super) f: F,
}

impl<F: FnMut(Instant) -> Option<Instant> + Send> Schedule for Recurring<F> {
    fn run(&mut self, deadline: Instant, ticks: &Ticks) -> Option<Deadline> {
        (self.f)(deadline).map(|next| ticks.at(next))
    }
}

/// A repeating callback with the exact deadline of its next run. The entry has only the tick, and a grid of ticks would
/// drift.
pub(super) struct Periodic<R> {
    pub(super) schedule: R,
    pub(super) ticks: Ticks,
    pub(super) next: Deadline,
}

impl<R: Schedule> PeriodicCallback for Periodic<R> {
    fn run(&mut self, due: u64) -> Option<u64> {
        // A tick other than that of `next` comes from a reset: the next deadline counts from that tick.
        let deadline = self.ticks.deadline(self.next.requested()).filter(|_| due == self.next.tick);
        let deadline = deadline.unwrap_or_else(|| self.ticks.display_deadline(due, UNKNOWN));
        self.next = self.schedule.run(deadline, &self.ticks)?;
        Some(self.next.tick)
    }
}

//! Callbacks that run more than once, and when they run next.

use std::time::{Duration, Instant};

use crate::clock::{Deadline, Ticks, UNKNOWN};
use crate::engine::entry::PeriodicCallback;

/// When a repeating callback runs next.
pub(super) trait Schedule: Send {
    /// Makes the run that was due at `deadline`, and returns when the next is; `None` to end.
    fn run(&mut self, deadline: Instant, ticks: &Ticks) -> Option<Deadline>;
}

/// A period after the run before was due, however long that took.
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

/// A delay after the run before has ended.
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

/// Whenever it says itself.
pub(super) struct Recurring<F> {
    pub(super) f: F,
}

impl<F: FnMut(Instant) -> Option<Instant> + Send> Schedule for Recurring<F> {
    fn run(&mut self, deadline: Instant, ticks: &Ticks) -> Option<Deadline> {
        (self.f)(deadline).map(|next| ticks.at(next))
    }
}

/// A rule, with the exact deadline of its next run: the entry has only the tick, and a grid of ticks would drift.
pub(super) struct Periodic<R> {
    pub(super) schedule: R,
    pub(super) ticks: Ticks,
    pub(super) next: Deadline,
}

impl<R: Schedule> PeriodicCallback for Periodic<R> {
    fn run(&mut self, due: u64) -> Option<u64> {
        // A reset has moved the run if the tick is another: then it counts on from there.
        let deadline = self.ticks.deadline(self.next.requested()).filter(|_| due == self.next.tick);
        let deadline = deadline.unwrap_or_else(|| self.ticks.display_deadline(due, UNKNOWN));
        self.next = self.schedule.run(deadline, &self.ticks)?;
        Some(self.next.tick)
    }
}

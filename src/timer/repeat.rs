//! Callbacks that run more than once, and when they run next.

use std::time::{Duration, Instant};

use crate::clock::{Due, Ticks};
use crate::shard::Recur;

/// When a repeating callback runs next.
pub(super) trait Rule: Send {
    /// Makes the run that was due at `deadline`, and returns the deadline of the next; `None` to end.
    fn run(&mut self, deadline: Instant, ticks: &Ticks) -> Option<Instant>;
}

/// A period after the run before was due, however long that took.
pub(super) struct FixedRate<F> {
    pub(super) period: Duration,
    pub(super) f: F,
}

impl<F: FnMut() + Send> Rule for FixedRate<F> {
    fn run(&mut self, deadline: Instant, ticks: &Ticks) -> Option<Instant> {
        (self.f)();
        Some(later(deadline, self.period, ticks))
    }
}

/// A delay after the run before has ended.
pub(super) struct FixedDelay<F> {
    pub(super) delay: Duration,
    pub(super) f: F,
}

impl<F: FnMut() + Send> Rule for FixedDelay<F> {
    fn run(&mut self, _: Instant, ticks: &Ticks) -> Option<Instant> {
        (self.f)();
        Some(later(ticks.now(), self.delay, ticks))
    }
}

/// Whenever it says itself.
pub(super) struct Recurring<F> {
    pub(super) f: F,
}

impl<F: FnMut(Instant) -> Option<Instant> + Send> Rule for Recurring<F> {
    fn run(&mut self, deadline: Instant, _: &Ticks) -> Option<Instant> {
        (self.f)(deadline)
    }
}

fn later(instant: Instant, by: Duration, ticks: &Ticks) -> Instant {
    instant.checked_add(by).unwrap_or_else(|| ticks.never())
}

/// A rule, with the exact deadline of its next run: the entry has only the tick, and a grid of ticks would drift.
pub(super) struct Repeating<R> {
    pub(super) rule: R,
    pub(super) ticks: Ticks,
    pub(super) next: Due,
}

impl<R: Rule> Recur for Repeating<R> {
    fn run(&mut self, due: u64) -> Option<u64> {
        // A reset has moved the run if the tick is another: then it counts on from there.
        let exact = if due == self.next.tick { self.next.exact } else { crate::clock::UNKNOWN };
        let deadline = self.ticks.shown(due, exact);
        let next = self.rule.run(deadline, &self.ticks)?;
        self.next = self.ticks.at(next);
        Some(self.next.tick)
    }
}

//! What a shard has in virtual time only.

use std::sync::Weak;
use std::time::Instant;

use super::binding::Shard;
use crate::clock::{ManualClock, OnClock, Quiesce, Quiescence, Quiet, Registration};

/// How many ticks the clock moves at once: as many as a deadline is [kept exactly](crate::engine::entry::state) for. A driver may
/// have read the clock just before it moves, and come to a deadline that is written just after. It is waited for before
/// the clock moves again, so it misreads none.
const STRIDE: u64 = 1 << 48;

pub(super) struct VirtualTime {
    pub(super) quiescence: Quiescence,
    /// Whether the callbacks may have to wait until the calling thread is free.
    needs_this_thread: Box<dyn Fn() -> bool + Send + Sync>,
    _registration: Registration,
}

impl VirtualTime {
    pub(super) fn new(
        clock: &ManualClock,
        shard: Weak<Shard>,
        needs_this_thread: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        let shard: Weak<OnClock> = shard;
        Self {
            quiescence: Quiescence::new(),
            needs_this_thread: Box::new(needs_this_thread),
            _registration: clock.register(shard),
        }
    }
}

impl Shard {
    /// In virtual time, has the driver look for a timer that is due at once; others wait until the clock is moved.
    #[inline]
    pub(super) fn request_if_due(&self, deadline: u64) {
        if let Some(quiescence) = self.quiescence() {
            self.request_in_virtual_time(quiescence, deadline);
        }
    }

    #[cold]
    pub(super) fn request_in_virtual_time(&self, quiescence: &Quiescence, deadline: u64) {
        if deadline <= self.ticks.now_tick() {
            quiescence.request();
            self.core.wakeup.wake_by(0);
        }
    }

    /// A timer that was handed to the executor has run, or has ended otherwise.
    pub(super) fn finish_in_flight(&self) {
        if let Some(quiescence) = self.quiescence() {
            quiescence.end();
        }
    }

    /// In virtual time only.
    #[inline]
    pub(super) fn quiescence(&self) -> Option<&Quiescence> {
        self.virtual_time.as_ref().map(|time| &time.quiescence)
    }

    /// The threads of another process do nothing here.
    fn live(&self) -> Option<&Quiescence> {
        self.quiescence().filter(|_| !self.is_inherited())
    }
}

impl Quiesce for Shard {
    type Time = Instant;

    fn request(&self) -> Option<u64> {
        let now = self.ticks.now_tick();
        let is_empty = || self.core.intake_is_empty() && !self.core.has_surplus_memory();
        self.live()?.request_unless_quiet(now, is_empty, || self.core.wakeup.wake_by(0))
    }

    fn wait(&self, request: Option<u64>) -> Quiet<Instant> {
        let Some(quiescence) = self.live() else { return Quiet { next: None, worked: false } };
        let Quiet { next, worked } = quiescence.wait(request);
        let stride = self.ticks.now_tick().saturating_add(STRIDE);
        Quiet { next: next.and_then(|next| self.ticks.instant(next.min(stride))), worked }
    }

    fn needs_this_thread(&self) -> bool {
        self.core.is_on_this_thread() || self.virtual_time.as_ref().is_some_and(|time| (time.needs_this_thread)())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::{Clock, NEVER, Ticks};

    #[test]
    fn the_clock_moves_by_a_stride_at_most() {
        let clock = ManualClock::new();
        let ticks = Ticks::new(Clock::Manual(clock), Duration::from_millis(1));
        let shard = Shard::new(ticks, None, None, None, || false);
        // Without a driver, nobody would answer an `advance`.
        let quiescence = shard.quiescence().unwrap();
        for (next, asks_at) in [(5, 5), (STRIDE, STRIDE), (NEVER, STRIDE)] {
            quiescence.end_round(quiescence.last_request(), next);
            assert_eq!(shard.wait(None).next, shard.ticks.instant(asks_at));
        }
    }
}

//! How a [`ManualClock`](crate::ManualClock) waits for a shard: the shard's part of virtual time.
//!
//! In virtual time the driver sleeps until a request. Three events matter to the clock:
//!
//! | event                                         | here                                            |
//! |-----------------------------------------------|-------------------------------------------------|
//! | the clock moves                               | `Quiesce::request` wakes the driver, unless it has nothing to do; `wait` waits for its answer |
//! | a caller sets a deadline that has come        | `request_if_due` wakes the driver               |
//! | a dispatched timer has run, or ended otherwise | `finish_in_flight` counts it                   |
//!
//! The driver's next event is not the next deadline: it may be the tick at which a coarse slot cascades, or belong to a
//! cancelled timer. There are two ways to the exact answer:
//!
//! - [`next_deadline`](crate::ManualClock::next_deadline) reads the state of every entry. It waits for no thread,
//!   because the driver may be inside a callback, or be the calling thread.
//! - [`advance_to_next`](crate::ManualClock::advance_to_next) waits for the drivers anyway. It asks them to look into
//!   their slots, which costs by what is in the first slots.
//!
//! The protocol and its proof are at the head of `clock/quiescence.rs`. With a real clock all of this does nothing.

use std::time::Instant;

use super::binding::Shard;
use crate::clock::{OnClock, Quiesce, Quiescence, Quiet};

/// Maximum number of ticks by which the clock moves at once: a state represents deadlines exactly for that many ticks
/// ahead.
///
/// A driver may read the clock just before it moves, and then read a deadline that was written just after. The clock
/// waits for that driver before it moves again. So no deadline is further ahead of the driver's reading than a state
/// represents.
const STRIDE: u64 = 1 << 48;

impl Shard {
    /// In virtual time, wakes the driver if `deadline` has come. Later deadlines wait until the clock moves.
    #[inline]
    pub(super) fn request_if_due(&self, deadline: u64) {
        if let Some(quiescence) = self.quiescence() {
            self.request_in_virtual_time(quiescence, deadline);
        }
    }

    #[cold]
    fn request_in_virtual_time(&self, quiescence: &Quiescence, deadline: u64) {
        if deadline <= self.ticks.now_tick() {
            quiescence.request();
            self.core.wakeup.wake_by(0);
        }
    }

    /// Counts a dispatched timer that has left its batch: it has run, or has ended otherwise.
    pub(super) fn finish_in_flight(&self) {
        if let Some(quiescence) = self.quiescence() {
            quiescence.end();
        }
    }

    /// Returns the state of virtual time, or `None` with a real clock.
    #[inline]
    pub(super) fn quiescence(&self) -> Option<&Quiescence> {
        self.virtual_time.as_ref().map(|time| &time.quiescence)
    }

    /// Like `quiescence`, but `None` in a forked child, which has no driver.
    fn live(&self) -> Option<&Quiescence> {
        self.quiescence().filter(|_| !self.is_inherited())
    }
}

impl OnClock for Shard {
    fn next_deadline(&self) -> Option<Instant> {
        if self.is_inherited() {
            return None;
        }
        // States have the deadlines exactly while the clock stands.
        let (pinned, now) = self.ticks.pin(0);
        let deadlines = self.core.slab.in_memory().filter_map(|entry| entry.pending_deadline(now));
        let next = deadlines.min();
        drop(pinned);
        self.ticks.instant(next?)
    }

    fn request_search(&self) -> Option<u64> {
        let request = self.live()?.request_search();
        self.core.wakeup.wake_by(0);
        Some(request)
    }

    fn wait_for_search(&self, request: Option<u64>) -> Option<Instant> {
        self.ticks.instant(self.live()?.wait_for_search(request?)?)
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
    use crate::clock::{Clock, ManualClock, NEVER, Ticks};

    #[test]
    fn the_clock_moves_by_a_stride_at_most() {
        let clock = ManualClock::new();
        let ticks = Ticks::new(Clock::Manual(clock), Duration::from_millis(1));
        let shard = Shard::new(ticks, None, None, None, || false);
        // Not by `advance`: without a driver, no thread would answer its request.
        let quiescence = shard.quiescence().unwrap();
        for (next, asks_at) in [(5, 5), (STRIDE, STRIDE), (NEVER, STRIDE)] {
            quiescence.end_round(quiescence.last_request(), next);
            assert_eq!(shard.wait(None).next, shard.ticks.instant(asks_at));
        }
    }
}

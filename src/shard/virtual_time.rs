//! `VirtualTime`: what a shard has beside its engine if its clock is a [`ManualClock`](crate::ManualClock), and how the
//! clock waits for it.
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
//! cancelled timer. So [`next_deadline`](crate::ManualClock::next_deadline) reads the state of every entry. It waits for no
//! thread, because the driver may be inside a callback, or be the calling thread.
//!
//! The protocol and its argument are at the head of `clock/quiescence.rs`. With a real clock all of this does nothing.

use std::time::Instant;

use super::shard::Shard;
use crate::clock::{OnClock, Quiesce, Quiescence, Quiet};
use crate::engine::entry::EXACT_RANGE;

/// Returns whether callbacks may be unable to run before the calling thread is free.
pub(crate) type NeedsThisThread = dyn Fn() -> bool + Send + Sync;

/// The part of a shard that exists in virtual time only.
pub(super) struct VirtualTime {
    pub(super) quiescence: Quiescence,
    pub(super) needs_this_thread: Box<NeedsThisThread>,
}

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
    fn end(&self) -> Option<Instant> {
        if self.core.is_closing() { None } else { self.ticks.instant(EXACT_RANGE) }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.live()?;
        let now = self.ticks.now_tick();
        let next = self.core.slab.in_memory().filter_map(|entry| entry.pending_deadline(now)).min();
        self.ticks.instant(next?)
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
        Quiet { next: next.and_then(|next| self.ticks.instant(next)), worked }
    }

    fn needs_this_thread(&self) -> bool {
        self.core.is_on_this_thread() || self.virtual_time.as_ref().is_some_and(|time| (time.needs_this_thread)())
    }
}

//! Virtual time: what a shard does if its clock is a [`ManualClock`](crate::ManualClock), and how the clock waits for it.
//!
//! In virtual time the driver sleeps and is woken as in real time, but no sleep ends by itself. Three events matter to the
//! clock:
//!
//! | event                                          | here                                           |
//! |------------------------------------------------|------------------------------------------------|
//! | the clock moves                                | `Quiesce::wake` wakes the driver, if it is due |
//! | the driver may be at rest                      | `wake_clock` wakes the clock                   |
//! | a dispatched timer has run, or ended otherwise | `finish_in_flight` counts it                   |
//!
//! The driver's next event is not the next deadline: it may be the tick at which a coarse slot cascades, or belong to a
//! cancelled timer. So [`next_deadline`](crate::ManualClock::next_deadline) reads the state of every entry. It waits for no
//! thread, because the driver may be inside a callback, or be the calling thread.
//!
//! The protocol and its argument are at the head of `clock/quiescence.rs`. With a real clock all of this does nothing.

use std::time::Instant;

use super::shard::Shard;
use crate::clock::Quiesce;
use crate::engine::alarm::AWAKE;
use crate::engine::call_stack;
use crate::engine::entry::EXACT_RANGE;

impl Shard {
    /// Counts timers that are about to be dispatched.
    pub(super) fn begin_in_flight(&self, timers: usize) {
        if let Some(quiescence) = self.quiescence.as_ref().filter(|_| timers > 0) {
            quiescence.begin(timers);
        }
    }

    /// Counts a dispatched timer that has left its batch: it has run, or has ended otherwise.
    pub(super) fn finish_in_flight(&self) {
        if let Some(quiescence) = &self.quiescence {
            quiescence.end();
        }
    }

    /// Wakes a clock that waits until the driver is at rest.
    pub(crate) fn wake_clock(&self) {
        if let Some(quiescence) = &self.quiescence {
            quiescence.wake_clock();
        }
    }

    /// Returns whether no callback starts any more: the shard is closed, or is that of a forked parent.
    fn has_ended(&self) -> bool {
        self.closed.get().is_some() || self.is_inherited()
    }
}

impl Quiesce for Shard {
    type Time = Instant;

    fn wake(&self) {
        if self.core.has_surplus_memory() {
            self.core.wakeup.wake_by(AWAKE);
        }
        self.core.wakeup.wake_if_due(self.ticks.now_tick());
    }

    fn wait(&self) -> bool {
        let live = self.quiescence.as_ref().filter(|_| !self.is_inherited());
        live.is_some_and(|quiescence| {
            quiescence.wait(|| self.has_ended() || self.core.wakeup.is_at_rest(self.ticks.now_tick()))
        })
    }

    fn due(&self) -> Option<Instant> {
        if self.has_ended() { None } else { self.ticks.instant(self.core.wakeup.wake_tick()) }
    }

    fn end(&self) -> Option<Instant> {
        if self.core.is_closing() { None } else { self.ticks.instant(EXACT_RANGE) }
    }

    fn next_deadline(&self) -> Option<Instant> {
        if self.is_inherited() {
            return None;
        }
        let now = self.ticks.now_tick();
        let next = self.core.slab.in_memory().filter_map(|entry| entry.pending_deadline(now)).min();
        self.ticks.instant(next?)
    }

    fn needs_this_thread(&self) -> bool {
        let drives = self.core.wakeup.alarm().bell.is_attached_here();
        drives || call_stack::inside_shard(&self.core) || (self.settings.needs_this_thread)()
    }
}

//! What a shutdown hands back.

use std::fmt;
use std::iter::FusedIterator;
use std::time::Instant;
use std::vec;

use crate::clock::{NEVER, Ticks, UNKNOWN};
use crate::engine::entry::Callback;

/// The timers that had not fired when their [`Timer`](crate::Timer) was shut down, in the order of their deadlines.
///
/// Dropping it drops their closures.
pub struct Unfired {
    /// With the tick that each was due at, by which they are sorted.
    timers: vec::IntoIter<(u64, Callback)>,
    /// Tells the instants of these ticks.
    ticks: Ticks,
    /// What is shown where there is none: no earlier than any other.
    never: Instant,
}

/// A timer that had not fired when its [`Timer`](crate::Timer) was shut down. Dropping it drops its closure.
#[non_exhaustive]
pub struct UnfiredTimer {
    /// When it was due, rounded up to its timer's tick.
    pub deadline: Instant,
    tick: u64,
    callback: Callback,
}

impl UnfiredTimer {
    /// Runs the callback, on the calling thread; that of a repeating timer once. A panic is the caller's.
    pub fn run(self) {
        self.callback.run(self.tick);
    }
}

impl fmt::Debug for UnfiredTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnfiredTimer").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

impl Unfired {
    /// Timers with the ticks that they were due at, in any order.
    pub(super) fn new(mut timers: Vec<(u64, Callback)>, ticks: Ticks) -> Self {
        // In place: a stable sort would need half as much memory again.
        timers.sort_unstable_by_key(|&(tick, _)| tick);
        let latest = timers.iter().rev().find_map(|&(tick, _)| ticks.instant(tick));
        let never = ticks.display_deadline(NEVER, UNKNOWN);
        Self { timers: timers.into_iter(), never: latest.map_or(never, |latest| latest.max(never)), ticks }
    }

    fn timer(&self, (tick, callback): (u64, Callback)) -> UnfiredTimer {
        UnfiredTimer { deadline: self.ticks.instant(tick).unwrap_or(self.never), tick, callback }
    }
}

impl fmt::Debug for Unfired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unfired").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl Iterator for Unfired {
    type Item = UnfiredTimer;

    fn next(&mut self) -> Option<UnfiredTimer> {
        self.timers.next().map(|timer| self.timer(timer))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.timers.size_hint()
    }
}

impl DoubleEndedIterator for Unfired {
    fn next_back(&mut self) -> Option<UnfiredTimer> {
        self.timers.next_back().map(|timer| self.timer(timer))
    }
}

impl ExactSizeIterator for Unfired {}
impl FusedIterator for Unfired {}

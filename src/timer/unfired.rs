//! What a shutdown hands back.

use std::fmt;
use std::iter::FusedIterator;
use std::time::Instant;
use std::vec;

use crate::shard::Callback;

/// The timers that had not fired when their [`Timer`](crate::Timer) was shut down, in the order of their deadlines.
///
/// Dropping it drops their closures.
#[derive(Debug)]
pub struct Unfired(vec::IntoIter<UnfiredTimer>);

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
    pub(super) fn new(timers: Vec<(Instant, u64, Callback)>) -> Self {
        let mut timers: Vec<_> =
            timers.into_iter().map(|(deadline, tick, callback)| UnfiredTimer { deadline, tick, callback }).collect();
        timers.sort_by_key(|timer| timer.deadline);
        Self(timers.into_iter())
    }
}

impl Iterator for Unfired {
    type Item = UnfiredTimer;

    fn next(&mut self) -> Option<UnfiredTimer> {
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl DoubleEndedIterator for Unfired {
    fn next_back(&mut self) -> Option<UnfiredTimer> {
        self.0.next_back()
    }
}

impl ExactSizeIterator for Unfired {}
impl FusedIterator for Unfired {}

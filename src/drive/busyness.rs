//! `Busyness`: how busy an own thread is.
//!
//! - An own thread is *behind* if it has not slept for a [`LOAD_INTERVAL`]. If it leads, shards that are due go to
//!   their own threads.
//! - It has *little to do* if it was awake for less than a quarter of a `LOAD_INTERVAL`. If the leader was not busy
//!   during the last two, the thread's shard is folded.
//!
//! Rejected: to unfold shards of a leader that is awake for half of its time. Where workers occupy the cores, a second
//! thread that drives waits for a core as the first one does, and both delay the workers. So does unfolding after a turn
//! that was cut short by its bound: on 2 cores, the last hundredth of a million timers within a second came 4.4 ms late
//! instead of 1.6 ms, with a fifth more CPU time.

use std::time::{Duration, Instant};

/// Time over which an own thread measures how long it was awake.
pub(super) const LOAD_INTERVAL: Duration = Duration::from_millis(50);

/// The recent load of one own thread.
pub(super) struct Busyness {
    /// The end of the last sleep.
    awake_since: Instant,
    /// The begin of the load interval, and the time asleep since.
    interval: (Instant, Duration),
}

impl Busyness {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self { awake_since: now, interval: (now, Duration::ZERO) }
    }

    /// Records that the thread has slept since `from`. At the end of a load interval, returns the share of it that the
    /// thread was awake, in percent.
    pub(super) fn record_sleep(&mut self, from: Instant) -> Option<u32> {
        let length = from - self.interval.0;
        let asleep = self.interval.1;
        self.awake_since = Instant::now();
        self.interval.1 += self.awake_since - from;
        if length < LOAD_INTERVAL {
            return None;
        }
        self.interval = (self.awake_since, Duration::ZERO);
        Some((length.saturating_sub(asleep).as_micros() * 100 / length.as_micros()) as u32)
    }

    /// Returns whether there is more to do than one thread can do.
    pub(super) fn is_behind(&self) -> bool {
        self.awake_since.elapsed() >= LOAD_INTERVAL
    }
}

#[cfg(test)]
#[path = "busyness_tests.rs"]
mod tests;

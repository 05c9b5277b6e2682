//! `Load`: how busy the thread of a role is.
//!
//! Three decisions depend on it:
//!
//! | the thread            | when                                                     | then                                    |
//! |-----------------------|----------------------------------------------------------|-----------------------------------------|
//! | should lend its role  | [`BUSY_AFTER`] pauses in a row were [`SHORT_PAUSE`] or less | a worker drives, and runs the callbacks |
//! | has the role back     | the last pause ended [`LONG_PAUSE`] ago, or it was awake for [`BURST`] | it drives, and all workers run callbacks |
//! | is behind, as leader  | it was awake for [`BURST`], or for more than half of [`WINDOW`] | shards get their own threads     |
//! | has little to do      | it was awake for less than a quarter of [`WINDOW`], and so was the leader for two | its shard is folded    |
//!
//! A *pause* lasts from one moment at which callbacks begin to expire to the next such moment, with a sleep in between.
//! A role on loan saves the wake-up of a worker for each batch, but occupies that worker. This pays while callbacks
//! expire often.

use std::time::{Duration, Instant};

/// Maximum length of a short pause.
const SHORT_PAUSE: Duration = Duration::from_millis(5);
/// Number of short pauses in a row after which a loan pays.
const BUSY_AFTER: u32 = 8;
/// Length of a pause that ends a loan.
const LONG_PAUSE: Duration = Duration::from_millis(10);
/// Time without a sleep after which one thread is not enough: more workers are needed, and more threads that drive.
const BURST: Duration = Duration::from_millis(10);
/// Time over which a thread measures how much of it it was awake.
pub(super) const WINDOW: Duration = Duration::from_millis(50);

/// The recent load of one role.
pub(super) struct Load {
    /// The time at which the first callbacks after the last pause expired.
    since: Instant,
    /// Callbacks have expired since then.
    has_callbacks: bool,
    /// Number of short pauses in a row.
    short_pauses: u32,
    /// The end of the last sleep.
    awake_since: Instant,
    /// The begin of the window, and the time asleep since.
    window: (Instant, Duration),
}

impl Load {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self { since: now, has_callbacks: false, short_pauses: 0, awake_since: now, window: (now, Duration::ZERO) }
    }

    /// Records that callbacks have expired.
    pub(super) fn record_callbacks(&mut self) {
        if !self.has_callbacks {
            let now = Instant::now();
            self.short_pauses = if now - self.since <= SHORT_PAUSE { self.short_pauses + 1 } else { 0 };
            (self.since, self.has_callbacks) = (now, true);
        }
    }

    /// Records that the thread has slept since `from`. At the end of a window, returns the share of it that the thread
    /// was awake, in percent.
    pub(super) fn record_sleep(&mut self, from: Instant) -> Option<u32> {
        self.has_callbacks = false;
        self.awake_since = Instant::now();
        self.window.1 += self.awake_since - from;
        let (length, asleep) = (from - self.window.0, self.window.1 - (self.awake_since - from));
        if length < WINDOW {
            return None;
        }
        self.window = (self.awake_since, Duration::ZERO);
        Some(((length.saturating_sub(asleep)).as_micros() * 100 / length.as_micros()) as u32)
    }

    /// Returns whether a loan pays.
    pub(super) fn is_busy(&self) -> bool {
        self.short_pauses >= BUSY_AFTER
    }

    /// Returns whether there is more to do than one thread should do.
    pub(super) fn is_burst(&self) -> bool {
        self.awake_since.elapsed() >= BURST
    }

    /// Returns the time that is left until the pause is a long one, or `None` if it already is.
    pub(super) fn longest_pause(&self) -> Option<Duration> {
        LONG_PAUSE.checked_sub(self.since.elapsed()).filter(|left| !left.is_zero())
    }

    /// Records that a loan has ended, or that no worker was free for one.
    pub(super) fn loan_ended(&mut self) {
        self.short_pauses = 0;
        self.awake_since = Instant::now();
    }
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;

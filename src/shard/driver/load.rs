//! `Load`: measures whether a driver is busy, and so whether a loan pays.
//!
//! A driver on loan saves the wake-up of a worker for each batch, but occupies that worker. This pays while callbacks
//! expire often. The measure is the *pause*. A pause lasts from one moment at which callbacks begin to expire to the
//! next such moment, with an idle driver in between.
//!
//! | the driver        | when                                                | then                                     |
//! |-------------------|-----------------------------------------------------|------------------------------------------|
//! | is busy           | [`BUSY_AFTER`] pauses in a row were [`SHORT_PAUSE`] or less | its thread [lends](mod@super::drive) it, and it trims memory rarely |
//! | is no longer busy | it is idle, and the last pause ended [`LONG_PAUSE`] ago | the worker gives it back                 |
//! | has a burst       | [`BURST`] callbacks expired without a pause         | the worker gives it back                 |
//!
//! A loan that has ended starts the count again. If no worker was free for a loan, the driver tries again after
//! [`RETRY_AFTER`] more short pauses.

use std::time::{Duration, Instant};

/// Maximum length of a short pause.
const SHORT_PAUSE: Duration = Duration::from_millis(5);
/// Number of short pauses in a row after which the driver is busy.
const BUSY_AFTER: u32 = 8;
/// Number of short pauses between two attempts to lend, if no worker was free.
const RETRY_AFTER: u32 = 2;
/// Length of a pause that ends a loan.
const LONG_PAUSE: Duration = Duration::from_millis(10);
/// Time between two turns of non-urgent work, of some 50 µs each, while the driver is busy.
const TRIM_INTERVAL: Duration = Duration::from_millis(1);
/// Number of callbacks without a pause that are more than one worker should run. A loan ends then: the driver's own
/// thread drives, and all workers run callbacks. A worker needs some 10 ms to get there.
const BURST: usize = 1 << 14;

/// The recent load of one driver.
pub(super) struct Load {
    /// The time at which the first callbacks after the last pause expired.
    since: Instant,
    /// Number of callbacks that have expired since then.
    callbacks: usize,
    /// Number of short pauses in a row.
    short_pauses: u32,
    /// The time of the last trim while busy.
    last_trim: Instant,
}

impl Load {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self { since: now, callbacks: 0, short_pauses: 0, last_trim: now }
    }

    /// Records that this many callbacks have expired.
    pub(super) fn record_callbacks(&mut self, callbacks: usize) {
        if self.callbacks == 0 {
            let now = Instant::now();
            self.short_pauses = if now - self.since <= SHORT_PAUSE { self.short_pauses + 1 } else { 0 };
            self.since = now;
        }
        self.callbacks += callbacks;
    }

    /// Records that nothing has expired: a pause begins.
    pub(super) fn record_idle(&mut self) {
        self.callbacks = 0;
    }

    /// Returns whether a loan pays.
    pub(super) fn is_busy(&self) -> bool {
        self.short_pauses >= BUSY_AFTER
    }

    /// Returns whether callbacks expire faster than one worker should run them.
    pub(super) fn is_burst(&self) -> bool {
        self.callbacks >= BURST
    }

    /// Returns the time that is left until the pause is a long one, or `None` if it already is.
    pub(super) fn longest_pause(&self) -> Option<Duration> {
        LONG_PAUSE.checked_sub(self.since.elapsed()).filter(|left| !left.is_zero())
    }

    /// Returns how long the driver should delay its next turn of non-urgent work, or `None` if that turn may begin now.
    ///
    /// Callbacks that expire during the turn wait for its end. So a busy driver makes one turn in each
    /// [`TRIM_INTERVAL`].
    pub(super) fn trim_delay(&mut self) -> Option<Duration> {
        if !self.is_busy() || self.since.elapsed() > SHORT_PAUSE {
            return None;
        }
        let left = TRIM_INTERVAL.checked_sub(self.last_trim.elapsed()).filter(|left| !left.is_zero());
        if left.is_none() {
            self.last_trim = Instant::now();
        }
        left
    }

    /// Records that a loan has ended.
    pub(super) fn loan_ended(&mut self) {
        self.short_pauses = 0;
    }

    /// Records that no worker was free for a loan.
    pub(super) fn loan_refused(&mut self) {
        self.short_pauses = BUSY_AFTER - RETRY_AFTER;
    }
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;

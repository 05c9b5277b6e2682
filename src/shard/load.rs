//! How much a driver has had to do lately: whether it is worth a loan.

use std::time::{Duration, Instant};

/// A pause up to this is short.
const SHORT_PAUSE: Duration = Duration::from_millis(5);
/// After so many short pauses in a row there is much to do.
const BUSY_AFTER: u32 = 8;
/// After so many more, when no worker was there for a loan.
const RETRY_AFTER: u32 = 2;
/// After a longer pause there is little to do.
const LONG_PAUSE: Duration = Duration::from_millis(10);
/// Time between two turns of what is not urgent, of some 50 µs each, while there is much to do.
const TRIM_INTERVAL: Duration = Duration::from_millis(1);
/// After so many callbacks without a pause there is more to do than one worker should: the driver's thread drives, and all
/// workers run callbacks. It takes some 10 ms to get there.
const BURST: usize = 1 << 14;

pub(super) struct Load {
    /// When callbacks were due first after the last pause.
    since: Instant,
    /// How many callbacks were due since then.
    callbacks: usize,
    /// How many pauses in a row were short.
    short_pauses: u32,
    /// When memory was last given back in a turn.
    last_trim: Instant,
}

impl Load {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self { since: now, callbacks: 0, short_pauses: 0, last_trim: now }
    }

    /// So many callbacks are due.
    pub(super) fn record_callbacks(&mut self, callbacks: usize) {
        if self.callbacks == 0 {
            let now = Instant::now();
            self.short_pauses = if now - self.since <= SHORT_PAUSE { self.short_pauses + 1 } else { 0 };
            self.since = now;
        }
        self.callbacks += callbacks;
    }

    /// Nothing is due.
    pub(super) fn record_idle(&mut self) {
        self.callbacks = 0;
    }

    pub(super) fn is_busy(&self) -> bool {
        self.short_pauses >= BUSY_AFTER
    }

    pub(super) fn is_burst(&self) -> bool {
        self.callbacks >= BURST
    }

    /// How long the pause may take until there is little to do. `None`: it has taken so long.
    pub(super) fn longest_pause(&self) -> Option<Duration> {
        LONG_PAUSE.checked_sub(self.since.elapsed()).filter(|left| !left.is_zero())
    }

    /// How long what is not urgent should wait. `None`: it may be done now, in a turn. Callbacks that are due wait for as
    /// long as that takes; so while there is much to do, it is done now and then.
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

    /// A loan has ended.
    pub(super) fn loan_ended(&mut self) {
        self.short_pauses = 0;
    }

    /// No worker was there for a loan.
    pub(super) fn loan_refused(&mut self) {
        self.short_pauses = BUSY_AFTER - RETRY_AFTER;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    impl Load {
        /// Nothing is due for a time, and then some callbacks are. A short time has just begun, however long this takes.
        fn pause_for(&mut self, is_short: bool, callbacks: usize) {
            self.record_idle();
            self.since = if is_short { Instant::now() + HOUR } else { Instant::now() - SHORT_PAUSE - SHORT_PAUSE / 5 };
            self.record_callbacks(callbacks);
        }

        /// After how many more short pauses there is much to do.
        fn pauses_until_busy(&mut self) -> u32 {
            let mut pauses = 0;
            while !self.is_busy() && pauses < 100 {
                self.pause_for(true, 1);
                pauses += 1;
            }
            pauses
        }
    }

    #[test]
    fn a_driver_is_busy_after_short_pauses_in_a_row() {
        let mut load = Load::new();
        load.pause_for(false, 1);
        assert_eq!(load.pauses_until_busy(), BUSY_AFTER);
        load.pause_for(false, 1);
        assert_eq!(load.pauses_until_busy(), BUSY_AFTER, "a long pause");
        load.loan_ended();
        assert_eq!(load.pauses_until_busy(), BUSY_AFTER, "a loan has ended");
        load.loan_refused();
        assert_eq!(load.pauses_until_busy(), RETRY_AFTER);
        load.pause_for(false, 1);
        (0..2 * BUSY_AFTER).for_each(|_| load.record_callbacks(1));
        assert!(!load.is_busy(), "without a pause");
    }

    #[test]
    fn a_burst_is_callbacks_without_a_pause() {
        let mut load = Load::new();
        for _ in 0..2 {
            load.pause_for(true, 1);
            load.record_callbacks(BURST - 2);
            assert!(!load.is_burst());
        }
        load.record_callbacks(1);
        assert!(load.is_burst());
        load.record_idle();
        assert!(!load.is_burst());
    }

    #[test]
    fn a_pause_is_long_when_its_time_has_passed() {
        let mut load = Load::new();
        load.since = Instant::now() + HOUR;
        assert_eq!(load.longest_pause(), Some(LONG_PAUSE));
        load.since = Instant::now() - LONG_PAUSE;
        assert_eq!(load.longest_pause(), None);
    }
}

//! How much a driver has had to do lately: whether it is worth a loan.

use std::time::{Duration, Instant};

/// A pause up to this is short.
const SHORT: Duration = Duration::from_millis(5);
/// After so many short pauses in a row there is much to do.
const MUCH: u32 = 8;
/// After so many more, when no worker was there for a loan.
const RETRY: u32 = 2;
/// After a longer pause there is little to do.
const LONG: Duration = Duration::from_millis(10);
/// Time between two turns of what is not urgent, of some 50 µs each, while there is much to do.
const NOW_AND_THEN: Duration = Duration::from_millis(1);
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
    trimmed: Instant,
}

impl Load {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self { since: now, callbacks: 0, short_pauses: 0, trimmed: now }
    }

    /// So many callbacks are due.
    pub(super) fn due(&mut self, callbacks: usize) {
        if self.callbacks == 0 {
            let now = Instant::now();
            self.short_pauses = if now - self.since <= SHORT { self.short_pauses + 1 } else { 0 };
            self.since = now;
        }
        self.callbacks += callbacks;
    }

    /// Nothing is due.
    pub(super) fn pause(&mut self) {
        self.callbacks = 0;
    }

    pub(super) fn is_much(&self) -> bool {
        self.short_pauses >= MUCH
    }

    pub(super) fn is_burst(&self) -> bool {
        self.callbacks >= BURST
    }

    /// How long the pause may take until there is little to do. `None`: it has taken so long.
    pub(super) fn longest_pause(&self) -> Option<Duration> {
        LONG.checked_sub(self.since.elapsed()).filter(|left| !left.is_zero())
    }

    /// How long what is not urgent should wait. `None`: it may be done now, in a turn. Callbacks that are due wait for as
    /// long as that takes; so while there is much to do, it is done now and then.
    pub(super) fn put_off(&mut self) -> Option<Duration> {
        if !self.is_much() || self.since.elapsed() > SHORT {
            return None;
        }
        let left = NOW_AND_THEN.checked_sub(self.trimmed.elapsed()).filter(|left| !left.is_zero());
        if left.is_none() {
            self.trimmed = Instant::now();
        }
        left
    }

    /// A loan has ended.
    pub(super) fn start_again(&mut self) {
        self.short_pauses = 0;
    }

    /// No worker was there for a loan.
    pub(super) fn retry(&mut self) {
        self.short_pauses = MUCH - RETRY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    impl Load {
        /// Nothing is due for a time, and then some callbacks are. A short time has just begun, however long this takes.
        fn rest(&mut self, is_short: bool, callbacks: usize) {
            self.pause();
            self.since = if is_short { Instant::now() + HOUR } else { Instant::now() - SHORT - SHORT / 5 };
            self.due(callbacks);
        }

        /// After how many more short pauses there is much to do.
        fn pauses_until_much(&mut self) -> u32 {
            let mut pauses = 0;
            while !self.is_much() && pauses < 100 {
                self.rest(true, 1);
                pauses += 1;
            }
            pauses
        }
    }

    #[test]
    fn there_is_much_to_do_after_short_pauses_in_a_row() {
        let mut load = Load::new();
        load.rest(false, 1);
        assert_eq!(load.pauses_until_much(), MUCH);
        load.rest(false, 1);
        assert_eq!(load.pauses_until_much(), MUCH, "a long pause");
        load.start_again();
        assert_eq!(load.pauses_until_much(), MUCH, "a loan has ended");
        load.retry();
        assert_eq!(load.pauses_until_much(), RETRY);
        load.rest(false, 1);
        (0..2 * MUCH).for_each(|_| load.due(1));
        assert!(!load.is_much(), "without a pause");
    }

    #[test]
    fn a_burst_is_made_of_what_is_due_without_a_pause() {
        let mut load = Load::new();
        for _ in 0..2 {
            load.rest(true, 1);
            load.due(BURST - 2);
            assert!(!load.is_burst());
        }
        load.due(1);
        assert!(load.is_burst());
        load.pause();
        assert!(!load.is_burst());
    }

    #[test]
    fn a_pause_is_long_when_its_time_has_passed_since_something_was_due() {
        let mut load = Load::new();
        load.since = Instant::now() + HOUR;
        assert_eq!(load.longest_pause(), Some(LONG));
        load.since = Instant::now() - LONG;
        assert_eq!(load.longest_pause(), None);
    }
}

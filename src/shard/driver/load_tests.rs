//! Unit tests of `load`.

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

impl Load {
    /// Makes a pause, and then some callbacks expire. A short pause stays short even if the test is descheduled.
    fn pause_for(&mut self, is_short: bool) {
        self.record_sleep(Instant::now());
        self.since = if is_short { Instant::now() + HOUR } else { Instant::now() - SHORT_PAUSE - SHORT_PAUSE / 5 };
        self.record_callbacks();
    }

    /// Returns the number of short pauses after which the driver is busy.
    fn pauses_until_busy(&mut self) -> u32 {
        let mut pauses = 0;
        while !self.is_busy() && pauses < 100 {
            self.pause_for(true);
            pauses += 1;
        }
        pauses
    }
}

#[test]
fn a_loan_pays_after_short_pauses_in_a_row() {
    let mut load = Load::new();
    load.pause_for(false);
    assert_eq!(load.pauses_until_busy(), BUSY_AFTER);
    load.pause_for(false);
    assert_eq!(load.pauses_until_busy(), BUSY_AFTER, "a long pause");
    load.loan_ended();
    assert_eq!(load.pauses_until_busy(), BUSY_AFTER, "a loan has ended");
    load.pause_for(false);
    (0..2 * BUSY_AFTER).for_each(|_| load.record_callbacks());
    assert!(!load.is_busy(), "without a pause");
}

#[test]
fn a_thread_that_does_not_sleep_has_a_burst() {
    let mut load = Load::new();
    for _ in 0..2 {
        load.awake_since = Instant::now() + HOUR;
        assert!(!load.is_burst());
        load.awake_since = Instant::now() - BURST;
        assert!(load.is_burst());
        load.record_sleep(Instant::now());
        assert!(!load.is_burst(), "it has slept");
    }
}

#[test]
fn a_window_ends_with_the_share_of_the_time_awake() {
    let mut load = Load::new();
    let now = Instant::now();
    assert_eq!(load.record_sleep(now), None, "it has hardly begun");
    load.window = (now - 2 * WINDOW, WINDOW / 2);
    assert!(load.record_sleep(now).is_some_and(|share| (70..=75).contains(&share)));
    assert_eq!(load.record_sleep(now), None, "the next one");
}

#[test]
fn a_pause_is_long_when_its_time_has_passed() {
    let mut load = Load::new();
    load.since = Instant::now() + HOUR;
    assert_eq!(load.longest_pause(), Some(LONG_PAUSE));
    load.since = Instant::now() - LONG_PAUSE;
    assert_eq!(load.longest_pause(), None);
}

//! Unit tests of `load`.

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

impl Load {
    /// Makes a pause, and then some callbacks expire. A short pause stays short even if the test is descheduled.
    fn pause_for(&mut self, is_short: bool, callbacks: usize) {
        self.record_idle();
        self.since = if is_short { Instant::now() + HOUR } else { Instant::now() - SHORT_PAUSE - SHORT_PAUSE / 5 };
        self.record_callbacks(callbacks);
    }

    /// Returns the number of short pauses after which the driver is busy.
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

//! Unit tests of `busyness`.

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_thread_that_does_not_sleep_is_behind() {
    let mut busyness = Busyness::new();
    for _ in 0..2 {
        busyness.awake_since = Instant::now() + HOUR;
        assert!(!busyness.is_behind());
        busyness.awake_since = Instant::now() - LOAD_INTERVAL;
        assert!(busyness.is_behind());
        busyness.record_sleep(Instant::now());
        assert!(!busyness.is_behind(), "it has slept");
    }
}

#[test]
fn an_interval_ends_with_the_share_of_the_time_awake() {
    let mut busyness = Busyness::new();
    let now = Instant::now();
    assert_eq!(busyness.record_sleep(now), None, "it has hardly begun");
    busyness.interval = (now - 2 * LOAD_INTERVAL, LOAD_INTERVAL / 2);
    assert!(busyness.record_sleep(now).is_some_and(|share| (70..=75).contains(&share)));
    assert_eq!(busyness.record_sleep(now), None, "the next one");
}

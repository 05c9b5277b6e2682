//! Unit tests of `load`.

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_thread_that_does_not_sleep_is_behind() {
    let mut load = Load::new();
    for _ in 0..2 {
        load.awake_since = Instant::now() + HOUR;
        assert!(!load.is_behind());
        load.awake_since = Instant::now() - LOAD_INTERVAL;
        assert!(load.is_behind());
        load.record_sleep(Instant::now());
        assert!(!load.is_behind(), "it has slept");
    }
}

#[test]
fn an_interval_ends_with_the_share_of_the_time_awake() {
    let mut load = Load::new();
    let now = Instant::now();
    assert_eq!(load.record_sleep(now), None, "it has hardly begun");
    load.interval = (now - 2 * LOAD_INTERVAL, LOAD_INTERVAL / 2);
    assert!(load.record_sleep(now).is_some_and(|share| (70..=75).contains(&share)));
    assert_eq!(load.record_sleep(now), None, "the next one");
}

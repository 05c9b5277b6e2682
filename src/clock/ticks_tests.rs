//! Unit tests of `ticks`.

use super::*;

const MS: Duration = Duration::from_millis(1);

/// Returns ticks of 1 ms on a virtual clock that has advanced by `elapsed`.
fn at(elapsed: Duration) -> (Ticks, ManualClock) {
    let clock = ManualClock::new();
    let ticks = Ticks::new(Some(clock.clone()), MS);
    clock.advance(elapsed);
    (ticks, clock)
}

#[test]
fn deadlines_round_up_and_the_present_rounds_down() {
    let (ticks, _) = at(MS * 3 / 2);
    assert_eq!(ticks.now_tick(), 1);
    assert_eq!(ticks.after(MS / 4).tick, 2);
    assert_eq!(ticks.after(MS / 2).tick, 2);
    assert_eq!(ticks.after(MS * 3 / 4).tick, 3);
}

/// The coarse clock is behind by a tick of the system, but never ahead.
#[test]
fn a_deadline_that_has_come_is_compared_with_the_exact_clock() {
    let ticks = Ticks::new(None, Duration::from_micros(20));
    for _ in 0..1000 {
        let now = ticks.now_tick();
        assert!(ticks.now_tick_against(now) >= now);
        assert!(ticks.now_tick_against(now + ticks.count(Duration::from_secs(1))) <= ticks.now_tick());
        std::thread::sleep(Duration::from_micros(20));
    }
}

#[test]
fn virtual_time_is_exact_against_any_deadline() {
    let (ticks, _) = at(MS * 3);
    assert_eq!([3, 4, 10_000, NEVER].map(|deadline| ticks.now_tick_against(deadline)), [3; 4]);
}

#[test]
fn a_deadline_that_has_passed_waits_for_no_tick() {
    let (ticks, clock) = at(MS * 3 / 2);
    assert_eq!(ticks.after(Duration::ZERO).tick, 1);
    assert_eq!(ticks.at(clock.now() - MS / 4).tick, 1);
    assert_eq!(ticks.at(clock.now() - MS * 100).tick, 1);
}

#[test]
fn never_is_neither_a_panic_nor_a_wrap() {
    let (ticks, clock) = at(MS);
    let never = ticks.after(Duration::MAX);
    assert_eq!(never.tick, u64::MAX);
    let thirty_years = Duration::from_secs(30 * 366 * 86_400);
    assert!(ticks.display_deadline(never.tick, never.exact) >= clock.now() + thirty_years);
}

#[test]
fn the_tick_never_is_never_reached() {
    let (ticks, clock) = at(Duration::from_millis(NEVER - 1));
    for _ in 0..3 {
        assert_eq!(ticks.now_tick(), NEVER - 1, "the present stops before it");
        clock.advance(MS);
    }
    assert_eq!(ticks.instant(NEVER), None);
    assert!(matches!(ticks.after(Duration::MAX).requested, Requested::Never));
}

#[test]
fn ticks_are_exact_beyond_64_bits_of_nanoseconds() {
    let (ticks, _) = at(Duration::from_millis(u64::MAX - 10));
    assert_eq!(ticks.now_tick(), u64::MAX - 10);
    assert_eq!(ticks.present(0), u64::MAX - 10, "a virtual clock may have advanced far");
    assert_eq!(ticks.after(MS * 7).tick, u64::MAX - 3);
    assert_eq!([10, 9].map(|left| ticks.until(u64::MAX - left)), [Some(Duration::ZERO), None]);
    assert_eq!(ticks.lateness(u64::MAX - 15), 5_000_000);
}

#[test]
fn a_deadline_is_displayed_as_requested() {
    let (ticks, clock) = at(MS * 5);
    let deadline = clock.now() + MS * 5 / 2;
    let computed = ticks.at(deadline);
    assert_eq!(ticks.display_deadline(computed.tick, computed.exact), deadline);
    for other in [computed.tick - 1, computed.tick + 1, 100] {
        assert_eq!(Some(ticks.display_deadline(other, computed.exact)), ticks.instant(other));
    }
}

#[cfg(all(feature = "wall", target_os = "linux"))]
#[test]
fn time_that_counts_a_suspend_is_the_time_since_the_system_s_start() {
    let ticks = Ticks::new(None, Duration::from_millis(1));
    let [_, nanos] = ticks.read_jumping();
    let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
    let uptime: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
    assert!((nanos as f64 / 1e9 - uptime).abs() < 1.0, "{nanos} ns, {uptime} s");
    std::thread::sleep(Duration::from_millis(2));
    assert!(ticks.read_jumping()[crate::clock::COUNTING_SUSPEND] >= nanos + 2_000_000);
}

#[cfg(all(feature = "wall", target_os = "linux"))]
#[test]
fn the_time_of_day_is_that_of_the_system() {
    let before = SystemTime::now();
    let time = Ticks::new(None, Duration::from_millis(1)).time_of_day();
    assert!(before <= time && time <= SystemTime::now());
}

//! Long uptimes: time jumps to ticks at which counters of other timers have wrapped, and to its end, with
//! timers pending across the jump and scheduled after it. For ticks and wheels of many sizes.
//!
//! Promise: far future.
#![cfg(feature = "std")]

mod common;

use std::iter;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use common::*;
use corewheel::{Executor, Interval, ManualClock, MissedTickBehavior, Timer, TimerHandle, UnfiredTimer, Wheel};

const TICKS: [Duration; 5] = [Duration::from_micros(1), Duration::from_micros(130), MS, SEC, HOUR];
const WHEELS: [&[usize]; 5] = [&[64], &[60, 60, 12], &[2], &[7, 1000], &[3, 1 << 16]];
const EDGES: [u64; 5] = [(1 << 30) - 1, 1 << 32, 1 << 36, 1 << 47, (1 << 48) - 78];
/// For a `Wheel`, whose time does not end.
const WHEEL_EDGES: [u64; 7] = [(1 << 30) - 1, 1 << 32, 1 << 36, (1 << 48) + 100, (1 << 50) - 1, 1 << 53, 15 << 60];
/// The last tick of virtual time.
const END: u64 = 1 << 48;

/// Returns the length of `number` ticks.
fn span(tick: Duration, number: u64) -> Duration {
    let nanos = tick.as_nanos() * u128::from(number);
    Duration::new(u64::try_from(nanos / 1_000_000_000).unwrap(), (nanos % 1_000_000_000) as u32)
}

/// Returns the last instant that can be represented.
fn last_instant() -> Instant {
    let start = Instant::now();
    let bits = (0..64).map(|bit| Duration::from_secs(1 << bit)).rev();
    let fractions = (0..30).map(|bit| Duration::from_nanos(1 << bit)).rev();
    bits.chain(fractions).fold(start, |instant, more| instant.checked_add(more).unwrap_or(instant))
}

/// A run: the label of its timer, the tick for which it was expected, and the tick at which it ran.
type Run = (&'static str, u64, u64);

/// A timer in virtual time whose callbacks report their runs.
struct Fixture {
    timer: Timer,
    clock: ManualClock,
    start: Instant,
    tick: Duration,
    sender: Sender<Run>,
    runs: Receiver<Run>,
}

impl Fixture {
    fn new(tick: Duration, wheel: &[usize]) -> Self {
        let (builder, clock) = on_manual_clock();
        let timer = builder.tick(tick).wheel(wheel).shards(1).executor(Executor::Inline).build().unwrap();
        let (sender, runs) = channel();
        Self { timer, start: clock.now(), clock, tick, sender, runs }
    }

    fn at(&self, tick: u64) -> Instant {
        self.start + span(self.tick, tick)
    }

    /// Returns the last tick that the clock can reach.
    fn last_tick(&self) -> u64 {
        let ticks = (last_instant() - self.start).as_nanos() / self.tick.as_nanos();
        u64::try_from(ticks).unwrap_or(u64::MAX).min(END)
    }

    /// Returns a callback that reports a run expected at `tick`.
    fn report(&self, label: &'static str, tick: u64) -> impl FnMut() + Send + 'static {
        let sender = self.sender.clone();
        let clock = self.clock.clone();
        let start = self.start;
        let length = self.tick;
        move || {
            let elapsed = (clock.now() - start).as_nanos();
            assert_eq!(elapsed % length.as_nanos(), 0, "a callback does not see its own tick");
            sender.send((label, tick, (elapsed / length.as_nanos()) as u64)).unwrap();
        }
    }

    /// Schedules a timer for the tick `first`, which the test will reset to `tick`.
    fn schedule_first(&self, label: &'static str, first: u64, tick: u64) -> TimerHandle {
        self.timer.schedule_at(self.at(first), self.report(label, tick)).unwrap()
    }

    fn schedule(&self, label: &'static str, tick: u64) -> TimerHandle {
        self.schedule_first(label, tick, tick)
    }

    fn reset(&self, handle: &TimerHandle, tick: u64) {
        assert!(handle.reset_at(self.at(tick)));
        // The deadline of a timer that is never due is displayed about a hundred years ahead.
        let never = self.clock.now().checked_add(99 * YEAR);
        let displayed = handle.deadline().unwrap();
        assert!(displayed >= never.map_or(self.at(tick), |never| never.min(self.at(tick))));
    }

    /// Advances the clock to a tick, and returns the runs.
    fn advance_to(&self, tick: u64) -> Vec<Run> {
        self.clock.advance_to(self.at(tick));
        received(&self.runs)
    }
}

/// Near and far timers around an edge, scheduled before and after the jump, reset and cancelled: each fires once, and
/// in time.
fn cross(tick: Duration, wheel: &[usize], edge: u64) {
    let fixture = Fixture::new(tick, wheel);
    let ticks = [edge - 1, edge, edge + 1, edge + 77];
    let never =
        [fixture.timer.schedule(Duration::MAX, fixture.report("never", 0)).unwrap(), fixture.schedule("never", 1)];
    assert!(never[1].reset(Duration::MAX));
    fixture.schedule("near", 3);
    fixture.reset(&fixture.schedule_first("near", edge, 5), 5);
    for tick in ticks {
        fixture.schedule("far", tick);
        fixture.reset(&fixture.schedule_first("reset far", 4, tick), tick);
    }
    let earlier = ticks.map(|tick| fixture.schedule_first("reset earlier", edge + 90, tick));
    let cancelled = ticks.map(|tick| fixture.schedule("cancelled", tick));
    let cancelled_after = ticks.map(|tick| fixture.schedule("cancelled", tick));
    assert!(cancelled.iter().all(TimerHandle::cancel));
    drop(cancelled);

    assert_eq!(fixture.advance_to(edge - 2), [("near", 3, 3), ("near", 5, 5)]);
    iter::zip(&earlier, ticks).for_each(|(handle, tick)| fixture.reset(handle, tick));
    for tick in ticks {
        fixture.schedule("new", tick);
        fixture.reset(&fixture.schedule_first("reset on", edge, tick), tick);
        assert!(fixture.schedule("cancelled", tick).cancel());
    }
    assert!(cancelled_after.iter().all(TimerHandle::cancel));

    let mut runs: Vec<Run> = ticks.iter().flat_map(|&tick| fixture.advance_to(tick)).collect();
    runs.extend(fixture.advance_to(edge + 78));
    assert!(runs.is_sorted_by_key(|&(.., ran)| ran));
    assert!(runs.iter().all(|&(_, tick, ran)| tick == ran), "{runs:?}");
    let labels = ["far", "new", "reset earlier", "reset far", "reset on"];
    let expected: Vec<_> = labels.iter().flat_map(|&label| ticks.map(|tick| (label, tick))).collect();
    let mut ran: Vec<_> = runs.iter().map(|&(label, tick, _)| (label, tick)).collect();
    ran.sort_unstable();
    assert_eq!(ran, expected);
    assert!(never.iter().all(TimerHandle::is_pending));
    assert_eq!((fixture.timer.len(), fixture.timer.stats().panicked), (2, 0));
    assert_balanced(&fixture.timer);
}

#[test]
fn timers_around_an_edge_fire_once_and_in_time_for_any_tick() {
    for tick in TICKS {
        EDGES.into_iter().for_each(|edge| cross(tick, &[64], edge));
    }
}

#[test]
fn timers_around_an_edge_fire_once_and_in_time_for_any_wheel() {
    for wheel in WHEELS {
        EDGES.into_iter().for_each(|edge| cross(MS, wheel, edge));
    }
}

#[test]
fn timers_at_the_last_tick_fire_and_later_ones_never_do() {
    for (tick, wheel) in iter::zip(TICKS, WHEELS) {
        let fixture = Fixture::new(tick, wheel);
        let last = fixture.last_tick();
        let ticks = [last - 1000, last - 1, last];
        for tick in ticks {
            fixture.schedule("far", tick);
            fixture.reset(&fixture.schedule_first("reset far", 1, tick), tick);
        }
        let never = [fixture.timer.schedule(Duration::MAX, || ()).unwrap(), fixture.schedule("never", 1)];
        assert!(never[1].reset(Duration::MAX));

        let early: Vec<Run> = fixture.advance_to(last - 1001);
        assert_eq!(early, []);
        for tick in ticks {
            fixture.schedule("new", tick);
            fixture.reset(&fixture.schedule_first("reset on", last, tick), tick);
        }
        assert!(fixture.timer.schedule(Duration::MAX, fixture.report("never", 0)).unwrap().is_pending());
        let runs = fixture.advance_to(last);
        assert!(runs.len() == 12 && runs.iter().all(|&(_, tick, ran)| tick == ran), "{runs:?}");
        assert!(never.iter().all(TimerHandle::is_pending));
        assert_eq!(fixture.timer.stats().panicked, 0);
    }
}

#[test]
fn the_clock_may_pass_timers_cancelled_long_ago() {
    let fixture = Fixture::new(MS, &[64]);
    // With the two timers below, these leave no free entry in this thread's cache, which then has to give some away.
    let handles: Vec<_> = (0..1022).map(|_| fixture.schedule("cancelled", END - 10)).collect();
    // The driver finds these first, and so leaves the others linked.
    let before = [1 << 40, 15 << 44].map(|tick| fixture.schedule("before", tick));
    assert_eq!(fixture.advance_to(1), []);
    assert!(handles.iter().all(TimerHandle::cancel));
    drop(handles);
    let clock = fixture.clock.clone();
    let to = fixture.at(END - 5);
    in_time("advance", move || clock.advance_to(to));
    assert_eq!(received(&fixture.runs), [1 << 40, 15 << 44].map(|tick| ("before", tick, tick)));
    assert!(!before.iter().any(TimerHandle::is_pending));
    fixture.schedule("after", END - 1);
    assert_eq!(fixture.advance_to(END - 1), [("after", END - 1, END - 1)]);
    assert_balanced(&fixture.timer);
}

/// Returns the edges that the clock can pass with ticks of this length, and one shortly before the last tick.
fn edges(tick: Duration) -> impl Iterator<Item = u64> {
    let end = Fixture::new(tick, &[64]).last_tick() - 20_000;
    EDGES.into_iter().filter(move |&edge| edge < end).chain([end])
}

#[test]
fn repeating_timers_cross_an_edge_run_by_run() {
    for tick in TICKS {
        for edge in edges(tick) {
            let fixture = Fixture::new(tick, &[64]);
            let first = edge - 20;
            let delay = span(tick, edge - 20);
            let timer = &fixture.timer;
            timer.schedule_at_fixed_rate(delay, span(tick, 3), fixture.report("rate", first)).unwrap();
            timer.schedule_at_fixed_rate(delay, tick / 2, fixture.report("twice a tick", first)).unwrap();
            timer.schedule_with_fixed_delay(delay, span(tick, 7), fixture.report("delay", first)).unwrap();
            let mut report = fixture.report("recurring", first);
            let mut next = fixture.at(first);
            timer
                .schedule_recurring(next, move |deadline| {
                    assert_eq!(deadline, next);
                    report();
                    next += span(tick, 11);
                    Some(next)
                })
                .unwrap();

            let mut runs = fixture.advance_to(edge);
            runs.extend(fixture.advance_to(edge + 20));
            assert!(runs.is_sorted_by_key(|&(.., ran)| ran));
            let ticks_of = |label| runs.iter().filter(move |run| run.0 == label).map(|&(.., ran)| ran);
            assert!(ticks_of("rate").eq((first..=edge + 20).step_by(3)));
            assert!(ticks_of("delay").eq((first..=edge + 20).step_by(7)));
            assert!(ticks_of("recurring").eq((first..=edge + 20).step_by(11)));
            assert!(ticks_of("twice a tick").eq((0..=80).map(|run: u64| first + run.div_ceil(2))));
            let next: Vec<_> = timer.shutdown().map(|unfired: UnfiredTimer| unfired.deadline).collect();
            assert_eq!(next, [21, 22, 22, 24].map(|ticks| fixture.at(edge + ticks)));
            assert_eq!(timer.stats().panicked, 0);
        }
    }
}

#[test]
fn a_long_jump_makes_up_for_every_run() {
    for edge in [1 << 32, END - 5000] {
        let fixture = Fixture::new(MS, &[64]);
        fixture.timer.schedule_at_fixed_rate(span(MS, edge - 5000), MS, fixture.report("rate", 0)).unwrap();
        let runs = fixture.advance_to(edge + 4999);
        assert!(runs.iter().map(|&(.., ran)| ran).eq(edge - 5000..edge + 5000));
    }
}

fn is_ready(future: &mut (impl Future<Output = ()> + Unpin)) -> bool {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn sleeps_cross_an_edge() {
    for tick in TICKS {
        for edge in edges(tick) {
            let fixture = Fixture::new(tick, &[64]);
            let sleep = |tick| fixture.timer.sleep_until(fixture.at(tick));
            let mut far = sleep(edge);
            let mut forward = sleep(3);
            let mut back = sleep(edge + 50);
            let mut unpolled = sleep(edge);
            assert!(!is_ready(&mut far) && !is_ready(&mut forward) && !is_ready(&mut back));
            Pin::new(&mut forward).reset(fixture.at(edge));
            fixture.advance_to(edge - 1);
            Pin::new(&mut back).reset(fixture.at(edge));
            let mut new = sleep(edge);
            for sleep in [&mut far, &mut forward, &mut back, &mut unpolled, &mut new] {
                assert!(!is_ready(sleep) && sleep.deadline() == fixture.at(edge), "at {edge}");
            }
            fixture.advance_to(edge);
            assert!([&mut far, &mut back, &mut unpolled, &mut new].into_iter().all(is_ready), "at {edge}");
            assert!(is_ready(&mut forward), "at {edge}");
            assert_balanced(&fixture.timer);
        }
    }
}

/// Returns the tick that is due. A poll that yields, which happens rarely, is repeated once.
fn tick_of(interval: &mut Interval) -> Option<Instant> {
    let mut context = Context::from_waker(Waker::noop());
    (0..2).find_map(|_| match interval.poll_tick(&mut context) {
        Poll::Ready(due) => Some(due),
        Poll::Pending => None,
    })
}

#[test]
fn intervals_cross_an_edge() {
    for tick in TICKS {
        for edge in edges(tick) {
            let fixture = Fixture::new(tick, &[64]);
            let period = span(tick, 3);
            let mut burst = fixture.timer.interval_at(fixture.at(edge - 5), period);
            assert!(tick_of(&mut burst).is_none());
            let mut late = [MissedTickBehavior::Skip, MissedTickBehavior::Delay].map(|behavior| {
                let mut interval = fixture.timer.interval(period);
                interval.set_missed_tick_behavior(behavior);
                interval
            });
            fixture.advance_to(edge);
            for interval in &mut late {
                assert_eq!(tick_of(interval), Some(fixture.start));
                assert!(tick_of(interval).is_none());
            }
            fixture.advance_to(edge + 3);
            for (interval, next) in iter::zip(&mut late, [3 - edge % 3, 3]) {
                assert_eq!(tick_of(interval), Some(fixture.at(edge + next)));
            }
            for ticks in [0, 3, 6] {
                assert_eq!(tick_of(&mut burst), Some(fixture.at(edge - 5 + ticks)));
            }
            assert!(tick_of(&mut burst).is_none());
        }
    }
}

/// Advances the wheel, and returns the values that expire, which are the deadlines of their entries.
fn advance(wheel: &mut Wheel<u64>, to: u64) -> Vec<u64> {
    let mut out = Vec::new();
    wheel.advance(to, |deadline, value| {
        assert_eq!(deadline, value);
        out.push(deadline);
    });
    out
}

#[test]
fn entries_around_an_edge_expire_once_and_in_order_for_any_wheel() {
    /// How time advances, starting shortly before an edge.
    type Way = fn(&mut Wheel<u64>, u64) -> Vec<u64>;
    const WAYS: [Way; 3] = [
        // Tick by tick around the edge.
        |wheel, edge| {
            let ticks = (edge - 4..=edge.saturating_add(4)).chain([edge.saturating_add(77)]);
            ticks
                .flat_map(|tick| {
                    let out = advance(wheel, tick);
                    assert!(out.iter().all(|&deadline| deadline == tick), "{out:?} at {tick}");
                    out
                })
                .collect()
        },
        // In one step.
        |wheel, _| advance(wheel, u64::MAX),
        // To each next deadline.
        |wheel, _| {
            let mut out = Vec::new();
            while let Some(next) = wheel.next_deadline() {
                out.extend(advance(wheel, next));
            }
            out
        },
    ];
    for wheel in WHEELS {
        for edge in WHEEL_EDGES.into_iter().chain([u64::MAX - 200, u64::MAX - 1, u64::MAX]) {
            for label in WAYS {
                let mut wheel = Wheel::with_levels(0, wheel).unwrap();
                let ticks = [edge - 1, edge, edge.saturating_add(1), edge.saturating_add(77)];
                wheel.insert(5, 5);
                let moved = ticks.map(|tick| wheel.insert(3, tick));
                let removed = ticks.map(|tick| wheel.insert(tick, 0));
                let earlier = ticks.map(|tick| wheel.insert(tick.saturating_add(9), tick));
                for tick in ticks {
                    wheel.insert(tick, tick);
                }
                iter::zip(moved, ticks).for_each(|(key, tick)| assert!(wheel.reset(key, tick)));
                assert_eq!(advance(&mut wheel, edge - 5), [5]);
                iter::zip(earlier, ticks).for_each(|(key, tick)| assert!(wheel.reset(key, tick)));
                assert!(removed.iter().all(|&key| wheel.remove(key) == Some(0)));
                for tick in ticks {
                    wheel.insert(tick, tick);
                }
                let expected: Vec<_> = ticks.into_iter().flat_map(|tick| [tick; 4]).collect();
                assert_eq!(label(&mut wheel, edge), expected);
                assert!(wheel.is_empty());
            }
        }
    }
}

//! `Timer::census`: what is pending, by what armed it.
#![cfg(feature = "std")]

mod common;

use std::any;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use common::*;
use corewheel::{DelayQueue, Executor, Group, Sleep, Timer, TimerKind};
use futures::FutureExt;

/// Returns the last part of each name that is no closure, with the kind and the number, and the deadlines in seconds.
fn summary(census: &[Group], start: Instant) -> Vec<(&str, TimerKind, u64, u64, u64)> {
    let secs = |instant: Instant| (instant - start).as_secs();
    census
        .iter()
        .map(|group| {
            let name = group.name.split("::").filter(|part| *part != "{{closure}}").last().unwrap();
            (name, group.kind, group.pending, secs(group.earliest), secs(group.latest))
        })
        .collect()
}

fn idle(timer: &Timer, seconds: u32) {
    timer.schedule(seconds * SEC, || ()).unwrap();
}

/// The closure needs a box.
fn deadline(timer: &Timer, seconds: u32) {
    let ballast = [seconds; 20];
    timer.schedule(seconds * SEC, move || assert_eq!(ballast[19], seconds)).unwrap();
}

fn report(timer: &Timer) {
    timer.schedule_at_fixed_rate(SEC, SEC, || ()).unwrap();
}

#[test]
fn each_kind_of_timer_is_counted_by_what_armed_it() {
    let (builder, clock) = on_manual_clock();
    let timer = builder.shards(2).build().unwrap();
    let start = clock.now();
    assert!(timer.census().is_empty());
    let queue = DelayQueue::new(&timer);
    let mut sleeps: Vec<Sleep> = (1..=3).map(|seconds| timer.sleep(seconds * SEC)).collect();
    sleeps.iter_mut().for_each(|sleep| assert!(sleep.now_or_never().is_none()));
    (0..5).for_each(|second| queue.push(second * SEC + SEC, String::new()).map(drop).unwrap());
    // From another thread, which has another home.
    let other = timer.clone();
    thread::spawn(move || (10..17).for_each(|seconds| idle(&other, seconds))).join().unwrap();
    idle(&timer, 60);
    (20..22).for_each(|seconds| deadline(&timer, seconds));
    report(&timer);
    let all = [
        ("idle", TimerKind::Callback, 8, 10, 60),
        ("String", TimerKind::Value, 5, 1, 5),
        ("Sleep", TimerKind::Sleep, 3, 1, 3),
        ("deadline", TimerKind::Callback, 2, 20, 21),
        ("report", TimerKind::Repeating, 1, 1, 1),
    ];
    let census = timer.census();
    assert_eq!(summary(&census, start), all);
    let names = [any::type_name::<String>(), any::type_name::<Sleep>()];
    assert_eq!([census[1].name, census[2].name], names);

    clock.advance(2 * SEC);
    drop(sleeps.pop());
    let left = [
        ("idle", TimerKind::Callback, 8, 10, 60),
        ("String", TimerKind::Value, 3, 3, 5),
        ("deadline", TimerKind::Callback, 2, 20, 21),
        ("report", TimerKind::Repeating, 1, 3, 3),
    ];
    assert_eq!(summary(&timer.census(), start), left);
    assert_eq!(timer.census().iter().map(|group| group.pending).sum::<u64>(), timer.len() as u64);
    assert_eq!(timer.shutdown().len(), 8 + 2 + 1);
    assert!(timer.census().is_empty());
}

#[test]
fn a_timer_that_has_ended_is_in_no_census() {
    let (timer, clock) = in_virtual_time();
    let handles: Vec<_> = (0..1000).map(|_| timer.schedule(HOUR, || ()).unwrap()).collect();
    assert_eq!(timer.census()[0].pending, 1000);
    handles.iter().take(400).for_each(|handle| assert!(handle.cancel()));
    assert_eq!(timer.census()[0].pending, 600);
    // Entries that are used again have the name of their last timer.
    drop(handles);
    (0..400).for_each(|_| idle(&timer, 7));
    let census = timer.census();
    assert_eq!(census.iter().map(|group| group.pending).collect::<Vec<_>>(), [600, 400]);
    assert!(census[1].name.contains("idle"), "{census:?}");
    clock.advance(7 * SEC);
    assert_eq!(timer.census().len(), 1);
    clock.advance(HOUR);
    assert!(timer.census().is_empty());
}

#[test]
fn a_timer_that_runs_is_pending_only_if_it_repeats() {
    let timer = Timer::builder().executor(Executor::Pool { threads: 2 }).build().unwrap();
    let gate = Gate::default();
    block(&timer, 1, &gate);
    assert!(timer.census().is_empty(), "a one-shot ends when it starts");
    let (sender, receiver) = channel();
    let passed = gate.clone();
    let run = move || {
        sender.send(()).unwrap();
        passed.pass();
    };
    timer.schedule_at_fixed_rate(MS, HOUR, run).unwrap();
    wait_for(&receiver);
    assert_eq!(timer.census()[0].kind, TimerKind::Repeating);
    gate.open();
}

#[test]
fn a_delay_too_long_is_years_ahead() {
    let (timer, clock) = in_virtual_time();
    timer.schedule(std::time::Duration::MAX, || ()).unwrap();
    let [group] = &timer.census()[..] else { panic!() };
    assert!(group.earliest == group.latest && group.latest > clock.now() + 30 * YEAR);
}

#[test]
fn no_timer_of_a_group_is_later_than_the_latest_beside_one_that_never_comes() {
    let (timer, clock) = in_virtual_time();
    for delay in [200 * YEAR, std::time::Duration::MAX, 300 * YEAR] {
        timer.schedule(delay, || ()).unwrap();
    }
    let [group] = &timer.census()[..] else { panic!() };
    assert_eq!((group.pending, group.latest), (3, clock.now() + 300 * YEAR));
    assert!(group.earliest <= clock.now() + 200 * YEAR);
}

/// Other threads use the same entries for other timers meanwhile.
#[test]
fn a_census_under_load_shows_only_what_was_armed() {
    let timer = Timer::builder().shards(2).build().unwrap();
    idle(&timer, 3600);
    let done = Arc::new(AtomicBool::new(false));
    let churn = |turn: usize| {
        let (timer, done) = (timer.clone(), done.clone());
        thread::spawn(move || {
            while !done.load(Ordering::Relaxed) {
                for _ in 0..if turn == 0 { 1 } else { 100 } {
                    let ballast = [turn; 9];
                    let large = timer.schedule(HOUR, move || assert!(ballast[8] < 9)).unwrap();
                    let small = timer.schedule(HOUR, || ()).unwrap();
                    let often = timer.schedule_at_fixed_rate(HOUR, HOUR, || ()).unwrap();
                    assert!(large.cancel() && small.reset(SEC) && small.cancel() && often.cancel());
                    assert!(timer.sleep(HOUR).now_or_never().is_none());
                }
            }
        })
    };
    let threads: Vec<_> = (0..2).map(churn).collect();
    let begin = Instant::now();
    let mut names = HashSet::new();
    while begin.elapsed() < 300 * MS {
        let census = timer.census();
        assert!(census.iter().any(|group| group.name.contains("idle") && group.pending == 1), "{census:?}");
        names.extend(census.into_iter().map(|group| (group.name, group.kind)));
    }
    done.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(names.len() <= 5, "{names:?}");
    assert_eq!(timer.census().len(), 1);
}

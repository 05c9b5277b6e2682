//! Storms: many threads perform every operation at once, and each timer ends in exactly one way.

#[path = "../common/mod.rs"]
mod common;

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use common::*;
use corewheel::{Executor, Timer, TimerHandle, UnfiredTimer};
use fastrand::Rng;

/// What happened to one timer.
#[derive(Default)]
struct TimerRecord {
    runs: AtomicU32,
    drops: AtomicU32,
    /// Number of calls of `cancel` that returned true.
    cancels: AtomicU32,
}

/// What a closure captures: records its runs and its drop.
struct Recorder(Arc<TimerRecord>);

impl Drop for Recorder {
    fn drop(&mut self) {
        self.0.drops.fetch_add(1, Ordering::SeqCst);
    }
}

impl Recorder {
    fn run(&self) {
        self.0.runs.fetch_add(1, Ordering::SeqCst);
    }
}

/// An accepted timer.
struct Accepted {
    record: Arc<TimerRecord>,
    repeats: bool,
}

/// Performs random operations until the timer refuses one. After `end`, some threads shut the timer down.
fn run_operations(
    timer: &Timer,
    mut random: Rng,
    shared: &Mutex<Vec<(TimerHandle, Arc<TimerRecord>)>>,
    end: Instant,
) -> Report {
    let mut report = Report::default();
    let mut own: Vec<(TimerHandle, Arc<TimerRecord>)> = Vec::new();
    loop {
        let delay = Duration::from_micros(match random.u64(..8) {
            0 => 0,
            1 => 10_000_000,
            _ => random.u64(..3000),
        });
        match random.u64(..10) {
            0..=3 => {
                let record = Arc::new(TimerRecord::default());
                let recorder = Recorder(record.clone());
                let ballast = [0_u8; 64];
                let repeats = random.u64(..16) == 0;
                let scheduled = if repeats {
                    let pause = Duration::from_micros(random.u64(..500));
                    timer.schedule_with_fixed_delay(delay, pause, move || recorder.run()).map_err(drop)
                } else if random.u64(..2) == 0 {
                    timer.schedule(delay, move || recorder.run()).map_err(drop)
                } else {
                    let large = move || {
                        assert_eq!(ballast[63], 0);
                        recorder.run();
                    };
                    timer.schedule(delay, large).map_err(drop)
                };
                match scheduled {
                    Ok(handle) => {
                        report.accepted.push(Accepted { record: record.clone(), repeats });
                        match random.u64(..4) {
                            0 => drop(handle),
                            1 => shared.lock().unwrap().push((handle, record)),
                            _ => own.push((handle, record)),
                        }
                    }
                    Err(()) => {
                        // A refused closure has been dropped.
                        assert_eq!(record.drops.load(Ordering::SeqCst), 1);
                        assert_eq!(record.runs.load(Ordering::SeqCst), 0);
                        report.refused += 1;
                        break;
                    }
                }
            }
            4..=6 => {
                let taken = if random.u64(..2) == 0 { own.pop() } else { shared.lock().unwrap().pop() };
                if let Some((handle, record)) = taken {
                    let won = if random.u64(..4) == 0 { handle.cancel_and_wait() } else { handle.cancel() };
                    record.cancels.fetch_add(u32::from(won), Ordering::SeqCst);
                    assert!(!handle.cancel() && !handle.reset(delay) && !handle.is_pending());
                }
            }
            7..=8 => {
                if !own.is_empty() {
                    let (handle, _) = &own[random.u64(..own.len() as u64) as usize];
                    report.resets += u64::from(handle.reset(delay));
                }
                if let Some((handle, _)) = shared.lock().unwrap().last() {
                    report.resets += u64::from(handle.reset(delay));
                }
            }
            _ => {
                // Limit the number of handles that are kept.
                own.truncate(50);
                shared.lock().unwrap().truncate(50);
            }
        }
        if Instant::now() >= end && random.u64(..50) == 0 {
            report.unfired.extend(timer.shutdown());
        }
    }
    report
}

#[derive(Default)]
struct Report {
    accepted: Vec<Accepted>,
    unfired: Vec<UnfiredTimer>,
    refused: u64,
    resets: u64,
}

/// Has 8 threads schedule, cancel, reset and shut down until each is refused, and checks how each timer ended.
fn storm(round: u64, length: Duration, executor: Executor) -> usize {
    let tick = Duration::from_micros([20, 100, 1000][round as usize % 3]);
    let shards = 1 + round as usize % 3;
    let timer = Timer::builder().tick(tick).shards(shards).executor(executor).build().unwrap();
    let shared = Mutex::default();
    let barrier = Barrier::new(8);
    let end = Instant::now() + length;
    let reports: Vec<Report> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|number| {
                let (timer, shared, barrier) = (&timer, &shared, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    run_operations(timer, Rng::with_seed(8 * round + number), shared, end)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    drop(shared);

    let stats = timer.stats();
    let sum = |count: fn(&Report) -> u64| reports.iter().map(count).sum::<u64>();
    let accepted = || reports.iter().flat_map(|report| &report.accepted);
    let number = accepted().count();
    let unfired = sum(|report| report.unfired.len() as u64);
    assert_eq!((stats.scheduled, stats.pending), (number as u64, 0));
    assert_eq!((stats.unfired, stats.rejected, stats.resets), (unfired, 8, sum(|report| report.resets)));
    assert_eq!(stats.cancelled, accepted().map(|timer| u64::from(timer.record.cancels.load(Ordering::SeqCst))).sum());
    assert_eq!(stats.fired, accepted().map(|timer| u64::from(timer.record.runs.load(Ordering::SeqCst))).sum());
    assert_eq!(stats.panicked, 0);
    assert_balanced(&timer);
    drop(timer);

    let alive = accepted().filter(|timer| timer.record.drops.load(Ordering::SeqCst) == 0).count();
    assert_eq!(alive as u64, unfired, "every closure that was not dropped was handed back");
    for Accepted { record, repeats } in accepted() {
        let count = |of: &AtomicU32| of.load(Ordering::SeqCst);
        let (runs, drops, cancels) = (count(&record.runs), count(&record.drops), count(&record.cancels));
        assert!(cancels <= 1 && drops <= 1);
        if !repeats {
            assert_eq!(
                runs + cancels + (1 - drops),
                1,
                "not exactly one end: {runs} runs, {cancels} cancels, {drops} drops"
            );
        }
    }
    let records: Vec<_> = accepted().map(|timer| (timer.record.clone(), timer.repeats)).collect();
    for (index, timer) in reports.into_iter().flat_map(|report| report.unfired).enumerate() {
        if index % 2 == 0 {
            timer.run();
        }
    }
    for (record, repeats) in records {
        assert_eq!(record.drops.load(Ordering::SeqCst), 1);
        assert!(repeats || record.runs.load(Ordering::SeqCst) <= 1);
    }
    number
}

#[test]
fn a_storm_of_eight_threads_accounts_for_every_timer() {
    let end = Instant::now() + 10 * SEC;
    let mut number = 0;
    for round in 0.. {
        // Mostly short rounds, because the shutdown is the interesting part.
        let length = if round % 10 == 9 { SEC } else { Duration::from_millis(5 + 10 * (round % 7)) };
        for executor in every_executor() {
            // The executor that starts a thread for each job needs shorter rounds.
            let length = if matches!(executor, Executor::Custom(_)) { length.min(30 * MS) } else { length };
            number += storm(round, length, executor);
        }
        if Instant::now() >= end {
            break;
        }
    }
    assert!(number > 10_000, "only {number} timers");
}

/// Promise: no timer is forgotten.
#[test]
fn four_threads_lose_none_of_a_million_timers() {
    const THREADS: usize = 4;
    const ROUND: usize = 1250;
    const ROUNDS: usize = 200;
    let timer = Timer::builder().shards(2).tick(Duration::from_micros(100)).build().unwrap();
    let fired = Arc::new(AtomicUsize::new(0));
    let slowest = AtomicU64::new(0);
    let barrier = Barrier::new(THREADS);
    thread::scope(|scope| {
        for seed in 0..THREADS {
            let (timer, fired, slowest, barrier) = (&timer, &fired, &slowest, &barrier);
            scope.spawn(move || {
                let mut random = Rng::with_seed(seed as u64);
                for round in 1..=ROUNDS {
                    for _ in 0..ROUND {
                        let delay = Duration::from_micros(random.u64(..2001));
                        timer.schedule(delay, counting(fired)).unwrap();
                    }
                    // Until the barrier no thread schedules, so nothing wakes a shard that has missed a wake-up.
                    barrier.wait();
                    let start = Instant::now();
                    while fired.load(Ordering::SeqCst) < round * THREADS * ROUND && start.elapsed() < TIMEOUT {
                        thread::sleep(Duration::from_micros(200));
                    }
                    slowest.fetch_max(start.elapsed().as_millis() as u64, Ordering::SeqCst);
                    barrier.wait();
                }
            });
        }
    });
    assert_eq!(fired.load(Ordering::SeqCst), THREADS * ROUND * ROUNDS);
    assert!(slowest.load(Ordering::SeqCst) < 2000, "a wake-up was late or lost: {slowest:?} ms");
    let stats = timer.stats();
    assert_eq!((stats.scheduled, stats.completed, stats.pending), (1_000_000, 1_000_000, 0));
    assert_balanced(&timer);
}

#[test]
fn a_storm_in_virtual_time_runs_no_timer_early_and_loses_none() {
    let (builder, clock) = on_manual_clock();
    let timer = builder.shards(3).executor(Executor::Pool { threads: 2 }).build().unwrap();
    let over = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|seed| {
                let (timer, clock) = (&timer, &clock);
                scope.spawn(move || {
                    let mut random = Rng::with_seed(seed);
                    let mut handles: Vec<TimerHandle> = Vec::new();
                    for _ in 0..4000 {
                        let deadline = clock.now() + Duration::from_micros(random.u64(..5_000_000));
                        let at = clock.clone();
                        let on_time = move || assert!(at.now() >= deadline);
                        let handle = timer.schedule_at(deadline, on_time).unwrap();
                        handles.push(handle);
                        let other = random.u64(..handles.len() as u64) as usize;
                        match random.u64(..3) {
                            0 => drop(handles.swap_remove(other).cancel()),
                            // Later deadlines only, so that the check in the callback holds.
                            1 => drop(handles[other].reset(6 * SEC)),
                            _ => {}
                        }
                    }
                })
            })
            .collect();
        let (clock, over) = (&clock, &over);
        scope.spawn(move || {
            while !over.load(Ordering::SeqCst) {
                clock.advance(7 * MS);
            }
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        over.store(true, Ordering::SeqCst);
    });
    clock.advance(20 * SEC);
    let stats = timer.stats();
    assert_eq!((stats.scheduled, stats.pending, stats.panicked), (16_000, 0, 0));
    assert_eq!(stats.completed, stats.fired);
    assert_balanced(&timer);
}

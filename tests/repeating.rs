//! Repeating timers: fixed rate, fixed delay, and recurring timers, whose callback returns the next deadline.
#![cfg(feature = "std")]

mod common;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use common::*;
use corewheel::{Executor, ManualClock, ScheduleErrorKind, Timer, TimerHandle};
use fastrand::Rng;

/// Returns a callback that sends the time since this call, by `clock`.
fn reports(clock: &ManualClock) -> (impl Fn() + Send + Clone + 'static, Receiver<Duration>) {
    let (sender, receiver) = channel();
    let start = clock.now();
    let clock = clock.clone();
    (move || sender.send(clock.now() - start).unwrap(), receiver)
}

/// A slot for the handle of a timer whose callback uses it.
type Own = Arc<OnceLock<TimerHandle>>;

fn secs(of: impl IntoIterator<Item = u32>) -> Vec<Duration> {
    of.into_iter().map(|secs| secs * SEC).collect()
}

#[test]
fn a_fixed_rate_counts_from_when_each_run_was_due() {
    let (timer, clock) = in_virtual_time();
    let (report, reported) = reports(&clock);
    let handle = timer.schedule_at_fixed_rate(2 * SEC, 3 * SEC, report).unwrap();
    clock.advance(SEC);
    clock.advance(10 * SEC);
    assert_eq!(received(&reported), secs([2, 5, 8, 11]));
    assert_eq!(handle.deadline(), Some(clock.now() + 3 * SEC));
    assert!(handle.is_pending());
}

#[test]
fn a_period_that_is_no_multiple_of_the_tick_does_not_drift() {
    for micros in [300, 1500, 1001, 999] {
        let (timer, clock) = in_virtual_time();
        let period = Duration::from_micros(micros);
        timer.schedule_at_fixed_rate(period, period, || ()).unwrap();
        clock.advance(3003 * SEC / 1000);
        assert_eq!(timer.stats().fired, 3_003_000 / micros);
        let start = timer.now();
        let (sender, receiver) = channel();
        timer
            .schedule_recurring(start + period, move |deadline| {
                sender.send(deadline).unwrap();
                Some(deadline + period)
            })
            .unwrap();
        clock.advance(SEC);
        for (run, deadline) in (1..).zip(received(&receiver)) {
            assert_eq!(deadline, start + run * period);
        }
    }
}

#[test]
fn a_fixed_rate_catches_up_run_by_run_after_a_stall() {
    for executor in every_executor() {
        let timer = Timer::builder().executor(executor).build().unwrap();
        let runs = Arc::new(AtomicU32::new(0));
        let start = Instant::now();
        let count = runs.clone();
        let handle = timer
            .schedule_at_fixed_rate(Duration::ZERO, 2 * MS, move || {
                let run = count.fetch_add(1, Ordering::SeqCst);
                assert!(start.elapsed() >= run * 2 * MS);
                if run == 0 {
                    thread::sleep(80 * MS);
                }
            })
            .unwrap();
        eventually("caught up", || {
            // The runs that the stall delayed have been made up for, and the later ones are in time.
            let due = start.elapsed().as_millis() / 2;
            u128::from(runs.load(Ordering::SeqCst)) + 10 >= due && due > 60
        });
        assert!(handle.cancel_and_wait());
        assert_eq!(timer.stats().panicked, 0);
    }
}

#[test]
fn a_fixed_delay_counts_from_when_each_run_ended() {
    let timer = Timer::new().unwrap();
    let (sender, receiver) = channel();
    let handle = timer
        .schedule_with_fixed_delay(5 * MS, 10 * MS, move || {
            let begin = Instant::now();
            thread::sleep(15 * MS);
            sender.send((begin, Instant::now())).unwrap();
        })
        .unwrap();
    let runs: Vec<_> = (0..5).map(|_| wait_for(&receiver)).collect();
    handle.cancel_and_wait();
    assert!(runs.windows(2).all(|pair| pair[1].0 >= pair[0].1 + 10 * MS), "{runs:?}");
}

#[test]
fn a_fixed_delay_in_virtual_time() {
    let (timer, clock) = in_virtual_time();
    let (report, reported) = reports(&clock);
    timer.schedule_with_fixed_delay(SEC, 4 * SEC, report).unwrap();
    clock.advance(14 * SEC);
    assert_eq!(received(&reported), secs([1, 5, 9, 13]));
}

/// Promise: no starvation by a neighbour.
#[test]
fn a_fixed_delay_of_zero_runs_again_at_once_and_starves_no_other_timer() {
    for executor in every_executor() {
        let timer = Timer::builder().shards(1).executor(executor).build().unwrap();
        let runs = Arc::new(AtomicUsize::new(0));
        let count = runs.clone();
        let busy = timer
            .schedule_with_fixed_delay(Duration::ZERO, Duration::ZERO, move || {
                count.fetch_add(1, Ordering::Relaxed);
            })
            .unwrap();
        for delay in [Duration::ZERO, MS, 5 * MS] {
            let (sender, receiver) = channel();
            timer.schedule(delay, move || sender.send(()).unwrap()).unwrap();
            wait_for(&receiver);
        }
        eventually("many runs", || runs.load(Ordering::Relaxed) > 100);
        assert!(busy.cancel_and_wait());
        let runs_then = runs.load(Ordering::Relaxed);
        thread::sleep(5 * MS);
        assert_eq!(runs.load(Ordering::Relaxed), runs_then);
        assert!(timer.is_empty());
    }
}

#[test]
fn a_recurring_callback_receives_its_deadline_and_returns_the_next() {
    let (timer, clock) = in_virtual_time();
    let start = clock.now();
    let (sender, receiver) = channel();
    let mut next = [3, 4, 10].into_iter();
    let handle = timer
        .schedule_recurring(start + SEC, move |deadline| {
            sender.send(deadline - start).unwrap();
            next.next().map(|secs| start + secs * SEC)
        })
        .unwrap();
    clock.advance(5 * SEC);
    assert_eq!(received(&receiver), secs([1, 3, 4]));
    assert!(handle.is_pending());
    clock.advance(5 * SEC);
    assert_eq!(received(&receiver), secs([10]));
    assert!(!handle.is_pending() && !handle.cancel());
    let stats = timer.stats();
    assert_eq!((stats.scheduled, stats.fired, stats.completed, stats.cancelled, stats.pending), (1, 4, 1, 0, 0));
    assert_balanced(&timer);
}

#[test]
fn a_recurring_deadline_in_the_past_means_again_at_once() {
    let (timer, clock) = in_virtual_time();
    clock.advance(HOUR);
    let first = clock.now() + SEC;
    let (report, reported) = reports(&clock);
    let (sender, receiver) = channel();
    let mut runs = 0;
    timer
        .schedule_recurring(first, move |deadline| {
            report();
            sender.send(deadline).unwrap();
            runs += 1;
            (runs < 5).then(|| first - runs * SEC / 2)
        })
        .unwrap();
    clock.advance(SEC);
    assert_eq!(received(&reported), secs([1; 5]));
    let asked = (0..5).map(|run| first - run * SEC / 2);
    assert_eq!(
        received(&receiver),
        asked.collect::<Vec<_>>(),
        "each run receives the deadline that the last one returned"
    );
    assert!(timer.is_empty());
}

#[test]
fn a_recurring_callback_whose_first_deadline_has_passed_runs_at_once() {
    let timer = Timer::builder().tick(HOUR).build().unwrap();
    let (sender, receiver) = channel();
    timer
        .schedule_recurring(timer.now(), move |deadline| {
            sender.send(()).unwrap();
            Some(deadline)
        })
        .unwrap();
    for _ in 0..3 {
        wait_for(&receiver);
    }
}

/// Promise: panics stay inside.
#[test]
fn a_repeating_callback_that_panics_is_ended() {
    for executor in every_executor() {
        let (builder, clock) = on_manual_clock();
        let timer = builder.executor(executor).build().unwrap();
        let tokens = Tokens::default();
        let third_panics = |token: Token| {
            let mut runs = 0;
            move || {
                let _captured = &token;
                runs += 1;
                if runs == 3 {
                    quiet_panic("the third run");
                }
            }
        };
        let rate = timer.schedule_at_fixed_rate(SEC, SEC, third_panics(tokens.give())).unwrap();
        let delay = timer.schedule_with_fixed_delay(SEC, SEC, third_panics(tokens.give())).unwrap();
        let mut run = third_panics(tokens.give());
        let recurring = timer
            .schedule_recurring(clock.now() + SEC, move |deadline| {
                run();
                Some(deadline + SEC)
            })
            .unwrap();
        clock.advance(10 * SEC);
        assert_eq!(tokens.alive(), 0);
        for handle in [rate, delay, recurring] {
            assert!(!handle.is_pending() && !handle.cancel() && !handle.reset(SEC));
        }
        let stats = timer.stats();
        assert_eq!((stats.fired, stats.completed, stats.panicked, stats.pending), (9, 3, 3, 0));
        assert_balanced(&timer);
    }
}

/// Promise: repeating runs never overlap.
#[test]
fn a_repeating_callback_never_overlaps_itself() {
    let timer = Timer::builder().executor(Executor::Pool { threads: 4 }).build().unwrap();
    let inside = Arc::new(AtomicBool::new(false));
    let runs = Arc::new(AtomicU32::new(0));
    let (entered, count) = (inside.clone(), runs.clone());
    let handle = timer
        .schedule_at_fixed_rate(Duration::ZERO, Duration::from_micros(100), move || {
            assert!(!entered.swap(true, Ordering::SeqCst), "two runs at once");
            thread::sleep(Duration::from_micros(u64::from(count.fetch_add(1, Ordering::SeqCst) % 4) * 100));
            entered.store(false, Ordering::SeqCst);
        })
        .unwrap();
    let mut random = Rng::with_seed(4);
    while runs.load(Ordering::SeqCst) < 300 {
        // Resets do not make runs overlap, either.
        handle.reset(Duration::from_micros(random.u64(..300)));
        thread::sleep(Duration::from_micros(random.u64(..2000)));
    }
    assert!(handle.cancel_and_wait());
    assert!(!inside.load(Ordering::SeqCst));
    assert_eq!(timer.stats().panicked, 0);
}

#[test]
fn a_cancel_from_outside_stops_further_runs() {
    let (timer, clock) = in_virtual_time();
    let (report, reported) = reports(&clock);
    let tokens = Tokens::default();
    let token = tokens.give();
    let handle = timer
        .schedule_at_fixed_rate(SEC, SEC, move || {
            let _captured = &token;
            report();
        })
        .unwrap();
    clock.advance(3 * SEC);
    assert!(handle.cancel());
    assert_eq!(tokens.alive(), 0, "between two runs a cancel drops the closure at once");
    assert!(!handle.cancel() && !handle.reset(SEC) && !handle.is_pending());
    clock.advance(HOUR);
    assert_eq!(received(&reported), secs([1, 2, 3]));
    let stats = timer.stats();
    assert_eq!((stats.fired, stats.completed, stats.cancelled, stats.pending), (3, 0, 1, 0));
}

/// Promise: repeating runs never overlap.
#[test]
fn a_cancel_during_a_run_lets_it_complete() {
    for executor in every_executor() {
        let timer = Timer::builder().executor(executor).build().unwrap();
        let begun = Gate::default();
        let gate = Gate::default();
        let over = Arc::new(AtomicU32::new(0));
        let (begin, pass, count) = (begun.clone(), gate.clone(), over.clone());
        let tokens = Tokens::default();
        let token = tokens.give();
        let handle = timer
            .schedule_at_fixed_rate(Duration::ZERO, MS, move || {
                let _captured = &token;
                begin.open();
                pass.pass();
                count.fetch_add(1, Ordering::SeqCst);
            })
            .unwrap();
        begun.pass();
        assert!(handle.cancel());
        assert!(!handle.cancel() && !handle.is_pending());
        assert_eq!((over.load(Ordering::SeqCst), tokens.alive()), (0, 1));
        gate.open();
        assert!(!handle.cancel_and_wait());
        assert_eq!((over.load(Ordering::SeqCst), tokens.alive()), (1, 0));
        thread::sleep(5 * MS);
        assert_eq!(over.load(Ordering::SeqCst), 1);
        assert_balanced(&timer);
    }
}

/// Schedules a callback at a fixed rate that receives its own handle and the number of the run.
fn with_own_handle(timer: &Timer, period: Duration, mut f: impl FnMut(&TimerHandle, u32) + Send + 'static) -> Own {
    let own = Own::default();
    let handle = own.clone();
    let mut runs = 0;
    let callback = move || {
        runs += 1;
        f(once_set(&handle), runs);
    };
    own.set(timer.schedule_at_fixed_rate(period, period, callback).unwrap()).unwrap();
    own
}

#[test]
fn a_cancel_inside_the_callback_is_true_once_and_the_run_completes() {
    for executor in every_executor() {
        for wait in [false, true] {
            let (builder, clock) = on_manual_clock();
            let timer = builder.executor(executor.clone()).build().unwrap();
            let (sender, receiver) = channel();
            let own = with_own_handle(&timer, SEC, move |handle, run| {
                assert!(handle.is_pending());
                if run == 2 {
                    let cancel = || if wait { handle.cancel_and_wait() } else { handle.cancel() };
                    sender.send((cancel(), cancel(), handle.is_pending(), handle.reset(SEC))).unwrap();
                }
            });
            clock.advance(10 * SEC);
            assert_eq!(received(&receiver), [(true, false, false, false)]);
            assert!(!once_set(&own).cancel());
            let stats = timer.stats();
            assert_eq!((stats.fired, stats.cancelled, stats.completed, stats.panicked), (2, 1, 0, 0));
            assert_balanced(&timer);
        }
    }
}

#[test]
fn a_reset_from_outside_shifts_the_whole_grid() {
    let (timer, clock) = in_virtual_time();
    let (report, reported) = reports(&clock);
    let handle = timer.schedule_at_fixed_rate(10 * SEC, 10 * SEC, report).unwrap();
    clock.advance(21 * SEC);
    assert!(handle.reset(3 * SEC));
    assert_eq!(handle.deadline(), Some(clock.now() + 3 * SEC));
    clock.advance(25 * SEC);
    assert!(handle.reset(15 * SEC));
    clock.advance(30 * SEC);
    assert_eq!(received(&reported), secs([10, 20, 24, 34, 44, 61, 71]));
}

#[test]
fn a_reset_from_inside_moves_the_next_run_and_the_grid() {
    for executor in every_executor() {
        let (builder, clock) = on_manual_clock();
        let timer = builder.executor(executor).build().unwrap();
        let (report, reported) = reports(&clock);
        with_own_handle(&timer, 10 * SEC, move |handle, run| {
            report();
            match run {
                1 => assert!(handle.reset(3 * SEC)),
                3 => assert!(handle.reset(30 * SEC) && handle.reset(17 * SEC)),
                _ => {}
            }
        });
        clock.advance(60 * SEC);
        assert_eq!(received(&reported), secs([10, 13, 23, 40, 50, 60]));
        assert_eq!((timer.stats().resets, timer.stats().panicked), (3, 0));
    }
}

#[test]
fn delays_count_from_the_end_of_each_run() {
    for executor in every_executor() {
        let (builder, clock) = on_manual_clock();
        let timer = builder.executor(executor).build().unwrap();
        let (report, reported) = reports(&clock);
        let mut delays = [2 * SEC, SEC / 2, Duration::ZERO, 4 * SEC].into_iter();
        let handle = timer
            .schedule_with_delays(SEC, move || {
                report();
                delays.next()
            })
            .unwrap();
        assert_eq!(handle.deadline(), Some(clock.now() + SEC));
        clock.advance(HOUR);
        let expected = [SEC, 3 * SEC, 3 * SEC + SEC / 2, 3 * SEC + SEC / 2, 7 * SEC + SEC / 2];
        assert_eq!(received(&reported), expected);
        assert!(!handle.is_pending());
        let stats = timer.stats();
        assert_eq!((stats.fired, stats.completed, stats.panicked, stats.pending), (5, 1, 0, 0));
    }
    // In real time, the run takes its time.
    let timer = Timer::new().unwrap();
    let (sender, runs) = channel();
    let works = move || {
        let began = Instant::now();
        thread::sleep(20 * MS);
        sender.send((began, Instant::now())).unwrap();
        Some(20 * MS)
    };
    let handle = timer.schedule_with_delays(Duration::ZERO, works).unwrap();
    let [first, second] = [(); 2].map(|()| wait_for(&runs));
    assert!(second.0 >= first.1 + 20 * MS, "{first:?} {second:?}");
    assert!(handle.cancel_and_wait());
}

#[test]
fn a_timer_with_delays_is_cancelled_reset_and_ended_as_other_repeating_ones() {
    for executor in every_executor() {
        let (builder, clock) = on_manual_clock();
        let timer = builder.executor(executor).build().unwrap();
        let (report, reported) = reports(&clock);
        let handle = timer
            .schedule_with_delays(10 * SEC, move || {
                report();
                Some(10 * SEC)
            })
            .unwrap();
        clock.advance(11 * SEC);
        assert!(handle.reset(3 * SEC));
        clock.advance(14 * SEC);
        assert!(handle.cancel());
        clock.advance(HOUR);
        assert_eq!(received(&reported), secs([10, 14, 24]));

        // A reset during a run wins over the `None` that it returns, and a panic over the reset.
        let own = Arc::new(OnceLock::<TimerHandle>::new());
        let (inside, mut run) = (own.clone(), 0);
        let ends = move || {
            run += 1;
            let reset = once_set(&inside).reset(SEC);
            assert!(reset);
            if run == 2 {
                quiet_panic("ends");
            }
            None
        };
        own.set(timer.schedule_with_delays(SEC, ends).unwrap()).unwrap();
        clock.advance(HOUR);
        assert!(!once_set(&own).is_pending());
        let stats = timer.stats();
        assert_eq!((stats.fired, stats.completed, stats.cancelled, stats.panicked), (3 + 2, 1, 1, 1));
        let never = timer.schedule_with_delays(Duration::MAX, || Some(SEC)).unwrap();
        clock.advance(YEAR);
        assert!(never.is_pending());
        assert_balanced(&timer);
    }
}

#[test]
fn the_deadline_advances_with_each_run_however_short_the_period() {
    let (timer, clock) = in_virtual_time();
    for first in [MS, MS / 2, Duration::ZERO] {
        let handle = timer.schedule_at_fixed_rate(first, MS, || ()).unwrap();
        clock.advance(MS);
        assert_eq!(handle.deadline(), Some(clock.now() + MS));
    }
    clock.advance(MS / 2);
    let handle = timer.schedule_recurring(clock.now() - MS / 4, |deadline| Some(deadline + MS / 2)).unwrap();
    clock.advance(Duration::ZERO);
    assert_eq!(handle.deadline(), Some(clock.now() + MS / 2));
}

#[test]
fn a_reset_during_a_run_from_outside_moves_the_next_run() {
    let timer = Timer::new().unwrap();
    let (begun, gate) = (Gate::default(), Gate::default());
    let (begin, pass) = (begun.clone(), gate.clone());
    let handle = timer
        .schedule_at_fixed_rate(Duration::ZERO, MS, move || {
            begin.open();
            pass.pass();
        })
        .unwrap();
    begun.pass();
    let deadline = timer.now() + HOUR;
    assert!(handle.reset_at(deadline));
    assert_eq!(handle.deadline(), Some(deadline));
    gate.open();
    thread::sleep(20 * MS);
    assert_eq!(timer.stats().fired, 1);
    assert_eq!(handle.deadline(), Some(deadline));
    assert!(handle.cancel());
}

#[test]
fn fixed_delay_and_recurring_timers_can_be_reset() {
    let (timer, clock) = in_virtual_time();
    let (report, reported) = reports(&clock);
    let handle = timer.schedule_with_fixed_delay(10 * SEC, 10 * SEC, report).unwrap();
    clock.advance(12 * SEC);
    assert!(handle.reset(SEC));
    clock.advance(12 * SEC);
    assert_eq!(received(&reported), secs([10, 13, 23]));

    let (sender, receiver) = channel();
    let handle = timer
        .schedule_recurring(clock.now() + SEC, move |deadline| {
            sender.send(deadline).unwrap();
            Some(deadline + SEC)
        })
        .unwrap();
    let moved = clock.now() + 5 * SEC / 2;
    assert!(handle.reset_at(moved));
    clock.advance(4 * SEC);
    assert_eq!(received(&receiver), [moved, moved + SEC]);
}

/// Schedules a recurring callback for in a second that receives its own handle, its deadline, and the number of the run.
fn recurring_with_own_handle(
    timer: &Timer,
    mut f: impl FnMut(&TimerHandle, Instant, u32) -> Option<Instant> + Send + 'static,
) -> Own {
    let own = Own::default();
    let handle = own.clone();
    let mut runs = 0;
    let callback = move |deadline| {
        runs += 1;
        f(once_set(&handle), deadline, runs)
    };
    own.set(timer.schedule_recurring(timer.now() + SEC, callback).unwrap()).unwrap();
    own
}

/// A producer that resets the timer need not schedule another one.
/// Promise: repeating runs never overlap.
#[test]
fn a_reset_during_the_run_of_a_recurring_timer_wins_over_its_none() {
    for executor in every_executor() {
        for inside in [true, false] {
            let (builder, clock) = on_manual_clock();
            let timer = builder.executor(executor.clone()).build().unwrap();
            let start = clock.now();
            let (sender, receiver) = channel();
            let own = recurring_with_own_handle(&timer, move |handle, deadline, run| {
                let delay = match run {
                    1 => Some(3 * SEC),
                    2 => Some(Duration::ZERO),
                    _ => None,
                };
                let reset = delay.map(|delay| match inside {
                    true => handle.reset(delay),
                    false => thread::scope(|scope| scope.spawn(|| handle.reset(delay)).join().unwrap()),
                });
                sender.send((deadline - start, reset)).unwrap();
                None
            });
            clock.advance(HOUR);
            let [first, others] = [SEC, 4 * SEC];
            assert_eq!(received(&receiver), [(first, Some(true)), (others, Some(true)), (others, None)]);
            let handle = once_set(&own);
            assert!(!handle.is_pending() && !handle.reset(SEC), "the last run has ended it");
            clock.advance(HOUR);
            let stats = timer.stats();
            assert_eq!((stats.fired, stats.completed, stats.resets, stats.pending), (3, 1, 2, 0));
            assert_balanced(&timer);
        }
    }
}

/// Promise: repeating runs never overlap.
#[test]
fn a_panic_of_a_recurring_callback_wins_over_a_reset_during_the_run() {
    for executor in every_executor() {
        let (builder, clock) = on_manual_clock();
        let timer = builder.executor(executor).build().unwrap();
        let own = recurring_with_own_handle(&timer, |handle, _, _| {
            assert!(handle.reset(SEC));
            quiet_panic("after a reset");
        });
        clock.advance(HOUR);
        assert!(!once_set(&own).is_pending() && !once_set(&own).reset(SEC));
        let stats = timer.stats();
        assert_eq!((stats.fired, stats.completed, stats.panicked, stats.pending), (1, 1, 1, 0));
        assert_balanced(&timer);
    }
}

/// No run follows, because the timer is shut down before the callback returns `None`: so the shutdown hands it back.
#[test]
fn a_recurring_timer_that_was_reset_during_its_last_run_is_unfired_at_a_shutdown() {
    let timer = Timer::new().unwrap();
    let (sender, receiver) = channel();
    let weak = timer.downgrade();
    let _own = recurring_with_own_handle(&timer, move |handle, _, run| {
        if run == 1 {
            sender.send(handle.reset(HOUR)).unwrap();
            eventually("the shutdown", || weak.upgrade().is_none_or(|timer| timer.is_shutdown()));
        }
        None
    });
    assert!(wait_for(&receiver));
    let unfired: Vec<_> = timer.shutdown().map(|unfired| unfired.deadline).collect();
    assert_eq!((unfired.len(), timer.stats().completed), (1, 0));
    assert!(unfired[0] > timer.now() + HOUR / 2);
    assert_balanced(&timer);
}

#[test]
fn a_recurring_callback_receives_the_deadline_of_a_reset_rounded_up_to_a_tick() {
    let (builder, clock) = on_manual_clock();
    let timer = builder.tick(10 * MS).build().unwrap();
    let (sender, receiver) = channel();
    let handle = timer
        .schedule_recurring(clock.now() + SEC, move |deadline| {
            sender.send(deadline).unwrap();
            None
        })
        .unwrap();
    let moved = clock.now() + 2 * SEC + 3 * MS;
    assert!(handle.reset_at(moved));
    assert_eq!(handle.deadline(), Some(moved));
    clock.advance(HOUR);
    assert_eq!(received(&receiver), [moved + 7 * MS]);
}

/// A reset counts although the timer is due at that tick anyway: the grid begins at its deadline.
#[test]
fn a_reset_within_the_tick_of_the_next_run_shifts_the_whole_grid() {
    let (builder, clock) = on_manual_clock();
    let timer = builder.tick(10 * MS).build().unwrap();
    let (report, reported) = reports(&clock);
    let handle = timer.schedule_at_fixed_rate(12 * MS, 25 * MS, report).unwrap();
    assert!(handle.reset(18 * MS));
    clock.advance(60 * MS);
    assert_eq!(received(&reported), [20 * MS, 50 * MS], "43 ms is in the tick that ends at 50 ms");

    let (sender, receiver) = channel();
    let start = clock.now();
    let handle = timer
        .schedule_recurring(start + 12 * MS, move |deadline| {
            sender.send(deadline - start).unwrap();
            None
        })
        .unwrap();
    assert!(handle.reset_at(start + 18 * MS));
    clock.advance(20 * MS);
    assert_eq!(received(&receiver), [20 * MS], "rounded up to a tick, as after any reset");
}

/// The tick at which such a timer runs began before the reset.
#[test]
fn a_reset_to_now_makes_no_later_run_early() {
    let (builder, clock) = on_manual_clock();
    let timer = builder.tick(10 * MS).build().unwrap();
    let (report, reported) = reports(&clock);
    let handle = timer.schedule_at_fixed_rate(HOUR, 29 * MS, report).unwrap();
    clock.advance(13 * MS);
    assert!(handle.reset(Duration::ZERO));
    clock.advance(60 * MS);
    assert_eq!(received(&reported), [13 * MS, 50 * MS], "42 ms is in the tick that ends at 50 ms");
}

/// A timer that a shutdown hands back knows of its last reset, too.
#[test]
fn an_unfired_recurring_timer_runs_for_the_deadline_of_a_reset() {
    let (builder, clock) = on_manual_clock();
    let timer = builder.tick(10 * MS).build().unwrap();
    let (sender, receiver) = channel();
    let start = clock.now();
    let recurring = move |deadline| {
        sender.send(deadline - start).unwrap();
        None
    };
    let handle = timer.schedule_recurring(start + 12 * MS, recurring).unwrap();
    assert!(handle.reset_at(start + 18 * MS));
    timer.shutdown().for_each(|unfired| unfired.run());
    assert_eq!(received(&receiver), [20 * MS]);
}

#[test]
fn a_period_of_zero_is_refused() {
    let timer = Timer::new().unwrap();
    let tokens = Tokens::default();
    let token = tokens.give();
    let runs = Arc::default();
    let count = counting(&runs);
    let f = move || {
        let _captured = &token;
        count();
    };
    let error = timer.schedule_at_fixed_rate(SEC, Duration::ZERO, f).unwrap_err();
    assert_eq!(error.kind(), ScheduleErrorKind::ZeroPeriod);
    assert!(!error.is_full() && !error.is_shutdown());
    let f = error.into_inner();
    f();
    f();
    assert_eq!((runs.load(Ordering::SeqCst), tokens.alive()), (2, 1));
    drop(f);
    assert_eq!(tokens.alive(), 0);
    let stats = timer.stats();
    assert_eq!((stats.scheduled, stats.rejected, stats.pending), (0, 1, 0));
}

#[test]
fn every_three_seconds_for_twelve_hours_is_one_pending_timer() {
    let (builder, clock) = on_manual_clock();
    let timer = builder.max_pending(1).build().unwrap();
    timer.schedule_at_fixed_rate(3 * SEC, 3 * SEC, || ()).unwrap();
    for _ in 0..12 {
        clock.advance(HOUR);
        assert_eq!(timer.len(), 1);
        assert!(timer.schedule(SEC, || ()).unwrap_err().is_full());
    }
    let stats = timer.stats();
    assert_eq!((stats.scheduled, stats.fired, stats.pending), (1, 14_400, 1));
    assert_balanced(&timer);
}

#[test]
fn a_repeating_timer_is_pending_during_its_run() {
    let (timer, clock) = in_virtual_time();
    let (sender, receiver): (Sender<_>, _) = channel();
    let weak = timer.downgrade();
    let own = with_own_handle(&timer, SEC, move |handle, _| {
        let timer = weak.upgrade().unwrap();
        sender.send((handle.is_pending(), timer.len(), timer.stats().pending)).unwrap();
    });
    clock.advance(2 * SEC);
    assert_eq!(received(&receiver), [(true, 1, 1); 2]);
    assert!(once_set(&own).cancel());
}

#[test]
fn a_repeating_timer_runs_on_after_its_handle_is_dropped() {
    let (timer, clock) = in_virtual_time();
    drop(timer.schedule_at_fixed_rate(SEC, SEC, || ()).unwrap());
    clock.advance(100 * SEC);
    assert_eq!(timer.stats().fired, 100);
    let guard = timer.schedule_at_fixed_rate(SEC, SEC, || ()).unwrap().cancel_on_drop();
    clock.advance(100 * SEC);
    drop(guard);
    clock.advance(100 * SEC);
    assert_eq!(timer.stats().fired, 400);
}

/// Promise: repeating runs never overlap.
#[test]
fn cancel_and_wait_against_short_runs() {
    let timer = Timer::builder().tick(Duration::from_micros(20)).build().unwrap();
    for round in 0..500 {
        let inside = Arc::new(AtomicBool::new(false));
        let entered = inside.clone();
        let delay = Duration::from_micros(round % 50);
        let handle = timer
            .schedule_with_fixed_delay(Duration::ZERO, delay, move || {
                entered.store(true, Ordering::SeqCst);
                thread::yield_now();
                entered.store(false, Ordering::SeqCst);
            })
            .unwrap();
        (0..round * 20).for_each(|_| std::hint::spin_loop());
        assert!(handle.cancel_and_wait());
        assert!(!inside.load(Ordering::SeqCst));
    }
    let stats = timer.stats();
    assert_eq!((stats.cancelled, stats.pending), (500, 0));
}

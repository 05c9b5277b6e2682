//! Virtual time: a clock that the test advances, for any number of timers and shards.
#![cfg(feature = "std")]

mod common;

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, OnceLock};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use common::*;
use corewheel::{DelayQueue, Executor, ManualClock, Timer, TimerHandle};
use fastrand::Rng;

#[test]
fn a_manual_clock_stands_still_until_it_is_advanced() {
    let clock = ManualClock::new();
    let start = clock.now();
    let same = clock.clone();
    thread::sleep(2 * MS);
    assert_eq!(clock.now(), start);
    clock.advance(SEC);
    same.advance_to(start + 3 * SEC);
    assert_eq!((clock.now(), same.now()), (start + 3 * SEC, start + 3 * SEC));
    let timer = Timer::builder().clock(same).build().unwrap();
    assert_eq!(timer.now(), start + 3 * SEC);
    clock.advance(Duration::from_nanos(1));
    assert_eq!(timer.now(), start + 3 * SEC + Duration::from_nanos(1));
}

#[test]
fn advancing_to_an_earlier_instant_does_nothing() {
    let (timer, clock) = in_virtual_time();
    let start = clock.now();
    clock.advance(10 * SEC);
    let handle = timer.schedule(SEC, || ()).unwrap();
    clock.advance_to(start);
    clock.advance_to(start + 9 * SEC);
    assert_eq!(clock.now(), start + 10 * SEC);
    assert!(handle.is_pending());
    clock.advance_to(start + 11 * SEC);
    assert!(!handle.is_pending());
}

#[test]
fn an_advance_by_zero_runs_nothing() {
    let (timer, clock) = in_virtual_time();
    let handle = timer.schedule(MS, || ()).unwrap();
    thread::sleep(20 * MS);
    clock.advance(Duration::ZERO);
    assert!(handle.is_pending());
    assert_eq!(timer.stats().fired, 0);
}

#[test]
fn advance_returns_after_every_due_callback_of_every_timer() {
    for executor in every_executor() {
        let clock = ManualClock::new();
        let ticks = [Duration::from_micros(1), MS, 7 * MS, 30 * MS, SEC];
        let timers = ticks.map(|tick| {
            Timer::builder().clock(clock.clone()).tick(tick).shards(3).executor(executor.clone()).build().unwrap()
        });
        let finished = Arc::new(AtomicUsize::new(0));
        let mut random = Rng::with_seed(5);
        for round in 0..10 {
            for timer in timers.iter().cycle().take(50) {
                let finished = finished.clone();
                let delay = Duration::from_micros(random.u64(..3_000_000));
                timer
                    .schedule(delay, move || {
                        thread::yield_now();
                        finished.fetch_add(1, Ordering::SeqCst);
                    })
                    .unwrap();
            }
            clock.advance(5 * SEC);
            assert_eq!(finished.load(Ordering::SeqCst), (round + 1) * 50);
        }
        for timer in &timers {
            assert!(timer.is_empty());
            assert_balanced(timer);
        }
    }
}

#[test]
fn advance_waits_for_slow_callbacks() {
    let (builder, clock) = on_manual_clock();
    let timer = builder.executor(Executor::Custom(Arc::new(ThreadPerJob))).build().unwrap();
    let finished = Arc::new(AtomicUsize::new(0));
    let count = finished.clone();
    timer
        .schedule(SEC, move || {
            thread::sleep(50 * MS);
            count.fetch_add(1, Ordering::SeqCst);
        })
        .unwrap();
    clock.advance(SEC);
    assert_eq!(finished.load(Ordering::SeqCst), 1);
}

#[test]
fn callbacks_run_in_deadline_order_across_timers_and_see_now_at_their_tick() {
    for executor in every_executor() {
        let clock = ManualClock::new();
        let start = clock.now();
        let (sender, receiver) = channel();
        let mut random = Rng::with_seed(6);
        let ticks = [MS, 5 * MS, 7 * MS];
        let timers = ticks.map(|tick| {
            Timer::builder().clock(clock.clone()).tick(tick).shards(2).executor(executor.clone()).build().unwrap()
        });
        thread::scope(|scope| {
            // Two threads for each timer, so that both of its shards get timers.
            for (timer, tick) in timers.iter().zip(ticks).cycle().take(6) {
                let delays: Vec<_> = (0..40).map(|_| Duration::from_micros(random.u64(..400_000) + 1)).collect();
                let (sender, clock) = (sender.clone(), clock.clone());
                scope.spawn(move || {
                    for delay in delays {
                        let (sender, clock) = (sender.clone(), clock.clone());
                        let ticks = delay.as_nanos().div_ceil(tick.as_nanos()) as u32;
                        timer.schedule(delay, move || sender.send((ticks * tick, clock.now())).unwrap()).unwrap();
                    }
                });
            }
        });
        clock.advance(SEC);
        let runs = received(&receiver);
        assert_eq!(runs.len(), 240);
        for (due, now) in &runs {
            assert_eq!(*now, start + *due);
        }
        assert!(runs.is_sorted());
        assert_eq!(clock.now(), start + SEC);
    }
}

/// Schedules a callback from a new thread, so that the next timer is in another shard.
fn schedule_on_new_thread(timer: &Timer, deadline: Instant, callback: impl FnOnce() + Send + 'static) {
    thread::scope(|scope| drop(scope.spawn(|| timer.schedule_at(deadline, callback).unwrap())));
}

#[test]
fn callbacks_of_one_tick_may_wait_for_each_other_in_any_shard() {
    for executor in [Executor::Inline, Executor::Pool { threads: 3 }, Executor::Custom(Arc::new(ThreadPerJob))] {
        let (builder, clock) = on_manual_clock();
        let timer = builder.shards(3).executor(executor).build().unwrap();
        let due = clock.now() + SEC;
        let barrier = Arc::new(Barrier::new(3));
        let (sender, receiver) = channel();
        for _ in 0..3 {
            let (sender, barrier, at) = (sender.clone(), barrier.clone(), clock.clone());
            schedule_on_new_thread(&timer, due, move || {
                barrier.wait();
                sender.send(at.now()).unwrap();
            });
        }
        let advance = move || drop((clock.advance(HOUR), timer));
        in_time("an advance over callbacks that wait for each other", advance);
        assert_eq!(received(&receiver), [due; 3]);
    }
}

/// The ticks of the timers have different lengths, and count from different instants.
#[test]
fn callbacks_of_one_tick_may_wait_for_each_other_in_any_timer() {
    let clock = ManualClock::new();
    let build = |tick| {
        let builder = Timer::builder().clock(clock.clone()).tick(tick);
        builder.shards(1).executor(Executor::Inline).build().unwrap()
    };
    let due = clock.now() + 15 * MS;
    let every_fifth = build(5 * MS);
    clock.advance(MS);
    let every_seventh = build(7 * MS);
    let barrier = Arc::new(Barrier::new(2));
    let (sender, receiver) = channel();
    for timer in [&every_fifth, &every_seventh] {
        let (sender, barrier, at) = (sender.clone(), barrier.clone(), clock.clone());
        let meet = move || {
            barrier.wait();
            sender.send(at.now()).unwrap();
        };
        timer.schedule(13 * MS, meet).unwrap();
    }
    let advance = move || drop((clock.advance(HOUR), every_fifth, every_seventh));
    in_time("an advance over callbacks that wait for each other", advance);
    assert_eq!(received(&receiver), [due; 2]);
}

#[test]
fn a_callback_may_wait_for_one_that_it_schedules_in_another_timer() {
    let clock = ManualClock::new();
    let build = || Timer::builder().clock(clock.clone()).shards(1).executor(Executor::Inline).build().unwrap();
    let (asks, answers) = (build(), build());
    let (sender, receiver) = channel();
    let waits = move || {
        let (answer, answered) = channel();
        answers.schedule(Duration::ZERO, move || answer.send(()).unwrap()).unwrap();
        wait_for(&answered);
        sender.send(()).unwrap();
    };
    asks.schedule(SEC, waits).unwrap();
    in_time("an advance over a callback that waits", move || drop((clock.advance(HOUR), asks)));
    assert_eq!(received(&receiver), [()]);
}

#[test]
fn timers_that_callbacks_schedule_up_to_the_target_run() {
    for executor in every_executor() {
        let (builder, clock) = on_manual_clock();
        let timer = builder.shards(3).executor(executor).build().unwrap();
        let start = clock.now();
        let (sender, receiver) = channel();
        chain(&timer, sender);
        clock.advance(9 * SEC + 999 * MS);
        let seen: Vec<_> = received(&receiver).into_iter().map(|at: Instant| at - start).collect();
        assert_eq!(seen, (1..=9).map(|secs| secs * SEC).collect::<Vec<_>>());
        assert_eq!(timer.len(), 1);
    }

    /// Schedules a callback that schedules the next. Each is scheduled on a new thread, and so in any shard.
    fn chain(timer: &Timer, sender: std::sync::mpsc::Sender<Instant>) {
        let weak = timer.downgrade();
        let next = move || {
            let timer = weak.upgrade().unwrap();
            sender.send(timer.now()).unwrap();
            thread::spawn(move || chain(&timer, sender)).join().unwrap();
        };
        timer.schedule(SEC, next).unwrap();
    }
}

#[test]
fn timers_that_callbacks_schedule_in_another_timer_run() {
    let clock = ManualClock::new();
    let build = |tick| Timer::builder().clock(clock.clone()).tick(tick).build().unwrap();
    let first = build(MS);
    let second = build(3 * MS);
    let other = second.clone();
    let at = clock.clone();
    let (sender, receiver) = channel();
    let start = clock.now();
    first
        .schedule(SEC, move || {
            let now = sender.clone();
            let later = sender;
            let at_now = at.clone();
            let at_later = at;
            other.schedule(Duration::ZERO, move || now.send(at_now.now()).unwrap()).unwrap();
            other.schedule(500 * MS, move || later.send(at_later.now()).unwrap()).unwrap();
        })
        .unwrap();
    clock.advance(2 * SEC);
    assert_eq!(received(&receiver), [start + SEC, start + 1500 * MS]);
}

#[test]
fn a_callback_may_cancel_and_reset_later_timers() {
    let (timer, clock) = in_virtual_time();
    let cancelled = timer.schedule(2 * SEC, || panic!("a cancelled timer ran")).unwrap();
    let moved = timer.schedule(2 * SEC, || ()).unwrap();
    let earlier = timer.schedule(HOUR, || ()).unwrap();
    timer
        .schedule(SEC, move || {
            assert!(cancelled.cancel() && moved.reset(HOUR) && earlier.reset(SEC));
        })
        .unwrap();
    clock.advance(3 * SEC);
    let stats = timer.stats();
    assert_eq!((stats.fired, stats.cancelled, stats.pending, stats.panicked), (2, 1, 1, 0));
}

#[test]
fn concurrent_advances_add_up() {
    let (builder, clock) = on_manual_clock();
    let timer = builder.shards(2).build().unwrap();
    let start = clock.now();
    timer.schedule_at_fixed_rate(10 * MS, 10 * MS, || ()).unwrap();
    let barrier = Barrier::new(4);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                barrier.wait();
                (0..50).for_each(|_| clock.advance(7 * MS));
            });
        }
    });
    assert_eq!(clock.now() - start, 4 * 50 * 7 * MS);
    assert_eq!(timer.stats().fired, 140);
}

#[test]
fn an_advance_inside_a_callback_panics_and_is_contained() {
    for executor in every_executor() {
        let clock = ManualClock::new();
        let (sender, receiver) = channel();
        let build = || {
            let reported = sender.clone();
            Timer::builder()
                .clock(clock.clone())
                .executor(executor.clone())
                .on_panic(move |_| reported.send(()).unwrap())
                .build()
                .unwrap()
        };
        let (timer, other) = (build(), build());
        let inside: [fn(&ManualClock); 3] = [
            |clock| clock.advance(SEC),
            |clock| clock.advance(Duration::ZERO),
            |clock| clock.advance_to(clock.now() + SEC),
        ];
        for advance in inside {
            let moves = clock.clone();
            timer.schedule(SEC, move || advance(&moves)).unwrap();
            let moves = clock.clone();
            other.schedule_at_fixed_rate(SEC, SEC, move || advance(&moves)).unwrap();
        }
        timer.schedule(SEC, || ()).unwrap();
        let start = clock.now();
        clock.advance(2 * SEC);
        assert_eq!(clock.now(), start + 2 * SEC);
        assert_eq!(received(&receiver), [(); 6]);
        assert_eq!((timer.stats().panicked, other.stats().panicked), (3, 3));
        assert_eq!((timer.stats().completed, other.stats().completed), (4, 3));
    }
}

/// A task in the timer's own pool would occupy a thread that callbacks need. So would one in a pool of the program: each
/// thread of it may advance at the same time.
#[test]
fn an_advance_on_a_thread_that_callbacks_need_panics() {
    for threads in [1, 3] {
        let (builder, clock) = on_manual_clock();
        let timer = builder.executor(Executor::Pool { threads }).build().unwrap();
        let (sender, receiver) = channel();
        let moves = clock.clone();
        let advance = move || {
            let advanced = panic::catch_unwind(AssertUnwindSafe(|| moves.advance(SEC)));
            sender.send(advanced.is_ok()).unwrap();
        };
        timer.schedule(Duration::ZERO, || corewheel::rayon::spawn(advance)).unwrap();
        assert!(!wait_for(&receiver), "an advance inside the timer's pool succeeded");
        drop(timer);
    }
    for threads in [1, 2] {
        let pool = Arc::new(corewheel::rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap());
        let (builder, clock) = on_manual_clock();
        let timer = builder.executor(Executor::Rayon(pool.clone())).build().unwrap();
        let handle = timer.schedule(SEC, || ()).unwrap();
        let moves = clock.clone();
        let advance = move |_: corewheel::rayon::BroadcastContext<'_>| {
            panic::catch_unwind(AssertUnwindSafe(|| moves.advance(SEC))).is_err()
        };
        let refused = in_time("an advance in the pool", move || pool.broadcast(advance));
        assert_eq!((refused, handle.is_pending()), (vec![true; threads], true));
        clock.advance(SEC);
        assert!(!handle.is_pending(), "an advance from another thread waits for the callback");
    }
}

#[test]
fn a_panic_of_an_advance_names_the_line_of_the_call() {
    const NAME: &str = "a_panic_of_an_advance_names_the_line_of_the_call";
    if !is_child(NAME) {
        let said = String::from_utf8(child(NAME, "", &[]).stderr).unwrap();
        assert_eq!(said.matches("panicked at tests/virtual_time.rs").count(), 3, "{said}");
        return;
    }
    let (timer, clock) = in_virtual_time();
    let moves = clock.clone();
    timer.schedule(SEC, move || moves.advance(SEC)).unwrap();
    let moves = clock.clone();
    timer.schedule(SEC, move || moves.advance_to(moves.now())).unwrap();
    clock.advance(SEC);
    clock.advance(Duration::MAX);
}

#[test]
fn a_callback_may_advance_another_clock() {
    let (outer, outer_clock) = in_virtual_time();
    let (inner, inner_clock) = in_virtual_time();
    let handle = inner.schedule(SEC, || ()).unwrap();
    outer.schedule(SEC, move || inner_clock.advance(SEC)).unwrap();
    outer_clock.advance(SEC);
    assert!(!handle.is_pending());
    assert_eq!(outer.stats().panicked, 0);
}

#[test]
fn advance_does_not_wait_for_timers_that_were_shut_down_or_dropped() {
    let clock = ManualClock::new();
    let build = || Timer::builder().clock(clock.clone()).build().unwrap();
    let (dropped, shut_down, alive) = (build(), build(), build());
    for timer in [&dropped, &shut_down, &alive] {
        timer.schedule(SEC, || ()).unwrap();
    }
    let kept = dropped.schedule(SEC, || ()).unwrap();
    drop(dropped);
    assert_eq!(shut_down.shutdown().len(), 1);
    let moves = clock.clone();
    in_time("advance", move || moves.advance(2 * SEC));
    assert_eq!((shut_down.stats().fired, alive.stats().fired), (0, 1));
    assert!(!kept.is_pending());
}

#[test]
fn advance_does_not_wait_for_jobs_whose_timers_have_ended() {
    let held_jobs = HeldJobs::default();
    let (builder, clock) = on_manual_clock();
    let timer = builder.shards(1).executor(held_jobs.executor()).build().unwrap();
    let cancelled = timer.schedule(Duration::ZERO, || ()).unwrap();
    eventually("handed over", || held_jobs.len() == 1);
    assert!(cancelled.cancel());
    let moves = clock.clone();
    in_time("an advance without timers", move || moves.advance(SEC));
    timer.schedule(Duration::ZERO, || ()).unwrap();
    eventually("handed over", || held_jobs.len() == 2);
    assert_eq!(timer.shutdown().len(), 1);
    in_time("an advance without timers", move || clock.advance(SEC));
}

#[test]
fn a_shutdown_inside_a_callback_ends_the_advance() {
    for executor in every_executor() {
        let (builder, clock) = on_manual_clock();
        let timer = builder.executor(executor).build().unwrap();
        let (sender, receiver) = channel();
        let weak = timer.downgrade();
        timer.schedule(SEC, move || sender.send(weak.upgrade().unwrap().shutdown().len()).unwrap()).unwrap();
        timer.schedule(2 * SEC, || panic!("handed back")).unwrap();
        let moves = clock.clone();
        let target = clock.now() + 3 * SEC;
        in_time("advance", move || moves.advance(3 * SEC));
        assert_eq!(received(&receiver), [1]);
        assert_eq!(clock.now(), target);
    }
}

/// Promise: the next deadline of a manual clock.
#[test]
fn the_next_deadline_is_that_of_the_earliest_pending_timer() {
    let clock = ManualClock::new();
    assert_eq!((clock.next_deadline(), clock.advance_to_next()), (None, None));
    let start = clock.now();
    let build = |tick| Timer::builder().clock(clock.clone()).tick(tick).shards(2).build().unwrap();
    let fine = build(MS);
    let coarse = build(SEC);
    assert_eq!(clock.next_deadline(), None);
    // A deadline that waits in a coarse slot, which cascades before.
    let hour = fine.schedule(HOUR + 7 * MS, || ()).unwrap();
    assert_eq!(clock.next_deadline(), Some(start + HOUR + 7 * MS));
    // It is rounded up to a tick.
    let minute = coarse.schedule(60 * SEC - MS, || ()).unwrap();
    assert_eq!(clock.next_deadline(), Some(start + 60 * SEC));
    clock.advance(SEC / 2);
    assert_eq!(clock.next_deadline(), Some(start + 60 * SEC));
    assert!(minute.reset_at(start + 2 * HOUR));
    assert_eq!(clock.next_deadline(), Some(start + HOUR + 7 * MS));
    assert!(hour.reset(SEC));
    assert_eq!(clock.next_deadline(), Some(start + SEC / 2 + SEC));
    let never = fine.schedule(Duration::MAX, || panic!("never")).unwrap();
    assert!(hour.cancel());
    assert_eq!(clock.next_deadline(), Some(start + 2 * HOUR));
    drop(coarse.shutdown());
    assert_eq!((clock.next_deadline(), never.is_pending()), (None, true));
    assert_eq!((clock.advance_to_next(), clock.now()), (None, start + SEC / 2), "the clock stays");
    drop((fine, coarse));
    assert_eq!(clock.next_deadline(), None);
}

/// Promise: the next deadline of a manual clock.
#[test]
fn the_next_deadline_may_be_that_of_a_future() {
    let (timer, clock) = in_virtual_time();
    let mut context = Context::from_waker(Waker::noop());
    let mut sleep = Box::pin(timer.sleep(5 * SEC));
    assert_eq!(clock.next_deadline(), None, "it is no timer before its first poll");
    assert!(sleep.as_mut().poll(&mut context).is_pending());
    let mut interval = timer.interval(2 * SEC);
    assert!(interval.poll_tick(&mut context).is_ready() && interval.poll_tick(&mut context).is_pending());
    let start = clock.now();
    assert_eq!(clock.advance_to_next(), Some(start + 2 * SEC));
    assert_eq!(clock.next_deadline(), Some(start + 5 * SEC), "the interval was not polled again");
    drop(sleep);
    assert_eq!(clock.next_deadline(), None);
}

#[test]
fn the_next_deadline_may_be_that_of_a_value() {
    let (timer, clock) = in_virtual_time();
    let queue = DelayQueue::new(&timer);
    let start = clock.now();
    let removed = queue.push(SEC, "removed").unwrap();
    queue.push(2 * SEC, "popped").unwrap();
    assert_eq!(clock.next_deadline(), Some(start + SEC));
    assert_eq!(removed.remove(), Some("removed"));
    assert_eq!(clock.advance_to_next(), Some(start + 2 * SEC));
    assert_eq!(clock.next_deadline(), None, "a value that is due no longer waits");
    assert_eq!(queue.try_pop().map(|expired| expired.value), Some("popped"));
}

/// Zero delays run first: they are no stop of their own, and neither are those that they schedule.
/// Promise: the next deadline of a manual clock.
#[test]
fn what_is_due_runs_before_the_clock_advances_to_the_next_deadline() {
    for executor in every_executor() {
        let (builder, clock) = on_manual_clock();
        let timer = builder.shards(2).executor(executor).build().unwrap();
        let start = clock.now();
        let (sender, receiver) = channel();
        let report = |name| {
            let (sender, clock) = (sender.clone(), clock.clone());
            move || sender.send((name, clock.now() - start)).unwrap()
        };
        let weak = timer.downgrade();
        let later = report("later");
        let again = report("again");
        let schedules = move || {
            let timer = weak.upgrade().unwrap();
            timer.schedule(Duration::ZERO, again).unwrap();
            timer.schedule(SEC, later).unwrap();
        };
        timer.schedule(Duration::ZERO, schedules).unwrap();
        timer.schedule(HOUR, report("last")).unwrap();
        assert_eq!(clock.advance_to_next(), Some(start + SEC));
        assert_eq!(received(&receiver), [("again", Duration::ZERO), ("later", SEC)]);
        assert_eq!(clock.advance_to_next(), Some(start + HOUR));
        assert_eq!(received(&receiver), [("last", HOUR)]);
        assert_eq!((clock.advance_to_next(), clock.now()), (None, start + HOUR));
    }
}

/// A repeating timer has no next deadline during its run, unless a reset gives it one.
/// Promise: the next deadline of a manual clock.
#[test]
fn the_next_deadline_can_be_asked_for_inside_a_callback() {
    for executor in every_executor() {
        let (builder, clock) = on_manual_clock();
        let timer = builder.shards(1).executor(executor).build().unwrap();
        let start = clock.now();
        let asked = clock.clone();
        let (sender, receiver) = channel();
        let handle: Arc<OnceLock<TimerHandle>> = Arc::default();
        let own = handle.clone();
        let mut runs = 0;
        let asks = move || {
            runs += 1;
            let before = asked.next_deadline();
            if runs == 2 {
                assert!(once_set(&own).reset(3 * SEC));
            }
            sender.send((before, asked.next_deadline())).unwrap();
        };
        handle.set(timer.schedule_at_fixed_rate(SEC, SEC, asks).unwrap()).unwrap();
        timer.schedule(HOUR, || ()).unwrap();
        assert_eq!(clock.advance_to_next(), Some(start + SEC));
        assert_eq!(clock.advance_to_next(), Some(start + 2 * SEC));
        let hour = Some(start + HOUR);
        let reset = Some(start + 5 * SEC);
        assert_eq!(received(&receiver), [(hour, hour), (hour, reset)]);
        assert_eq!(clock.advance_to_next(), reset);
    }
}

/// Returns the message of the panic.
fn message(panics: impl FnOnce()) -> String {
    let payload = panic::catch_unwind(AssertUnwindSafe(panics)).unwrap_err();
    *payload.downcast::<String>().unwrap()
}

#[test]
fn a_panic_of_a_callback_is_one_of_the_advance_if_the_clock_propagates_it() {
    for executor in every_executor() {
        let clock = ManualClock::new().propagate_panics();
        let start = clock.now();
        let reported = Arc::new(AtomicUsize::new(0));
        let count = reported.clone();
        let builder = Timer::builder().clock(clock.clone()).executor(executor);
        let timer = builder.on_panic(move |_| _ = count.fetch_add(1, Ordering::SeqCst)).build().unwrap();
        let runs = Arc::new(AtomicUsize::new(0));
        let every = timer.schedule_at_fixed_rate(SEC, SEC, counting(&runs)).unwrap();
        timer.schedule(3 * SEC, || quiet_panic("the answer is 43")).unwrap();
        clock.advance(2 * SEC);
        let advances: [fn(&ManualClock); 2] = [|clock| clock.advance(HOUR), |clock| _ = clock.advance_to_next()];
        for advance in advances {
            let text = message(|| advance(&clock));
            assert!(text.ends_with(" has panicked: the answer is 43"), "{text}");
            assert!(text.contains("a_panic_of_a_callback_is_one_of_the_advance"), "{text}");
            timer.schedule(SEC, || quiet_panic("the answer is 43")).unwrap();
        }
        assert_eq!((clock.now() - start, runs.load(Ordering::SeqCst)), (4 * SEC, 4), "it has stopped at the panic");
        let text = message(|| clock.advance_to(start + HOUR));
        assert!(text.contains("43"), "{text}");
        every.cancel();
        let bomb = Bomb;
        timer.schedule(HOUR, move || drop(bomb)).unwrap().cancel();
        let text = message(|| clock.advance(Duration::ZERO));
        assert!(text.ends_with("{{closure}} has panicked: bomb"), "{text}");
        clock.advance(HOUR);
        assert_eq!((reported.load(Ordering::SeqCst), timer.stats().panicked), (4, 4), "`on_panic` has them as before");
    }
}

#[test]
fn a_clock_that_propagates_no_panics_advances_past_them() {
    let (builder, clock) = on_manual_clock();
    let timer = builder.build().unwrap();
    timer.schedule(SEC, || quiet_panic("nothing to the clock")).unwrap();
    clock.advance(HOUR);
    assert_eq!(timer.stats().panicked, 1);
    let same = clock.clone().propagate_panics();
    timer.schedule(SEC, || quiet_panic("from now on")).unwrap();
    assert!(message(|| clock.advance(HOUR)).ends_with("has panicked: from now on"));
    same.advance(HOUR);
}

#[test]
fn an_advance_to_the_next_deadline_inside_a_callback_panics() {
    let (builder, clock) = on_manual_clock();
    let reported = Arc::new(AtomicUsize::new(0));
    let count = reported.clone();
    let timer = builder.on_panic(move |_| _ = count.fetch_add(1, Ordering::SeqCst)).build().unwrap();
    let moves = clock.clone();
    timer.schedule(SEC, move || _ = moves.advance_to_next()).unwrap();
    timer.schedule(HOUR, || ()).unwrap();
    let start = clock.now();
    assert_eq!(clock.advance_to_next(), Some(start + SEC));
    assert_eq!((reported.load(Ordering::SeqCst), clock.now()), (1, start + SEC));
}

/// A random program on several timers, whose deadlines a list in the test has, too. Deadlines are on any level of the
/// wheel, and most timers are reset or cancelled.
/// Promise: the next deadline of a manual clock.
#[test]
fn the_next_deadline_is_exact() {
    for seed in 0..20 {
        let mut random = Rng::with_seed(seed);
        let clock = ManualClock::new();
        let start = clock.now();
        let build = |wheel: &[usize]| Timer::builder().clock(clock.clone()).wheel(wheel).shards(2).build().unwrap();
        let timers = [build(&[64]), build(&[2]), build(&[7, 3, 2])];
        let mut pending: Vec<(Duration, TimerHandle)> = Vec::new();
        for _ in 0..300 {
            let magnitude = random.u64(..28);
            let delay = MS * (1 + random.u64(..1 << magnitude)) as u32;
            let deadline = clock.now() - start + delay;
            let chosen = random.u64(..pending.len() as u64 + 1) as usize;
            match random.u64(..8) {
                0..4 => {
                    let timer = &timers[random.u64(..3) as usize];
                    pending.push((deadline, timer.schedule(delay, || ()).unwrap()));
                }
                4 | 5 if chosen < pending.len() => {
                    pending[chosen].0 = deadline;
                    assert!(pending[chosen].1.reset(delay));
                }
                6 if chosen < pending.len() => assert!(pending.swap_remove(chosen).1.cancel()),
                _ => {
                    let next = pending.iter().map(|(deadline, _)| *deadline).min();
                    assert_eq!(clock.advance_to_next().map(|now| now - start), next);
                    let now = clock.now() - start;
                    pending.retain(|(deadline, handle)| {
                        assert_eq!(handle.is_pending(), *deadline > now);
                        *deadline > now
                    });
                }
            }
            let next = pending.iter().map(|(deadline, _)| start + *deadline).min();
            assert_eq!(clock.next_deadline(), next);
        }
        let mut left: Vec<Duration> = pending.iter().map(|(deadline, _)| *deadline).collect();
        left.sort();
        left.dedup();
        let stops: Vec<_> = std::iter::from_fn(|| clock.advance_to_next()).map(|now| now - start).collect();
        assert_eq!(stops, left);
    }
}

/// Promise: the next deadline of a manual clock.
#[test]
fn the_next_deadline_is_exact_at_any_uptime() {
    for uptime in [1 << 30, 1 << 36, 1 << 47, END - 5] {
        let (timer, clock) = in_virtual_time();
        let start = clock.now();
        let far = timer.schedule(ticks(uptime), || ()).unwrap();
        assert_eq!(clock.next_deadline(), Some(start + ticks(uptime)));
        clock.advance(ticks(uptime - 1));
        assert_eq!((far.is_pending(), clock.next_deadline()), (true, Some(start + ticks(uptime))));
        assert_eq!(clock.advance_to_next(), Some(start + ticks(uptime)));
        timer.schedule(ticks(5), || ()).unwrap();
        assert_eq!(clock.advance_to_next(), Some(start + ticks(uptime + 5)));
    }
}

/// What is read belongs to other threads, whose timers it must not disturb.
/// Promise: the next deadline of a manual clock.
#[test]
fn the_next_deadline_can_be_asked_for_while_other_threads_use_the_timer() {
    let (builder, clock) = on_manual_clock();
    let timer = builder.shards(2).build().unwrap();
    let latest = clock.now() + 2 * HOUR;
    timer.schedule_at(latest, || ()).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in 0..2 {
            let (timer, clock, stop) = (&timer, &clock, &stop);
            scope.spawn(move || {
                let mut random = Rng::with_seed(seed);
                while !stop.load(Ordering::SeqCst) {
                    let burst: Vec<_> = (0..random.u64(..2000))
                        .map(|_| timer.schedule(HOUR + MS * random.u64(..1000) as u32, || panic!("early")).unwrap())
                        .collect();
                    clock.advance(Duration::ZERO);
                    assert!(burst.iter().all(TimerHandle::cancel));
                }
            });
        }
        for _ in 0..300 {
            let next = clock.next_deadline().unwrap();
            assert!(next == latest || (clock.now() + HOUR..clock.now() + HOUR + SEC).contains(&next));
        }
        stop.store(true, Ordering::SeqCst);
    });
    assert_eq!(clock.next_deadline(), Some(latest));
    assert_balanced(&timer);
}

/// The limit passes by the real clock, as nothing advances the virtual one; the `advance` goes on waiting for the
/// callback.
/// Promise: a shutdown with a limit.
#[test]
fn a_shutdown_with_a_limit_does_not_wait_for_an_advance() {
    let (builder, clock) = on_manual_clock();
    let timer = builder.executor(Executor::Pool { threads: 1 }).build().unwrap();
    let gate = Gate::default();
    let (sender, receiver) = channel();
    let pass = gate.clone();
    let blocks = move || {
        sender.send(()).unwrap();
        pass.pass();
    };
    timer.schedule(SEC, blocks).unwrap();
    timer.schedule(2 * SEC, || ()).unwrap();
    let moves = clock.clone();
    let advance = thread::spawn(move || moves.advance(HOUR));
    wait_for(&receiver);
    let at = clock.now();
    let shutting = timer.clone();
    assert_eq!(in_time("a shutdown with a limit", move || shutting.shutdown_timeout(20 * MS).len()), 1);
    assert_eq!(clock.now(), at);
    assert!(!advance.is_finished(), "the callback has not ended");
    gate.open();
    in_time("the advance", move || advance.join().unwrap());
    assert_eq!(clock.now(), at + HOUR - SEC);
    assert_balanced(&timer);
}

#[test]
fn nothing_depends_on_the_real_clock() {
    let (builder, clock) = on_manual_clock();
    let timer = builder.tick(Duration::from_micros(1)).build().unwrap();
    let (sender, receiver) = channel();
    let at = clock.clone();
    let start = clock.now();
    timer.schedule_with_fixed_delay(MS, MS, move || sender.send(at.now() - start).unwrap()).unwrap();
    thread::sleep(10 * MS);
    for round in 1..=20 {
        clock.advance(MS);
        assert_eq!(received(&receiver), [round * MS]);
    }
    assert_eq!(timer.stats().lateness.max(), Duration::ZERO, "a run was late in virtual time");
}

#[test]
fn the_same_program_runs_the_same_way() {
    let run = || {
        let clock = ManualClock::new();
        let start = clock.now();
        let build = |tick| {
            let builder = Timer::builder().clock(clock.clone()).tick(tick);
            builder.shards(1).executor(Executor::Inline).build().unwrap()
        };
        let timers = [build(MS), build(3 * MS)];
        let (sender, receiver) = channel();
        let mut random = Rng::with_seed(7);
        let mut handles = Vec::new();
        for number in 0..500 {
            let (sender, at) = (sender.clone(), clock.clone());
            let which = random.u64(..2) as usize;
            let timer = &timers[which];
            let delay = Duration::from_micros(random.u64(..5_000_000));
            let report = move || sender.send((at.now() - start, which, number)).unwrap();
            handles.push(if random.u64(..10) == 0 {
                timer.schedule_at_fixed_rate(delay, delay + SEC, report).unwrap()
            } else {
                timer.schedule(delay, report).unwrap()
            });
            let other = &handles[random.u64(..handles.len() as u64) as usize];
            match random.u64(..3) {
                0 => drop(other.cancel()),
                1 => drop(other.reset(Duration::from_micros(random.u64(..5_000_000)))),
                _ => clock.advance(Duration::from_micros(random.u64(..20_000))),
            }
        }
        clock.advance(10 * SEC);
        let mut runs = received(&receiver);
        assert!(runs.is_sorted_by_key(|&(at, ..)| at));
        // Different timers run concurrently at the same instant, but each runs its own callbacks in order.
        runs.sort_by_key(|&(at, which, _)| (at, which));
        runs
    };
    let first = run();
    assert!(first.len() > 200);
    for _ in 0..3 {
        let second = run();
        assert_eq!(first.iter().zip(&second).position(|(one, other)| one != other), None);
        assert_eq!(first.len(), second.len());
    }
}

/// Returns the length of `number` ticks of 1 ms.
fn ticks(number: u64) -> Duration {
    Duration::from_millis(number)
}

/// The last tick of virtual time.
const END: u64 = 1 << 48;

/// Promise: far future.
#[test]
fn timers_fire_at_any_uptime() {
    let uptimes = [(1 << 30) - 1, 1 << 30, 1 << 32, 1 << 36, (1 << 47) - 1, END - 6000];
    for shards in [1, 2] {
        for uptime in uptimes {
            let (builder, clock) = on_manual_clock();
            let timer = builder.shards(shards).executor(Executor::Pool { threads: 1 }).build().unwrap();
            let start = clock.now();
            let (sender, receiver) = channel();
            let schedule = |tick: u64| {
                let (sender, clock) = (sender.clone(), clock.clone());
                let report = move || sender.send((ticks(tick), clock.now() - start)).unwrap();
                timer.schedule_at(start + ticks(tick), report).unwrap()
            };
            // Far timers from the start, and near ones once time has advanced.
            let far = [uptime - 1, uptime, uptime + 1, uptime + 5000].map(&schedule);
            let never = timer.schedule(Duration::MAX, || panic!("never")).unwrap();
            let near = schedule(5);
            clock.advance_to(start + ticks(uptime) - ticks(2));
            assert!(far.iter().all(|handle| handle.is_pending()), "a timer was early at {uptime}");
            assert!(!near.is_pending() && never.is_pending());
            let moved = schedule(uptime + 9000);
            assert!(moved.reset(ticks(10)));
            schedule(uptime + 3);
            clock.advance_to(start + ticks(uptime + 3));
            schedule(uptime + 4);
            schedule(uptime + 4000);
            clock.advance_to(start + ticks(uptime + 6000));
            let runs = received(&receiver);
            for (due, now) in &runs {
                let moved_to = ticks(uptime + 8);
                assert_eq!(if *due == ticks(uptime + 9000) { moved_to } else { *due }, *now, "at {uptime}");
            }
            assert_eq!(runs.len(), 9, "at {uptime}: {runs:?}");
            assert!(never.is_pending());
            assert_eq!(timer.stats().panicked, 0);
        }
    }
}

#[test]
fn a_jump_costs_only_what_its_due_timers_cost() {
    let (builder, clock) = on_manual_clock();
    let timer = builder.tick(Duration::from_micros(1)).build().unwrap();
    for number in 0..50 {
        timer.schedule(YEAR / 10 * number + MS, || ()).unwrap();
    }
    in_time("a jump of some years in microseconds", move || clock.advance(8 * YEAR));
    assert_eq!(timer.stats().completed, 50);
}

/// Promise: never early.
#[test]
fn deadlines_near_the_last_tick_are_not_early() {
    let (timer, clock) = in_virtual_time();
    let start = clock.now();
    let last = timer.schedule_at(start + ticks(END), || ()).unwrap();
    let beyond = timer.schedule_at(start + ticks(END + 1), || ()).unwrap();
    clock.advance_to(start + ticks(END - 1));
    assert!(last.is_pending(), "early");
    clock.advance(ticks(1));
    assert!(!last.is_pending() && beyond.is_pending());
}

/// The time of a timer counts from its build, and in its own ticks.
#[test]
fn an_advance_beyond_the_end_of_virtual_time_panics() {
    let (timer, clock) = in_virtual_time();
    let start = clock.now();
    let beyond = timer.schedule_at(start + ticks(END + 1), || ()).unwrap();
    clock.advance(ticks(END));
    let panics = |advance: &dyn Fn()| {
        let payload = panic::catch_unwind(AssertUnwindSafe(advance)).unwrap_err();
        assert!(payload.downcast_ref::<&str>().unwrap().contains("2^48 of its ticks"));
        assert_eq!(clock.now(), start + ticks(END), "it has not moved");
    };
    panics(&|| clock.advance(Duration::from_nanos(1)));
    panics(&|| clock.advance_to(start + ticks(END + 1)));
    panics(&|| _ = clock.advance_to_next());
    assert!(beyond.is_pending() && timer.schedule(Duration::ZERO, || ()).is_ok());
    clock.advance(Duration::ZERO);
    let later = Timer::builder().clock(clock.clone()).tick(SEC).build().unwrap();
    drop(timer);
    clock.advance(ticks(END));
    drop(later);
}

/// Promise: far future.
#[test]
fn a_timer_that_is_never_due_does_not_fire_at_the_last_tick() {
    let (timer, clock) = in_virtual_time();
    let never = timer.schedule(Duration::MAX, || ()).unwrap();
    let start = clock.now();
    for uptime in [END - 5000, END - 1, END] {
        clock.advance_to(start + ticks(uptime));
        assert!(never.is_pending());
        assert!(never.deadline().unwrap() >= clock.now() + 30 * YEAR);
    }
}

#[test]
fn a_callback_at_a_long_uptime_may_schedule_in_an_idle_shard() {
    let (builder, clock) = on_manual_clock();
    let timer = builder.shards(4).executor(Executor::Pool { threads: 1 }).build().unwrap();
    let start = clock.now();
    let (sender, receiver) = channel();
    let weak = timer.downgrade();
    let at = clock.clone();
    let far = ticks(1 << 47);
    timer
        .schedule(far, move || {
            let timer = weak.upgrade().unwrap();
            for delay in [1, 1000, 1 << 40] {
                let (sender, at, timer) = (sender.clone(), at.clone(), timer.clone());
                let due = at.now() + ticks(delay);
                thread::spawn(move || {
                    timer.schedule(ticks(delay), move || sender.send((due, at.now())).unwrap()).unwrap();
                })
                .join()
                .unwrap();
            }
        })
        .unwrap();
    clock.advance_to(start + far + ticks(1 << 41));
    let runs = received(&receiver);
    assert_eq!(runs.len(), 3);
    assert!(runs.iter().all(|(due, now)| due == now));
}

/// Each waker takes longer than a thread that drives may be stuck.
#[test]
fn advance_waits_for_the_wakers_of_queues() {
    struct Naps(AtomicUsize);
    impl Wake for Naps {
        fn wake(self: Arc<Self>) {
            thread::sleep(30 * MS);
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    let (builder, clock) = on_manual_clock();
    let timer = builder.shards(2).executor(Executor::Pool { threads: 2 }).build().unwrap();
    let naps = Arc::new(Naps(AtomicUsize::new(0)));
    let waker = Waker::from(naps.clone());
    let queues = [(); 3].map(|()| DelayQueue::new(&timer));
    for queue in &queues {
        assert!(queue.poll_pop(&mut Context::from_waker(&waker)).is_pending());
        queue.push(SEC, ()).unwrap();
    }
    clock.advance(SEC);
    assert_eq!(naps.0.load(Ordering::SeqCst), 3);
}

//! One-shot timers: when their callbacks run, how often, and in which order.
#![cfg(feature = "std")]

mod common;

use std::cell::RefCell;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use common::*;
use corewheel::{Executor, ManualClock, Timer};
use fastrand::Rng;

/// Promise: never early.
#[test]
fn no_timer_is_early_by_the_system_clock() {
    for tick in [Duration::from_micros(1), Duration::from_micros(130), MS, 7 * MS] {
        for executor in [Executor::default(), Executor::Inline] {
            let timer = Timer::builder().tick(tick).executor(executor).build().unwrap();
            let (sender, receiver) = channel();
            let mut random = Rng::with_seed(1);
            for by_instant in [false, true].repeat(50) {
                let delay = Duration::from_nanos(random.u64(..20_000_000));
                let sender = sender.clone();
                let deadline = Instant::now() + delay;
                let f = move || sender.send((deadline, Instant::now())).unwrap();
                let scheduled = if by_instant { timer.schedule_at(deadline, f) } else { timer.schedule(delay, f) };
                scheduled.unwrap();
            }
            for _ in 0..100 {
                let (deadline, at) = wait_for(&receiver);
                assert!(at >= deadline, "early by {:?}", deadline - at);
            }
        }
    }
}

/// Promise: never early.
#[test]
fn a_deadline_between_two_ticks_is_rounded_up() {
    let (builder, clock) = on_manual_clock();
    let timer = builder.tick(10 * MS).build().unwrap();
    let handle = timer.schedule(15 * MS, || ()).unwrap();
    clock.advance(20 * MS - Duration::from_nanos(1));
    assert!(handle.is_pending());
    clock.advance(Duration::from_nanos(1));
    assert!(!handle.is_pending());
}

#[test]
fn a_timer_with_its_deadline_on_a_tick_fires_at_that_tick() {
    let (timer, clock) = in_virtual_time();
    let handle = timer.schedule(15 * MS, || ()).unwrap();
    clock.advance(15 * MS - Duration::from_nanos(1));
    assert!(handle.is_pending());
    clock.advance(Duration::from_nanos(1));
    assert!(!handle.is_pending());
}

#[test]
fn ticks_count_from_the_build() {
    let clock = ManualClock::new();
    clock.advance(Duration::from_micros(300));
    let timer = Timer::builder().clock(clock.clone()).build().unwrap();
    let handle = timer.schedule(MS, || ()).unwrap();
    clock.advance(MS);
    assert!(!handle.is_pending());
}

/// Promise: exactly once.
#[test]
fn closures_of_every_size_run_once_or_are_dropped_once() {
    #[repr(align(128))]
    struct Aligned(u8);

    let (timer, clock) = in_virtual_time();
    let tokens = Tokens::default();
    let (sender, receiver) = channel();
    for delay in [MS, HOUR] {
        let token = tokens.give();
        let out = sender.clone();
        timer.schedule(delay, move || out.send((token, 8).1).unwrap()).unwrap();
        let token = tokens.give();
        let out = sender.clone();
        let three = [3_usize; 1];
        timer.schedule(delay, move || out.send((token, 8 * three.len()).1).unwrap()).unwrap();
        let token = tokens.give();
        let out = sender.clone();
        let large = [1_u8; 4096];
        timer
            .schedule(delay, move || out.send((token, large.iter().map(|&one| usize::from(one)).sum()).1).unwrap())
            .unwrap();
        let token = tokens.give();
        let out = sender.clone();
        let aligned = Aligned(9);
        let check_alignment = move || {
            let aligned = &aligned;
            assert_eq!(std::ptr::from_ref(aligned).addr() % 128, 0);
            out.send((token, usize::from(aligned.0)).1).unwrap();
        };
        timer.schedule(delay, check_alignment).unwrap();
    }
    timer.schedule(MS, || ()).unwrap();
    timer.schedule(MS, thread::yield_now as fn()).unwrap();
    timer.schedule(MS, Box::new(|| ()) as Box<dyn FnOnce() + Send>).unwrap();
    assert_eq!(tokens.alive(), 8);
    clock.advance(SEC);
    let mut seen = received(&receiver);
    seen.sort_unstable();
    assert_eq!(seen, [8, 8, 9, 4096]);
    assert_eq!(tokens.alive(), 4);
    drop(timer);
    assert_eq!(tokens.alive(), 0);
    assert_eq!(received(&receiver), []);
}

/// Promise: due now.
#[test]
fn a_timer_due_now_does_not_wait_for_a_tick() {
    for executor in every_executor() {
        let timer = Timer::builder().tick(HOUR).executor(executor).build().unwrap();
        let (sender, receiver) = channel();
        let now = Instant::now();
        for past in [now, now - MS, now.checked_sub(HOUR).unwrap_or(now)] {
            let sender = sender.clone();
            timer.schedule_at(past, move || sender.send(()).unwrap()).unwrap();
        }
        timer.schedule(Duration::ZERO, move || sender.send(()).unwrap()).unwrap();
        for _ in 0..4 {
            wait_for(&receiver);
        }
    }
}

#[test]
fn a_timer_due_now_needs_no_advance_of_a_manual_clock() {
    let (builder, clock) = on_manual_clock();
    let timer = builder.tick(SEC).build().unwrap();
    clock.advance(300 * MS);
    let (sender, receiver) = channel();
    timer.schedule(Duration::ZERO, move || sender.send(()).unwrap()).unwrap();
    wait_for(&receiver);
}

/// Promise: due now.
#[test]
fn a_reset_to_now_does_not_wait_for_a_tick() {
    let timer = Timer::builder().tick(HOUR).build().unwrap();
    for past in [false, true] {
        let (sender, receiver) = channel();
        let handle = timer.schedule(Duration::MAX, move || sender.send(()).unwrap()).unwrap();
        // By now the driver has linked the timer.
        thread::sleep(20 * MS);
        assert!(if past { handle.reset_at(Instant::now() - MS) } else { handle.reset(Duration::ZERO) });
        wait_for(&receiver);
    }
}

/// Promise: far future.
#[test]
fn a_delay_too_long_to_represent_is_never() {
    let delays =
        [Duration::MAX, Duration::from_secs(u64::MAX), Duration::from_millis(u64::MAX), Duration::from_secs(1 << 62)];
    for tick in [Duration::from_micros(1), MS, SEC, YEAR, Duration::MAX] {
        let timer = Timer::builder().tick(tick).build().unwrap();
        let (sender, receiver) = channel();
        for delay in delays {
            let now = timer.now();
            let out = sender.clone();
            let handle = timer.schedule(delay, move || out.send(()).unwrap()).unwrap();
            assert!(handle.is_pending());
            assert!(handle.deadline().unwrap() >= now + 30 * YEAR);
            assert!(handle.reset(MS.max(tick)) && handle.reset(delay));
            assert!(handle.deadline().unwrap() >= now + 30 * YEAR);
            assert!(handle.cancel());
            let out = sender.clone();
            timer.schedule(delay, move || out.send(()).unwrap()).unwrap();
            let out = sender.clone();
            timer.schedule_at_fixed_rate(delay, delay, move || out.send(()).unwrap()).unwrap();
        }
        let ping = sender.clone();
        timer.schedule(Duration::ZERO, move || ping.send(()).unwrap()).unwrap();
        wait_for(&receiver);
        assert!(receiver.recv_timeout(20 * MS).is_err());
        assert_eq!(timer.len(), 2 * delays.len());
    }
}

/// Promise: far future.
#[test]
fn a_timer_that_is_never_due_does_not_fire_as_time_passes() {
    let (timer, clock) = in_virtual_time();
    let never = timer.schedule(Duration::MAX, || ()).unwrap();
    let periodic = timer.schedule_at_fixed_rate(SEC, Duration::MAX, || ()).unwrap();
    for _ in 0..10 {
        clock.advance(40 * YEAR);
        assert!(never.is_pending() && periodic.is_pending());
        assert!(never.deadline().unwrap() >= clock.now() + 30 * YEAR);
        assert!(periodic.deadline().unwrap() >= clock.now() + 30 * YEAR);
    }
    assert_eq!(timer.stats().fired, 1);
}

/// Promise: far future.
#[test]
fn a_timer_decades_ahead_fires_at_its_tick() {
    let (builder, clock) = on_manual_clock();
    let timer = builder.tick(Duration::from_micros(100)).build().unwrap();
    let start = clock.now();
    let (sender, receiver) = channel();
    let delays = [34, 36, 60, 200].map(|years| years * YEAR + Duration::from_micros(7700));
    for delay in delays {
        let (clock, sender) = (clock.clone(), sender.clone());
        timer.schedule(delay, move || sender.send(clock.now() - start).unwrap()).unwrap();
    }
    clock.advance(delays[3]);
    assert_eq!(received(&receiver), delays);
    assert!(timer.is_empty());
}

/// Promise: in order.
#[test]
fn timers_of_one_shard_are_handed_over_in_tick_order() {
    let (builder, clock) = on_manual_clock();
    let timer = builder.shards(1).executor(Executor::Custom(Arc::new(RunInPlace))).build().unwrap();
    let (sender, receiver) = channel();
    let mut random = Rng::with_seed(2);
    for _ in 0..3000 {
        let tick = random.u64(..300_000) as u32;
        let sender = sender.clone();
        timer.schedule(tick * MS, move || sender.send(tick).unwrap()).unwrap();
    }
    clock.advance(301 * SEC);
    let order = received(&receiver);
    assert_eq!(order.len(), 3000);
    assert!(order.is_sorted());
}

/// Promise: in order.
#[test]
fn timers_fire_in_tick_order_after_a_stall() {
    let timer = Timer::builder().shards(1).executor(Executor::Inline).build().unwrap();
    let gate = Gate::default();
    block(&timer, 1, &gate);
    let (sender, receiver) = channel();
    // A timer that is already due when it is scheduled gets the present tick, so none of these may be due yet.
    let start = timer.now() + SEC;
    // The timer with the earliest deadline is scheduled last, so that the driver collects it last.
    for tick in (1..=2000).rev() {
        let sender = sender.clone();
        timer.schedule_at(start + tick * MS / 20, move || sender.send(tick / 20).unwrap()).unwrap();
    }
    thread::sleep(1150 * MS);
    gate.open();
    let order: Vec<u32> = (0..2000).map(|_| wait_for(&receiver)).collect();
    let wrong = order.windows(2).find(|pair| pair[0] > pair[1] + 1);
    assert_eq!(wrong, None, "a timer ran before another that was due more than a tick earlier");
}

/// The driver finds them in slots of their old deadlines, which have all passed by then, as the new ones have.
/// Promise: in order.
#[test]
fn timers_that_were_reset_to_later_during_a_stall_fire_in_tick_order() {
    let timer = Timer::builder().shards(1).executor(Executor::Inline).build().unwrap();
    let (stalled, gate) = (Gate::default(), Gate::default());
    let (sender, receiver) = channel();
    let start = timer.now() + 300 * MS;
    let schedule = |index: u32| {
        let sender = sender.clone();
        timer.schedule_at(start + index * MS, move || sender.send(index).unwrap()).unwrap()
    };
    let handles: Vec<_> = (0..200).map(schedule).collect();
    let (begin, stall) = (stalled.clone(), gate.clone());
    // Its round begins with what came in before, so all others are in the wheel by then.
    let block = move || {
        begin.open();
        stall.pass();
    };
    timer.schedule(30 * MS, block).unwrap();
    stalled.pass();
    assert!(timer.now() < start, "stopped for too long");
    let mut expected: Vec<(u32, u32)> = (0..200).map(|index| (index, index)).collect();
    for (index, to) in expected.iter_mut().skip(1).step_by(3) {
        *to += 1 + *index * 7 % 60;
        assert!(handles[*index as usize].reset_at(start + *to * MS));
    }
    thread::sleep(start + 300 * MS - timer.now());
    gate.open();
    let order: Vec<u32> = (0..200).map(|_| wait_for(&receiver)).collect();
    let due: Vec<u32> = order.iter().map(|&index| expected[index as usize].1).collect();
    assert!(due.is_sorted(), "{due:?}");
}

/// Promise: no starvation by a neighbour.
#[test]
fn a_slow_callback_delays_no_other_while_a_worker_is_idle() {
    for executor in [Executor::Pool { threads: 2 }, rayon_pool(), Executor::Custom(Arc::new(ThreadPerJob))] {
        for slow in [0, 1, 31, 50, 63] {
            let (builder, clock) = on_manual_clock();
            let timer = builder.shards(1).executor(executor.clone()).build().unwrap();
            let gate = Gate::default();
            let (sender, receiver) = channel();
            for index in 0..64 {
                let (gate, sender) = (gate.clone(), sender.clone());
                let f = move || {
                    if index == slow {
                        gate.pass();
                    }
                    sender.send(index).unwrap();
                };
                timer.schedule(MS, f).unwrap();
            }
            let advance = thread::spawn(move || clock.advance(10 * MS));
            for _ in 1..64 {
                assert_ne!(wait_for(&receiver), slow);
            }
            gate.open();
            assert_eq!(wait_for(&receiver), slow);
            advance.join().unwrap();
        }
    }
}

/// Promise: no starvation by a neighbour.
#[test]
fn a_slow_callback_does_not_delay_later_batches() {
    let timer = Timer::builder().executor(Executor::Pool { threads: 2 }).build().unwrap();
    let (gate, begun) = (Gate::default(), Gate::default());
    let (stall, begin) = (gate.clone(), begun.clone());
    let slow = timer
        .schedule(Duration::ZERO, move || {
            begin.open();
            stall.pass();
        })
        .unwrap();
    begun.pass();
    for delay in [Duration::ZERO, MS, 5 * MS] {
        let (sender, receiver) = channel();
        timer.schedule(delay, move || sender.send(()).unwrap()).unwrap();
        wait_for(&receiver);
    }
    gate.open();
    slow.cancel_and_wait();
}

/// Promise: panics stay inside.
#[test]
fn a_panic_is_counted_and_reported_and_affects_no_other_timer() {
    for executor in every_executor() {
        let (sender, receiver) = channel();
        let (builder, clock) = on_manual_clock();
        let reported = sender.clone();
        let timer = builder
            .executor(executor)
            .on_panic(move |panicked| {
                assert!(
                    panicked.callback.is_some_and(|name| name.contains("a_panic_is_counted_and_reported")),
                    "{panicked}"
                );
                assert!(panicked.shard.is_some());
                reported.send(*panicked.payload.downcast_ref::<&str>().unwrap()).unwrap();
            })
            .build()
            .unwrap();
        for _ in 0..50 {
            let sender = sender.clone();
            timer.schedule(MS, || quiet_panic("panicked")).unwrap();
            timer.schedule(MS, move || sender.send("ran").unwrap()).unwrap();
        }
        clock.advance(MS);
        let mut seen = received(&receiver);
        seen.sort_unstable();
        assert_eq!(seen, [["panicked"; 50], ["ran"; 50]].concat());
        let stats = timer.stats();
        assert_eq!((stats.panicked, stats.fired, stats.completed), (50, 100, 100));
        assert_balanced(&timer);
    }
}

/// Promise: tickless.
#[test]
fn the_threads_sleep_while_no_timer_is_due() {
    let timer = Timer::builder().tick(Duration::from_micros(1)).shards(2).build().unwrap();
    let idle = |what: &str| {
        thread::sleep(150 * MS);
        let before = timer.stats().wakeups;
        thread::sleep(300 * MS);
        assert_eq!(timer.stats().wakeups, before, "{what}");
    };
    idle("no timer yet");
    let handle = timer.schedule(24 * HOUR, || ()).unwrap();
    let never = timer.schedule(Duration::MAX, || ()).unwrap();
    idle("a far deadline");
    handle.reset(48 * HOUR);
    idle("a farther deadline");
    handle.cancel();
    never.cancel();
    idle("all cancelled");
    timer.schedule(MS, || ()).unwrap();
    eventually("fired", || timer.stats().fired == 1);
    idle("all fired");
}

/// Caches that are refilled and memory that becomes free wake a driver, but not more often when the tick is coarse.
/// Promise: tickless.
#[test]
fn work_that_is_not_urgent_seldom_wakes_a_driver() {
    for tick in [MS, 100 * MS, HOUR] {
        let timer = Timer::builder().tick(tick).shards(1).build().unwrap();
        let start = Instant::now();
        let mut handles = Vec::new();
        while start.elapsed() < 200 * MS {
            handles.extend((0..1000).map(|_| timer.schedule(24 * HOUR, || ()).unwrap()));
            if handles.len() > 100_000 {
                handles.clear();
            }
        }
        let most = 4 + 2 * start.elapsed().as_millis() as u64 / 50;
        let wakeups = timer.stats().wakeups;
        assert!(wakeups <= most, "{wakeups} at a tick of {tick:?}");
    }
}

/// Promise: any thread, no lock.
#[test]
fn a_callback_may_use_its_timer() {
    for executor in every_executor() {
        let (builder, clock) = on_manual_clock();
        let timer = builder.executor(executor).build().unwrap();
        let (sender, receiver) = channel();
        let weak = timer.downgrade();
        let first = move || {
            let timer = weak.upgrade().unwrap();
            let cancelled = timer.schedule(MS, || panic!("a cancelled timer ran")).unwrap();
            let moved = timer.schedule(HOUR, move || sender.send(timer_len(&weak)).unwrap()).unwrap();
            assert!(moved.reset(MS));
            assert!(cancelled.cancel_and_wait());
            assert_eq!(timer.len(), 1);
            assert!(!timer.is_shutdown());
        };
        timer.schedule(MS, first).unwrap();
        clock.advance(2 * MS);
        assert_eq!(received(&receiver), [0]);
        assert_eq!(timer.stats().panicked, 0);
    }

    fn timer_len(weak: &corewheel::WeakTimer) -> usize {
        weak.upgrade().unwrap().len()
    }
}

/// Promise: any thread, no lock.
#[test]
fn a_thread_that_is_ending_may_use_a_timer() {
    struct AtTheEnd(Timer, std::sync::mpsc::Sender<Duration>);
    impl Drop for AtTheEnd {
        fn drop(&mut self) {
            let sender = self.1.clone();
            let kept = self.0.schedule(HOUR, move || sender.send(HOUR).unwrap()).unwrap();
            let sender = self.1.clone();
            let dropped = self.0.schedule(SEC, move || sender.send(SEC).unwrap()).unwrap();
            assert!(kept.reset(MS) && dropped.cancel() && !dropped.cancel_and_wait());
        }
    }
    thread_local! {
        static EARLY: RefCell<Option<AtTheEnd>> = const { RefCell::new(None) };
        static LATE: RefCell<Option<AtTheEnd>> = const { RefCell::new(None) };
    }
    let (timer, clock) = in_virtual_time();
    let (sender, receiver) = channel();
    let on_thread = timer.clone();
    thread::spawn(move || {
        EARLY.set(Some(AtTheEnd(on_thread.clone(), sender.clone())));
        on_thread.schedule(2 * HOUR, || ()).unwrap();
        LATE.set(Some(AtTheEnd(on_thread, sender)));
    })
    .join()
    .unwrap();
    clock.advance(MS);
    assert_eq!(received(&receiver), [HOUR, HOUR]);
    let stats = timer.stats();
    assert_eq!((stats.scheduled, stats.fired, stats.cancelled, stats.resets, stats.pending), (5, 2, 2, 2, 1));
    assert_balanced(&timer);
}

#[test]
fn handles_may_be_used_on_other_threads() {
    let timer = Timer::new().unwrap();
    let (sender, receiver) = channel();
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let (timer, sender) = (timer.clone(), sender.clone());
            thread::spawn(move || {
                let schedule = |delay| {
                    let sender = sender.clone();
                    timer.schedule(delay, move || sender.send(()).unwrap()).unwrap()
                };
                (0..100).map(|round| (schedule(round * MS / 10), schedule(HOUR))).collect::<Vec<_>>()
            })
        })
        .collect();
    for thread in threads {
        for (_, far) in thread.join().unwrap() {
            assert!(far.cancel());
        }
    }
    for _ in 0..800 {
        wait_for(&receiver);
    }
    assert_balanced(&timer);
    assert!(timer.is_empty());
}

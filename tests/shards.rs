//! Any number of shards, from one to many more than there are cores, on the real clock.
#![cfg(feature = "std")]

mod common;

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use common::*;
use corewheel::{Executor, Timer};
use fastrand::Rng;
use futures::executor::block_on;

const NUMBERS: [usize; 7] = [1, 2, 3, 7, 16, 33, 64];

#[test]
fn any_number_of_shards_fires_every_timer_and_none_early() {
    const TIMERS: u64 = 60;
    for shards in NUMBERS {
        for executor in [Executor::default(), Executor::Inline] {
            let timer = Timer::builder().shards(shards).thread_name("shards-fire").executor(executor).build().unwrap();
            let (sender, receiver) = channel();
            let barrier = Barrier::new(shards);
            thread::scope(|scope| {
                for seed in 0..shards {
                    let timer = &timer;
                    let sender = sender.clone();
                    let barrier = &barrier;
                    scope.spawn(move || {
                        let mut random = Rng::with_seed(seed as u64);
                        barrier.wait();
                        for number in 0..TIMERS {
                            let delay = Duration::from_micros(random.u64(..30_000) * (number % 4));
                            let deadline = Instant::now() + delay;
                            let sender = sender.clone();
                            let f = move || sender.send(Instant::now().checked_duration_since(deadline)).unwrap();
                            timer.schedule(delay, f).unwrap();
                            assert!(timer.schedule(delay + HOUR, || ()).unwrap().cancel());
                        }
                        let start = Instant::now();
                        block_on(timer.sleep(5 * MS));
                        assert!(start.elapsed() >= 5 * MS);
                    });
                }
            });
            for _ in 0..shards as u64 * TIMERS {
                assert!(wait_for(&receiver).is_some(), "a timer was early, with {shards} shards");
            }
            eventually("all timers have ended", || timer.is_empty());
            let stats = timer.stats();
            assert_eq!(stats.shards().len(), shards);
            for shard in stats.shards() {
                // A sleep whose deadline has passed at the first poll schedules no timer.
                let made = shard.scheduled - 2 * TIMERS;
                assert!(made <= 1, "a shard counts timers of other threads: {shard:?}");
            }
            assert_balanced(&timer);
            assert!(threads_named("shards-fire") >= shards);
            drop(timer);
            eventually("the threads have ended", || threads_named("shards-fire") == 0);
        }
    }
}

#[test]
fn a_shutdown_of_any_number_of_shards_hands_timers_back_in_order() {
    for shards in NUMBERS {
        let timer = Timer::builder().shards(shards).thread_name("shards-end").build().unwrap();
        let begin = timer.now() + HOUR;
        let barrier = Barrier::new(2 * shards);
        thread::scope(|scope| {
            for thread in 0..2 * shards as u32 {
                let (timer, barrier) = (&timer, &barrier);
                scope.spawn(move || {
                    for number in 0..20 {
                        timer.schedule_at(begin + (number * 1000 + thread) * MS, || ()).unwrap();
                    }
                    // Each shard is the home of two threads that live at the same time.
                    barrier.wait();
                });
            }
        });
        assert!(timer.stats().shards().iter().all(|shard| shard.pending == 40));
        let deadlines: Vec<_> = timer.shutdown().map(|unfired| unfired.deadline).collect();
        assert_eq!(deadlines.len(), 40 * shards);
        assert!(deadlines.is_sorted() && deadlines[0] >= begin);
        eventually("the threads have ended", || threads_named("shards-end") == 0);
        assert_balanced(&timer);
    }
}

/// Returns how many timers each shard has accepted.
fn scheduled(timer: &Timer) -> Vec<u64> {
    timer.stats().shards().iter().map(|shard| shard.scheduled).collect()
}

#[test]
fn long_lived_threads_have_a_shard_each_while_others_come_and_go() {
    const SHARDS: usize = 4;
    let timer = Timer::builder().shards(SHARDS).build().unwrap();
    let end = Barrier::new(SHARDS + 1);
    let live = Barrier::new(2);
    thread::scope(|scope| {
        for _ in 0..SHARDS {
            let own = timer.clone();
            thread::spawn(move || assert!(own.schedule(HOUR, || ()).unwrap().cancel())).join().unwrap();
            scope.spawn(|| {
                (0..100).for_each(|_| drop(timer.schedule(HOUR, || ()).unwrap()));
                live.wait();
                end.wait();
            });
            live.wait();
        }
        end.wait();
    });
    let scheduled = scheduled(&timer);
    assert!(scheduled.iter().all(|scheduled| (100..200).contains(scheduled)), "{scheduled:?}");
}

#[test]
fn threads_that_start_at_once_spread_over_the_shards() {
    const SHARDS: usize = 8;
    for _ in 0..20 {
        let timer = Timer::builder().shards(SHARDS).build().unwrap();
        let barrier = Barrier::new(2 * SHARDS);
        thread::scope(|scope| {
            for _ in 0..2 * SHARDS {
                scope.spawn(|| {
                    barrier.wait();
                    timer.schedule(HOUR, || ()).unwrap();
                    barrier.wait();
                });
            }
        });
        assert_eq!(scheduled(&timer), [2; SHARDS]);
    }
}

#[test]
fn refused_timers_are_counted_in_the_shard_of_their_thread() {
    let timer = Timer::builder().shards(8).build().unwrap();
    timer.schedule(HOUR, || ()).unwrap();
    for _ in 0..50 {
        assert!(timer.schedule_at_fixed_rate(HOUR, Duration::ZERO, || ()).is_err());
    }
    timer.shutdown();
    for _ in 0..50 {
        assert!(timer.schedule(HOUR, || ()).is_err());
    }
    for shard in timer.stats().shards() {
        assert_eq!(shard.rejected, shard.scheduled * 100);
    }
}

#[test]
fn one_thread_ends_the_timers_of_many_shards_in_any_order() {
    const SHARDS: usize = 64;
    const TIMERS: usize = 50;
    let timers = [(); 2].map(|()| Timer::builder().shards(SHARDS).build().unwrap());
    let barrier = Barrier::new(SHARDS);
    let (sender, receiver) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..SHARDS {
            let timers = &timers;
            let barrier = &barrier;
            let sender = sender.clone();
            scope.spawn(move || {
                for timer in timers.iter().cycle().take(TIMERS) {
                    sender.send(timer.schedule(HOUR, || ()).unwrap()).unwrap();
                }
                barrier.wait();
            });
        }
    });
    drop(sender);
    let mut handles: Vec<_> = receiver.into_iter().collect();
    let mut random = Rng::with_seed(7);
    let [one, other] = timers;
    let mut one = Some(one);
    while !handles.is_empty() {
        let handle = handles.swap_remove(random.u64(..handles.len() as u64) as usize);
        assert!(handle.reset(2 * HOUR) == handle.cancel(), "reset and cancel disagree about a shutdown");
        if handles.len() == SHARDS * TIMERS / 2 {
            // The thread forgets these shards when it meets new ones.
            let timer = one.take().unwrap();
            assert_balanced(&timer);
            drop(timer.shutdown());
        }
        if handles.len() % 100 == 0 {
            // The thread finds its home shard among the others.
            other.schedule(HOUR, || ()).unwrap();
        }
    }
    let stats = other.stats();
    let own = (SHARDS * TIMERS / 100) as u64;
    assert_eq!((stats.cancelled, stats.pending), ((SHARDS * TIMERS / 2) as u64, own));
    assert_balanced(&other);
    assert_eq!(
        stats.shards().iter().filter(|shard| shard.scheduled > TIMERS as u64 / 2).count(),
        1,
        "the home shard is unique"
    );
}

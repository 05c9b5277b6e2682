//! From one shard to many more than there are cores, on the real clock.

mod common;

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use common::*;
use corewheel::{Executor, Timer};
use futures::executor::block_on;

const NUMBERS: [usize; 7] = [1, 2, 3, 7, 16, 33, 64];

#[test]
fn any_number_of_shards_fires_everything_and_nothing_early() {
    const TIMERS: u64 = 60;
    for shards in NUMBERS {
        for executor in [Executor::default(), Executor::Inline] {
            let timer = Timer::builder().shards(shards).thread_name("shards-fire").executor(executor).build().unwrap();
            let ((sender, receiver), barrier) = (channel(), Barrier::new(shards));
            thread::scope(|scope| {
                for seed in 0..shards {
                    let (timer, sender, barrier) = (&timer, sender.clone(), &barrier);
                    scope.spawn(move || {
                        let mut random = Random(seed as u64);
                        barrier.wait();
                        for number in 0..TIMERS {
                            let delay = Duration::from_micros(random.below(30_000) * (number % 4));
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
                assert!(wait_for(&receiver).is_some(), "early, in one of {shards} shards");
            }
            eventually("all have ended", || timer.is_empty());
            let stats = timer.stats();
            assert_eq!(stats.shards().len(), shards);
            for shard in stats.shards() {
                // A sleep whose time is over when it is first polled is no timer.
                let made = shard.scheduled - 2 * TIMERS;
                assert!(made <= 1, "each thread has a home, and each shard one thread: {shard:?}");
            }
            assert_balanced(&timer);
            assert!(threads_named("shards-fire") >= shards);
            drop(timer);
            eventually("threads gone", || threads_named("shards-fire") == 0);
        }
    }
}

#[test]
fn a_shutdown_of_any_number_of_shards_hands_everything_back_in_order() {
    for shards in NUMBERS {
        let timer = Timer::builder().shards(shards).thread_name("shards-end").build().unwrap();
        let begin = timer.now() + HOUR;
        thread::scope(|scope| {
            for thread in 0..2 * shards as u32 {
                let timer = &timer;
                scope.spawn(move || {
                    for number in 0..20 {
                        timer.schedule_at(begin + (number * 1000 + thread) * MS, || ()).unwrap();
                    }
                });
            }
        });
        assert!(timer.stats().shards().iter().all(|shard| shard.pending == 40));
        let deadlines: Vec<_> = timer.shutdown().map(|unfired| unfired.deadline).collect();
        assert_eq!(deadlines.len(), 40 * shards);
        assert!(deadlines.is_sorted() && deadlines[0] >= begin);
        eventually("threads gone", || threads_named("shards-end") == 0);
        assert_balanced(&timer);
    }
}

//! The scenarios.
//!
//! Clients act at random, a driver and workers serve them, and time advances. At the end each timer must have ended
//! once, and each entry must be free.

mod clients;
mod harness;
mod job_queue;
mod pool;

use std::env;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use shuttle::sync::{Arc, Barrier, mpsc};
use shuttle::{Config, MaxSteps, Runner};

use crate::engine::memory::Cache;
use crate::fixture::{Clock, Counts, Fixture, VirtualShard, once};
use clients::{SleepClient, TimerClient};
use harness::Harness;

/// Explores a number of random schedules, and the same number of schedules with few preemptions.
fn explore(scenario: fn()) {
    explore_fairly(scenario);
    Runner::new(PctScheduler::new(3, schedules()), config()).run(scenario);
}

/// Explores a number of random schedules, for a scenario in which a thread without preemption would take seconds of
/// virtual time.
fn explore_fairly(scenario: fn()) {
    Runner::new(RandomScheduler::new(schedules()), config()).run(scenario);
}

/// Limits the steps of a schedule, so that a scenario without end fails soon.
fn config() -> Config {
    let mut config = Config::default();
    config.max_steps = MaxSteps::FailAfter(200_000);
    config
}

fn schedules() -> usize {
    env::var("SHUTTLE_SCHEDULES").map_or(100, |number| number.parse().expect("a number of schedules"))
}

/// Clients schedule, cancel, reset and release timers, while time advances.
#[test]
fn timers_while_time_passes() {
    explore(|| {
        let harness = Harness::new(Fixture::new());
        let clients =
            [(); 3].map(|()| harness.spawn(|harness| TimerClient::new(harness, |counts, _| counts.once()).run(10)));
        let caches = harness.run(6, clients);
        harness.assert_accounted(caches);
    });
}

/// The same with repeating timers, and clients that wait for the end of a run.
#[test]
fn repeating_timers_while_time_passes() {
    explore(|| {
        let harness = Harness::new(Fixture::new());
        let repeating =
            |harness: &Harness| TimerClient::new(harness, |counts, first| counts.repeating(first, 1, 3)).run(8);
        let clients = [(); 2].map(|()| harness.spawn(repeating));
        let caches = harness.run(6, clients);
        harness.assert_accounted(caches);
    });
}

/// The same while the driver retires memory whenever it can.
#[test]
fn memory_is_retired_and_reused() {
    explore(|| {
        let harness = Harness::new(Fixture::with_retained(2));
        let clients =
            [(); 3].map(|()| harness.spawn(|harness| TimerClient::new(harness, |counts, _| counts.once()).run(10)));
        let caches = harness.run(4, clients);
        harness.assert_accounted(caches);
    });
}

/// The shard is shut down while clients use timers.
#[test]
fn shutdown_during_timers() {
    explore(|| {
        let harness = Harness::new(Fixture::new());
        let clients = [true, true, false].map(|once| {
            let callback =
                move |counts: &Counts, first| if once { counts.once() } else { counts.repeating(first, 1, 3) };
            harness.spawn(move |harness| TimerClient::new(harness, callback).run(8))
        });
        let closer = harness.spawn(Harness::close);
        harness.run(4, clients);
        closer.join().unwrap();
        harness.assert_closed();
    });
}

/// Two tasks poll futures, which are reset, reused and dropped, while time advances.
#[test]
fn sleeps_while_time_passes() {
    explore(|| {
        let harness = Harness::new(Fixture::new());
        let clients = [(); 3].map(|()| harness.spawn(|harness| SleepClient::new(harness).run(8)));
        let caches = harness.run(6, clients);
        harness.assert_free(caches);
        harness.fixture.assert_sleep_counts();
    });
}

/// The same during a shutdown.
#[test]
fn sleeps_during_a_shutdown() {
    explore(|| {
        let harness = Harness::new(Fixture::new());
        let clients = [(); 3].map(|()| harness.spawn(|harness| SleepClient::new(harness).run(8)));
        let closer = harness.spawn(Harness::close);
        harness.run(4, clients);
        closer.join().unwrap();
        harness.assert_freed_once();
        harness.fixture.assert_sleep_counts();
    });
}

/// Time does not advance, and each client waits for an expired timer, so a lost wake-up is a deadlock.
#[test]
fn no_wakeup_is_lost() {
    explore(|| {
        let harness = Harness::new(Fixture::new());
        let clients = [(); 3].map(|()| {
            harness.spawn(|harness| {
                let mut cache = Cache::new();
                for _ in 0..4 {
                    let (sender, receiver) = mpsc::channel();
                    let callback = once(move || sender.send(()).unwrap());
                    let handle = harness.fixture.schedule(&mut cache, callback, 0).unwrap();
                    receiver.recv().unwrap();
                    harness.fixture.release(handle, &mut cache);
                }
                cache
            })
        });
        let caches = harness.run(0, clients);
        harness.assert_free(caches);
    });
}

/// At each tick the callbacks of three shards meet, and each schedules one more, due at once, in another shard. All of
/// them run before the clock advances.
#[test]
fn virtual_time_waits_for_all_shards() {
    const SHARDS: usize = 3;
    const TICKS: usize = 3;
    explore(|| {
        let clock = Clock::new();
        let shards = [(); SHARDS].map(|()| VirtualShard::new(&clock));
        let runs = Arc::new(AtomicUsize::new(0));
        for tick in 1..=TICKS {
            let barrier = Arc::new(Barrier::new(SHARDS));
            for this in 0..SHARDS {
                let barrier = barrier.clone();
                let runs = runs.clone();
                let other = shards[(this + tick) % SHARDS].clone();
                shards[this].schedule(tick as u64, move || {
                    barrier.wait();
                    other.schedule(tick as u64, move || assert_eq!(runs.fetch_add(1, SeqCst) / SHARDS, tick - 1));
                });
            }
        }
        let drivers = shards.each_ref().map(|shard| shard.start(2 * TICKS, |shard, batch| shard.run(batch)));
        for tick in 1..=TICKS {
            clock.advance();
            let next = (tick < TICKS).then_some(tick as u64 + 1);
            assert_eq!((clock.wait_for_quiescence(&shards), runs.load(SeqCst)), (next, SHARDS * tick));
        }
        drivers.into_iter().for_each(|driver| driver.join().unwrap());
    });
}

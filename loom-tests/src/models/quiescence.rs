//! Explores a manual clock that waits for its shards, against their drivers and workers.
//!
//! Invariant: when the wait ends, all callbacks that are due at the current tick have run, and the clock sees their
//! effects.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::{Notify, mpsc};
use loom::thread;

use super::{Fixture, explore};
use crate::engine::memory::Cache;
use crate::fixture::{BoxedCallback, Clock, VirtualShard};
use crate::race_detector::RaceDetector;
use crate::source::clock::quiescence::Quiescence;

/// Counts runs without any ordering, so loom reports a read that comes too early.
#[derive(Clone)]
struct Runs(Arc<Unordered>);

struct Unordered(UnsafeCell<usize>);

// SAFETY: loom checks that all accesses are ordered.
unsafe impl Send for Unordered {}
// SAFETY: as above.
unsafe impl Sync for Unordered {}

impl Runs {
    fn new() -> Self {
        Self(Arc::new(Unordered(UnsafeCell::new(0))))
    }

    fn count(&self) {
        // SAFETY: as above.
        self.0.0.with_mut(|runs| unsafe { *runs += 1 });
    }

    fn get(&self) -> usize {
        // SAFETY: as above.
        self.0.0.with(|runs| unsafe { *runs })
    }
}

/// Runs due callbacks on the driver's own thread.
fn inline(shard: &VirtualShard, due: Vec<BoxedCallback>) {
    shard.run(due);
}

/// Each of two callbacks, in two shards, ends only after the other has begun.
#[test]
fn callbacks_of_one_tick_in_two_shards_that_wait_for_each_other() {
    explore(|| {
        let clock = Clock::new();
        let shards = [VirtualShard::new(&clock), VirtualShard::new(&clock)];
        let begun = [Arc::new(Notify::new()), Arc::new(Notify::new())];
        let runs = [Runs::new(), Runs::new()];
        for (this, shard) in shards.iter().enumerate() {
            let (begins, other_begins, runs) = (begun[this].clone(), begun[1 - this].clone(), runs[this].clone());
            shard.schedule(1, move || {
                begins.notify();
                other_begins.wait();
                runs.count();
            });
        }
        let drivers = shards.each_ref().map(|shard| shard.start(1, inline));
        clock.advance();
        assert_eq!(clock.wait_for_quiescence(&shards), None);
        assert_eq!(runs.each_ref().map(Runs::get), [1, 1]);
        drivers.into_iter().for_each(|driver| driver.join().unwrap());
    });
}

/// A callback schedules in a shard that the clock has already waited for. The new callback runs before the clock
/// advances.
#[test]
fn a_callback_that_schedules_in_another_shard() {
    explore(|| {
        let clock = Clock::new();
        let [first, second] = [VirtualShard::new(&clock), VirtualShard::new(&clock)];
        let runs = Runs::new();
        let (target, count) = (second.clone(), runs.clone());
        first.schedule(0, move || target.schedule(0, move || count.count()));
        let drivers = [first.start(1, inline), second.start(1, inline)];
        let shards = [second, first];
        assert_eq!(clock.wait_for_quiescence(&shards), None);
        assert_eq!(runs.get(), 1);
        drivers.into_iter().for_each(|driver| driver.join().unwrap());
    });
}

/// The driver is idle while a worker is still running a callback.
#[test]
fn a_worker_that_is_still_running() {
    explore(|| {
        let clock = Clock::new();
        let shard = VirtualShard::new(&clock);
        let runs = Runs::new();
        let count = runs.clone();
        shard.schedule(1, move || count.count());
        let (sender, batches) = mpsc::channel();
        let driver = shard.start(1, move |_: &VirtualShard, due| sender.send(due).unwrap());
        let worker = {
            let shard = shard.clone();
            thread::spawn(move || shard.run(batches.recv().unwrap()))
        };
        clock.advance();
        clock.wait_for_quiescence(std::slice::from_ref(&shard));
        assert_eq!(runs.get(), 1);
        worker.join().unwrap();
        driver.join().unwrap();
    });
}

/// A driver empties the intake in a round that another thread requested, and the clock finds the intake empty.
///
/// The clock must not take the answer to an older request as one that covers the timers that the driver just found.
#[test]
fn an_empty_intake_in_the_middle_of_a_round() {
    explore(|| {
        let fixture = Fixture::new();
        let shared = Arc::new((Quiescence::default(), RaceDetector::default()));
        shared.0.end_round(0, 5);
        let mut driver = fixture.driver();
        let handle = fixture.schedule(&mut Cache::new(), fixture.counts.once(), 1).expect("an open shard");
        let requester = {
            let shared = shared.clone();
            thread::spawn(move || shared.0.request())
        };
        let driver = {
            let shared = shared.clone();
            fixture.spawn(move |fixture| {
                let (quiescence, round) = &*shared;
                let request = quiescence.last_request();
                if request > 0 {
                    driver.begin(&fixture.core, 0);
                    round.write();
                    quiescence.end_round(request, 1);
                }
            })
        };
        let clock = {
            let shared = shared.clone();
            fixture.spawn(move |fixture| {
                let (quiescence, round) = &*shared;
                if quiescence.request_unless_quiet(0, || fixture.core.intake_is_empty(), || ()).is_none() {
                    round.read();
                }
            })
        };
        requester.join().unwrap();
        driver.join().unwrap();
        clock.join().unwrap();
        assert!(fixture.cancel(&handle));
    });
}

//! Explores a manual clock that waits for its shards, against their drivers and workers.
//!
//! Invariant: when the wait ends, all callbacks that are due at the current tick have run, and the clock sees their
//! effects.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::{Notify, mpsc};
use loom::thread;

use super::explore;
use crate::fixture::{BoxedCallback, Clock, VirtualShard};

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

/// Runs due callbacks on the thread that drives.
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
            let begins = begun[this].clone();
            let other_begins = begun[1 - this].clone();
            let runs = runs[this].clone();
            shard.schedule(1, move || {
                begins.notify();
                other_begins.wait();
                runs.count();
            });
        }
        // Before the drivers start: the model below has drivers that sleep.
        clock.advance();
        let drivers = shards.each_ref().map(|shard| shard.start(1, inline));
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
        let (sender, magazines) = mpsc::channel();
        let driver = shard.start(1, move |_: &VirtualShard, due| sender.send(due).unwrap());
        let worker = {
            let shard = shard.clone();
            thread::spawn(move || shard.run(magazines.recv().unwrap()))
        };
        clock.advance();
        clock.wait_for_quiescence(std::slice::from_ref(&shard));
        assert_eq!(runs.get(), 1);
        worker.join().unwrap();
        driver.join().unwrap();
    });
}

/// A timer is armed for the tick to which the clock advances at the same time. Its driver is about to sleep.
#[test]
fn a_timer_against_the_advance_to_its_tick() {
    explore(|| {
        let clock = Clock::new();
        let shard = VirtualShard::new(&clock);
        let runs = Runs::new();
        let count = runs.clone();
        let driver = shard.start(1, inline);
        let caller = {
            let shard = shard.clone();
            thread::spawn(move || shard.schedule(1, move || count.count()))
        };
        clock.advance();
        clock.wait_for_quiescence(std::slice::from_ref(&shard));
        caller.join().unwrap();
        driver.join().unwrap();
        assert_eq!(runs.get(), 1);
    });
}

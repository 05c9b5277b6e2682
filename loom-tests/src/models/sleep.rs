//! Explores a push against a drain against a driver that is about to sleep.
//!
//! Invariant: the driver wakes for every push, every close, and memory that it must retire.
//!
//! Promise: no timer is forgotten; memory comes back.

use super::{Fixture, explore};
use crate::engine::memory::Cache;

/// Two threads schedule expired timers, and the driver runs both.
#[test]
fn pushes_wake_a_driver_about_to_sleep() {
    explore(|| {
        let fixture = Fixture::new();
        let mut cache = Cache::new();
        let producers = [4, 5].map(|deadline| {
            let (index, notice) = fixture.arm(&mut cache, fixture.counts.once(), deadline).unwrap();
            fixture.spawn(move |fixture| fixture.notify_driver(index, notice, deadline))
        });
        let mut driver = fixture.driver();
        let worker = fixture.worker(5);
        fixture.drive_until_runs(&mut driver, &worker, 2);
        for producer in producers {
            producer.join().unwrap();
        }
    });
}

/// The driver sleeps until a far deadline when an earlier one is pushed.
#[test]
fn an_earlier_deadline_wakes_the_driver() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let worker = fixture.worker(5);
        fixture.schedule(&mut Cache::new(), fixture.counts.once(), 100);
        fixture.drive(&mut driver, &worker);
        let producer = fixture.spawn(move |fixture| {
            let mut cache = Cache::new();
            fixture.schedule(&mut cache, fixture.counts.once(), 50);
            fixture.schedule(&mut cache, fixture.counts.once(), 5);
        });
        fixture.drive_until_runs(&mut driver, &worker, 1);
        producer.join().unwrap();
        assert_eq!(*worker.ran.borrow(), [5]);
        fixture.close(5);
    });
}

/// When most entries are free, the thread that frees them wakes the driver lazily, and the driver retires their memory.
#[test]
fn surplus_memory_is_retired() {
    explore(|| {
        let fixture = Fixture::with_retained(1);
        let mut driver = fixture.driver();
        let worker = fixture.worker(5);
        let mut cache = Cache::new();
        let handle = fixture.schedule(&mut cache, fixture.counts.once(), 100).unwrap();
        fixture.drive(&mut driver, &worker);
        let canceller = fixture.spawn_canceller(handle, cache);
        while driver.next_round() != u64::MAX {
            fixture.sleep(&driver, &worker);
            fixture.drive(&mut driver, &worker);
        }
        canceller.join().unwrap();
        assert_eq!(fixture.counts.dropped(), 1);
        fixture.assert_all_free(&mut driver, [&mut worker.into_cache()]);
    });
}

/// A driver that sleeps, or is about to sleep, ends when its shard is closed.
#[test]
fn a_close_wakes_a_driver_about_to_sleep() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        fixture.schedule(&mut Cache::new(), fixture.counts.once(), 100);
        let driver = fixture.spawn(move |fixture| fixture.drive_until_closed(&mut driver, &fixture.worker(5)));
        fixture.close(5);
        driver.join().unwrap();
    });
}

//! Model 1: push against drain against a driver about to sleep.
//!
//! Fails without the driver's fence in `wakeup.rs` (mutation `wakeup-driver-no-fence`), without the caller's in `core.rs`
//! (`core-push-no-fence`), if a caller wakes only for what the driver does not sleep for at all (`wakeup-idle-only`), if who
//! gives back the last of much memory does not ring (`core-give-no-wake`), and if the driver sleeps although memory is to
//! be given back (`turn-idle-despite-trim`). Fails as well if a close does not ring (`core-close-no-wake`), rings before the driver can
//! see it (`core-close-wake-first`), or without a fence (`core-close-no-fence`).

use super::{Fixture, explore};
use crate::engine::core::Armed;
use crate::engine::memory::Cache;

/// Two threads schedule what is due; the driver misses neither.
#[test]
fn pushes_wake_a_driver_about_to_sleep() {
    explore(|| {
        let fixture = Fixture::new();
        let mut cache = Cache::new();
        let producers = [4, 5].map(|deadline| {
            let armed = fixture.core.arm(&mut cache, fixture.counts.once(), deadline, 0);
            let Armed { index, notice, .. } = armed.ok().unwrap();
            fixture.spawn(move |fixture| fixture.notify_driver(index, notice, deadline))
        });
        let (mut driver, worker) = (fixture.driver(), fixture.worker(5));
        fixture.drive_until_runs(&mut driver, &worker, 2);
        for producer in producers {
            producer.join().unwrap();
        }
    });
}

/// The driver sleeps for a far deadline when an earlier one comes.
#[test]
fn an_earlier_deadline_wakes_the_driver() {
    explore(|| {
        let fixture = Fixture::new();
        let (mut driver, worker) = (fixture.driver(), fixture.worker(5));
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

/// When most entries are free, whoever gives them back rings too, if lazily: the driver comes to give back their memory.
#[test]
fn surplus_memory_is_retired() {
    explore(|| {
        let fixture = Fixture::with_retained(1);
        let (mut driver, worker) = (fixture.driver(), fixture.worker(5));
        let mut cache = Cache::new();
        let handle = fixture.schedule(&mut cache, fixture.counts.once(), 100).unwrap();
        fixture.drive(&mut driver, &worker);
        let canceller = fixture.spawn_canceller(handle, cache);
        while driver.next_deadline() != u64::MAX {
            fixture.sleep(&driver, &worker);
            fixture.drive(&mut driver, &worker);
        }
        canceller.join().unwrap();
        assert_eq!(fixture.counts.dropped(), 1);
        fixture.assert_all_free(&mut driver, [&mut worker.into_cache()]);
    });
}

/// A driver that sleeps, or is about to, ends when its shard is closed.
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

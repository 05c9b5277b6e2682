//! Model 1: push against drain against a driver about to sleep.
//!
//! Fails without the driver's fence in `bell.rs` (mutation `bell-driver-fence`), without the caller's in `core.rs`
//! (`core-push-fence`), if a caller wakes only for what the driver does not sleep for at all (`bell-lower`), if who
//! gives back the last of much memory does not ring (`core-give-silent`), and if the driver sleeps although memory is to
//! be given back (`rounds-idle`). Fails as well if a close does not ring (`core-close-silent`), rings before the driver can
//! see it (`core-close-late`), or without a fence (`core-close-fence`).

use super::{Scene, explore};
use crate::shard::core::Armed;
use crate::shard::memory::Cache;

/// Two threads schedule what is due; the driver misses neither.
#[test]
fn pushes_wake_a_driver_about_to_sleep() {
    explore(|| {
        let scene = Scene::new();
        let mut cache = Cache::new();
        let producers = [4, 5].map(|deadline| {
            let armed = scene.core.arm(&mut cache, scene.tally.once(), deadline, 0);
            let Armed { index, notice, .. } = armed.ok().unwrap();
            scene.spawn(move |scene| scene.tell(index, notice, deadline))
        });
        let (mut rounds, worker) = (scene.rounds(), scene.worker(5));
        scene.drive_until(&mut rounds, &worker, 2);
        for producer in producers {
            producer.join().unwrap();
        }
    });
}

/// The driver sleeps for a far deadline when an earlier one comes.
#[test]
fn an_earlier_deadline_wakes_the_driver() {
    explore(|| {
        let scene = Scene::new();
        let (mut rounds, worker) = (scene.rounds(), scene.worker(5));
        scene.schedule(&mut Cache::new(), scene.tally.once(), 100);
        scene.drive(&mut rounds, &worker);
        let producer = scene.spawn(move |scene| {
            let mut cache = Cache::new();
            scene.schedule(&mut cache, scene.tally.once(), 50);
            scene.schedule(&mut cache, scene.tally.once(), 5);
        });
        scene.drive_until(&mut rounds, &worker, 1);
        producer.join().unwrap();
        assert_eq!(*worker.ran.borrow(), [5]);
        scene.close(5);
    });
}

/// When most entries are free, whoever gives them back rings too, if lazily: the driver comes to give back their memory.
#[test]
fn memory_that_nobody_needs_goes_back() {
    explore(|| {
        let scene = Scene::with_spare(1);
        let (mut rounds, worker) = (scene.rounds(), scene.worker(5));
        let mut cache = Cache::new();
        let handle = scene.schedule(&mut cache, scene.tally.once(), 100).unwrap();
        scene.drive(&mut rounds, &worker);
        let canceller = scene.cancel_elsewhere(handle, cache);
        while rounds.next_deadline() != u64::MAX {
            scene.sleep(&rounds, &worker);
            scene.drive(&mut rounds, &worker);
        }
        canceller.join().unwrap();
        assert_eq!(scene.tally.dropped(), 1);
        scene.assert_all_free(&mut rounds, [&mut worker.into_cache()]);
    });
}

/// A driver that sleeps, or is about to, ends when its shard is closed.
#[test]
fn a_close_wakes_a_driver_about_to_sleep() {
    explore(|| {
        let scene = Scene::new();
        let mut rounds = scene.rounds();
        scene.schedule(&mut Cache::new(), scene.tally.once(), 100);
        let driver = scene.spawn(move |scene| scene.drive_until_closed(&mut rounds, &scene.worker(5)));
        scene.close(5);
        driver.join().unwrap();
    });
}

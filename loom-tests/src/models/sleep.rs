//! Model 1: push against drain against a driver about to sleep.
//!
//! Fails without the driver's fence in `bell.rs` (mutation `bell-driver-fence`), without the caller's
//! (`bell-caller-fence`), and if a caller wakes only for what the driver does not sleep for at all (`bell-lower`).

use loom::thread;

use super::{Scene, Worker, explore};
use crate::shard::cache::Cache;
use crate::shard::rounds::Rounds;

/// Drives until `runs` callbacks have run, sleeping in between: for good, as time stands still.
fn drive_until(scene: &Scene, rounds: &mut Rounds, worker: &Worker<'_>, runs: usize) {
    loop {
        scene.drive(rounds, worker);
        if scene.tally.run() == runs {
            return;
        }
        let until = rounds.next_deadline();
        scene.core.bell.sleep(worker.now, until, None, || scene.core.intake_is_empty());
    }
}

/// Two threads schedule what is due; the driver misses neither.
#[test]
fn pushes_wake_a_driver_about_to_sleep() {
    explore(|| {
        let scene = Scene::new();
        let producers = [4, 5].map(|deadline| {
            let scene = scene.clone();
            thread::spawn(move || {
                let mut cache = Cache::new();
                scene.schedule(&mut cache, scene.tally.once(), deadline);
            })
        });
        let (mut rounds, worker) = (scene.rounds(), scene.worker(5));
        drive_until(&scene, &mut rounds, &worker, 2);
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
        let producer = {
            let scene = scene.clone();
            thread::spawn(move || {
                let mut cache = Cache::new();
                scene.schedule(&mut cache, scene.tally.once(), 50);
                scene.schedule(&mut cache, scene.tally.once(), 5);
            })
        };
        drive_until(&scene, &mut rounds, &worker, 1);
        producer.join().unwrap();
        assert_eq!(*worker.ran.borrow(), [5]);
        scene.close(5);
    });
}

/// A cancel rings too, if lazily: the driver comes to collect the entry.
#[test]
fn a_cancelled_entry_is_collected() {
    explore(|| {
        let scene = Scene::new();
        let (mut rounds, worker) = (scene.rounds(), scene.worker(5));
        let mut cache = Cache::new();
        let handle = scene.schedule(&mut cache, scene.tally.once(), 100).unwrap();
        scene.drive(&mut rounds, &worker);
        let canceller = {
            let scene = scene.clone();
            thread::spawn(move || {
                assert!(scene.cancel(&handle));
                scene.release(handle, &mut cache);
                cache
            })
        };
        while rounds.next_deadline() != u64::MAX {
            scene.core.bell.sleep(5, rounds.next_deadline(), None, || scene.core.intake_is_empty());
            scene.drive(&mut rounds, &worker);
        }
        let mut cache = canceller.join().unwrap();
        scene.drive(&mut rounds, &worker);
        assert_eq!(scene.tally.dropped(), 1);
        scene.assert_all_free([&mut cache, &mut worker.into_cache()]);
    });
}

//! Model 4: reset, earlier and later, against fire.
//!
//! Fails if `start` runs a timer that was moved away from under it (mutation `entry-start-moved`), if `discard` ends one
//! (`entry-discard-moved`), if a reset to an earlier deadline is not sent (`core-reset-unsent`, `lease-reset-unsent`), or
//! does not ring (`core-reset-silent`).

use super::{Scene, explore};
use crate::shard::memory::Cache;

/// Moved later while it fires: it runs once, at the deadline that was in force.
#[test]
fn reset_later_against_fire() {
    explore(|| {
        let scene = Scene::new();
        let mut rounds = scene.rounds();
        let mut cache = Cache::new();
        let handle = scene.schedule(&mut cache, scene.tally.once(), 5).unwrap();
        let mover = scene.spawn(move |scene| {
            let moved = scene.reset(&handle, 9, 5);
            scene.release(handle, &mut cache);
            (moved, cache)
        });
        let worker = scene.worker(5);
        scene.drive(&mut rounds, &worker);
        let (moved, mut cache) = mover.join().unwrap();
        let later = scene.worker(9);
        scene.drive(&mut rounds, &later);
        let ran: Vec<u64> = worker.ran.take().into_iter().chain(later.ran.take()).collect();
        assert_eq!(ran, [if moved { 9 } else { 5 }]);
        assert_eq!(scene.tally.dropped(), 1);
        scene.assert_all_free(&mut rounds, [&mut cache, &mut worker.into_cache(), &mut later.into_cache()]);
    });
}

/// Moved later while its batch is dropped unrun: it ends there, or stays pending and runs at its new deadline.
#[test]
fn reset_later_against_a_dropped_batch() {
    explore(|| {
        let scene = Scene::new();
        let mut rounds = scene.rounds();
        let mut cache = Cache::new();
        let handle = scene.schedule(&mut cache, scene.tally.once(), 5).unwrap();
        let due = scene.batch(&mut rounds, 5);
        let mover = scene.spawn(move |scene| {
            let moved = scene.reset(&handle, 9, 5);
            scene.release(handle, &mut cache);
            (moved, cache)
        });
        let worker = scene.worker(5);
        for index in due {
            assert!(scene.core.discard(index, 5, &worker), "nobody else takes it out of its batch");
        }
        let (moved, mut cache) = mover.join().unwrap();
        let later = scene.worker(9);
        scene.drive(&mut rounds, &later);
        assert_eq!(*later.ran.borrow(), if moved { vec![9] } else { vec![] });
        assert_eq!((scene.tally.cancelled(), scene.tally.dropped()), (usize::from(!moved), 1));
        scene.assert_all_free(&mut rounds, [&mut cache, &mut worker.into_cache(), &mut later.into_cache()]);
    });
}

/// Moved earlier while the driver goes to sleep until the old deadline: it wakes for the new one.
#[test]
fn reset_earlier_against_sleep() {
    explore(|| {
        let scene = Scene::new();
        let mut rounds = scene.rounds();
        let mut cache = Cache::new();
        let handle = scene.schedule(&mut cache, scene.tally.once(), 100).unwrap();
        let mover = scene.spawn(move |scene| {
            assert!(scene.reset(&handle, 5, 5));
            scene.release(handle, &mut cache);
            cache
        });
        let worker = scene.worker(5);
        scene.drive_until(&mut rounds, &worker, 1);
        let mut cache = mover.join().unwrap();
        scene.drive(&mut rounds, &worker);
        assert_eq!(*worker.ran.borrow(), [5]);
        scene.assert_all_free(&mut rounds, [&mut cache, &mut worker.into_cache()]);
    });
}

/// The same for an entry in the intake, where nobody is due to look before an hour.
#[test]
fn reset_earlier_in_the_intake_against_sleep() {
    explore(|| {
        let scene = Scene::new();
        let mut rounds = scene.rounds();
        let mut cache = Cache::new();
        let worker = scene.worker(5);
        scene.schedule(&mut cache, scene.tally.once(), 50).unwrap();
        scene.drive(&mut rounds, &worker);
        let mover = scene.spawn(move |scene| {
            let handle = scene.schedule(&mut cache, scene.tally.once(), 100).unwrap();
            assert!(scene.reset(&handle, 5, 5));
        });
        scene.drive_until(&mut rounds, &worker, 1);
        mover.join().unwrap();
        assert_eq!(*worker.ran.borrow(), [5]);
        scene.close(5);
    });
}

/// Two resets at once, and the firing: whichever deadline is kept, it was asked for, and the timer runs once.
#[test]
fn two_resets_against_fire() {
    explore(|| {
        let scene = Scene::new();
        let mut rounds = scene.rounds();
        let mut cache = Cache::new();
        let handle = scene.schedule(&mut cache, scene.tally.once(), 5).unwrap();
        let index = handle.0;
        let movers = [7, 9].map(|deadline| scene.spawn(move |scene| scene.reset(&super::Handle(index), deadline, 5)));
        let worker = scene.worker(5);
        scene.drive(&mut rounds, &worker);
        let moved = movers.map(|mover| mover.join().unwrap());
        let last = scene.worker(9);
        scene.drive(&mut rounds, &last);
        let ran: Vec<u64> = worker.ran.take().into_iter().chain(last.ran.take()).collect();
        match moved {
            [false, false] => assert_eq!(ran, [5]),
            [true, false] => assert_eq!(ran, [7]),
            [false, true] => assert_eq!(ran, [9]),
            [true, true] => assert!(ran == [7] || ran == [9]),
        }
        scene.release(handle, &mut cache);
        scene.assert_all_free(&mut rounds, [&mut cache, &mut worker.into_cache(), &mut last.into_cache()]);
    });
}

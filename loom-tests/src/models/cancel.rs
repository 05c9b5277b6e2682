//! Model 2: cancel against fire against the drop of the handle.
//!
//! Fails if `start` leaves a one-shot armed while it runs (mutation `entry-start-armed`), and if `release` frees an entry
//! that is running (`entry-release-running`) or in a batch (`entry-release-queued`, `entry-discard-unqueued`). Of `lease.rs`,
//! if a cancel does not drop the closure (`lease-undropped`), and if an entry that is released is not kept
//! (`lease-kept-never`).

use super::{Scene, explore};
use crate::shard::memory::Cache;

/// One winner; the callback is run or dropped, once; the entry is recycled once.
#[test]
fn cancel_and_fire_have_one_winner() {
    explore(|| {
        let scene = Scene::new();
        let (mut rounds, worker) = (scene.rounds(), scene.worker(5));
        let mut cache = Cache::new();
        let handle = scene.schedule(&mut cache, scene.tally.once(), 5).unwrap();
        let canceller = scene.spawn(move |scene| {
            let won = scene.cancel(&handle);
            scene.release(handle, &mut cache);
            (won, cache)
        });
        scene.drive(&mut rounds, &worker);
        let (won, mut cache) = canceller.join().unwrap();
        scene.drive(&mut rounds, &worker);
        assert_eq!(scene.tally.run() == 0, won);
        assert_eq!(scene.tally.dropped(), 1);
        assert_eq!(scene.tally.completed() + scene.tally.cancelled(), 1);
        scene.assert_all_free(&mut rounds, [&mut cache, &mut worker.into_cache()]);
    });
}

/// Of two cancels and the firing, one wins.
#[test]
fn two_cancels_and_fire_have_one_winner() {
    explore(|| {
        let scene = Scene::new();
        let (mut rounds, worker) = (scene.rounds(), scene.worker(5));
        let mut cache = Cache::new();
        let handle = scene.schedule(&mut cache, scene.tally.once(), 5).unwrap();
        let index = handle.0;
        let cancellers = [(); 2].map(|()| scene.spawn(move |scene| scene.cancel(&super::Handle(index))));
        scene.drive(&mut rounds, &worker);
        let wins = cancellers.map(|canceller| usize::from(canceller.join().unwrap()));
        assert_eq!(scene.tally.run() + wins[0] + wins[1], 1);
        assert_eq!(scene.tally.dropped(), 1);
        scene.release(handle, &mut cache);
        scene.drive(&mut rounds, &worker);
        scene.assert_all_free(&mut rounds, [&mut cache, &mut worker.into_cache()]);
    });
}

/// A detached timer fires, whenever its handle is dropped.
#[test]
fn a_dropped_handle_leaves_the_timer() {
    explore(|| {
        let scene = Scene::new();
        let (mut rounds, worker) = (scene.rounds(), scene.worker(5));
        let mut cache = Cache::new();
        let handle = scene.schedule(&mut cache, scene.tally.once(), 5).unwrap();
        let dropper = scene.spawn(move |scene| {
            scene.release(handle, &mut cache);
            cache
        });
        scene.drive(&mut rounds, &worker);
        let mut cache = dropper.join().unwrap();
        assert_eq!((scene.tally.run(), scene.tally.dropped()), (1, 1));
        scene.assert_all_free(&mut rounds, [&mut cache, &mut worker.into_cache()]);
    });
}

/// A batch that the executor drops ends its timers, against a cancel.
#[test]
fn cancel_and_a_dropped_batch_have_one_winner() {
    explore(|| {
        let scene = Scene::new();
        let (mut rounds, worker) = (scene.rounds(), scene.worker(5));
        let mut cache = Cache::new();
        let handle = scene.schedule(&mut cache, scene.tally.once(), 5).unwrap();
        let due = scene.batch(&mut rounds, 5);
        let canceller = scene.spawn(move |scene| {
            scene.cancel(&handle);
            scene.release(handle, &mut cache);
            cache
        });
        for index in due {
            scene.core.discard(index, 5, &worker);
        }
        let mut cache = canceller.join().unwrap();
        scene.drive(&mut rounds, &worker);
        assert_eq!((scene.tally.run(), scene.tally.dropped(), scene.tally.cancelled()), (0, 1, 1));
        scene.assert_all_free(&mut rounds, [&mut cache, &mut worker.into_cache()]);
    });
}

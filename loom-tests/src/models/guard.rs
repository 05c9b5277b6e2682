//! Model 17: a handle that is consumed by its cancel, in one transition where that can be, against all that ends or uses
//! its timer. The timer ends once, its closure is dropped once, and the entry is free once.
//!
//! Fails if the callback is read while a worker may write it (mutation `entry-consume-periodic`). Models `wake` and `hold` fail
//! if an entry goes to a cache that is in a batch (`entry-left-queued`) or closed (`entry-left-closed`).

use super::{Scene, explore};
use crate::shard::memory::Cache;

/// The callback runs, or is dropped unrun.
#[test]
fn against_fire() {
    explore(|| {
        let scene = Scene::new();
        let (mut rounds, worker, mut cache) = (scene.rounds(), scene.worker(7), Cache::new());
        let handle = scene.schedule(&mut cache, scene.tally.once(), 7).unwrap();
        let consumer = scene.spawn(move |scene| (scene.cancel_and_release(handle, &mut cache), cache));
        scene.drive(&mut rounds, &worker);
        let (cancelled, mut cache) = consumer.join().unwrap();
        scene.drive(&mut rounds, &worker);
        assert_eq!((scene.tally.run(), scene.tally.cancelled()), (usize::from(!cancelled), usize::from(cancelled)));
        assert_eq!(scene.tally.dropped(), 1);
        scene.assert_all_free(&mut rounds, [&mut cache, &mut worker.into_cache()]);
    });
}

/// No run begins after it, and the worker that is in a run drops the closure.
#[test]
fn against_the_next_run() {
    explore(|| {
        let scene = Scene::new();
        let (mut rounds, worker, mut cache) = (scene.rounds(), scene.worker(7), Cache::new());
        let handle = scene.schedule(&mut cache, scene.tally.repeating(2, 2), 5).unwrap();
        let consumer = scene.spawn(move |scene| (scene.cancel_and_release(handle, &mut cache), cache));
        scene.drive(&mut rounds, &worker);
        let (cancelled, mut cache) = consumer.join().unwrap();
        scene.drive(&mut rounds, &worker);
        assert_eq!(cancelled, scene.tally.completed() == 0);
        assert_eq!((scene.tally.dropped(), scene.tally.cancelled() + scene.tally.completed()), (1, 1));
        scene.assert_all_free(&mut rounds, [&mut cache, &mut worker.into_cache()]);
    });
}

/// The timer is cancelled, or handed back. One of the two is the last to have the shard.
#[test]
fn against_a_shutdown() {
    explore(|| {
        let scene = Scene::new();
        let mut cache = Cache::new();
        let handle = scene.schedule(&mut cache, scene.tally.once(), 7).unwrap();
        let consumer = scene.spawn(move |scene| scene.cancel_and_release(handle, &mut cache));
        scene.close(5);
        let cancelled = consumer.join().unwrap();
        assert_eq!((scene.tally.unfired(), scene.tally.cancelled()), (usize::from(!cancelled), usize::from(cancelled)));
        assert_eq!((scene.tally.dropped(), scene.tally.last()), (1, 1));
    });
}

//! Model 13: sparse blocks. An entry that is set aside is neither lost nor handed out twice, whatever happens to its block.
//!
//! Fails if who sets an entry aside does not look at the mark again (mutation `sparse-unseen`), if the bits publish
//! nothing (`sparse-relaxed`), nor the count of completed blocks (`sparse-counted`), if the driver takes a block whatever is
//! set aside there (`sparse-claim`), and if the thread that completes a block does not ring (`sparse-silent`).

use loom::thread::JoinHandle;

use super::{Scene, explore};
use crate::shard::memory::Cache;

/// A sparse block of which the second entry is set aside; the first is the caller's.
fn sparse_block(scene: &Scene) {
    assert_eq!(scene.carve(), 0);
    // SAFETY: nobody uses the block that was carved; this thread is as good as the driver.
    unsafe { scene.core.slab.gather(1) };
    scene.core.slab.mark_sparse(0);
}

/// Starts a thread that sets the first entry aside, and returns what it was given back.
fn set_first_aside(scene: &Scene) -> JoinHandle<Vec<u32>> {
    scene.spawn(|scene| {
        let mut back = Vec::new();
        // SAFETY: it is ours: see `sparse_block`.
        unsafe { scene.core.slab.set_aside(0, |index| back.push(index)) };
        back
    })
}

fn adopt(scene: &Scene) -> Vec<u32> {
    let mut adopted = Vec::new();
    scene.core.slab.adopt(u32::MAX, |index| adopted.push(index));
    adopted
}

/// Says that each of the two entries was had once, when what is left in a sparse block is taken.
fn assert_each_once(scene: &Scene, parts: impl IntoIterator<Item = Vec<u32>>) {
    let mut all: Vec<_> = parts.into_iter().flatten().chain(adopt(scene)).collect();
    all.sort_unstable();
    assert_eq!(all, [0, 1]);
}

#[test]
fn an_entry_is_set_aside_while_its_block_is_adopted() {
    explore(|| {
        let scene = Scene::new();
        sparse_block(&scene);
        let setter = set_first_aside(&scene);
        let adopter = scene.spawn(adopt);
        let parts = [setter.join().unwrap(), adopter.join().unwrap()];
        assert_each_once(&scene, parts);
    });
}

#[test]
fn a_block_is_completed_while_the_driver_and_another_thread_want_it() {
    explore(|| {
        let scene = Scene::new();
        sparse_block(&scene);
        let setter = set_first_aside(&scene);
        let adopter = scene.spawn(adopt);
        let mut mine = Vec::new();
        if scene.core.slab.claim(0, |index| mine.push(index)) {
            mine.extend([0, 1]);
        }
        let parts = [setter.join().unwrap(), adopter.join().unwrap(), mine];
        assert_each_once(&scene, parts);
    });
}

/// The driver finds a block sparse, and sleeps; the timer that is left there ends: the driver comes to retire the block.
#[test]
fn a_block_that_is_completed_goes_back() {
    explore(|| {
        let scene = Scene::with_spare(1);
        let (mut rounds, worker) = (scene.rounds(), scene.worker(5));
        let mut cache = Cache::new();
        let [first, second] = [100, 100].map(|at| scene.schedule(&mut cache, scene.tally.once(), at).unwrap());
        scene.drive(&mut rounds, &worker);
        assert!(scene.cancel(&first));
        scene.release(first, &mut cache);
        scene.core.give_back(&mut cache);
        scene.drive(&mut rounds, &worker);
        assert_eq!((scene.core.slab.len(), scene.core.slab.dense_len()), (2, 0), "the block is sparse");
        let canceller = scene.cancel_elsewhere(second, cache);
        while scene.core.slab.len() > 0 {
            scene.sleep(&rounds, &worker);
            scene.drive(&mut rounds, &worker);
        }
        canceller.join().unwrap();
        scene.assert_all_free(&mut rounds, [&mut worker.into_cache()]);
    });
}

/// A thread uses a sparse block, and empties it, while the driver gives memory back.
#[test]
fn a_sparse_block_is_used_while_the_driver_looks_at_it() {
    explore(|| {
        let scene = Scene::with_spare(1);
        let (mut rounds, mut cache) = (scene.rounds(), Cache::new());
        let survivor = scene.schedule(&mut cache, scene.tally.once(), 9).unwrap();
        scene.core.give_back(&mut cache);
        let worker = scene.worker(0);
        scene.drive(&mut rounds, &worker);
        let user = scene.spawn(move |scene| {
            let mut cache = Cache::new();
            let handle = scene.schedule(&mut cache, scene.tally.once(), 9).unwrap();
            for handle in [survivor, handle] {
                assert!(scene.cancel(&handle));
                scene.release(handle, &mut cache);
            }
            scene.core.give_back(&mut cache);
        });
        scene.drive(&mut rounds, &worker);
        user.join().unwrap();
        assert_eq!((scene.tally.run(), scene.tally.dropped()), (0, 2));
        scene.assert_all_free(&mut rounds, [&mut worker.into_cache()]);
    });
}

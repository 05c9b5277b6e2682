//! Model 13: sparse blocks. An entry that is set aside is neither lost nor handed out twice, whatever happens to its block.
//!
//! Fails if who sets an entry aside does not look at the mark again (mutation `sparse-unseen`), if the bits publish
//! nothing (`sparse-relaxed`), nor the count of completed blocks (`sparse-counted`), if the driver takes a block whatever is
//! set aside there (`sparse-claim`), and if the thread that completes a block does not ring (`sparse-silent`). Fails as
//! well if the bits do not publish what was done to the entries (`sparse-bits-unpublished`, `sparse-gather-unpublished`), and
//! if the driver does not acquire it (`sparse-claim-unordered`).

use loom::thread::JoinHandle;

use super::{Scene, explore};
use crate::shard::memory::{Cache, members};

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

/// An entry that is set aside by one thread goes to the pool by another, which writes into it.
#[test]
fn an_adopted_entry_goes_to_the_pool() {
    explore(|| {
        let scene = Scene::new();
        let handle = scene.schedule(&mut Cache::new(), scene.tally.once(), 9).expect("an open shard");
        scene.core.slab.mark_sparse(0);
        let canceller = scene.spawn(move |scene| {
            assert!(scene.cancel(&handle));
            scene.release(handle, &mut Cache::new());
        });
        adopt(&scene).into_iter().for_each(|index| scene.core.give(&[index]));
        canceller.join().unwrap();
        assert_eq!(scene.tally.dropped(), 1);
    });
}

/// The same with an entry that the driver has taken out of the pool.
#[test]
fn a_gathered_entry_goes_to_the_pool() {
    explore(|| {
        let scene = Scene::new();
        let first = scene.carve();
        scene.core.give(&[first]);
        let driver = scene.spawn(|scene| {
            let slab = &scene.core.slab;
            // SAFETY: this thread is as good as the driver, and owns what it takes out of the pool.
            unsafe { members(slab, scene.core.pool.take_all()).for_each(|index| slab.gather(index)) };
            slab.mark_sparse(0);
        });
        adopt(&scene).into_iter().for_each(|index| scene.core.give(&[index]));
        driver.join().unwrap();
    });
}

/// Takes the one entry that is in the pool, and sets it aside.
fn pop(scene: &Scene) -> bool {
    scene.core.pool.pop(&scene.core.slab, |index| scene.core.recycle(&mut Cache::new(), index))
}

/// Two threads want an entry that is in the pool. One of them sets it aside, and the driver retires the block.
#[test]
fn a_popped_entry_is_retired() {
    explore(|| {
        let scene = Scene::new();
        sparse_block(&scene);
        scene.core.give(&[0]);
        let popper = scene.spawn(pop);
        let mine = pop(&scene);
        let slab = &scene.core.slab;
        if slab.claim(0, drop) {
            assert!([0, 1].iter().all(|&index| slab.get(index).reclaim().is_some()), "they are free");
            // SAFETY: this thread is as good as the driver, and has claimed all entries of the block.
            unsafe { slab.retire(0..1) };
        }
        assert_ne!(popper.join().unwrap(), mine, "one of them has it");
    });
}

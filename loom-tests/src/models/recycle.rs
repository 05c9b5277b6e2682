//! Model 7: a cache that takes from the pool against one that gives to it: no ABA, no entry handed out twice.
//!
//! Fails if a pop leaves the tag as it is (mutation `stack-tag`), also where it takes all that is there
//! (`stack-take-all-tag`), if the stack's compare-exchange publishes nothing (`stack-relaxed`), if memory is given back of
//! which somebody is about to send an entry (`entry-reclaim-mailed`), if a segment is published without an order
//! (`slab-segment-relaxed`), and if a cache keeps what it has given away (`cache-overflow-twice`, `cache-drain-twice`).

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering::Relaxed};
use loom::thread;

use super::{Scene, explore};
use crate::shard::memory::Cache;

/// Who holds each entry: a thread that takes one that is held finds out.
#[derive(Clone)]
struct Held(Arc<[AtomicBool; ENTRIES]>);

/// More than any model here carves off.
const ENTRIES: usize = 16;

impl Held {
    fn new() -> Self {
        Self(Arc::new(std::array::from_fn(|_| AtomicBool::new(false))))
    }

    fn mark(&self, index: u32) {
        assert!(!self.0[index as usize].swap(true, Relaxed), "entry {index} was handed out twice");
    }

    /// Takes a batch.
    fn take_batch(&self, scene: &Scene) -> Vec<u32> {
        let mut taken = Vec::new();
        scene.core.pool.pop(&scene.core.slab, |index| taken.push(index));
        taken.iter().for_each(|&index| self.mark(index));
        taken
    }

    fn give_batch(&self, scene: &Scene, batch: &[u32]) {
        batch.iter().for_each(|&index| self.0[index as usize].store(false, Relaxed));
        scene.core.give(batch);
    }

    fn take(&self, scene: &Scene) -> Option<u32> {
        let taken = self.take_batch(scene);
        assert!(taken.len() <= 1, "batches of one");
        taken.first().copied()
    }

    fn give(&self, scene: &Scene, index: u32) {
        self.give_batch(scene, &[index]);
    }
}

/// One thread is in the middle of a pop while another pops two and gives the first back: the classic ABA.
#[test]
fn no_entry_is_handed_out_twice() {
    explore(|| {
        let scene = Scene::new();
        let held = Held::new();
        for _ in 0..2 {
            scene.carve();
        }
        for index in [2, 1, 0] {
            held.give(&scene, index);
        }
        let other = {
            let held = held.clone();
            scene.spawn(move |scene| {
                let first = held.take(scene);
                let second = held.take(scene);
                if let Some(first) = first {
                    held.give(scene, first);
                }
                let third = held.take(scene);
                [second, third].into_iter().flatten().count()
            })
        };
        let mine = usize::from(held.take(&scene).is_some());
        let theirs = other.join().unwrap();
        let left = std::iter::from_fn(|| held.take(&scene)).count();
        assert_eq!(mine + theirs + left, 3);
    });
}

/// An entry that goes from thread to thread through the pool carries its callback safely.
#[test]
fn an_entry_is_used_by_one_thread_at_a_time() {
    explore(|| {
        let scene = Scene::new();
        let user = |scene: Scene| {
            move || {
                let mut cache = Cache::new();
                let handle = scene.schedule(&mut cache, scene.tally.once(), 9).unwrap();
                assert!(scene.cancel(&handle));
                scene.release(handle, &mut cache);
                scene.core.give_back(&mut cache);
            }
        };
        let other = thread::spawn(user(scene.clone()));
        user(scene.clone())();
        let (mut rounds, worker) = (scene.rounds(), scene.worker(0));
        scene.drive(&mut rounds, &worker);
        other.join().unwrap();
        assert_eq!((scene.tally.run(), scene.tally.dropped()), (0, 2));
        scene.assert_all_free(&mut rounds, [&mut worker.into_cache()]);
    });
}

/// A retired block is carved off again by one thread, once.
#[test]
fn a_retired_block_is_handed_out_once() {
    explore(|| {
        let scene = Scene::new();
        for _ in 0..2 {
            scene.carve();
        }
        let other = scene.spawn(|scene| scene.carve());
        // SAFETY: it is this thread that carved the blocks.
        unsafe { scene.core.slab.retire(0..2) };
        let mine = scene.carve();
        let theirs = other.join().unwrap();
        assert_ne!(mine, theirs);
    });
}

/// A worker sends a timer that was moved to the driver again, while it is cancelled and the driver gives memory back.
#[test]
fn an_entry_on_its_way_to_the_driver_stays() {
    explore(|| {
        let scene = Scene::with_spare(1);
        let (mut rounds, mut cache) = (scene.rounds(), Cache::new());
        let handle = scene.schedule(&mut cache, scene.tally.once(), 0).unwrap();
        let due = scene.batch(&mut rounds, 0);
        assert_eq!(due.len(), 1, "the timer is due");
        assert!(scene.reset(&handle, 9, 0));
        let sender = scene.spawn(move |scene| {
            let worker = scene.worker(0);
            scene.core.run(due[0], 0, &worker);
            worker.into_cache()
        });
        let canceller = scene.cancel_elsewhere(handle, cache);
        let worker = scene.worker(0);
        scene.drive(&mut rounds, &worker);
        canceller.join().unwrap();
        let mut sent = sender.join().unwrap();
        assert_eq!((scene.tally.run(), scene.tally.dropped()), (0, 1));
        scene.assert_all_free(&mut rounds, [&mut sent, &mut worker.into_cache()]);
    });
}

/// One thread is in the middle of a pop while the driver gives all that is in the pool back to the system, which leaves
/// zeros there, and takes some of it again.
#[test]
fn a_pop_of_what_is_given_back() {
    explore(|| {
        let (scene, held) = (Scene::with_spare(0), Held::new());
        let mut rounds = scene.rounds();
        for _ in 0..2 {
            scene.carve();
        }
        // The block that comes back first is on top.
        held.give_batch(&scene, &[0, 1]);
        held.give_batch(&scene, &[2, 3]);
        let other = {
            let held = held.clone();
            scene.spawn(move |scene| held.take_batch(scene))
        };
        while rounds.rest(&scene.core) {}
        let take_again = || {
            let mut taken = Vec::new();
            scene.core.slab.take(|index| taken.insert(0, index)).unwrap();
            taken.iter().for_each(|&index| held.mark(index));
            taken
        };
        held.give_batch(&scene, &take_again());
        other.join().unwrap();
        while !held.take_batch(&scene).is_empty() {}
        for _ in 0..2 {
            take_again();
        }
        assert!(held.0[..4].iter().all(|held| held.load(Relaxed)), "none is lost");
    });
}

/// A thread frees more entries than its cache holds: those that go to the pool are another's, and no longer its own.
#[test]
fn a_cache_that_overflows() {
    explore(|| {
        let (scene, mut cache) = (Scene::new(), Cache::new());
        let mut rounds = scene.rounds();
        let handles = [9; 5].map(|at| scene.schedule(&mut cache, scene.tally.once(), at).unwrap());
        let other = scene.spawn(|scene| {
            let mut cache = Cache::new();
            let handle = scene.schedule(&mut cache, scene.tally.once(), 9).unwrap();
            scene.core.give_back(&mut cache);
            (handle, cache)
        });
        for handle in handles {
            assert!(scene.cancel(&handle));
            scene.release(handle, &mut cache);
        }
        let mine = [9; 4].map(|at| scene.schedule(&mut cache, scene.tally.once(), at).unwrap());
        let (first, mut other_cache) = other.join().unwrap();
        let second = scene.schedule(&mut other_cache, scene.tally.once(), 9).unwrap();
        for handle in mine.into_iter().chain([first, second]) {
            assert!(scene.cancel(&handle), "each has an entry of its own");
            scene.release(handle, &mut cache);
        }
        assert_eq!(scene.tally.dropped(), 11);
        scene.assert_all_free(&mut rounds, [&mut cache, &mut other_cache]);
    });
}

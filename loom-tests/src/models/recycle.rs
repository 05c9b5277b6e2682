//! Model 7: a cache that takes from the pool against one that gives to it: no ABA, no entry handed out twice.
//!
//! Fails if a pop leaves the tag as it is (mutation `stack-tag`), if the stack's compare-exchange publishes nothing
//! (`stack-relaxed`), and if memory is given back of which somebody is about to send an entry (`entry-reclaim-mailed`).

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering::Relaxed};
use loom::thread;

use super::{Scene, explore};
use crate::shard::memory::Cache;

/// Who holds each entry: a thread that takes one that is held finds out.
#[derive(Clone)]
struct Held(Arc<[AtomicBool; 3]>);

impl Held {
    fn take(&self, scene: &Scene) -> Option<u32> {
        let mut taken = None;
        scene.core.pool.pop(&scene.core.slab, |index| {
            assert!(taken.replace(index).is_none(), "batches of one");
            assert!(!self.0[index as usize].swap(true, Relaxed), "entry {index} was handed out twice");
        });
        taken
    }

    fn give(&self, scene: &Scene, index: u32) {
        self.0[index as usize].store(false, Relaxed);
        scene.core.give(&[index]);
    }
}

/// One thread is in the middle of a pop while another pops two and gives the first back: the classic ABA.
#[test]
fn no_entry_is_handed_out_twice() {
    explore(|| {
        let scene = Scene::new();
        let held = Held(Arc::new(std::array::from_fn(|_| AtomicBool::new(true))));
        for _ in 0..2 {
            scene.carve();
        }
        for index in [2, 1, 0] {
            held.give(&scene, index);
        }
        let other = {
            let (scene, held) = (scene.clone(), held.clone());
            thread::spawn(move || {
                let first = held.take(&scene);
                let second = held.take(&scene);
                if let Some(first) = first {
                    held.give(&scene, first);
                }
                let third = held.take(&scene);
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
        let other = {
            let scene = scene.clone();
            thread::spawn(move || scene.carve())
        };
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
        let sender = {
            let scene = scene.clone();
            thread::spawn(move || {
                let worker = scene.worker(0);
                scene.core.run(due[0], 0, &worker);
                worker.into_cache()
            })
        };
        let canceller = scene.cancel_elsewhere(handle, cache);
        let worker = scene.worker(0);
        scene.drive(&mut rounds, &worker);
        canceller.join().unwrap();
        let mut sent = sender.join().unwrap();
        assert_eq!((scene.tally.run(), scene.tally.dropped()), (0, 1));
        scene.assert_all_free(&mut rounds, [&mut sent, &mut worker.into_cache()]);
    });
}

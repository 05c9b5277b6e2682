//! Model 16: a future's timer against a shutdown, on a thread that is ending, and in a sparse block. Each timer ends once,
//! for one reason; the waker is called or dropped; and the entry is released once.
//!
//! Fails if a poll stays pending in a closed shard (mutations `hold-closed-forgotten`, `hold-refused-forgotten`) or does not
//! count the end of its timer there (`hold-closed-uncounted`, `hold-refused-uncounted`), if a reset arms a closed entry
//! (`hold-reset-closed`), if a drop releases a closed entry to a cache (`entry-left-closed`), if the last to have the shard
//! does not see it (`lease-last-unseen`), if a drop that cannot do all in one transition does not cancel
//! (`hold-uncancelled`), and if an entry of a sparse block is kept (`hold-sparse-kept`, `lease-sparse-kept`).

use std::sync::Arc;

use loom::thread;

use super::{Scene, explore};
use crate::scene::{Sleep, Task};
use crate::shard::coop::Progress;
use crate::shard::memory::Cache;

/// Drops what is left of a sleep that a shutdown has ended.
fn end(scene: &Scene, sleep: Sleep, cache: &mut Cache, tasks: &[&Arc<Task>]) {
    assert!(!sleep.drop(scene, cache), "it is over");
    assert_eq!(scene.tally.last(), 1, "one is the last to have the shard");
    for task in tasks {
        assert_eq!(Arc::strong_count(task), 1, "its waker is gone");
    }
    scene.assert_sleeps_accounted();
}

/// The first poll is in time, and the shutdown wakes the task; or it finds the shard closed.
#[test]
fn shutdown_against_the_first_poll() {
    explore(|| {
        let scene = Scene::new();
        let (mut cache, task) = (Cache::new(), Task::new());
        let mut sleep = Sleep::made(&scene, &mut cache, 9).unwrap();
        let user = {
            let (scene, task) = (scene.clone(), task.clone());
            thread::spawn(move || {
                let progress = sleep.progress(&scene, &mut cache, &task, 5);
                (sleep, cache, progress)
            })
        };
        scene.close(5);
        let (mut sleep, mut cache, progress) = user.join().unwrap();
        assert_ne!(progress, Progress::Elapsed);
        assert_eq!(task.woken(), usize::from(progress == Progress::Pending));
        assert_eq!(sleep.progress(&scene, &mut cache, &task, 5), Progress::Shutdown);
        end(&scene, sleep, &mut cache, &[&task]);
    });
}

/// A poll by another task is in time, and the shutdown wakes that task; or it finds that the sleep is over.
#[test]
fn shutdown_against_a_poll_by_another_task() {
    explore(|| {
        let scene = Scene::new();
        let (mut cache, first, second) = (Cache::new(), Task::new(), Task::new());
        let mut sleep = Sleep::new(&scene, &mut cache, &first, 9);
        let user = {
            let (scene, second) = (scene.clone(), second.clone());
            thread::spawn(move || {
                let progress = sleep.progress(&scene, &mut cache, &second, 5);
                (sleep, cache, progress)
            })
        };
        scene.close(5);
        let (mut sleep, mut cache, progress) = user.join().unwrap();
        assert_ne!(progress, Progress::Elapsed);
        assert_eq!(second.woken(), usize::from(progress == Progress::Pending));
        assert!(first.woken() + second.woken() <= 1);
        assert_eq!(sleep.progress(&scene, &mut cache, &second, 5), Progress::Shutdown);
        end(&scene, sleep, &mut cache, &[&first, &second]);
    });
}

/// A reset is in time, or comes when the shutdown has the waker still: then nothing is armed in its place.
#[test]
fn shutdown_against_a_reset() {
    explore(|| {
        let scene = Scene::new();
        let (mut cache, task) = (Cache::new(), Task::new());
        let sleep = Sleep::new(&scene, &mut cache, &task, 9);
        let user = sleep.poll_elsewhere(&scene, cache, &task, Some(7));
        scene.close(5);
        let (mut sleep, mut cache, _) = user.join().unwrap();
        assert_eq!(task.woken(), 1);
        assert_eq!(sleep.progress(&scene, &mut cache, &task, 5), Progress::Shutdown);
        end(&scene, sleep, &mut cache, &[&task]);
    });
}

/// The shutdown completes the sleep, or the drop cancels it.
#[test]
fn shutdown_against_a_drop() {
    explore(|| {
        let scene = Scene::new();
        let (mut cache, task) = (Cache::new(), Task::new());
        let sleep = Sleep::new(&scene, &mut cache, &task, 9);
        let user = {
            let scene = scene.clone();
            thread::spawn(move || sleep.drop(&scene, &mut cache))
        };
        scene.close(5);
        let cancelled = user.join().unwrap();
        assert_eq!((task.woken(), Arc::strong_count(&task)), (usize::from(!cancelled), 1));
        assert_eq!(scene.tally.last(), 1, "one is the last to have the shard");
        scene.assert_sleeps_accounted();
    });
}

/// A poll by another task leaves an entry that is in a batch, and takes another; a shutdown wakes the task, or refuses
/// that. Each entry had a handle.
#[test]
fn shutdown_against_a_poll_that_takes_another_entry() {
    explore(|| {
        let scene = Scene::new();
        let (mut rounds, mut cache) = (scene.rounds(), Cache::new());
        let (first, second) = (Task::new(), Task::new());
        let mut sleep = Sleep::new(&scene, &mut cache, &first, 5);
        let mut batch = Vec::new();
        scene.hand_over(&mut rounds, 5, |due| batch.extend(due));
        assert_eq!(batch.len(), 1);
        let user = {
            let (scene, second) = (scene.clone(), second.clone());
            thread::spawn(move || {
                // Its clock is behind the driver's.
                let progress = sleep.progress(&scene, &mut cache, &second, 4);
                (sleep, cache, progress)
            })
        };
        scene.close(5);
        scene.worker(5).run(&batch);
        let (sleep, mut cache, progress) = user.join().unwrap();
        assert_eq!(second.woken(), usize::from(progress == Progress::Pending));
        end(&scene, sleep, &mut cache, &[&first, &second]);
    });
}

/// A thread that is ending drops a sleep: it has no cache to keep the entry in. Before the deadline that cancels the timer.
#[test]
fn a_drop_by_a_thread_that_ends_against_fire() {
    for deadline in [5, 9] {
        explore(move || {
            let scene = Scene::new();
            let (mut rounds, mut cache, task) = (scene.rounds(), Cache::new(), Task::new());
            let sleep = Sleep::new(&scene, &mut cache, &task, deadline);
            let dropper = {
                let scene = scene.clone();
                thread::spawn(move || sleep.drop_in_passing(&scene))
            };
            let (worker, later) = (scene.worker(5), scene.worker(9));
            scene.drive(&mut rounds, &worker);
            let cancelled = dropper.join().unwrap();
            assert!(cancelled || deadline == 5);
            scene.drive(&mut rounds, &later);
            assert_eq!((task.woken(), Arc::strong_count(&task)), (usize::from(!cancelled), 1));
            scene.assert_all_free(&mut rounds, [&mut cache, &mut worker.into_cache(), &mut later.into_cache()]);
            scene.assert_sleeps_accounted();
        });
    }
}

/// The last sleep of a sparse block is dropped, while it is pending or when it is over: the driver comes to give the
/// memory back.
#[test]
fn the_drop_of_the_last_sleep_in_a_sparse_block() {
    for pending in [true, false] {
        explore(move || {
            let scene = Scene::with_spare(1);
            let (mut rounds, worker) = (scene.rounds(), scene.worker(5));
            let (mut cache, task) = (Cache::new(), Task::new());
            let first = Sleep::new(&scene, &mut cache, &task, 100);
            let second = Sleep::new(&scene, &mut cache, &task, if pending { 100 } else { 5 });
            scene.drive(&mut rounds, &worker);
            first.drop(&scene, &mut cache);
            scene.core.give_back(&mut cache);
            scene.drive(&mut rounds, &worker);
            assert_eq!((scene.core.slab.len(), scene.core.slab.dense_len()), (2, 0), "the block is sparse");
            let dropper = {
                let scene = scene.clone();
                thread::spawn(move || assert_eq!(second.drop(&scene, &mut cache), pending))
            };
            while scene.core.slab.len() > 0 {
                scene.sleep(&rounds, &worker);
                scene.drive(&mut rounds, &worker);
            }
            dropper.join().unwrap();
            scene.assert_all_free(&mut rounds, [&mut worker.into_cache()]);
            scene.assert_sleeps_accounted();
        });
    }
}

//! Model 8: a future that is polled by another task, moved or dropped, against fire.
//!
//! Fails if the callback of another task stays (mutation `look-old-waker`), and if an entry in the driver's hands is armed
//! anew, after a cancel (`look-taken`) or after the driver has begun (`entry-in-hands`), or dropped like one that is in
//! nobody's (`entry-left-queued`), and if a poll at the deadline leaves the timer to the driver as well (`look-due`).
//!
//! Of `hold.rs`, if a poll that meets the firing stays pending (`hold-waker-forgotten`), if an entry is released twice or
//! never (`hold-released-twice`, `hold-never-released`, `hold-left-unreleased`, `hold-kept-never`), if the driver is not
//! told of what is armed (`hold-armed-unsent`, `hold-renewed-unsent`), if a reset of a fired sleep arms nothing
//! (`hold-reset-early`), and if a timer is not counted once, or not taken out of its batch once (`hold-taken-counted`,
//! `hold-due-uncounted`, `hold-taken-unsettled`, `hold-due-unsettled`, `lease-unsettled`); and as `entry-in-hands`,
//! `hold-busy`.

use std::sync::Arc;

use super::{Scene, explore};
use crate::scene::{Sleep, Task};
use crate::shard::memory::Cache;

/// Either the second poll finds that the sleep is over, or its task is woken. Nobody is woken twice.
#[test]
fn a_poll_by_another_task_against_fire() {
    explore(|| {
        let scene = Scene::new();
        let (mut rounds, mut cache) = (scene.rounds(), Cache::new());
        let (first, second) = (Task::new(), Task::new());
        let sleep = Sleep::new(&scene, &mut cache, &first, 5);
        let poller = sleep.poll_elsewhere(&scene, cache, &second, None);
        let worker = scene.worker(5);
        scene.drive(&mut rounds, &worker);
        let (sleep, mut cache, pending) = poller.join().unwrap();
        scene.drive(&mut rounds, &worker);
        assert_eq!((first.woken(), second.woken()), if pending { (0, 1) } else { (1, 0) });
        assert!(!sleep.drop(&scene, &mut cache), "it is over");
        assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (1, 1));
        scene.assert_all_free(&mut rounds, [&mut cache, &mut worker.into_cache()]);
        scene.assert_sleeps_accounted();
    });
}

/// The same after it was moved later: the driver may have it in its hands for the old deadline still.
#[test]
fn a_poll_by_another_task_after_a_reset_against_fire() {
    explore(|| {
        let scene = Scene::new();
        let (mut rounds, mut cache) = (scene.rounds(), Cache::new());
        let (first, second) = (Task::new(), Task::new());
        let sleep = Sleep::new(&scene, &mut cache, &first, 5);
        let poller = sleep.poll_elsewhere(&scene, cache, &second, Some(9));
        let (worker, later) = (scene.worker(5), scene.worker(9));
        scene.drive(&mut rounds, &worker);
        let (sleep, mut cache, pending) = poller.join().unwrap();
        scene.drive(&mut rounds, &worker);
        assert!(pending, "one that has fired begins anew");
        assert_eq!((first.woken(), second.woken()), (worker.ran.borrow().len(), 0), "it is early");
        scene.drive(&mut rounds, &later);
        assert_eq!(second.woken(), 1);
        assert!(!sleep.drop(&scene, &mut cache), "it is over");
        scene.assert_all_free(&mut rounds, [&mut cache, &mut worker.into_cache(), &mut later.into_cache()]);
        scene.assert_sleeps_accounted();
    });
}

/// Either it wakes its task, or it is cancelled; the waker is gone in either case.
#[test]
fn a_drop_against_fire() {
    explore(|| {
        let scene = Scene::new();
        let (mut rounds, mut cache, task) = (scene.rounds(), Cache::new(), Task::new());
        let sleep = Sleep::new(&scene, &mut cache, &task, 5);
        let dropper = scene.spawn(move |scene| {
            let cancelled = sleep.drop(scene, &mut cache);
            (cache, cancelled)
        });
        let worker = scene.worker(5);
        scene.drive(&mut rounds, &worker);
        let (mut cache, cancelled) = dropper.join().unwrap();
        assert_eq!((task.woken(), Arc::strong_count(&task)), (usize::from(!cancelled), 1));
        scene.assert_all_free(&mut rounds, [&mut cache, &mut worker.into_cache()]);
        scene.assert_sleeps_accounted();
    });
}

/// The next sleep of the thread may have the same entry, and is not touched by what was begun for the one before.
#[test]
fn a_drop_and_another_sleep_against_fire() {
    explore(|| {
        let scene = Scene::new();
        let (mut rounds, mut cache) = (scene.rounds(), Cache::new());
        let (first, second) = (Task::new(), Task::new());
        let sleep = Sleep::new(&scene, &mut cache, &first, 5);
        let user = {
            let second = second.clone();
            scene.spawn(move |scene| {
                sleep.drop(scene, &mut cache);
                let next = Sleep::new(scene, &mut cache, &second, 9);
                (next, cache)
            })
        };
        let (worker, later) = (scene.worker(5), scene.worker(9));
        scene.drive(&mut rounds, &worker);
        let (next, mut cache) = user.join().unwrap();
        scene.drive(&mut rounds, &worker);
        assert_eq!(second.woken(), 0, "it is early");
        scene.drive(&mut rounds, &later);
        assert_eq!(second.woken(), 1);
        assert!(!next.drop(&scene, &mut cache), "it is over");
        scene.assert_all_free(&mut rounds, [&mut cache, &mut worker.into_cache(), &mut later.into_cache()]);
        scene.assert_sleeps_accounted();
    });
}

/// A task that is woken, or looks by chance, has the sleep go on at once, while the driver is still in the middle of
/// waking it.
#[test]
fn used_again_against_fire() {
    explore(|| {
        let scene = Scene::new();
        let (mut rounds, mut cache, task) = (scene.rounds(), Cache::new(), Task::new());
        let mut sleep = Sleep::new(&scene, &mut cache, &task, 5);
        let user = {
            let task = task.clone();
            scene.spawn(move |scene| {
                let again = !sleep.poll(scene, &mut cache, &task, 0);
                if again {
                    assert!(sleep.use_again(scene, &mut cache, &task, 6));
                }
                (sleep, cache, again)
            })
        };
        let (worker, later) = (scene.worker(5), scene.worker(6));
        scene.drive(&mut rounds, &worker);
        let (sleep, mut cache, again) = user.join().unwrap();
        scene.drive(&mut rounds, &later);
        assert_eq!(task.woken(), 1 + usize::from(again));
        assert!(!sleep.drop(&scene, &mut cache));
        scene.assert_all_free(&mut rounds, [&mut cache, &mut worker.into_cache(), &mut later.into_cache()]);
        scene.assert_sleeps_accounted();
    });
}

/// A poll at the deadline ends the sleep, or the driver wakes its task; then it is used again.
#[test]
fn a_poll_that_is_due_against_fire() {
    explore(|| {
        let scene = Scene::new();
        let (mut rounds, mut cache) = (scene.rounds(), Cache::new());
        let (first, second) = (Task::new(), Task::new());
        let mut sleep = Sleep::new(&scene, &mut cache, &first, 5);
        let user = {
            let second = second.clone();
            scene.spawn(move |scene| {
                assert!(!sleep.poll(scene, &mut cache, &second, 5), "it is time");
                assert!(sleep.use_again(scene, &mut cache, &second, 6));
                (sleep, cache)
            })
        };
        let (worker, later) = (scene.worker(5), scene.worker(6));
        scene.drive(&mut rounds, &worker);
        let (sleep, mut cache) = user.join().unwrap();
        let ran = worker.ran.borrow().len();
        assert_eq!((first.woken(), scene.tally.completed(), Arc::strong_count(&first)), (ran, 1, 1));
        scene.drive(&mut rounds, &later);
        assert_eq!((second.woken(), scene.tally.completed()), (1, 2));
        assert!(!sleep.drop(&scene, &mut cache));
        scene.assert_all_free(&mut rounds, [&mut cache, &mut worker.into_cache(), &mut later.into_cache()]);
        scene.assert_sleeps_accounted();
    });
}

//! Model 8: a future that is polled by another task, moved or dropped, against fire.
//!
//! Fails if the callback of another task stays (mutation `poll-old-waker`), and if an entry in the driver's hands is armed
//! anew, after a cancel (`poll-dispatched-reused`) or after the driver has begun (`entry-in-use-reused`), or dropped like one that is in
//! nobody's (`entry-consume-dispatched`), and if a poll at the deadline leaves the timer to the driver as well (`poll-due-not-claimed`).
//!
//! Of `hold.rs`, if a poll that meets the firing stays pending (`sleep-entry-over-pending`), if an entry is released twice or
//! never (`sleep-entry-released-twice`, `sleep-entry-drop-not-released`, `sleep-entry-replaced-not-released`, `sleep-entry-not-cached`), if the driver is not
//! told of what is armed (`sleep-entry-arm-no-notify`, `sleep-entry-rearm-no-notify`), if a reset of a fired sleep arms nothing
//! (`sleep-entry-reset-not-idle`), and if a timer is not counted once, or not taken out of its batch once (`sleep-entry-replaced-counted`,
//! `sleep-entry-expired-uncounted`, `sleep-entry-replaced-in-flight`, `sleep-entry-expired-in-flight`, `handle-still-in-flight`); and as `entry-in-use-reused`,
//! `sleep-entry-in-use-reused`.

use std::sync::Arc;

use super::{Fixture, explore};
use crate::engine::memory::Cache;
use crate::fixture::{Sleep, Task};

/// Either the second poll finds that the sleep is over, or its task is woken. Nobody is woken twice.
#[test]
fn a_poll_by_another_task_against_fire() {
    explore(|| {
        let fixture = Fixture::new();
        let (mut driver, mut cache) = (fixture.driver(), Cache::new());
        let (first, second) = (Task::new(), Task::new());
        let sleep = Sleep::new_pending(&fixture, &mut cache, &first, 5);
        let poller = sleep.spawn_poller(&fixture, cache, &second, None);
        let worker = fixture.worker(5);
        fixture.drive(&mut driver, &worker);
        let (sleep, mut cache, pending) = poller.join().unwrap();
        fixture.drive(&mut driver, &worker);
        assert_eq!((first.wake_count(), second.wake_count()), if pending { (0, 1) } else { (1, 0) });
        assert!(!sleep.drop(&fixture, &mut cache), "it is over");
        assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (1, 1));
        fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache()]);
        fixture.assert_sleep_counts();
    });
}

/// The same after it was moved later: the driver may have it in its hands for the old deadline still.
#[test]
fn a_poll_by_another_task_after_a_reset_against_fire() {
    explore(|| {
        let fixture = Fixture::new();
        let (mut driver, mut cache) = (fixture.driver(), Cache::new());
        let (first, second) = (Task::new(), Task::new());
        let sleep = Sleep::new_pending(&fixture, &mut cache, &first, 5);
        let poller = sleep.spawn_poller(&fixture, cache, &second, Some(9));
        let (worker, later) = (fixture.worker(5), fixture.worker(9));
        fixture.drive(&mut driver, &worker);
        let (sleep, mut cache, pending) = poller.join().unwrap();
        fixture.drive(&mut driver, &worker);
        assert!(pending, "one that has fired begins anew");
        assert_eq!((first.wake_count(), second.wake_count()), (worker.ran.borrow().len(), 0), "it is early");
        fixture.drive(&mut driver, &later);
        assert_eq!(second.wake_count(), 1);
        assert!(!sleep.drop(&fixture, &mut cache), "it is over");
        fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache(), &mut later.into_cache()]);
        fixture.assert_sleep_counts();
    });
}

/// Either it wakes its task, or it is cancelled; the waker is gone in either case.
#[test]
fn a_drop_against_fire() {
    explore(|| {
        let fixture = Fixture::new();
        let (mut driver, mut cache, task) = (fixture.driver(), Cache::new(), Task::new());
        let sleep = Sleep::new_pending(&fixture, &mut cache, &task, 5);
        let dropper = fixture.spawn(move |fixture| {
            let cancelled = sleep.drop(fixture, &mut cache);
            (cache, cancelled)
        });
        let worker = fixture.worker(5);
        fixture.drive(&mut driver, &worker);
        let (mut cache, cancelled) = dropper.join().unwrap();
        assert_eq!((task.wake_count(), Arc::strong_count(&task)), (usize::from(!cancelled), 1));
        fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache()]);
        fixture.assert_sleep_counts();
    });
}

/// The next sleep of the thread may have the same entry, and is not touched by what was begun for the one before.
#[test]
fn a_drop_and_another_sleep_against_fire() {
    explore(|| {
        let fixture = Fixture::new();
        let (mut driver, mut cache) = (fixture.driver(), Cache::new());
        let (first, second) = (Task::new(), Task::new());
        let sleep = Sleep::new_pending(&fixture, &mut cache, &first, 5);
        let user = {
            let second = second.clone();
            fixture.spawn(move |fixture| {
                sleep.drop(fixture, &mut cache);
                let next = Sleep::new_pending(fixture, &mut cache, &second, 9);
                (next, cache)
            })
        };
        let (worker, later) = (fixture.worker(5), fixture.worker(9));
        fixture.drive(&mut driver, &worker);
        let (next, mut cache) = user.join().unwrap();
        fixture.drive(&mut driver, &worker);
        assert_eq!(second.wake_count(), 0, "it is early");
        fixture.drive(&mut driver, &later);
        assert_eq!(second.wake_count(), 1);
        assert!(!next.drop(&fixture, &mut cache), "it is over");
        fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache(), &mut later.into_cache()]);
        fixture.assert_sleep_counts();
    });
}

/// A task that is woken, or looks by chance, has the sleep go on at once, while the driver is still in the middle of
/// waking it.
#[test]
fn reuse_against_fire() {
    explore(|| {
        let fixture = Fixture::new();
        let (mut driver, mut cache, task) = (fixture.driver(), Cache::new(), Task::new());
        let mut sleep = Sleep::new_pending(&fixture, &mut cache, &task, 5);
        let user = {
            let task = task.clone();
            fixture.spawn(move |fixture| {
                let is_over = !sleep.poll(fixture, &mut cache, &task, 0);
                if is_over {
                    assert!(sleep.reuse(fixture, &mut cache, &task, 6));
                }
                (sleep, cache, is_over)
            })
        };
        let (worker, later) = (fixture.worker(5), fixture.worker(6));
        fixture.drive(&mut driver, &worker);
        let (sleep, mut cache, is_over) = user.join().unwrap();
        fixture.drive(&mut driver, &later);
        assert_eq!(task.wake_count(), 1 + usize::from(is_over));
        assert!(!sleep.drop(&fixture, &mut cache));
        fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache(), &mut later.into_cache()]);
        fixture.assert_sleep_counts();
    });
}

/// A poll at the deadline ends the sleep, or the driver wakes its task; then it is used is_over.
#[test]
fn a_poll_at_the_deadline_against_fire() {
    explore(|| {
        let fixture = Fixture::new();
        let (mut driver, mut cache) = (fixture.driver(), Cache::new());
        let (first, second) = (Task::new(), Task::new());
        let mut sleep = Sleep::new_pending(&fixture, &mut cache, &first, 5);
        let user = {
            let second = second.clone();
            fixture.spawn(move |fixture| {
                assert!(!sleep.poll(fixture, &mut cache, &second, 5), "it is time");
                assert!(sleep.reuse(fixture, &mut cache, &second, 6));
                (sleep, cache)
            })
        };
        let (worker, later) = (fixture.worker(5), fixture.worker(6));
        fixture.drive(&mut driver, &worker);
        let (sleep, mut cache) = user.join().unwrap();
        let ran = worker.ran.borrow().len();
        assert_eq!((first.wake_count(), fixture.counts.completed(), Arc::strong_count(&first)), (ran, 1, 1));
        fixture.drive(&mut driver, &later);
        assert_eq!((second.wake_count(), fixture.counts.completed()), (1, 2));
        assert!(!sleep.drop(&fixture, &mut cache));
        fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache(), &mut later.into_cache()]);
        fixture.assert_sleep_counts();
    });
}

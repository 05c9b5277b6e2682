//! Model 8: a future that is polled by another task, moved or dropped, against fire.
//!
//! Fails if the callback of another task stays (mutation `poll-old-waker`), and if an entry in the driver's hands is armed
//! anew, after a cancel (`poll-taken`) or after the driver has begun (`entry-in-hands`), or dropped like one that is in
//! nobody's (`entry-left-dispatched`), and if a poll at the deadline leaves the timer to the driver as well (`poll-due`).
//!
//! Of `hold.rs`, if a poll that meets the firing stays pending (`sleep-entry-waker-forgotten`), if an entry is released twice or
//! never (`sleep-entry-released-twice`, `sleep-entry-never-released`, `sleep-entry-left-unreleased`, `sleep-entry-kept-never`), if the driver is not
//! told of what is armed (`sleep-entry-armed-unsent`, `sleep-entry-renewed-unsent`), if a reset of a fired sleep arms nothing
//! (`sleep-entry-reset-early`), and if a timer is not counted once, or not taken out of its batch once (`sleep-entry-taken-counted`,
//! `sleep-entry-due-uncounted`, `sleep-entry-taken-in-flight`, `sleep-entry-due-in-flight`, `raw-unsettled`); and as `entry-in-hands`,
//! `sleep-entry-busy`.

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
        let sleep = Sleep::new(&fixture, &mut cache, &first, 5);
        let poller = sleep.poll_elsewhere(&fixture, cache, &second, None);
        let worker = fixture.worker(5);
        fixture.drive(&mut driver, &worker);
        let (sleep, mut cache, pending) = poller.join().unwrap();
        fixture.drive(&mut driver, &worker);
        assert_eq!((first.woken(), second.woken()), if pending { (0, 1) } else { (1, 0) });
        assert!(!sleep.drop(&fixture, &mut cache), "it is over");
        assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (1, 1));
        fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache()]);
        fixture.assert_sleeps_accounted();
    });
}

/// The same after it was moved later: the driver may have it in its hands for the old deadline still.
#[test]
fn a_poll_by_another_task_after_a_reset_against_fire() {
    explore(|| {
        let fixture = Fixture::new();
        let (mut driver, mut cache) = (fixture.driver(), Cache::new());
        let (first, second) = (Task::new(), Task::new());
        let sleep = Sleep::new(&fixture, &mut cache, &first, 5);
        let poller = sleep.poll_elsewhere(&fixture, cache, &second, Some(9));
        let (worker, later) = (fixture.worker(5), fixture.worker(9));
        fixture.drive(&mut driver, &worker);
        let (sleep, mut cache, pending) = poller.join().unwrap();
        fixture.drive(&mut driver, &worker);
        assert!(pending, "one that has fired begins anew");
        assert_eq!((first.woken(), second.woken()), (worker.ran.borrow().len(), 0), "it is early");
        fixture.drive(&mut driver, &later);
        assert_eq!(second.woken(), 1);
        assert!(!sleep.drop(&fixture, &mut cache), "it is over");
        fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache(), &mut later.into_cache()]);
        fixture.assert_sleeps_accounted();
    });
}

/// Either it wakes its task, or it is cancelled; the waker is gone in either case.
#[test]
fn a_drop_against_fire() {
    explore(|| {
        let fixture = Fixture::new();
        let (mut driver, mut cache, task) = (fixture.driver(), Cache::new(), Task::new());
        let sleep = Sleep::new(&fixture, &mut cache, &task, 5);
        let dropper = fixture.spawn(move |fixture| {
            let cancelled = sleep.drop(fixture, &mut cache);
            (cache, cancelled)
        });
        let worker = fixture.worker(5);
        fixture.drive(&mut driver, &worker);
        let (mut cache, cancelled) = dropper.join().unwrap();
        assert_eq!((task.woken(), Arc::strong_count(&task)), (usize::from(!cancelled), 1));
        fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache()]);
        fixture.assert_sleeps_accounted();
    });
}

/// The next sleep of the thread may have the same entry, and is not touched by what was begun for the one before.
#[test]
fn a_drop_and_another_sleep_against_fire() {
    explore(|| {
        let fixture = Fixture::new();
        let (mut driver, mut cache) = (fixture.driver(), Cache::new());
        let (first, second) = (Task::new(), Task::new());
        let sleep = Sleep::new(&fixture, &mut cache, &first, 5);
        let user = {
            let second = second.clone();
            fixture.spawn(move |fixture| {
                sleep.drop(fixture, &mut cache);
                let next = Sleep::new(fixture, &mut cache, &second, 9);
                (next, cache)
            })
        };
        let (worker, later) = (fixture.worker(5), fixture.worker(9));
        fixture.drive(&mut driver, &worker);
        let (next, mut cache) = user.join().unwrap();
        fixture.drive(&mut driver, &worker);
        assert_eq!(second.woken(), 0, "it is early");
        fixture.drive(&mut driver, &later);
        assert_eq!(second.woken(), 1);
        assert!(!next.drop(&fixture, &mut cache), "it is over");
        fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache(), &mut later.into_cache()]);
        fixture.assert_sleeps_accounted();
    });
}

/// A task that is woken, or looks by chance, has the sleep go on at once, while the driver is still in the middle of
/// waking it.
#[test]
fn used_again_against_fire() {
    explore(|| {
        let fixture = Fixture::new();
        let (mut driver, mut cache, task) = (fixture.driver(), Cache::new(), Task::new());
        let mut sleep = Sleep::new(&fixture, &mut cache, &task, 5);
        let user = {
            let task = task.clone();
            fixture.spawn(move |fixture| {
                let again = !sleep.poll(fixture, &mut cache, &task, 0);
                if again {
                    assert!(sleep.use_again(fixture, &mut cache, &task, 6));
                }
                (sleep, cache, again)
            })
        };
        let (worker, later) = (fixture.worker(5), fixture.worker(6));
        fixture.drive(&mut driver, &worker);
        let (sleep, mut cache, again) = user.join().unwrap();
        fixture.drive(&mut driver, &later);
        assert_eq!(task.woken(), 1 + usize::from(again));
        assert!(!sleep.drop(&fixture, &mut cache));
        fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache(), &mut later.into_cache()]);
        fixture.assert_sleeps_accounted();
    });
}

/// A poll at the deadline ends the sleep, or the driver wakes its task; then it is used again.
#[test]
fn a_poll_that_is_due_against_fire() {
    explore(|| {
        let fixture = Fixture::new();
        let (mut driver, mut cache) = (fixture.driver(), Cache::new());
        let (first, second) = (Task::new(), Task::new());
        let mut sleep = Sleep::new(&fixture, &mut cache, &first, 5);
        let user = {
            let second = second.clone();
            fixture.spawn(move |fixture| {
                assert!(!sleep.poll(fixture, &mut cache, &second, 5), "it is time");
                assert!(sleep.use_again(fixture, &mut cache, &second, 6));
                (sleep, cache)
            })
        };
        let (worker, later) = (fixture.worker(5), fixture.worker(6));
        fixture.drive(&mut driver, &worker);
        let (sleep, mut cache) = user.join().unwrap();
        let ran = worker.ran.borrow().len();
        assert_eq!((first.woken(), fixture.counts.completed(), Arc::strong_count(&first)), (ran, 1, 1));
        fixture.drive(&mut driver, &later);
        assert_eq!((second.woken(), fixture.counts.completed()), (1, 2));
        assert!(!sleep.drop(&fixture, &mut cache));
        fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache(), &mut later.into_cache()]);
        fixture.assert_sleeps_accounted();
    });
}

//! Explores a future that another task polls, that is reset or that is dropped, against fire.
//!
//! Invariant: the task of the last poll is woken once, each timer ends once, and each entry is released once.
//!
//! Promise: exactly once.

use std::sync::Arc;

use super::{Fixture, explore};
use crate::engine::memory::Cache;
use crate::fixture::{Sleep, Task};

/// Either the second poll finds that the sleep is over, or its task is woken. No task is woken twice.
#[test]
fn a_poll_by_another_task_against_fire() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let mut cache = Cache::new();
        let (first, second) = (Task::new(), Task::new());
        let sleep = Sleep::new_pending(&fixture, &mut cache, &first, 5);
        let poller = sleep.spawn_poller(&fixture, cache, &second, None);
        let worker = fixture.worker(5);
        fixture.drive(&mut driver, &worker);
        let (sleep, mut cache, pending) = poller.join().unwrap();
        fixture.drive(&mut driver, &worker);
        assert_eq!((first.wake_count(), second.wake_count()), if pending { (0, 1) } else { (1, 0) });
        assert!(!sleep.drop(&fixture, &mut cache), "the sleep is over");
        assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (1, 1));
        fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache()]);
        fixture.assert_sleep_counts();
    });
}

/// The same after a reset to a later deadline. The entry may still be in a batch for the old deadline.
#[test]
fn a_poll_by_another_task_after_a_reset_against_fire() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let mut cache = Cache::new();
        let (first, second) = (Task::new(), Task::new());
        let sleep = Sleep::new_pending(&fixture, &mut cache, &first, 5);
        let poller = sleep.spawn_poller(&fixture, cache, &second, Some(9));
        let (worker, later) = (fixture.worker(5), fixture.worker(9));
        fixture.drive(&mut driver, &worker);
        let (sleep, mut cache, pending) = poller.join().unwrap();
        fixture.drive(&mut driver, &worker);
        assert!(pending, "a fired sleep is armed again");
        assert_eq!((first.wake_count(), second.wake_count()), (worker.ran.borrow().len(), 0), "before the deadline");
        fixture.drive(&mut driver, &later);
        assert_eq!(second.wake_count(), 1);
        assert!(!sleep.drop(&fixture, &mut cache), "the sleep is over");
        fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache(), &mut later.into_cache()]);
        fixture.assert_sleep_counts();
    });
}

/// Either the timer wakes its task, or the drop cancels it. The waker is dropped in both cases.
#[test]
fn a_drop_against_fire() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let mut cache = Cache::new();
        let task = Task::new();
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

/// The thread's next sleep may reuse the entry. A run that began for the previous sleep does not affect it.
#[test]
fn a_drop_and_another_sleep_against_fire() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let mut cache = Cache::new();
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
        assert_eq!(second.wake_count(), 0, "before the deadline");
        fixture.drive(&mut driver, &later);
        assert_eq!(second.wake_count(), 1);
        assert!(!next.drop(&fixture, &mut cache), "the sleep is over");
        fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache(), &mut later.into_cache()]);
        fixture.assert_sleep_counts();
    });
}

/// A task polls a sleep that is over and reuses it at once, while the driver is still waking the task.
#[test]
fn reuse_against_fire() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let mut cache = Cache::new();
        let task = Task::new();
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

/// A poll at the deadline ends the sleep, or the driver wakes its task. Then the sleep is reused.
/// Promise: due now.
#[test]
fn a_poll_at_the_deadline_against_fire() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let mut cache = Cache::new();
        let (first, second) = (Task::new(), Task::new());
        let mut sleep = Sleep::new_pending(&fixture, &mut cache, &first, 5);
        let user = {
            let second = second.clone();
            fixture.spawn(move |fixture| {
                assert!(!sleep.poll(fixture, &mut cache, &second, 5), "the deadline has passed");
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

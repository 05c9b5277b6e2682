//! Explores a shutdown against each step of a future's timer.
//!
//! Invariant: a task whose sleep is pending is woken once, no waker is leaked, and one thread drops the last handle of
//! the shard.
//!
//! Promise: the shutdown loses nothing; after the shutdown.

use std::sync::Arc;

use super::{Fixture, explore};
use crate::engine::memory::Cache;
use crate::fixture::{Sleep, Task};

/// The shutdown wakes a task whose sleep is pending, or its poll finds that the sleep is over.
#[test]
fn shutdown_against_poll() {
    explore(|| {
        let fixture = Fixture::new();
        let mut cache = Cache::new();
        let first = Task::new();
        let second = Task::new();
        let sleep = Sleep::new_pending(&fixture, &mut cache, &first, 9);
        let poller = sleep.spawn_poller(&fixture, cache, &second, None);
        fixture.close(5);
        let (sleep, mut cache, pending) = poller.join().unwrap();
        assert_eq!(second.wake_count(), usize::from(pending));
        assert!(first.wake_count() + second.wake_count() <= 1);
        assert!(!sleep.drop(&fixture, &mut cache), "the sleep is over");
        assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (1, 1));
    });
}

/// The result of a sleep that was dropped.
struct Dropped {
    /// The drop cancelled the timer.
    cancelled: bool,
    /// The task of the last poll, if that poll found the sleep pending.
    waiting: Option<Arc<Task>>,
}

/// Asserts that the shutdown woke the waiting task, that no waker is left, and that the handle was counted.
fn assert_ended(fixture: &Fixture, tasks: &[Arc<Task>], Dropped { cancelled, waiting }: Dropped) {
    if let Some(task) = waiting {
        assert_eq!(task.wake_count(), usize::from(!cancelled));
    }
    for task in tasks {
        assert!(task.wake_count() <= 1);
        assert_eq!(Arc::strong_count(task), 1, "no waker is left");
    }
    assert_eq!(fixture.counts.freed(), 1, "one thread frees the shard");
}

#[test]
fn shutdown_against_a_sleep_that_is_not_polled() {
    explore(|| {
        let fixture = Fixture::new();
        let user = fixture.spawn(|fixture| {
            let mut cache = Cache::new();
            for _ in 0..2 {
                let Some(sleep) = Sleep::new(fixture, &mut cache, 9) else { return };
                sleep.drop(fixture, &mut cache);
            }
        });
        fixture.close(5);
        user.join().unwrap();
        assert_eq!(fixture.counts.freed(), 1);
    });
}

/// A sleep is created, polled and dropped.
#[test]
fn shutdown_against_a_sleep_that_is_polled_and_dropped() {
    explore(|| {
        let fixture = Fixture::new();
        let task = Task::new();
        let waker = task.clone();
        let user = fixture.spawn(move |fixture| {
            let mut cache = Cache::new();
            let mut dropped = Dropped { cancelled: false, waiting: None };
            let Some(mut sleep) = Sleep::new(fixture, &mut cache, 9) else { return dropped };
            if sleep.poll(fixture, &mut cache, &waker, 0) {
                dropped.cancelled = sleep.drop(fixture, &mut cache);
                dropped.waiting = Some(waker);
            } else {
                sleep.drop(fixture, &mut cache);
            }
            dropped
        });
        fixture.close(5);
        assert_ended(&fixture, &[task], user.join().unwrap());
    });
}

/// A sleep is reset, polled by the same or another task, and dropped.
#[test]
fn shutdown_against_a_sleep_that_is_reset() {
    explore(|| {
        let fixture = Fixture::new();
        let mut cache = Cache::new();
        let (first, second) = (Task::new(), Task::new());
        let mut sleep = Sleep::new_pending(&fixture, &mut cache, &first, 9);
        let tasks = [first, second.clone()];
        let user = fixture.spawn(move |fixture| {
            let mut dropped = Dropped { cancelled: false, waiting: None };
            // A reset that is refused ends the sleep.
            sleep.reset(fixture, &mut cache, 7, 0);
            if sleep.poll(fixture, &mut cache, &second, 0) {
                dropped.waiting = Some(second);
            }
            dropped.cancelled = sleep.drop(fixture, &mut cache);
            dropped
        });
        fixture.close(5);
        assert_ended(&fixture, &tasks, user.join().unwrap());
        assert!(tasks.iter().map(|task| task.wake_count()).sum::<usize>() <= 1, "at most one task is woken");
    });
}

/// The driver reaches the entry at the same time. Either the driver or the shutdown wakes the task.
#[test]
fn shutdown_against_a_sleep_that_is_due() {
    explore(|| {
        let fixture = Fixture::new();
        let mut cache = Cache::new();
        let task = Task::new();
        let sleep = Sleep::new_pending(&fixture, &mut cache, &task, 5);
        let driver = fixture.spawn_driver(fixture.driver(), 5);
        fixture.close(5);
        driver.join().unwrap();
        assert_eq!((task.wake_count(), Arc::strong_count(&task)), (1, 1));
        assert!(!sleep.drop(&fixture, &mut cache), "the sleep is over");
        assert_eq!(fixture.counts.freed(), 1);
    });
}

/// Another task also polls the sleep. The poll may leave the entry to the driver, and get no other one.
#[test]
fn shutdown_against_a_sleep_that_is_due_and_polled() {
    explore(|| {
        let fixture = Fixture::new();
        let mut cache = Cache::new();
        let (first, second) = (Task::new(), Task::new());
        let sleep = Sleep::new_pending(&fixture, &mut cache, &first, 5);
        let driver = fixture.spawn_driver(fixture.driver(), 5);
        let poller = sleep.spawn_poller(&fixture, cache, &second, None);
        fixture.close(5);
        driver.join().unwrap();
        let (sleep, mut cache, pending) = poller.join().unwrap();
        assert_eq!(second.wake_count(), usize::from(pending));
        assert!(first.wake_count() + second.wake_count() <= 1);
        assert!(!sleep.drop(&fixture, &mut cache), "the sleep is over");
        assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second), fixture.counts.freed()), (1, 1, 1));
    });
}

/// The sleep has fired, or a poll finds that it is due, and its task reuses it.
#[test]
fn shutdown_against_a_sleep_that_is_reused() {
    explore(|| {
        let fixture = Fixture::new();
        let mut cache = Cache::new();
        let (first, second) = (Task::new(), Task::new());
        let mut sleep = Sleep::new_pending(&fixture, &mut cache, &first, 5);
        let tasks = [first.clone(), second.clone()];
        let user = fixture.spawn(move |fixture| {
            assert!(!sleep.poll(fixture, &mut cache, &first, 5), "the deadline has passed");
            let waiting = sleep.reuse(fixture, &mut cache, &second, 9).then_some(second);
            Dropped { cancelled: sleep.drop(fixture, &mut cache), waiting }
        });
        fixture.drive(&mut fixture.driver(), &fixture.worker(5));
        fixture.close(5);
        assert_ended(&fixture, &tasks, user.join().unwrap());
    });
}

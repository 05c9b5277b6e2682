//! Explores a future's timer against a shutdown, and in a sparse block.
//!
//! Invariant: each timer ends once, for one reason; its waker is called or dropped; its entry is released once.
//!
//! Promise: exactly once; the shutdown loses nothing; after the shutdown.

use std::sync::Arc;

use loom::thread;

use super::{Fixture, explore};
use crate::engine::memory::Cache;
use crate::fixture::{Sleep, Task};
use crate::source::shard::sleep_entry::Phase;

/// Drops a sleep that a shutdown has ended, and asserts that nothing of it is left.
fn assert_ended(fixture: &Fixture, sleep: Sleep, cache: &mut Cache, tasks: &[&Arc<Task>]) {
    assert!(!sleep.drop(fixture, cache), "the sleep is over");
    assert_eq!(fixture.counts.freed(), 1, "one thread frees the shard");
    for task in tasks {
        assert_eq!(Arc::strong_count(task), 1, "its waker is dropped");
    }
    fixture.assert_sleep_counts();
}

/// The first poll comes before the shutdown, which then wakes the task, or it finds the shard closed.
#[test]
fn shutdown_against_the_first_poll() {
    explore(|| {
        let fixture = Fixture::new();
        let mut cache = Cache::new();
        let task = Task::new();
        let mut sleep = Sleep::new(&fixture, &mut cache, 9).unwrap();
        let user = {
            let (fixture, task) = (fixture.clone(), task.clone());
            thread::spawn(move || {
                let phase = sleep.phase(&fixture, &mut cache, &task, 5);
                (sleep, cache, phase)
            })
        };
        fixture.close(5);
        let (mut sleep, mut cache, phase) = user.join().unwrap();
        assert_ne!(phase, Phase::Elapsed);
        assert_eq!(task.wake_count(), usize::from(phase == Phase::Armed));
        assert_eq!(sleep.phase(&fixture, &mut cache, &task, 5), Phase::Shutdown);
        assert_ended(&fixture, sleep, &mut cache, &[&task]);
    });
}

/// A poll by another task comes before the shutdown, which then wakes that task, or it finds that the sleep is over.
#[test]
fn shutdown_against_a_poll_by_another_task() {
    explore(|| {
        let fixture = Fixture::new();
        let mut cache = Cache::new();
        let first = Task::new();
        let second = Task::new();
        let mut sleep = Sleep::new_pending(&fixture, &mut cache, &first, 9);
        let user = {
            let (fixture, second) = (fixture.clone(), second.clone());
            thread::spawn(move || {
                let phase = sleep.phase(&fixture, &mut cache, &second, 5);
                (sleep, cache, phase)
            })
        };
        fixture.close(5);
        let (mut sleep, mut cache, phase) = user.join().unwrap();
        assert_ne!(phase, Phase::Elapsed);
        assert_eq!(second.wake_count(), usize::from(phase == Phase::Armed));
        assert!(first.wake_count() + second.wake_count() <= 1);
        assert_eq!(sleep.phase(&fixture, &mut cache, &second, 5), Phase::Shutdown);
        assert_ended(&fixture, sleep, &mut cache, &[&first, &second]);
    });
}

/// A reset comes before the shutdown, or while the shutdown still has the waker. In the second case, it arms no timer.
#[test]
fn shutdown_against_a_reset() {
    explore(|| {
        let fixture = Fixture::new();
        let mut cache = Cache::new();
        let task = Task::new();
        let sleep = Sleep::new_pending(&fixture, &mut cache, &task, 9);
        let user = sleep.spawn_poller(&fixture, cache, &task, Some(7));
        fixture.close(5);
        let (mut sleep, mut cache, _) = user.join().unwrap();
        assert_eq!(task.wake_count(), 1);
        assert!(matches!(sleep.phase(&fixture, &mut cache, &task, 5), Phase::Shutdown | Phase::AfterShutdown));
        assert_ended(&fixture, sleep, &mut cache, &[&task]);
    });
}

/// The shutdown completes the sleep, or the drop cancels it.
#[test]
fn shutdown_against_a_drop() {
    explore(|| {
        let fixture = Fixture::new();
        let mut cache = Cache::new();
        let task = Task::new();
        let sleep = Sleep::new_pending(&fixture, &mut cache, &task, 9);
        let user = {
            let fixture = fixture.clone();
            thread::spawn(move || sleep.drop(&fixture, &mut cache))
        };
        fixture.close(5);
        let cancelled = user.join().unwrap();
        assert_eq!((task.wake_count(), Arc::strong_count(&task)), (usize::from(!cancelled), 1));
        assert_eq!(fixture.counts.freed(), 1, "one thread frees the shard");
        fixture.assert_sleep_counts();
    });
}

/// A poll by another task leaves an entry that is in a batch, and takes another entry.
///
/// A shutdown wakes the task, or refuses the second entry. Each entry had a handle.
#[test]
fn shutdown_against_a_poll_that_takes_another_entry() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let mut cache = Cache::new();
        let (first, second) = (Task::new(), Task::new());
        let mut sleep = Sleep::new_pending(&fixture, &mut cache, &first, 5);
        let mut batch = Vec::new();
        fixture.drive_with(&mut driver, 5, |expired| batch.extend(expired));
        assert_eq!(batch.len(), 1);
        let user = {
            let (fixture, second) = (fixture.clone(), second.clone());
            thread::spawn(move || {
                // The clock of this thread is behind the driver's.
                let phase = sleep.phase(&fixture, &mut cache, &second, 4);
                (sleep, cache, phase)
            })
        };
        fixture.close(5);
        fixture.worker(5).run(&batch);
        let (sleep, mut cache, phase) = user.join().unwrap();
        assert_eq!(second.wake_count(), usize::from(phase == Phase::Armed));
        assert_ended(&fixture, sleep, &mut cache, &[&first, &second]);
    });
}

/// The last sleep of a sparse block is dropped, while it is pending or after it is over. The driver wakes and retires
/// the memory.
#[test]
fn the_drop_of_the_last_sleep_in_a_sparse_block() {
    for pending in [true, false] {
        explore(move || {
            let fixture = Fixture::with_retained(1);
            let mut driver = fixture.driver();
            let worker = fixture.worker(5);
            let mut cache = Cache::new();
            let task = Task::new();
            let first = Sleep::new_pending(&fixture, &mut cache, &task, 100);
            let second = Sleep::new_pending(&fixture, &mut cache, &task, if pending { 100 } else { 5 });
            fixture.drive(&mut driver, &worker);
            first.drop(&fixture, &mut cache);
            fixture.core.drain_cache(&mut cache);
            fixture.drive(&mut driver, &worker);
            assert_eq!(
                (fixture.core.slab.len(), fixture.core.slab.len_outside_sparse()),
                (2, 0),
                "the block is sparse"
            );
            let dropper = {
                let fixture = fixture.clone();
                thread::spawn(move || assert_eq!(second.drop(&fixture, &mut cache), pending))
            };
            while fixture.core.slab.len() > 0 {
                fixture.sleep(&driver, &worker);
                fixture.drive(&mut driver, &worker);
            }
            dropper.join().unwrap();
            fixture.assert_all_free(&mut driver, [&mut worker.into_cache()]);
            fixture.assert_sleep_counts();
        });
    }
}

//! Model 16: a future's timer against a shutdown, on a thread that is ending, and in a sparse block. Each timer ends once,
//! for one reason; the waker is called or dropped; and the entry is released once.
//!
//! Fails if a poll stays pending in a closed shard (mutations `sleep-entry-closed-pending`, `sleep-entry-refused-pending`) or does not
//! count the assert_ended of its timer there (`sleep-entry-closed-uncounted`, `sleep-entry-refused-uncounted`), if a reset arms a closed entry
//! (`sleep-entry-reset-closed`), if a drop releases a closed entry to a cache (`entry-consume-closed`), if the last to have the shard
//! does not see it (`handle-last-not-freed`), if a drop that cannot do all in one transition does not cancel
//! (`sleep-entry-drop-not-cancelled`), and if an entry of a sparse block is kept (`sleep-entry-sparse-cached`, `handle-sparse-cached`).

use std::sync::Arc;

use loom::thread;

use super::{Fixture, explore};
use crate::engine::memory::Cache;
use crate::fixture::{Sleep, Task};
use crate::source::shard::coop::Progress;

/// Drops what is left of a sleep that a shutdown has ended.
fn assert_ended(fixture: &Fixture, sleep: Sleep, cache: &mut Cache, tasks: &[&Arc<Task>]) {
    assert!(!sleep.drop(fixture, cache), "it is over");
    assert_eq!(fixture.counts.unpinned(), 1, "one is the last to have the shard");
    for task in tasks {
        assert_eq!(Arc::strong_count(task), 1, "its waker is gone");
    }
    fixture.assert_sleep_counts();
}

/// The first poll is in time, and the shutdown wakes the task; or it finds the shard closed.
#[test]
fn shutdown_against_the_first_poll() {
    explore(|| {
        let fixture = Fixture::new();
        let (mut cache, task) = (Cache::new(), Task::new());
        let mut sleep = Sleep::new(&fixture, &mut cache, 9).unwrap();
        let user = {
            let (fixture, task) = (fixture.clone(), task.clone());
            thread::spawn(move || {
                let progress = sleep.progress(&fixture, &mut cache, &task, 5);
                (sleep, cache, progress)
            })
        };
        fixture.close(5);
        let (mut sleep, mut cache, progress) = user.join().unwrap();
        assert_ne!(progress, Progress::Elapsed);
        assert_eq!(task.wake_count(), usize::from(progress == Progress::Pending));
        assert_eq!(sleep.progress(&fixture, &mut cache, &task, 5), Progress::Shutdown);
        assert_ended(&fixture, sleep, &mut cache, &[&task]);
    });
}

/// A poll by another task is in time, and the shutdown wakes that task; or it finds that the sleep is over.
#[test]
fn shutdown_against_a_poll_by_another_task() {
    explore(|| {
        let fixture = Fixture::new();
        let (mut cache, first, second) = (Cache::new(), Task::new(), Task::new());
        let mut sleep = Sleep::new_pending(&fixture, &mut cache, &first, 9);
        let user = {
            let (fixture, second) = (fixture.clone(), second.clone());
            thread::spawn(move || {
                let progress = sleep.progress(&fixture, &mut cache, &second, 5);
                (sleep, cache, progress)
            })
        };
        fixture.close(5);
        let (mut sleep, mut cache, progress) = user.join().unwrap();
        assert_ne!(progress, Progress::Elapsed);
        assert_eq!(second.wake_count(), usize::from(progress == Progress::Pending));
        assert!(first.wake_count() + second.wake_count() <= 1);
        assert_eq!(sleep.progress(&fixture, &mut cache, &second, 5), Progress::Shutdown);
        assert_ended(&fixture, sleep, &mut cache, &[&first, &second]);
    });
}

/// A reset is in time, or comes when the shutdown has the waker still: then nothing is armed in its place.
#[test]
fn shutdown_against_a_reset() {
    explore(|| {
        let fixture = Fixture::new();
        let (mut cache, task) = (Cache::new(), Task::new());
        let sleep = Sleep::new_pending(&fixture, &mut cache, &task, 9);
        let user = sleep.spawn_poller(&fixture, cache, &task, Some(7));
        fixture.close(5);
        let (mut sleep, mut cache, _) = user.join().unwrap();
        assert_eq!(task.wake_count(), 1);
        assert_eq!(sleep.progress(&fixture, &mut cache, &task, 5), Progress::Shutdown);
        assert_ended(&fixture, sleep, &mut cache, &[&task]);
    });
}

/// The shutdown completes the sleep, or the drop cancels it.
#[test]
fn shutdown_against_a_drop() {
    explore(|| {
        let fixture = Fixture::new();
        let (mut cache, task) = (Cache::new(), Task::new());
        let sleep = Sleep::new_pending(&fixture, &mut cache, &task, 9);
        let user = {
            let fixture = fixture.clone();
            thread::spawn(move || sleep.drop(&fixture, &mut cache))
        };
        fixture.close(5);
        let cancelled = user.join().unwrap();
        assert_eq!((task.wake_count(), Arc::strong_count(&task)), (usize::from(!cancelled), 1));
        assert_eq!(fixture.counts.unpinned(), 1, "one is the last to have the shard");
        fixture.assert_sleep_counts();
    });
}

/// A poll by another task leaves an entry that is in a batch, and takes another; a shutdown wakes the task, or refuses
/// that. Each entry had a handle.
#[test]
fn shutdown_against_a_poll_that_takes_another_entry() {
    explore(|| {
        let fixture = Fixture::new();
        let (mut driver, mut cache) = (fixture.driver(), Cache::new());
        let (first, second) = (Task::new(), Task::new());
        let mut sleep = Sleep::new_pending(&fixture, &mut cache, &first, 5);
        let mut batch = Vec::new();
        fixture.drive_with(&mut driver, 5, |due| batch.extend(due));
        assert_eq!(batch.len(), 1);
        let user = {
            let (fixture, second) = (fixture.clone(), second.clone());
            thread::spawn(move || {
                // Its clock is behind the driver's.
                let progress = sleep.progress(&fixture, &mut cache, &second, 4);
                (sleep, cache, progress)
            })
        };
        fixture.close(5);
        fixture.worker(5).run(&batch);
        let (sleep, mut cache, progress) = user.join().unwrap();
        assert_eq!(second.wake_count(), usize::from(progress == Progress::Pending));
        assert_ended(&fixture, sleep, &mut cache, &[&first, &second]);
    });
}

/// A thread that is ending drops a sleep: it has no cache to keep the entry in. Before the deadline that cancels the timer.
#[test]
fn a_drop_by_a_thread_that_ends_against_fire() {
    for deadline in [5, 9] {
        explore(move || {
            let fixture = Fixture::new();
            let (mut driver, mut cache, task) = (fixture.driver(), Cache::new(), Task::new());
            let sleep = Sleep::new_pending(&fixture, &mut cache, &task, deadline);
            let dropper = {
                let fixture = fixture.clone();
                thread::spawn(move || sleep.drop_on_ending_thread(&fixture))
            };
            let (worker, later) = (fixture.worker(5), fixture.worker(9));
            fixture.drive(&mut driver, &worker);
            let cancelled = dropper.join().unwrap();
            assert!(cancelled || deadline == 5);
            fixture.drive(&mut driver, &later);
            assert_eq!((task.wake_count(), Arc::strong_count(&task)), (usize::from(!cancelled), 1));
            fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache(), &mut later.into_cache()]);
            fixture.assert_sleep_counts();
        });
    }
}

/// The last sleep of a sparse block is dropped, while it is pending or when it is over: the driver comes to give the
/// memory back.
#[test]
fn the_drop_of_the_last_sleep_in_a_sparse_block() {
    for pending in [true, false] {
        explore(move || {
            let fixture = Fixture::with_retained(1);
            let (mut driver, worker) = (fixture.driver(), fixture.worker(5));
            let (mut cache, task) = (Cache::new(), Task::new());
            let first = Sleep::new_pending(&fixture, &mut cache, &task, 100);
            let second = Sleep::new_pending(&fixture, &mut cache, &task, if pending { 100 } else { 5 });
            fixture.drive(&mut driver, &worker);
            first.drop(&fixture, &mut cache);
            fixture.core.give_back(&mut cache);
            fixture.drive(&mut driver, &worker);
            assert_eq!((fixture.core.slab.len(), fixture.core.slab.dense_len()), (2, 0), "the block is sparse");
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

//! Model 6: shutdown against schedule, cancel, reset and fire. What was accepted is fired, cancelled or handed back.
//!
//! Fails if `close` marks only the entries that are armed (mutation `entry-close-unmarked`), if the slab can be carved
//! after it was closed (`slab-carve-closed`), if the count of blocks orders nothing (`slab-blocks-relaxed`,
//! `slab-closed-relaxed`), if a repeating timer sends itself to a driver that has ended (`entry-rearm-closed`), if a worker
//! starts what is closed (`entry-start-closed`), if a run that is not waited for is forgotten (`entry-claim-running`), if a
//! run ends before its host has reported it (`run-report-late-once`), and if what has been running is taken before it is
//! over (`core-claim-early`).
//!
//! More of model 6: `shutdown_inside`, `shutdown_memory` and `shutdown_sleep`.

use super::{Scene, explore};
use crate::shard::entry::Held;
use crate::shard::memory::Cache;

#[test]
fn shutdown_against_schedule() {
    explore(|| {
        let scene = Scene::new();
        let scheduler = scene.spawn(move |scene| {
            let mut cache = Cache::new();
            let handles = [1, 9].map(|deadline| scene.schedule(&mut cache, scene.tally.once(), deadline));
            handles.iter().flatten().count()
        });
        let driver = scene.spawn_driver(scene.rounds(), 5);
        scene.close(5);
        let accepted = scheduler.join().unwrap();
        driver.join().unwrap();
        assert_eq!(scene.tally.run() + scene.tally.unfired(), accepted);
        assert_eq!(scene.tally.dropped(), 2);
    });
}

#[test]
fn shutdown_against_cancel_and_reset() {
    explore(|| {
        let scene = Scene::new();
        let (mut rounds, mut cache) = (scene.rounds(), Cache::new());
        let cancelled = scene.schedule(&mut cache, scene.tally.once(), 9).unwrap();
        let moved = scene.schedule(&mut cache, scene.tally.once(), 9).unwrap();
        scene.drive(&mut rounds, &scene.worker(0));
        let caller = scene.spawn(move |scene| {
            let won = scene.cancel(&cancelled);
            scene.reset(&moved, 5, 0);
            scene.release(moved, &mut cache);
            scene.release(cancelled, &mut cache);
            won
        });
        scene.close(5);
        let won = caller.join().unwrap();
        assert_eq!(scene.tally.unfired(), if won { 1 } else { 2 });
        assert_eq!(scene.tally.dropped(), 2);
    });
}

/// The shutdown waits for a run that has started, and takes what is not.
#[test]
fn shutdown_against_fire() {
    explore(|| {
        let scene = Scene::new();
        let (rounds, mut cache) = (scene.rounds(), Cache::new());
        let handle = scene.schedule(&mut cache, scene.tally.once(), 5).unwrap();
        let driver = scene.spawn_driver(rounds, 5);
        scene.close(5);
        assert_eq!(scene.tally.dropped(), 1, "the run is over, or will never be");
        assert_eq!(scene.tally.ended(), scene.tally.run(), "the host has reported the run");
        driver.join().unwrap();
        assert_eq!(scene.tally.run() + scene.tally.unfired(), 1);
        scene.release(handle, &mut cache);
    });
}

/// A batch that is dropped unrun while the shard is shut down: its timer ends there, or is handed back.
#[test]
fn shutdown_against_a_dropped_batch() {
    explore(|| {
        let scene = Scene::new();
        let (mut rounds, mut cache) = (scene.rounds(), Cache::new());
        let handle = scene.schedule(&mut cache, scene.tally.once(), 5).unwrap();
        let due = scene.batch(&mut rounds, 5);
        let dropper = scene.spawn(move |scene| {
            let worker = scene.worker(5);
            due.into_iter().filter(|&index| scene.core.discard(index, 5, &worker)).count()
        });
        scene.close(5);
        let in_batch = dropper.join().unwrap();
        assert_eq!((scene.tally.cancelled() + scene.tally.unfired(), scene.tally.dropped()), (1, 1));
        assert_eq!(in_batch + scene.tally.in_batches().1, 1, "it leaves its batch once");
        scene.release(handle, &mut cache);
    });
}

/// A repeating timer comes back with its next deadline, and makes no run after the shutdown.
#[test]
fn shutdown_against_repeat() {
    explore(|| {
        let scene = Scene::new();
        let (rounds, mut cache) = (scene.rounds(), Cache::new());
        scene.schedule(&mut cache, scene.tally.repeating(2, 9), 5).unwrap();
        let driver = scene.spawn_driver(rounds, 7);
        scene.close(7);
        let runs = scene.tally.run();
        assert_eq!(scene.tally.ended(), runs, "the host has reported each run");
        driver.join().unwrap();
        assert_eq!(scene.tally.run(), runs);
        assert_eq!((scene.tally.unfired(), scene.tally.dropped()), (1, 1));
    });
}

/// From the moment that the core is closed no callback starts, though nothing has been claimed yet: other shards are
/// closed meanwhile, and foreign code runs.
#[test]
fn nothing_starts_in_a_closed_core() {
    explore(|| {
        let scene = Scene::new();
        let (rounds, mut cache) = (scene.rounds(), Cache::new());
        let handle = scene.schedule(&mut cache, scene.tally.once(), 5).unwrap();
        let driver = scene.spawn_driver(rounds, 5);
        scene.core.close();
        // Either it has started by now, or it never does.
        let started = scene.entry(&handle).close().timer == Held::Running || scene.tally.run() == 1;
        driver.join().unwrap();
        assert_eq!(scene.tally.run(), usize::from(started));
        scene.claim(5, true);
        assert_eq!(scene.tally.run() + scene.tally.unfired(), 1);
        assert_eq!(scene.tally.dropped(), 1);
    });
}

/// A cancel that comes between the close and the claim ends the timer, as one before does.
#[test]
fn a_closed_timer_is_cancelled_or_claimed() {
    explore(|| {
        let scene = Scene::new();
        let mut cache = Cache::new();
        let handle = scene.schedule(&mut cache, scene.tally.once(), 9).unwrap();
        scene.core.close();
        let canceller = scene.spawn(move |scene| {
            let won = scene.cancel(&handle);
            scene.release(handle, &mut cache);
            won
        });
        scene.claim(5, true);
        let won = canceller.join().unwrap();
        assert_eq!(scene.tally.unfired(), usize::from(!won));
        assert_eq!(scene.tally.dropped(), 1);
    });
}

/// A shutdown that does not wait ends a repeating timer with its run; one that is not running comes back.
#[test]
fn a_run_that_is_not_waited_for_is_the_last() {
    explore(|| {
        let scene = Scene::new();
        let (rounds, mut cache) = (scene.rounds(), Cache::new());
        scene.schedule(&mut cache, scene.tally.repeating(2, 9), 5).unwrap();
        let driver = scene.spawn_driver(rounds, 7);
        scene.core.close();
        scene.claim(7, false);
        assert_eq!(scene.tally.cancelled() + scene.tally.unfired(), 1);
        driver.join().unwrap();
        assert_eq!(scene.tally.dropped(), 1);
    });
}

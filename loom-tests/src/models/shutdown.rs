//! Model 6: shutdown against schedule, cancel, reset and fire. What was accepted is fired, cancelled or handed back.
//!
//! Fails if `close` marks only the entries that are armed (mutation `entry-close-armed-only`), if the slab can be carved
//! after it was closed (`slab-alloc-closed`), if the count of blocks orders nothing (`slab-blocks-relaxed`,
//! `slab-closed-relaxed`), if a repeating timer sends itself to a driver that has ended (`entry-next-closed`), if a worker
//! starts what is closed (`entry-start-closed`), if a run that is not waited for is forgotten (`entry-claim-running`), if a
//! run ends before its host has reported it (`run-reported-late-once`), and if what has been running is taken before it is
//! over (`core-claim-no-wait`).
//!
//! More of model 6: `shutdown_inside`, `shutdown_memory` and `shutdown_sleep`.

use super::{Fixture, explore};
use crate::engine::entry::Held;
use crate::engine::memory::Cache;

#[test]
fn shutdown_against_schedule() {
    explore(|| {
        let fixture = Fixture::new();
        let scheduler = fixture.spawn(move |fixture| {
            let mut cache = Cache::new();
            let handles = [1, 9].map(|deadline| fixture.schedule(&mut cache, fixture.counts.once(), deadline));
            handles.iter().flatten().count()
        });
        let driver = fixture.spawn_driver(fixture.driver(), 5);
        fixture.close(5);
        let accepted = scheduler.join().unwrap();
        driver.join().unwrap();
        assert_eq!(fixture.counts.run() + fixture.counts.unfired(), accepted);
        assert_eq!(fixture.counts.dropped(), 2);
    });
}

#[test]
fn shutdown_against_cancel_and_reset() {
    explore(|| {
        let fixture = Fixture::new();
        let (mut driver, mut cache) = (fixture.driver(), Cache::new());
        let first = fixture.schedule(&mut cache, fixture.counts.once(), 9).unwrap();
        let second = fixture.schedule(&mut cache, fixture.counts.once(), 9).unwrap();
        fixture.drive(&mut driver, &fixture.worker(0));
        let caller = fixture.spawn(move |fixture| {
            let cancelled = fixture.cancel(&first);
            fixture.reset(&second, 5, 0);
            fixture.release(second, &mut cache);
            fixture.release(first, &mut cache);
            cancelled
        });
        fixture.close(5);
        let cancelled = caller.join().unwrap();
        assert_eq!(fixture.counts.unfired(), if cancelled { 1 } else { 2 });
        assert_eq!(fixture.counts.dropped(), 2);
    });
}

/// The shutdown waits for a run that has started, and takes what is not.
#[test]
fn shutdown_against_fire() {
    explore(|| {
        let fixture = Fixture::new();
        let (driver, mut cache) = (fixture.driver(), Cache::new());
        let handle = fixture.schedule(&mut cache, fixture.counts.once(), 5).unwrap();
        let driver = fixture.spawn_driver(driver, 5);
        fixture.close(5);
        assert_eq!(fixture.counts.dropped(), 1, "the run is over, or will never be");
        assert_eq!(fixture.counts.ended(), fixture.counts.run(), "the host has reported the run");
        driver.join().unwrap();
        assert_eq!(fixture.counts.run() + fixture.counts.unfired(), 1);
        fixture.release(handle, &mut cache);
    });
}

/// A batch that is dropped unrun while the shard is shut down: its timer ends there, or is handed back.
#[test]
fn shutdown_against_a_dropped_batch() {
    explore(|| {
        let fixture = Fixture::new();
        let (mut driver, mut cache) = (fixture.driver(), Cache::new());
        let handle = fixture.schedule(&mut cache, fixture.counts.once(), 5).unwrap();
        let due = fixture.collect_batch(&mut driver, 5);
        let dropper = fixture.spawn(move |fixture| {
            let worker = fixture.worker(5);
            due.into_iter().filter(|&index| fixture.core.discard(index, 5, &worker)).count()
        });
        fixture.close(5);
        let in_batch = dropper.join().unwrap();
        assert_eq!((fixture.counts.cancelled() + fixture.counts.unfired(), fixture.counts.dropped()), (1, 1));
        assert_eq!(in_batch + fixture.counts.batch_counts().1, 1, "it leaves its batch once");
        fixture.release(handle, &mut cache);
    });
}

/// A repeating timer comes back with its next deadline, and makes no run after the shutdown.
#[test]
fn shutdown_against_repeat() {
    explore(|| {
        let fixture = Fixture::new();
        let (driver, mut cache) = (fixture.driver(), Cache::new());
        fixture.schedule(&mut cache, fixture.counts.repeating(2, 9), 5).unwrap();
        let driver = fixture.spawn_driver(driver, 7);
        fixture.close(7);
        let runs = fixture.counts.run();
        assert_eq!(fixture.counts.ended(), runs, "the host has reported each run");
        driver.join().unwrap();
        assert_eq!(fixture.counts.run(), runs);
        assert_eq!((fixture.counts.unfired(), fixture.counts.dropped()), (1, 1));
    });
}

/// From the moment that the core is closed no callback starts, though nothing has been claimed yet: other shards are
/// closed meanwhile, and foreign code runs.
#[test]
fn no_callback_starts_in_a_closed_core() {
    explore(|| {
        let fixture = Fixture::new();
        let (driver, mut cache) = (fixture.driver(), Cache::new());
        let handle = fixture.schedule(&mut cache, fixture.counts.once(), 5).unwrap();
        let driver = fixture.spawn_driver(driver, 5);
        fixture.core.close();
        // Either it has started by now, or it never does.
        let started = fixture.entry(&handle).close().timer == Held::Running || fixture.counts.run() == 1;
        driver.join().unwrap();
        assert_eq!(fixture.counts.run(), usize::from(started));
        fixture.claim(5, true);
        assert_eq!(fixture.counts.run() + fixture.counts.unfired(), 1);
        assert_eq!(fixture.counts.dropped(), 1);
    });
}

/// A cancel that comes between the close and the claim ends the timer, as one before does.
#[test]
fn a_closed_timer_is_cancelled_or_claimed() {
    explore(|| {
        let fixture = Fixture::new();
        let mut cache = Cache::new();
        let handle = fixture.schedule(&mut cache, fixture.counts.once(), 9).unwrap();
        fixture.core.close();
        let canceller = fixture.spawn(move |fixture| {
            let cancelled = fixture.cancel(&handle);
            fixture.release(handle, &mut cache);
            cancelled
        });
        fixture.claim(5, true);
        let cancelled = canceller.join().unwrap();
        assert_eq!(fixture.counts.unfired(), usize::from(!cancelled));
        assert_eq!(fixture.counts.dropped(), 1);
    });
}

/// A shutdown that does not wait ends a repeating timer with its run; one that is not running comes back.
#[test]
fn a_shutdown_without_a_wait_ends_a_repeating_timer() {
    explore(|| {
        let fixture = Fixture::new();
        let (driver, mut cache) = (fixture.driver(), Cache::new());
        fixture.schedule(&mut cache, fixture.counts.repeating(2, 9), 5).unwrap();
        let driver = fixture.spawn_driver(driver, 7);
        fixture.core.close();
        fixture.claim(7, false);
        assert_eq!(fixture.counts.cancelled() + fixture.counts.unfired(), 1);
        driver.join().unwrap();
        assert_eq!(fixture.counts.dropped(), 1);
    });
}

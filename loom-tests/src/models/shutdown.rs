//! Explores a shutdown against schedule, cancel, reset and fire.
//!
//! Invariant: each accepted timer fires, is cancelled or is handed back, once. No callback starts after the close.
//!
//! The models `shutdown_inside`, `shutdown_memory` and `shutdown_sleep` explore other parts of a shutdown.
//!
//! Promise: the shutdown loses nothing; a shutdown with a limit.

use super::{Fixture, explore};
use crate::engine::entry::RUNNING;
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
        let mut driver = fixture.driver();
        let mut cache = Cache::new();
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

/// The shutdown waits for a run that has started, and claims a timer that has not.
#[test]
fn shutdown_against_fire() {
    explore(|| {
        let fixture = Fixture::new();
        let driver = fixture.driver();
        let mut cache = Cache::new();
        let handle = fixture.schedule(&mut cache, fixture.counts.once(), 5).unwrap();
        let driver = fixture.spawn_driver(driver, 5);
        fixture.close(5);
        assert_eq!(fixture.counts.dropped(), 1, "the callback has run, or never will");
        assert_eq!(fixture.counts.ended(), fixture.counts.run(), "the worker has reported the run");
        driver.join().unwrap();
        assert_eq!(fixture.counts.run() + fixture.counts.unfired(), 1);
        fixture.release(handle, &mut cache);
    });
}

/// A batch is dropped without a run during the shutdown. Its timer ends there, or is handed back.
#[test]
fn shutdown_against_a_dropped_batch() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let mut cache = Cache::new();
        let handle = fixture.schedule(&mut cache, fixture.counts.once(), 5).unwrap();
        let batch = fixture.collect_batch(&mut driver, 5);
        let dropper = fixture.spawn(move |fixture| {
            let worker = fixture.worker(5);
            batch.into_iter().filter(|&index| worker.discard(index)).count()
        });
        fixture.close(5);
        let in_batch = dropper.join().unwrap();
        assert_eq!((fixture.counts.cancelled() + fixture.counts.unfired(), fixture.counts.dropped()), (1, 1));
        assert!(in_batch <= 1);
        assert_eq!(fixture.counts.batch_counts().1, 1, "the timer leaves its batch once");
        fixture.release(handle, &mut cache);
    });
}

/// A repeating timer is handed back with its next deadline, and does not run after the shutdown.
#[test]
fn shutdown_against_repeat() {
    explore(|| {
        let fixture = Fixture::new();
        let driver = fixture.driver();
        let mut cache = Cache::new();
        fixture.schedule(&mut cache, fixture.counts.repeating(5, 2, 9), 5).unwrap();
        let driver = fixture.spawn_driver(driver, 7);
        fixture.close(7);
        let runs = fixture.counts.run();
        assert_eq!(fixture.counts.ended(), runs, "the worker has reported each run");
        driver.join().unwrap();
        assert_eq!(fixture.counts.run(), runs);
        assert_eq!((fixture.counts.unfired(), fixture.counts.dropped()), (1, 1));
    });
}

/// No callback starts once the core is closed, although nothing has been claimed yet. Between close and claim, a
/// shutdown closes other shards and runs foreign code.
#[test]
fn no_callback_starts_in_a_closed_core() {
    explore(|| {
        let fixture = Fixture::new();
        let driver = fixture.driver();
        let mut cache = Cache::new();
        let handle = fixture.schedule(&mut cache, fixture.counts.once(), 5).unwrap();
        let driver = fixture.spawn_driver(driver, 5);
        fixture.core.close();
        // The callback has started by now, or it never starts.
        let started = fixture.entry(&handle).close().has(RUNNING) || fixture.counts.run() == 1;
        driver.join().unwrap();
        assert_eq!(fixture.counts.run(), usize::from(started));
        fixture.claim(5, true);
        assert_eq!(fixture.counts.run() + fixture.counts.unfired(), 1);
        assert_eq!(fixture.counts.dropped(), 1);
    });
}

/// A cancel between the close and the claim ends the timer, like one before the close.
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

/// A shutdown that does not wait ends a repeating timer that is running, and hands back one that is not.
#[test]
fn a_shutdown_without_a_wait_ends_a_repeating_timer() {
    explore(|| {
        let fixture = Fixture::new();
        let driver = fixture.driver();
        let mut cache = Cache::new();
        fixture.schedule(&mut cache, fixture.counts.repeating(5, 2, 9), 5).unwrap();
        let driver = fixture.spawn_driver(driver, 7);
        fixture.core.close();
        fixture.claim(7, false);
        assert_eq!(fixture.counts.cancelled() + fixture.counts.unfired(), 1);
        driver.join().unwrap();
        assert_eq!(fixture.counts.dropped(), 1);
    });
}

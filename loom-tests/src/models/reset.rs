//! Explores resets, to earlier and later deadlines, against fire.
//!
//! Invariant: the timer runs once, at the deadline that was in force.
//!
//! Promise: never early.

use super::{Fixture, explore};
use crate::engine::memory::Cache;

/// A reset to a later deadline while the timer fires. It runs once, at the deadline in force.
#[test]
fn reset_later_against_fire() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let mut cache = Cache::new();
        let handle = fixture.schedule(&mut cache, fixture.counts.once(), 5).unwrap();
        let resetter = fixture.spawn(move |fixture| {
            let was_reset = fixture.reset(&handle, 9, 5);
            fixture.release(handle, &mut cache);
            (was_reset, cache)
        });
        let worker = fixture.worker(5);
        fixture.drive(&mut driver, &worker);
        let (was_reset, mut cache) = resetter.join().unwrap();
        let later = fixture.worker(9);
        fixture.drive(&mut driver, &later);
        let ran: Vec<u64> = worker.ran.take().into_iter().chain(later.ran.take()).collect();
        assert_eq!(ran, [if was_reset { 9 } else { 5 }]);
        assert_eq!(fixture.counts.dropped(), 1);
        fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache(), &mut later.into_cache()]);
    });
}

/// A reset to a later deadline while the batch is dropped without a run. The timer ends there, or runs at its new
/// deadline.
#[test]
fn reset_later_against_a_dropped_batch() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let mut cache = Cache::new();
        let handle = fixture.schedule(&mut cache, fixture.counts.once(), 5).unwrap();
        let batch = fixture.collect_batch(&mut driver, 5);
        let resetter = fixture.spawn(move |fixture| {
            let was_reset = fixture.reset(&handle, 9, 5);
            fixture.release(handle, &mut cache);
            (was_reset, cache)
        });
        let worker = fixture.worker(5);
        for index in batch {
            assert!(worker.discard(index), "only the discard takes it out of its batch");
        }
        let (was_reset, mut cache) = resetter.join().unwrap();
        let later = fixture.worker(9);
        fixture.drive(&mut driver, &later);
        assert_eq!(*later.ran.borrow(), if was_reset { vec![9] } else { vec![] });
        assert_eq!((fixture.counts.cancelled(), fixture.counts.dropped()), (usize::from(!was_reset), 1));
        fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache(), &mut later.into_cache()]);
    });
}

/// A reset to an earlier deadline while the driver goes to sleep until the old one. The driver wakes for the new one.
#[test]
fn reset_earlier_against_sleep() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let mut cache = Cache::new();
        let handle = fixture.schedule(&mut cache, fixture.counts.once(), 100).unwrap();
        let resetter = fixture.spawn(move |fixture| {
            assert!(fixture.reset(&handle, 5, 5));
            fixture.release(handle, &mut cache);
            cache
        });
        let worker = fixture.worker(5);
        fixture.drive_until_runs(&mut driver, &worker, 1);
        let mut cache = resetter.join().unwrap();
        fixture.drive(&mut driver, &worker);
        assert_eq!(*worker.ran.borrow(), [5]);
        fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache()]);
    });
}

/// The same for an entry in the intake, while the driver sleeps until a later deadline.
#[test]
fn reset_earlier_in_the_intake_against_sleep() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let mut cache = Cache::new();
        let worker = fixture.worker(5);
        fixture.schedule(&mut cache, fixture.counts.once(), 50).unwrap();
        fixture.drive(&mut driver, &worker);
        let resetter = fixture.spawn(move |fixture| {
            let handle = fixture.schedule(&mut cache, fixture.counts.once(), 100).unwrap();
            assert!(fixture.reset(&handle, 5, 5));
        });
        fixture.drive_until_runs(&mut driver, &worker, 1);
        resetter.join().unwrap();
        assert_eq!(*worker.ran.borrow(), [5]);
        fixture.close(5);
    });
}

/// Two resets and the run at the same time. The timer runs once, at a deadline that a successful reset set.
#[test]
fn two_resets_against_fire() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let mut cache = Cache::new();
        let handle = fixture.schedule(&mut cache, fixture.counts.once(), 5).unwrap();
        let index = handle.0;
        let resetters =
            [7, 9].map(|deadline| fixture.spawn(move |fixture| fixture.reset(&super::Handle(index), deadline, 5)));
        let worker = fixture.worker(5);
        fixture.drive(&mut driver, &worker);
        let was_reset = resetters.map(|resetter| resetter.join().unwrap());
        let last = fixture.worker(9);
        fixture.drive(&mut driver, &last);
        let ran: Vec<u64> = worker.ran.take().into_iter().chain(last.ran.take()).collect();
        match was_reset {
            [false, false] => assert_eq!(ran, [5]),
            [true, false] => assert_eq!(ran, [7]),
            [false, true] => assert_eq!(ran, [9]),
            [true, true] => assert!(ran == [7] || ran == [9]),
        }
        fixture.release(handle, &mut cache);
        fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache(), &mut last.into_cache()]);
    });
}

//! Model 4: reset, earlier and later, against fire.
//!
//! Fails if `start` runs a timer that was moved away from under it (mutation `entry-start-moved`), if `discard` ends one
//! (`entry-discard-moved`), if a reset to an earlier deadline is not sent (`core-reset-unsent`, `raw-reset-unsent`), or
//! does not ring (`core-reset-silent`).

use super::{Fixture, explore};
use crate::engine::memory::Cache;

/// Moved later while it fires: it runs once, at the deadline that was in force.
#[test]
fn reset_later_against_fire() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let mut cache = Cache::new();
        let handle = fixture.schedule(&mut cache, fixture.counts.once(), 5).unwrap();
        let mover = fixture.spawn(move |fixture| {
            let moved = fixture.reset(&handle, 9, 5);
            fixture.release(handle, &mut cache);
            (moved, cache)
        });
        let worker = fixture.worker(5);
        fixture.drive(&mut driver, &worker);
        let (moved, mut cache) = mover.join().unwrap();
        let later = fixture.worker(9);
        fixture.drive(&mut driver, &later);
        let ran: Vec<u64> = worker.ran.take().into_iter().chain(later.ran.take()).collect();
        assert_eq!(ran, [if moved { 9 } else { 5 }]);
        assert_eq!(fixture.counts.dropped(), 1);
        fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache(), &mut later.into_cache()]);
    });
}

/// Moved later while its batch is dropped unrun: it ends there, or stays pending and runs at its new deadline.
#[test]
fn reset_later_against_a_dropped_batch() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let mut cache = Cache::new();
        let handle = fixture.schedule(&mut cache, fixture.counts.once(), 5).unwrap();
        let due = fixture.batch(&mut driver, 5);
        let mover = fixture.spawn(move |fixture| {
            let moved = fixture.reset(&handle, 9, 5);
            fixture.release(handle, &mut cache);
            (moved, cache)
        });
        let worker = fixture.worker(5);
        for index in due {
            assert!(fixture.core.discard(index, 5, &worker), "nobody else takes it out of its batch");
        }
        let (moved, mut cache) = mover.join().unwrap();
        let later = fixture.worker(9);
        fixture.drive(&mut driver, &later);
        assert_eq!(*later.ran.borrow(), if moved { vec![9] } else { vec![] });
        assert_eq!((fixture.counts.cancelled(), fixture.counts.dropped()), (usize::from(!moved), 1));
        fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache(), &mut later.into_cache()]);
    });
}

/// Moved earlier while the driver goes to sleep until the old deadline: it wakes for the new one.
#[test]
fn reset_earlier_against_sleep() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let mut cache = Cache::new();
        let handle = fixture.schedule(&mut cache, fixture.counts.once(), 100).unwrap();
        let mover = fixture.spawn(move |fixture| {
            assert!(fixture.reset(&handle, 5, 5));
            fixture.release(handle, &mut cache);
            cache
        });
        let worker = fixture.worker(5);
        fixture.drive_until(&mut driver, &worker, 1);
        let mut cache = mover.join().unwrap();
        fixture.drive(&mut driver, &worker);
        assert_eq!(*worker.ran.borrow(), [5]);
        fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache()]);
    });
}

/// The same for an entry in the intake, where nobody is due to look before an hour.
#[test]
fn reset_earlier_in_the_intake_against_sleep() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let mut cache = Cache::new();
        let worker = fixture.worker(5);
        fixture.schedule(&mut cache, fixture.counts.once(), 50).unwrap();
        fixture.drive(&mut driver, &worker);
        let mover = fixture.spawn(move |fixture| {
            let handle = fixture.schedule(&mut cache, fixture.counts.once(), 100).unwrap();
            assert!(fixture.reset(&handle, 5, 5));
        });
        fixture.drive_until(&mut driver, &worker, 1);
        mover.join().unwrap();
        assert_eq!(*worker.ran.borrow(), [5]);
        fixture.close(5);
    });
}

/// Two resets at once, and the firing: whichever deadline is kept, it was asked for, and the timer runs once.
#[test]
fn two_resets_against_fire() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let mut cache = Cache::new();
        let handle = fixture.schedule(&mut cache, fixture.counts.once(), 5).unwrap();
        let index = handle.0;
        let movers =
            [7, 9].map(|deadline| fixture.spawn(move |fixture| fixture.reset(&super::Handle(index), deadline, 5)));
        let worker = fixture.worker(5);
        fixture.drive(&mut driver, &worker);
        let moved = movers.map(|mover| mover.join().unwrap());
        let last = fixture.worker(9);
        fixture.drive(&mut driver, &last);
        let ran: Vec<u64> = worker.ran.take().into_iter().chain(last.ran.take()).collect();
        match moved {
            [false, false] => assert_eq!(ran, [5]),
            [true, false] => assert_eq!(ran, [7]),
            [false, true] => assert_eq!(ran, [9]),
            [true, true] => assert!(ran == [7] || ran == [9]),
        }
        fixture.release(handle, &mut cache);
        fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache(), &mut last.into_cache()]);
    });
}

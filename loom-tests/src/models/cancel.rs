//! Explores a cancel against fire against the drop of the handle.
//!
//! Invariant: either the cancel or the run ends the timer. The callback is dropped once, and the entry becomes free
//! once.
//!
//! Promise: exactly once.

use super::{Fixture, explore};
use crate::engine::memory::Cache;

/// Either the cancel or the run ends the timer, and the entry becomes free once.
#[test]
fn cancel_and_fire_have_one_winner() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let worker = fixture.worker(5);
        let mut cache = Cache::new();
        let handle = fixture.schedule(&mut cache, fixture.counts.once(), 5).unwrap();
        let canceller = fixture.spawn(move |fixture| {
            let cancelled = fixture.cancel(&handle);
            fixture.release(handle, &mut cache);
            (cancelled, cache)
        });
        fixture.drive(&mut driver, &worker);
        let (cancelled, mut cache) = canceller.join().unwrap();
        fixture.drive(&mut driver, &worker);
        assert_eq!(fixture.counts.run() == 0, cancelled);
        assert_eq!(fixture.counts.dropped(), 1);
        assert_eq!(fixture.counts.completed() + fixture.counts.cancelled(), 1);
        fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache()]);
    });
}

/// One of two cancels or the run ends the timer.
#[test]
fn two_cancels_and_fire_have_one_winner() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let worker = fixture.worker(5);
        let mut cache = Cache::new();
        let handle = fixture.schedule(&mut cache, fixture.counts.once(), 5).unwrap();
        let index = handle.0;
        let cancellers = [(); 2].map(|()| fixture.spawn(move |fixture| fixture.cancel(&super::Handle(index))));
        fixture.drive(&mut driver, &worker);
        let wins = cancellers.map(|canceller| usize::from(canceller.join().unwrap()));
        assert_eq!(fixture.counts.run() + wins[0] + wins[1], 1);
        assert_eq!(fixture.counts.dropped(), 1);
        fixture.release(handle, &mut cache);
        fixture.drive(&mut driver, &worker);
        fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache()]);
    });
}

/// A detached timer fires, whenever its handle is dropped.
#[test]
fn a_dropped_handle_leaves_the_timer() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let worker = fixture.worker(5);
        let mut cache = Cache::new();
        let handle = fixture.schedule(&mut cache, fixture.counts.once(), 5).unwrap();
        let dropper = fixture.spawn(move |fixture| {
            fixture.release(handle, &mut cache);
            cache
        });
        fixture.drive(&mut driver, &worker);
        let mut cache = dropper.join().unwrap();
        assert_eq!((fixture.counts.run(), fixture.counts.dropped()), (1, 1));
        fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache()]);
    });
}

/// An executor drops a batch, which ends its timers, against a cancel.
#[test]
fn cancel_and_a_dropped_batch_have_one_winner() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let worker = fixture.worker(5);
        let mut cache = Cache::new();
        let handle = fixture.schedule(&mut cache, fixture.counts.once(), 5).unwrap();
        let batch = fixture.collect_batch(&mut driver, 5);
        let canceller = fixture.spawn(move |fixture| {
            fixture.cancel(&handle);
            fixture.release(handle, &mut cache);
            cache
        });
        for index in batch {
            worker.discard(index);
        }
        let mut cache = canceller.join().unwrap();
        fixture.drive(&mut driver, &worker);
        assert_eq!((fixture.counts.run(), fixture.counts.dropped(), fixture.counts.cancelled()), (0, 1, 1));
        fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache()]);
    });
}

//! Model 2: cancel against fire against the drop of the handle.
//!
//! Fails if `start` leaves a one-shot armed while it runs (mutation `entry-start-armed`), and if `release` frees an entry
//! that is running (`entry-release-running`) or in a batch (`entry-release-dispatched`, `entry-discard-not-dispatched`). Of `raw.rs`,
//! if a cancel does not drop the closure (`handle-closure-leaked`), and if an entry that is released is not kept
//! (`handle-not-cached`).

use super::{Fixture, explore};
use crate::engine::memory::Cache;

/// One winner; the callback is run or dropped, once; the entry is recycled once.
#[test]
fn cancel_and_fire_have_one_winner() {
    explore(|| {
        let fixture = Fixture::new();
        let (mut driver, worker) = (fixture.driver(), fixture.worker(5));
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

/// Of two cancels and the firing, one wins.
#[test]
fn two_cancels_and_fire_have_one_winner() {
    explore(|| {
        let fixture = Fixture::new();
        let (mut driver, worker) = (fixture.driver(), fixture.worker(5));
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
        let (mut driver, worker) = (fixture.driver(), fixture.worker(5));
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

/// A batch that the executor drops ends its timers, against a cancel.
#[test]
fn cancel_and_a_dropped_batch_have_one_winner() {
    explore(|| {
        let fixture = Fixture::new();
        let (mut driver, worker) = (fixture.driver(), fixture.worker(5));
        let mut cache = Cache::new();
        let handle = fixture.schedule(&mut cache, fixture.counts.once(), 5).unwrap();
        let due = fixture.collect_batch(&mut driver, 5);
        let canceller = fixture.spawn(move |fixture| {
            fixture.cancel(&handle);
            fixture.release(handle, &mut cache);
            cache
        });
        for index in due {
            fixture.core.discard(index, 5, &worker);
        }
        let mut cache = canceller.join().unwrap();
        fixture.drive(&mut driver, &worker);
        assert_eq!((fixture.counts.run(), fixture.counts.dropped(), fixture.counts.cancelled()), (0, 1, 1));
        fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache()]);
    });
}

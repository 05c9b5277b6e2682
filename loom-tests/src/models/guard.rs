//! Explores a handle whose cancel also releases it, if possible in one transition, against all that ends or uses its
//! timer.
//!
//! Invariant: the timer ends once, its closure is dropped once, and the entry becomes free once.
//!
//! Fails under mutations: `entry-consume-periodic` (the cancel reads the callback while a worker may write it). The
//! mutations `entry-consume-dispatched` and `entry-consume-closed`, under which an entry goes to a cache although it is
//! in a batch or closed, fail in the models `wake` and `sleep_entry`.

use super::{Fixture, explore};
use crate::engine::memory::Cache;

/// The callback runs, or is dropped without a run.
#[test]
fn against_fire() {
    explore(|| {
        let fixture = Fixture::new();
        let (mut driver, worker, mut cache) = (fixture.driver(), fixture.worker(7), Cache::new());
        let handle = fixture.schedule(&mut cache, fixture.counts.once(), 7).unwrap();
        let consumer = fixture.spawn(move |fixture| (fixture.cancel_and_release(handle, &mut cache), cache));
        fixture.drive(&mut driver, &worker);
        let (cancelled, mut cache) = consumer.join().unwrap();
        fixture.drive(&mut driver, &worker);
        assert_eq!(
            (fixture.counts.run(), fixture.counts.cancelled()),
            (usize::from(!cancelled), usize::from(cancelled))
        );
        assert_eq!(fixture.counts.dropped(), 1);
        fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache()]);
    });
}

/// After the cancel, no run begins; a worker in the middle of a run drops the closure.
#[test]
fn against_the_next_run() {
    explore(|| {
        let fixture = Fixture::new();
        let (mut driver, worker, mut cache) = (fixture.driver(), fixture.worker(7), Cache::new());
        let handle = fixture.schedule(&mut cache, fixture.counts.repeating(5, 2, 2), 5).unwrap();
        let consumer = fixture.spawn(move |fixture| (fixture.cancel_and_release(handle, &mut cache), cache));
        fixture.drive(&mut driver, &worker);
        let (cancelled, mut cache) = consumer.join().unwrap();
        fixture.drive(&mut driver, &worker);
        assert_eq!(cancelled, fixture.counts.completed() == 0);
        assert_eq!((fixture.counts.dropped(), fixture.counts.cancelled() + fixture.counts.completed()), (1, 1));
        fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache()]);
    });
}

/// The timer is cancelled or handed back. Either the cancel or the shutdown drops the last pin of the shard.
#[test]
fn against_a_shutdown() {
    explore(|| {
        let fixture = Fixture::new();
        let mut cache = Cache::new();
        let handle = fixture.schedule(&mut cache, fixture.counts.once(), 7).unwrap();
        let consumer = fixture.spawn(move |fixture| fixture.cancel_and_release(handle, &mut cache));
        fixture.close(5);
        let cancelled = consumer.join().unwrap();
        assert_eq!(
            (fixture.counts.unfired(), fixture.counts.cancelled()),
            (usize::from(!cancelled), usize::from(cancelled))
        );
        assert_eq!((fixture.counts.dropped(), fixture.counts.unpinned()), (1, 1));
    });
}

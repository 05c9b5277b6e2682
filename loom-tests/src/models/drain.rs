//! Explores a cancel, and a cache that gives back its entries, while the driver drains the same entry or cascades it.
//!
//! Invariant: the callback does not run, it is dropped once, and the entry becomes free once.
//!
//! Promise: exactly once.

use super::{Fixture, explore};
use crate::engine::memory::Cache;

/// Cancels and drops a timer while the driver turns at each tick of `meanwhile`.
fn cancel_during(deadline: u64, before: &'static [u64], meanwhile: &'static [u64]) {
    explore(move || {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let mut cache = Cache::new();
        let mut caches = Vec::new();
        let handle = fixture.schedule(&mut cache, fixture.counts.once(), deadline).unwrap();
        let mut turn = |driver: &mut _, ticks: &[u64]| {
            for &tick in ticks {
                let worker = fixture.worker(tick);
                fixture.drive(driver, &worker);
                caches.push(worker.into_cache());
            }
        };
        turn(&mut driver, before);
        let canceller = fixture.spawn_canceller(handle, cache);
        turn(&mut driver, meanwhile);
        canceller.join().unwrap();
        turn(&mut driver, &meanwhile[meanwhile.len() - 1..]);
        assert_eq!((fixture.counts.run(), fixture.counts.dropped()), (0, 1));
        assert_eq!(driver.next_round(), u64::MAX, "the wheel is empty");
        fixture.assert_all_free(&mut driver, &mut caches);
    });
}

#[test]
fn cancel_during_a_drain() {
    cancel_during(9, &[], &[0]);
}

/// With two slots per level, a deadline 9 ticks ahead cascades at ticks 8 and 9.
#[test]
fn cancel_during_a_cascade() {
    cancel_during(9, &[0], &[4, 8]);
}

#[test]
fn cancel_between_two_drains() {
    cancel_during(9, &[], &[0, 4]);
}

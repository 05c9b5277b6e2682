//! Model 3: cancel, and a cache that gives back, against the drain of the same entry, and during a cascade.
//!
//! Fails if the driver recycles an entry that still has a handle (mutation `entry-free-with-handle`).

use super::{Scene, explore};
use crate::shard::memory::Cache;

/// Cancels and drops a timer while the driver turns at each of these ticks.
fn cancel_during(deadline: u64, before: &'static [u64], meanwhile: &'static [u64]) {
    explore(move || {
        let scene = Scene::new();
        let mut rounds = scene.rounds();
        let mut cache = Cache::new();
        let mut spent = Vec::new();
        let handle = scene.schedule(&mut cache, scene.tally.once(), deadline).unwrap();
        let mut turn = |rounds: &mut _, ticks: &[u64]| {
            for &tick in ticks {
                let worker = scene.worker(tick);
                scene.drive(rounds, &worker);
                spent.push(worker.into_cache());
            }
        };
        turn(&mut rounds, before);
        let canceller = scene.cancel_elsewhere(handle, cache);
        turn(&mut rounds, meanwhile);
        canceller.join().unwrap();
        turn(&mut rounds, &meanwhile[meanwhile.len() - 1..]);
        assert_eq!((scene.tally.run(), scene.tally.dropped()), (0, 1));
        assert_eq!(rounds.next_deadline(), u64::MAX, "nothing is left in the wheel");
        scene.assert_all_free(&mut rounds, &mut spent);
    });
}

#[test]
fn cancel_during_a_drain() {
    cancel_during(9, &[], &[0]);
}

/// With two slots a level, a deadline 9 ticks ahead is handed down at ticks 8 and 9.
#[test]
fn cancel_during_a_cascade() {
    cancel_during(9, &[0], &[4, 8]);
}

#[test]
fn cancel_between_two_drains() {
    cancel_during(9, &[], &[0, 4]);
}

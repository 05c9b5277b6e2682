//! Explores an intake with more timers than the driver collects in a turn, against threads that use these timers.
//!
//! Invariant: each timer runs, is cancelled or is handed back, once.
//!
//! Promise: the shutdown loses nothing.

use super::{Fixture, Handle, explore};
use crate::engine::entry::CLOSED;
use crate::engine::memory::Cache;

/// The current tick.
const NOW: u64 = 5;
/// A deadline that never comes.
const LATER: u64 = 9;

/// Pushes three timers to the intake. `user` acts on the first and the last, which expire later, while the driver runs
/// the timers that expire now. In all, `runs` callbacks run.
fn three_timers(runs: usize, user: impl Fn(&Fixture, [Handle; 2], &mut Cache) + Copy + Send + Sync + 'static) {
    explore(move || {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let mut cache = Cache::new();
        let worker = fixture.worker(NOW);
        let timers = [LATER, NOW, LATER].map(|at| fixture.schedule(&mut cache, fixture.counts.once(), at).unwrap());
        let [first, _, last] = timers;
        let user = fixture.spawn(move |fixture| user(fixture, [first, last], &mut cache));
        fixture.drive_until_runs(&mut driver, &worker, runs);
        user.join().unwrap();
        fixture.close(NOW);
        assert_eq!(fixture.counts.run(), runs, "the other timers have not expired");
    });
}

/// The driver has collected the first timer while the last one is still in the backlog, or neither, or both.
#[test]
fn a_timer_of_a_backlog_is_reset() {
    three_timers(2, |fixture, [_, last], _| assert!(fixture.reset(&last, NOW, NOW)));
}

/// A new timer reuses the entry of the first.
#[test]
fn a_timer_of_a_backlog_is_cancelled() {
    three_timers(2, |fixture, [first, _], cache| {
        assert!(fixture.cancel(&first));
        fixture.release(first, cache);
        fixture.schedule(cache, fixture.counts.once(), NOW).unwrap();
    });
}

/// A shutdown between two turns hands back the timers that have not run.
#[test]
fn a_shard_is_closed_in_the_middle_of_a_backlog() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let mut cache = Cache::new();
        for handle in [NOW; 3].map(|at| fixture.schedule(&mut cache, fixture.counts.once(), at).unwrap()) {
            fixture.release(handle, &mut cache);
        }
        let driver = fixture.spawn(move |fixture| fixture.drive_until_closed(&mut driver, &fixture.worker(NOW)));
        fixture.close(NOW);
        assert_eq!(fixture.counts.run() + fixture.counts.unfired(), 3);
        driver.join().unwrap();
        assert_eq!((fixture.counts.dropped(), fixture.counts.freed()), (3, 1));
        assert!(fixture.core.slab.close().all(|entry| entry.state().has(CLOSED)), "every entry stays closed");
    });
}

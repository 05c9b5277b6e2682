//! Model 14: more timers in the intake than the driver collects in a turn, against threads that use them meanwhile.
//!
//! Fails if the driver drops what is left of a backlog after its first turn (mutation `turn-backlog-dropped`), and if an
//! entry that the driver finds in a closed shard becomes free (`entry-free-closed`).

use super::{Fixture, Handle, explore};
use crate::engine::entry::Entry;
use crate::engine::memory::Cache;

/// The present.
const NOW: u64 = 5;
/// A deadline that does not come.
const LATER: u64 = 9;

/// Puts three timers into the intake. `user` acts on the first and the last, which are due later, while the driver runs
/// what is due now: so many callbacks.
fn three_timers(runs: usize, user: impl Fn(&Fixture, [Handle; 2], &mut Cache) + Copy + Send + Sync + 'static) {
    explore(move || {
        let fixture = Fixture::new();
        let (mut driver, mut cache, worker) = (fixture.driver(), Cache::new(), fixture.worker(NOW));
        let timers = [LATER, NOW, LATER].map(|at| fixture.schedule(&mut cache, fixture.counts.once(), at).unwrap());
        let [first, _, last] = timers;
        let user = fixture.spawn(move |fixture| user(fixture, [first, last], &mut cache));
        fixture.drive_until_runs(&mut driver, &worker, runs);
        user.join().unwrap();
        fixture.close(NOW);
        assert_eq!(fixture.counts.run(), runs, "the others are not due");
    });
}

/// The driver has the first timer collected, and the last one still in the backlog, or neither, or both.
#[test]
fn a_timer_of_a_backlog_is_reset() {
    three_timers(2, |fixture, [_, last], _| assert!(fixture.reset(&last, NOW, NOW)));
}

/// A new timer takes the entry of the first.
#[test]
fn a_timer_of_a_backlog_is_cancelled() {
    three_timers(2, |fixture, [first, _], cache| {
        assert!(fixture.cancel(&first));
        fixture.release(first, cache);
        fixture.schedule(cache, fixture.counts.once(), NOW).unwrap();
    });
}

/// A shutdown between two turns hands back what has not run.
#[test]
fn a_shard_is_closed_in_the_middle_of_a_backlog() {
    explore(|| {
        let fixture = Fixture::new();
        let (mut driver, mut cache) = (fixture.driver(), Cache::new());
        for handle in [NOW; 3].map(|at| fixture.schedule(&mut cache, fixture.counts.once(), at).unwrap()) {
            fixture.release(handle, &mut cache);
        }
        let driver = fixture.spawn(move |fixture| fixture.drive_until_closed(&mut driver, &fixture.worker(NOW)));
        fixture.close(NOW);
        assert_eq!(fixture.counts.run() + fixture.counts.unfired(), 3);
        driver.join().unwrap();
        assert_eq!((fixture.counts.dropped(), fixture.counts.unpinned()), (3, 1));
        assert!(fixture.core.slab.close().all(Entry::is_closed), "for good");
    });
}

//! Model 14: more timers in the intake than the driver collects in a turn, against threads that use them meanwhile.
//!
//! Fails if the driver drops what is left of a backlog after its first turn (mutation `rounds-backlog-cut`), and if an
//! entry that the driver finds in a closed shard becomes free (`entry-free-closed`).

use super::{Handle, Scene, explore};
use crate::shard::entry::Entry;
use crate::shard::memory::Cache;

/// The present.
const DUE: u64 = 5;
/// A deadline that does not come.
const LATER: u64 = 9;

/// Puts three timers into the intake. `user` acts on the first and the last, which are due later, while the driver runs
/// what is due now: so many callbacks.
fn three_timers(runs: usize, user: impl Fn(&Scene, [Handle; 2], &mut Cache) + Copy + Send + Sync + 'static) {
    explore(move || {
        let scene = Scene::new();
        let (mut rounds, mut cache, worker) = (scene.rounds(), Cache::new(), scene.worker(DUE));
        let timers = [LATER, DUE, LATER].map(|at| scene.schedule(&mut cache, scene.tally.once(), at).unwrap());
        let [first, _, last] = timers;
        let user = scene.spawn(move |scene| user(scene, [first, last], &mut cache));
        scene.drive_until(&mut rounds, &worker, runs);
        user.join().unwrap();
        scene.close(DUE);
        assert_eq!(scene.tally.run(), runs, "the others are not due");
    });
}

/// The driver has the first timer collected, and the last one still in the backlog, or neither, or both.
#[test]
fn a_timer_of_a_backlog_is_reset() {
    three_timers(2, |scene, [_, last], _| assert!(scene.reset(&last, DUE, DUE)));
}

/// A new timer takes the entry of the first.
#[test]
fn a_timer_of_a_backlog_is_cancelled() {
    three_timers(2, |scene, [first, _], cache| {
        assert!(scene.cancel(&first));
        scene.release(first, cache);
        scene.schedule(cache, scene.tally.once(), DUE).unwrap();
    });
}

/// A shutdown between two turns hands back what has not run.
#[test]
fn a_shard_is_closed_in_the_middle_of_a_backlog() {
    explore(|| {
        let scene = Scene::new();
        let (mut rounds, mut cache) = (scene.rounds(), Cache::new());
        for handle in [DUE; 3].map(|at| scene.schedule(&mut cache, scene.tally.once(), at).unwrap()) {
            scene.release(handle, &mut cache);
        }
        let driver = scene.spawn(move |scene| scene.drive_until_closed(&mut rounds, &scene.worker(DUE)));
        scene.close(DUE);
        assert_eq!(scene.tally.run() + scene.tally.unfired(), 3);
        driver.join().unwrap();
        assert_eq!((scene.tally.dropped(), scene.tally.last()), (3, 1));
        assert!(scene.core.slab.close().all(Entry::is_closed), "for good");
    });
}

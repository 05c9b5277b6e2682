//! Model 14: more timers in the intake than the driver collects in a turn, against threads that use them meanwhile.
//!
//! Fails if the driver drops what is left of a backlog after its first turn (mutation `rounds-backlog-cut`), and if an
//! entry that the driver finds in a closed shard becomes free (`entry-free-closed`).

use super::{Scene, explore};
use crate::shard::entry::Entry;
use crate::shard::memory::Cache;

/// The tick at which all timers are due in the end.
const DUE: u64 = 5;

/// The first timer is cancelled, and a new one takes its entry; the last is reset to an earlier deadline.
#[test]
fn timers_of_a_backlog_are_cancelled_and_reset() {
    explore(|| {
        let scene = Scene::new();
        let (mut rounds, mut cache, worker) = (scene.rounds(), Cache::new(), scene.worker(DUE));
        let [first, _, last] = [9, DUE, 9].map(|at| scene.schedule(&mut cache, scene.tally.once(), at).unwrap());
        let user = scene.spawn(move |scene| {
            assert!(scene.reset(&last, DUE, DUE));
            assert!(scene.cancel(&first));
            scene.release(first, &mut cache);
            scene.schedule(&mut cache, scene.tally.once(), DUE).unwrap();
        });
        scene.drive_until(&mut rounds, &worker, 3);
        user.join().unwrap();
        scene.drive(&mut rounds, &worker);
        assert_eq!((scene.tally.run(), scene.tally.dropped()), (3, 4));
        assert_eq!(rounds.next_deadline(), u64::MAX, "nothing is left in the wheel");
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

//! Model 5: a cached entry is armed again in place, against the driver that comes to it.
//!
//! Fails if `arm` leaves an entry where the driver comes too late (mutation `entry-arm-blind`), if the wheel moves an
//! entry by another deadline than it has told (`rounds-placed`), if a released entry is not marked as cached
//! (`entry-release-uncached`), and if `collect` forgets that the entry is in the wheel (`entry-collect-linked`).

use super::{Scene, explore};
use crate::shard::memory::Cache;

/// A timer due at `first`, perhaps moved to `moved`, is cancelled, if it has not fired, and another due at `second` takes
/// its entry, while the driver turns at `meanwhile`. That one runs, once, when it is due.
fn reaim(first: u64, moved: Option<u64>, before: bool, meanwhile: u64, second: u64) {
    explore(move || {
        let scene = Scene::new();
        let (mut rounds, mut cache) = (scene.rounds(), Cache::new());
        let early = scene.worker(0);
        let handle = scene.schedule(&mut cache, scene.tally.once(), first).unwrap();
        if before {
            scene.drive(&mut rounds, &early);
        }
        if let Some(moved) = moved {
            assert!(scene.reset(&handle, moved, 0));
        }
        let user = scene.spawn(move |scene| {
            let cancelled = scene.cancel(&handle);
            scene.release(handle, &mut cache);
            let handle = scene.schedule(&mut cache, scene.tally.once(), second).unwrap();
            scene.release(handle, &mut cache);
            (cancelled, cache)
        });
        let worker = scene.worker(meanwhile);
        if meanwhile < second {
            scene.drive(&mut rounds, &worker);
        } else {
            scene.drive_until(&mut rounds, &worker, 1);
        }
        let (cancelled, mut cache) = user.join().unwrap();
        let last = scene.worker(second.max(meanwhile));
        scene.drive(&mut rounds, &last);
        let ran: Vec<u64> = worker.ran.take().into_iter().chain(last.ran.take()).collect();
        let expected = if cancelled { vec![second] } else { vec![first, second] };
        assert_eq!((ran, scene.tally.dropped()), (expected, 2));
        scene.assert_all_free(&mut rounds, [&mut cache, &mut worker.into_cache(), &mut last.into_cache()]);
    });
}

#[test]
fn to_a_later_deadline() {
    reaim(5, None, true, 5, 9);
}

#[test]
fn to_an_earlier_deadline() {
    reaim(9, None, true, 5, 5);
}

#[test]
fn in_the_intake() {
    reaim(9, None, false, 5, 5);
}

/// The driver finds the first timer moved to a deadline after that of the second.
#[test]
fn of_a_timer_that_was_moved() {
    reaim(5, Some(20), true, 5, 9);
}

/// With two slots a level, a deadline 9 ticks ahead is handed down at ticks 8 and 9.
#[test]
fn during_a_cascade() {
    reaim(9, Some(20), true, 9, 10);
}

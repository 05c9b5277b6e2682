//! Model 6, of shutdowns from inside a callback: such a shutdown waits for other callbacks, not for its own.
//!
//! Fails if it waits for no callback of the shard that it is inside of (mutation `core-wait-inside`), if it waits for its
//! own (`call-stack-blind`), and if it leaves its own timer armed (`core-claim-self`).

use super::{Scene, explore};
use crate::shard::entry::{Callback, Recur};
use crate::shard::memory::Cache;

const NOW: u64 = 5;

/// When the shutdown returns, the other callback has run, or will never run.
#[test]
fn beside_a_callback_on_another_thread() {
    explore(|| {
        let scene = Scene::new();
        let (mut rounds, mut cache) = (scene.rounds(), Cache::new());
        let other = scene.schedule(&mut cache, scene.tally.once(), NOW).unwrap();
        let inside = scene.clone();
        let shut_down = move || {
            inside.close(NOW);
            assert_eq!(inside.tally.dropped(), 1, "the other is over, or will never be");
        };
        let own = scene.schedule(&mut cache, Callback::once(shut_down), NOW).unwrap();
        assert_eq!(scene.batch(&mut rounds, NOW).len(), 2);
        let index = other.0;
        let worker = scene.spawn(move |scene| scene.worker(NOW).run(&[index]));
        scene.worker(NOW).run(&[own.0]);
        assert_eq!(scene.tally.run() + scene.tally.unfired(), 1);
        worker.join().unwrap();
        [own, other].into_iter().for_each(|handle| _ = scene.release(handle, &mut cache));
        assert_eq!(scene.tally.last(), 1);
    });
}

/// The callback runs on the driver's own thread, which then ends by itself; another thread schedules meanwhile.
#[test]
fn on_the_drivers_thread() {
    explore(|| {
        let scene = Scene::new();
        let (mut rounds, inside) = (scene.rounds(), scene.clone());
        let shut_down = move || _ = inside.close(NOW);
        scene.schedule(&mut Cache::new(), Callback::once(shut_down), NOW).unwrap();
        let scheduler = scene.spawn(|scene| scene.schedule(&mut Cache::new(), scene.tally.once(), NOW).is_some());
        scene.drive_until_closed(&mut rounds, &scene.worker(NOW));
        let accepted = scheduler.join().unwrap();
        assert_eq!(scene.tally.run() + scene.tally.unfired(), usize::from(accepted));
        assert_eq!(scene.tally.dropped(), 1);
    });
}

/// A repeating callback is dropped after its run, and not handed back. Another thread waits for that run.
#[test]
fn of_a_repeating_callback() {
    /// With a callback that counts its drop.
    struct ShutsDown(Scene, #[expect(dead_code)] Callback);
    impl Recur for ShutsDown {
        fn run(&mut self, due: u64) -> Option<u64> {
            self.0.close(NOW);
            Some(due)
        }
    }
    explore(|| {
        let scene = Scene::new();
        let (mut rounds, mut cache) = (scene.rounds(), Cache::new());
        let callback = ShutsDown(scene.clone(), scene.tally.once());
        let handle = scene.schedule(&mut cache, Callback::repeating(Box::new(callback)), NOW).unwrap();
        let batch = scene.batch(&mut rounds, NOW);
        let waiter = scene.spawn(move |scene| {
            scene.core.wait_for_run(scene.entry(&handle));
            scene.release(handle, &mut cache);
        });
        let worker = scene.worker(NOW);
        worker.run(&batch);
        waiter.join().unwrap();
        assert_eq!((scene.tally.cancelled(), scene.tally.unfired()), (1, 0));
        assert_eq!((scene.tally.dropped(), scene.tally.last()), (1, 1));
    });
}

//! Explores a shutdown inside a callback.
//!
//! Invariant: the shutdown waits for all callbacks but its own, whose timer it also ends.
//!
//! Promise: the shutdown loses nothing; a shutdown with a limit.

use super::{Fixture, explore};
use crate::engine::entry::{Callback, PeriodicCallback};
use crate::engine::memory::Cache;
use crate::fixture::once;

const NOW: u64 = 5;

/// When the shutdown returns, the other callback has run, or never will.
#[test]
fn beside_a_callback_on_another_thread() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let mut cache = Cache::new();
        let other = fixture.schedule(&mut cache, fixture.counts.once(), NOW).unwrap();
        let inside = fixture.clone();
        let shut_down = move || {
            inside.close(NOW);
            assert_eq!(inside.counts.dropped(), 1, "the other callback has run, or never will");
        };
        let own = fixture.schedule(&mut cache, once(shut_down), NOW).unwrap();
        assert_eq!(fixture.collect_batch(&mut driver, NOW).len(), 2);
        let index = other.0;
        let worker = fixture.spawn(move |fixture| fixture.worker(NOW).run(&[index]));
        fixture.worker(NOW).run(&[own.0]);
        assert_eq!(fixture.counts.run() + fixture.counts.unfired(), 1);
        worker.join().unwrap();
        [own, other].into_iter().for_each(|handle| _ = fixture.release(handle, &mut cache));
        assert_eq!(fixture.counts.freed(), 1);
    });
}

/// The callback runs on the thread that drives, which then ends by itself, while another thread schedules a timer.
#[test]
fn on_an_own_thread() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let inside = fixture.clone();
        let shut_down = move || _ = inside.close(NOW);
        fixture.schedule(&mut Cache::new(), once(shut_down), NOW).unwrap();
        let scheduler =
            fixture.spawn(|fixture| fixture.schedule(&mut Cache::new(), fixture.counts.once(), NOW).is_some());
        fixture.drive_until_closed(&mut driver, &fixture.worker(NOW));
        let accepted = scheduler.join().unwrap();
        assert_eq!(fixture.counts.run() + fixture.counts.unfired(), usize::from(accepted));
        assert_eq!(fixture.counts.dropped(), 1);
    });
}

/// A repeating callback is dropped after its run and not handed back, while another thread waits for that run.
#[test]
fn of_a_repeating_callback() {
    /// Contains a callback that counts its drop.
    struct ShutsDown(Fixture, #[expect(dead_code)] Callback);
    impl PeriodicCallback for ShutsDown {
        fn run(&mut self) -> Option<u64> {
            self.0.close(NOW);
            Some(NOW)
        }

        fn reset(&mut self, _due: u64) {}
    }
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let mut cache = Cache::new();
        let callback = ShutsDown(fixture.clone(), fixture.counts.once());
        let handle = fixture.schedule(&mut cache, Callback::periodic::<()>(Box::new(callback)), NOW).unwrap();
        let batch = fixture.collect_batch(&mut driver, NOW);
        let waiter = fixture.spawn(move |fixture| {
            fixture.core.wait_for_run(fixture.entry(&handle), None);
            fixture.release(handle, &mut cache);
        });
        let worker = fixture.worker(NOW);
        worker.run(&batch);
        waiter.join().unwrap();
        assert_eq!((fixture.counts.cancelled(), fixture.counts.unfired()), (1, 0));
        assert_eq!((fixture.counts.dropped(), fixture.counts.freed()), (1, 1));
    });
}

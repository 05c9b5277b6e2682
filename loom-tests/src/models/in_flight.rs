//! Explores an entry that is marked `ENQUEUED` but not pushed yet, against an earlier deadline, a cancel and a
//! shutdown.
//!
//! `ENQUEUED` is set before the push. A call that finds it set, and sets an earlier deadline, does not push again, and
//! a driver that it wakes may find the intake empty. Time does not advance in these models, so only the later push can
//! then wake the driver.
//!
//! Invariant: the driver wakes for the earliest deadline, each timer ends once, and each entry becomes free once.
//!
//! Promise: no timer is forgotten.

use loom::sync::Arc;
use loom::sync::atomic::AtomicBool;
use loom::sync::atomic::Ordering::{Acquire, Release};
use loom::sync::mpsc::{self, Sender};
use loom::thread::JoinHandle;

use super::{Fixture, Handle, explore};
use crate::engine::driver::ShardDriver;
use crate::engine::entry::{Callback, DriverNotice, PeriodicCallback};
use crate::engine::memory::Cache;
use crate::fixture::Counts;

/// The current tick, and the deadline of every timer that is reset.
const NOW: u64 = 5;
/// A deadline that never comes.
const LATER: u64 = 100;

/// Signals its first run, and asks for the next run at `LATER`.
struct RunsAgainLater {
    runs: Counts,
    started: Option<Sender<()>>,
}

impl PeriodicCallback for RunsAgainLater {
    fn run(&mut self) -> Option<u64> {
        self.runs.count_run();
        if let Some(started) = self.started.take() {
            started.send(()).unwrap();
        }
        Some(LATER)
    }

    fn reset(&mut self, _due: u64) {}
}

/// Schedules a repeating timer, which a worker on its own thread runs and arms again for `LATER`. `caller` acts on the
/// timer after the run has begun.
fn spawn_run_and_caller(
    fixture: &Fixture,
    driver: &mut ShardDriver,
    caller: impl FnOnce(&Fixture, Handle, &mut Cache) + Send + 'static,
) -> [JoinHandle<Cache>; 2] {
    let mut cache = Cache::new();
    let (started, has_started) = mpsc::channel();
    let callback = RunsAgainLater { runs: fixture.counts.clone(), started: Some(started) };
    let handle = fixture.schedule(&mut cache, Callback::periodic::<()>(Box::new(callback)), NOW).unwrap();
    let batch = fixture.collect_batch(driver, NOW);
    let worker = fixture.spawn(move |fixture| {
        let worker = fixture.worker(NOW);
        worker.run(&batch);
        worker.into_cache()
    });
    let call = move |fixture: &Fixture| {
        has_started.recv().unwrap();
        caller(fixture, handle, &mut cache);
        cache
    };
    [worker, fixture.spawn(call)]
}

/// Resets a timer in the wheel to an earlier deadline. The push is left to the returned thread.
fn spawn_push_of_a_reset(fixture: &Fixture, handle: &Handle, deadline: u64) -> JoinHandle<()> {
    let index = handle.0;
    let notice = fixture.entry(handle).reset(deadline, NOW).unwrap();
    assert_eq!(notice, DriverNotice::Enqueue, "the entry is marked, but not pushed");
    fixture.spawn(move |fixture| fixture.notify_driver(index, notice, deadline))
}

/// A reset comes while the worker arms the timer again. The timer runs twice, both times at `NOW`.
#[test]
fn reset_against_the_push_of_a_repeating_timer() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let threads = spawn_run_and_caller(&fixture, &mut driver, |fixture, handle, _| {
            assert!(fixture.reset(&handle, NOW, NOW));
        });
        fixture.drive_until_runs(&mut driver, &fixture.worker(NOW), 2);
        threads.into_iter().for_each(|thread| _ = thread.join().unwrap());
        fixture.close(NOW);
    });
}

/// The timer is cancelled at the same moment, and the next timer, with deadline `NOW`, reuses its entry.
#[test]
fn a_new_timer_against_the_push_of_the_old_one() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let threads = spawn_run_and_caller(&fixture, &mut driver, |fixture, handle, cache| {
            fixture.cancel(&handle);
            fixture.release(handle, cache);
            fixture.schedule(cache, fixture.counts.once(), NOW).unwrap();
        });
        fixture.drive_until_runs(&mut driver, &fixture.worker(NOW), 2);
        threads.into_iter().for_each(|thread| _ = thread.join().unwrap());
        fixture.close(NOW);
    });
}

/// Two resets of one handle. The second finds the first between mark and push, and sets an earlier deadline.
#[test]
fn reset_against_the_push_of_another_reset() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let mut cache = Cache::new();
        let worker = fixture.worker(NOW);
        let handle = fixture.schedule(&mut cache, fixture.counts.once(), LATER).unwrap();
        fixture.drive(&mut driver, &worker);
        let pusher = spawn_push_of_a_reset(&fixture, &handle, LATER / 2);
        let caller = fixture.spawn(move |fixture| assert!(fixture.reset(&handle, NOW, NOW)));
        fixture.drive_until_runs(&mut driver, &worker, 1);
        pusher.join().unwrap();
        caller.join().unwrap();
        fixture.close(NOW);
    });
}

/// A timer in the wheel is cancelled before the push of its reset.
#[test]
fn cancel_against_the_push_of_a_reset() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let mut cache = Cache::new();
        let worker = fixture.worker(NOW);
        // The driver removes a cancelled timer that comes first in the wheel, so this one comes after another.
        let [first, handle] =
            [LATER / 2, LATER].map(|at| fixture.schedule(&mut cache, fixture.counts.once(), at).unwrap());
        fixture.drive(&mut driver, &worker);
        let pusher = spawn_push_of_a_reset(&fixture, &handle, NOW);
        let canceller = fixture.spawn(move |fixture| (fixture.cancel(&handle), handle));
        fixture.drive(&mut driver, &worker);
        pusher.join().unwrap();
        let (cancelled, handle) = canceller.join().unwrap();
        fixture.drive(&mut driver, &worker);
        assert_eq!((fixture.counts.run(), fixture.counts.dropped()), (usize::from(!cancelled), 1));
        assert!(fixture.cancel(&first));
        [handle, first].into_iter().for_each(|handle| _ = fixture.release(handle, &mut cache));
        fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache()]);
    });
}

/// The entry goes to the depot before a worker pushes it.
#[test]
fn cancel_against_the_push_of_a_repeating_timer() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let threads = spawn_run_and_caller(&fixture, &mut driver, |fixture, handle, cache| {
            assert!(fixture.cancel(&handle));
            fixture.release(handle, cache);
            fixture.core.drain_cache(cache);
        });
        let worker = fixture.worker(NOW);
        fixture.drive(&mut driver, &worker);
        let mut caches = threads.map(|thread| thread.join().unwrap());
        fixture.drive(&mut driver, &worker);
        assert_eq!(fixture.counts.run(), 1);
        fixture.assert_all_free(&mut driver, caches.iter_mut().chain([&mut worker.into_cache()]));
    });
}

/// The timer runs, or is handed back with the new deadline, and the driver ends. After the close, no timer is reset.
#[test]
fn shutdown_against_the_push_of_a_reset() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let mut cache = Cache::new();
        let closed = Arc::new(AtomicBool::new(false));
        let handle = fixture.schedule(&mut cache, fixture.counts.once(), LATER).unwrap();
        fixture.drive(&mut driver, &fixture.worker(NOW));
        let driver = fixture.spawn(move |fixture| fixture.drive_until_closed(&mut driver, &fixture.worker(NOW)));
        let resetter = {
            let closed = closed.clone();
            fixture.spawn(move |fixture| {
                let late = closed.load(Acquire);
                let was_reset = fixture.reset(&handle, NOW, NOW);
                assert!(!(late && was_reset), "no reset after the close");
                was_reset
            })
        };
        fixture.core.close();
        closed.store(true, Release);
        let running = fixture.core.claim_closures(drop);
        running.into_iter().for_each(|entry| _ = fixture.core.claim_running(entry, None, drop));
        let unfired: Vec<_> = fixture.core.take_claimed(NOW).map(|(deadline, _)| deadline).collect();
        let was_reset = resetter.join().unwrap();
        driver.join().unwrap();
        match fixture.counts.run() {
            0 => assert_eq!(unfired, [if was_reset { NOW } else { LATER }]),
            _ => assert!(was_reset && unfired.is_empty()),
        }
        assert_eq!(fixture.counts.dropped(), 1);
    });
}

//! Explores a repeating timer: a cancel or a reset against the next run, and threads that wait for a run.
//!
//! Invariant: no run begins after a successful cancel, a wait ends with its own run, and the closure is dropped once.
//!
//! Promise: repeating runs never overlap.

use loom::sync::Arc;
use loom::sync::atomic::AtomicBool;
use loom::sync::atomic::Ordering::{Relaxed, SeqCst};
use loom::thread::{self, JoinHandle};

use super::{Fixture, Handle, explore};
use crate::engine::entry::{Callback, PeriodicCallback};
use crate::engine::memory::Cache;
use crate::fixture::{Worker, once};

/// No run begins after a successful cancel, and the closure is dropped once.
#[test]
fn cancel_against_the_next_run() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let worker = fixture.worker(7);
        let mut cache = Cache::new();
        let handle = fixture.schedule(&mut cache, fixture.counts.repeating(5, 2, 2), 5).unwrap();
        let canceller = {
            let fixture = fixture.clone();
            thread::spawn(move || {
                let cancelled = fixture.cancel(&handle);
                fixture.release(handle, &mut cache);
                (cancelled, cache)
            })
        };
        fixture.drive(&mut driver, &worker);
        let (cancelled, mut cache) = canceller.join().unwrap();
        fixture.drive(&mut driver, &worker);
        assert_eq!(cancelled, fixture.counts.completed() == 0);
        assert!(cancelled || *worker.ran.borrow() == [5, 7]);
        assert_eq!((fixture.counts.dropped(), fixture.counts.cancelled() + fixture.counts.completed()), (1, 1));
        fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache()]);
    });
}

/// When `cancel_and_wait` returns, the callback is not running, its closure has been dropped, and the worker has
/// reported its runs.
#[test]
fn cancel_and_wait_against_a_run() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let worker = fixture.worker(7);
        let mut cache = Cache::new();
        let handle = fixture.schedule(&mut cache, fixture.counts.repeating(7, 2, 9), 7).unwrap();
        let canceller = {
            let fixture = fixture.clone();
            thread::spawn(move || {
                assert!(fixture.cancel(&handle));
                fixture.core.wait_for_run(fixture.entry(&handle), None);
                let runs = fixture.counts.run();
                let dropped = fixture.counts.dropped();
                assert_eq!((dropped, fixture.counts.ended()), (1, runs));
                fixture.release(handle, &mut cache);
                (runs, cache)
            })
        };
        fixture.drive(&mut driver, &worker);
        let (runs, mut cache) = canceller.join().unwrap();
        fixture.drive(&mut driver, &worker);
        assert_eq!(fixture.counts.run(), runs, "no run after the wait");
        fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache()]);
    });
}

/// The callback cancels itself while another thread also cancels. A wait inside the callback returns at once.
#[test]
fn cancel_from_inside_and_outside() {
    struct CancelsItself {
        fixture: Fixture,
        cancelled: Arc<AtomicBool>,
    }
    impl PeriodicCallback for CancelsItself {
        fn run(&mut self) -> Option<u64> {
            let handle = Handle(0);
            self.cancelled.store(self.fixture.cancel(&handle), SeqCst);
            self.fixture.core.wait_for_run(self.fixture.entry(&handle), None);
            Some(8)
        }

        fn reset(&mut self, _due: u64) {}
    }
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let worker = fixture.worker(7);
        let mut cache = Cache::new();
        let inside = Arc::new(AtomicBool::new(false));
        let callback = CancelsItself { fixture: fixture.clone(), cancelled: inside.clone() };
        let handle = fixture.schedule(&mut cache, Callback::periodic::<()>(Box::new(callback)), 7).unwrap();
        assert_eq!(handle.0, 0);
        let canceller = {
            let fixture = fixture.clone();
            thread::spawn(move || {
                let cancelled = fixture.cancel(&handle);
                fixture.core.wait_for_run(fixture.entry(&handle), None);
                fixture.release(handle, &mut cache);
                (cancelled, cache)
            })
        };
        fixture.drive(&mut driver, &worker);
        let (outside, mut cache) = canceller.join().unwrap();
        fixture.drive(&mut driver, &worker);
        assert!(outside != inside.load(SeqCst), "exactly one of the two cancels succeeds");
        assert!(worker.ran.borrow().len() <= 1);
        fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache()]);
    });
}

/// A reset during a run sets the deadline of the next run, at whatever step it comes. The callback learns of it, so the
/// period counts from there.
#[test]
fn reset_against_the_next_run() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let worker = fixture.worker(5);
        let mut cache = Cache::new();
        let handle = fixture.schedule(&mut cache, fixture.counts.repeating(5, 2, 9), 5).unwrap();
        let resetter = {
            let fixture = fixture.clone();
            thread::spawn(move || {
                assert!(fixture.reset(&handle, 20, 5));
                handle
            })
        };
        fixture.drive(&mut driver, &worker);
        let handle = resetter.join().unwrap();
        let before = fixture.worker(19);
        fixture.drive(&mut driver, &before);
        assert!(before.ran.borrow().is_empty(), "the timer was reset");
        let after = fixture.worker(22);
        fixture.drive(&mut driver, &after);
        assert_eq!(*after.ran.borrow(), [20, 22]);
        assert!(fixture.cancel(&handle));
        fixture.release(handle, &mut cache);
        fixture.drive(&mut driver, &after);
        let caches = [worker, before, after].map(Worker::into_cache);
        fixture.assert_all_free(&mut driver, caches.into_iter().collect::<Vec<_>>().iter_mut().chain([&mut cache]));
    });
}

/// A reset during the last run either comes too late and returns false, or a run follows: it wins over the `None` of the
/// callback.
#[test]
fn reset_against_the_last_run() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let worker = fixture.worker(5);
        let mut cache = Cache::new();
        let handle = fixture.schedule(&mut cache, fixture.counts.repeating(5, 2, 1), 5).unwrap();
        let resetter = {
            let fixture = fixture.clone();
            thread::spawn(move || {
                let is_reset = fixture.reset(&handle, 9, 5);
                fixture.release(handle, &mut cache);
                (is_reset, cache)
            })
        };
        fixture.drive(&mut driver, &worker);
        let (is_reset, mut cache) = resetter.join().unwrap();
        let after = fixture.worker(9);
        fixture.drive(&mut driver, &after);
        assert_eq!(*after.ran.borrow() == [9], is_reset);
        assert!(is_reset || *worker.ran.borrow() == [5]);
        assert_eq!((fixture.counts.dropped(), fixture.counts.completed()), (1, 1));
        fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache(), &mut after.into_cache()]);
    });
}

/// Whether a callback is running.
///
/// The flag orders nothing by itself, so the wait must order its thread after the run.
#[derive(Clone)]
struct Running(Arc<AtomicBool>);

impl Running {
    fn new() -> Self {
        Self(Arc::new(AtomicBool::new(false)))
    }

    fn during(&self, run: impl FnOnce()) {
        self.0.store(true, Relaxed);
        run();
        self.0.store(false, Relaxed);
    }

    /// Starts a thread that waits as `cancel_and_wait` does.
    fn spawn_waiter(&self, fixture: &Fixture, index: u32) -> JoinHandle<bool> {
        let running = self.clone();
        fixture.spawn(move |fixture| {
            let handle = Handle(index);
            let cancelled = fixture.cancel(&handle);
            fixture.core.wait_for_run(fixture.entry(&handle), None);
            assert!(!running.0.load(Relaxed), "the run is over");
            cancelled
        })
    }
}

/// Two threads wait for the same run, and its end wakes both.
#[test]
fn two_threads_wait_for_one_run() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let worker = fixture.worker(7);
        let running = Running::new();
        let runs = running.clone();
        let mut cache = Cache::new();
        let handle = fixture.schedule(&mut cache, once(move || runs.during(|| ())), 7).unwrap();
        let batch = fixture.collect_batch(&mut driver, 7);
        let waiters = [(); 2].map(|()| running.spawn_waiter(&fixture, handle.0));
        worker.run(&batch);
        let cancelled = waiters.map(|waiter| usize::from(waiter.join().unwrap()));
        assert_eq!(cancelled[0] + cancelled[1] + fixture.counts.completed(), 1);
        fixture.release(handle, &mut cache);
        fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache()]);
    });
}

/// The end of another run, for which another thread waits, does not end the wait.
#[test]
fn a_wait_outlasts_the_end_of_another_run() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let mut cache = Cache::new();
        let [long, short] = [Running::new(), Running::new()];
        let runs = short.clone();
        let inner = fixture.schedule(&mut cache, once(move || runs.during(|| ())), 7).unwrap().0;
        // A nested callback, as on a worker that runs stolen work while it waits.
        let (runs, nested) = (long.clone(), fixture.clone());
        let run = move || runs.during(|| nested.worker(7).run(&[inner]));
        let outer = fixture.schedule(&mut cache, once(run), 7).unwrap().0;
        assert_eq!(fixture.collect_batch(&mut driver, 7).len(), 2);
        let waiters = [(long, outer), (short, inner)].map(|(run, index)| run.spawn_waiter(&fixture, index));
        fixture.worker(7).run(&[outer]);
        waiters.into_iter().for_each(|waiter| _ = waiter.join().unwrap());
    });
}

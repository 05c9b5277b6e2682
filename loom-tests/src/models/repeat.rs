//! Model 9: a repeating timer: cancel from outside against the next run, and who waits for a run.
//!
//! Fails if `rearm` overlooks a cancel during the run (mutation `entry-rearm-cancelled`), if a reset during the run is
//! overwritten (`entry-rearm-moved`), if a run that is waited for tells nobody (`run-wake`), or one of two that wait
//! (`core-notify-one`), if a wait ends with the next run that ends, whichever it is (`core-wait-once`), if a run ends
//! before its host has reported it (`run-report-late`), and if the moves on the word order nothing else (`entry-relaxed`).

use loom::sync::Arc;
use loom::sync::atomic::AtomicBool;
use loom::sync::atomic::Ordering::{Relaxed, SeqCst};
use loom::thread::{self, JoinHandle};

use super::{Handle, Scene, explore};
use crate::scene::Worker;
use crate::shard::entry::{Callback, Recur};
use crate::shard::memory::Cache;

/// No run begins after a cancel that won, and the closure is dropped once.
#[test]
fn cancel_against_the_next_run() {
    explore(|| {
        let scene = Scene::new();
        let (mut rounds, worker) = (scene.rounds(), scene.worker(7));
        let mut cache = Cache::new();
        let handle = scene.schedule(&mut cache, scene.tally.repeating(2, 2), 5).unwrap();
        let canceller = {
            let scene = scene.clone();
            thread::spawn(move || {
                let won = scene.cancel(&handle);
                scene.release(handle, &mut cache);
                (won, cache)
            })
        };
        scene.drive(&mut rounds, &worker);
        let (won, mut cache) = canceller.join().unwrap();
        scene.drive(&mut rounds, &worker);
        assert_eq!(won, scene.tally.completed() == 0);
        assert!(won || *worker.ran.borrow() == [5, 7]);
        assert_eq!((scene.tally.dropped(), scene.tally.cancelled() + scene.tally.completed()), (1, 1));
        scene.assert_all_free(&mut rounds, [&mut cache, &mut worker.into_cache()]);
    });
}

/// When `cancel_and_wait` returns, the callback is not running, its closure has been dropped, and the host has reported its
/// runs.
#[test]
fn cancel_and_wait_against_a_run() {
    explore(|| {
        let scene = Scene::new();
        let (mut rounds, worker) = (scene.rounds(), scene.worker(7));
        let mut cache = Cache::new();
        let handle = scene.schedule(&mut cache, scene.tally.repeating(2, 9), 7).unwrap();
        let canceller = {
            let scene = scene.clone();
            thread::spawn(move || {
                assert!(scene.cancel(&handle));
                scene.core.wait_for_run(scene.entry(&handle));
                let (runs, dropped) = (scene.tally.run(), scene.tally.dropped());
                assert_eq!((dropped, scene.tally.ended()), (1, runs));
                scene.release(handle, &mut cache);
                (runs, cache)
            })
        };
        scene.drive(&mut rounds, &worker);
        let (runs, mut cache) = canceller.join().unwrap();
        scene.drive(&mut rounds, &worker);
        assert_eq!(scene.tally.run(), runs, "no run after the wait");
        scene.assert_all_free(&mut rounds, [&mut cache, &mut worker.into_cache()]);
    });
}

/// The callback cancels itself, and waits, which it does not; while another thread cancels, too.
#[test]
fn cancel_from_inside_and_outside() {
    struct CancelsItself {
        scene: Scene,
        won: Arc<AtomicBool>,
    }
    impl Recur for CancelsItself {
        fn run(&mut self, due: u64) -> Option<u64> {
            let me = Handle(0);
            self.won.store(self.scene.cancel(&me), SeqCst);
            self.scene.core.wait_for_run(self.scene.entry(&me));
            Some(due + 1)
        }
    }
    explore(|| {
        let scene = Scene::new();
        let (mut rounds, worker) = (scene.rounds(), scene.worker(7));
        let mut cache = Cache::new();
        let inside = Arc::new(AtomicBool::new(false));
        let recur = CancelsItself { scene: scene.clone(), won: inside.clone() };
        let handle = scene.schedule(&mut cache, Callback::repeating(Box::new(recur)), 7).unwrap();
        assert_eq!(handle.0, 0);
        let canceller = {
            let scene = scene.clone();
            thread::spawn(move || {
                let won = scene.cancel(&handle);
                scene.core.wait_for_run(scene.entry(&handle));
                scene.release(handle, &mut cache);
                (won, cache)
            })
        };
        scene.drive(&mut rounds, &worker);
        let (outside, mut cache) = canceller.join().unwrap();
        scene.drive(&mut rounds, &worker);
        assert!(outside != inside.load(SeqCst), "one of them ended it");
        assert!(worker.ran.borrow().len() <= 1);
        scene.assert_all_free(&mut rounds, [&mut cache, &mut worker.into_cache()]);
    });
}

/// A reset during a run counts for the next, whenever it comes.
#[test]
fn reset_against_the_next_run() {
    explore(|| {
        let scene = Scene::new();
        let (mut rounds, worker) = (scene.rounds(), scene.worker(5));
        let mut cache = Cache::new();
        let handle = scene.schedule(&mut cache, scene.tally.repeating(2, 3), 5).unwrap();
        let mover = {
            let scene = scene.clone();
            thread::spawn(move || {
                assert!(scene.reset(&handle, 20, 5));
                handle
            })
        };
        scene.drive(&mut rounds, &worker);
        let handle = mover.join().unwrap();
        let before = scene.worker(19);
        scene.drive(&mut rounds, &before);
        assert!(before.ran.borrow().is_empty(), "moved away");
        let after = scene.worker(20);
        scene.drive(&mut rounds, &after);
        assert_eq!(*after.ran.borrow(), [20]);
        assert!(scene.cancel(&handle));
        scene.release(handle, &mut cache);
        scene.drive(&mut rounds, &after);
        let caches = [worker, before, after].map(Worker::into_cache);
        scene.assert_all_free(&mut rounds, caches.into_iter().collect::<Vec<_>>().iter_mut().chain([&mut cache]));
    });
}

/// Tells whether a callback is running. It orders nothing by itself: a thread that waits for the end of the run must be
/// ordered after it.
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

    /// Waits as `cancel_and_wait` does, on a thread of its own.
    fn wait_elsewhere(&self, scene: &Scene, index: u32) -> JoinHandle<bool> {
        let running = self.clone();
        scene.spawn(move |scene| {
            let handle = Handle(index);
            let cancelled = scene.cancel(&handle);
            scene.core.wait_for_run(scene.entry(&handle));
            assert!(!running.0.load(Relaxed), "the run is over");
            cancelled
        })
    }
}

/// Two threads wait for the same run: its end wakes both.
#[test]
fn two_threads_wait_for_one_run() {
    explore(|| {
        let scene = Scene::new();
        let (mut rounds, worker, running) = (scene.rounds(), scene.worker(7), Running::new());
        let (runs, mut cache) = (running.clone(), Cache::new());
        let handle = scene.schedule(&mut cache, Callback::once(move || runs.during(|| ())), 7).unwrap();
        let batch = scene.batch(&mut rounds, 7);
        let waiters = [(); 2].map(|()| running.wait_elsewhere(&scene, handle.0));
        worker.run(&batch);
        let won = waiters.map(|waiter| usize::from(waiter.join().unwrap()));
        assert_eq!(won[0] + won[1] + scene.tally.completed(), 1);
        scene.release(handle, &mut cache);
        scene.assert_all_free(&mut rounds, [&mut cache, &mut worker.into_cache()]);
    });
}

/// The end of another run, for which another thread waits, does not end the wait.
#[test]
fn a_wait_outlasts_the_end_of_another_run() {
    explore(|| {
        let scene = Scene::new();
        let (mut rounds, mut cache) = (scene.rounds(), Cache::new());
        let [long, short] = [Running::new(), Running::new()];
        let runs = short.clone();
        let inner = scene.schedule(&mut cache, Callback::once(move || runs.during(|| ())), 7).unwrap().0;
        // One callback on top of the other, as where a worker waits for work that was stolen.
        let (runs, nested) = (long.clone(), scene.clone());
        let run = move || runs.during(|| nested.worker(7).run(&[inner]));
        let outer = scene.schedule(&mut cache, Callback::once(run), 7).unwrap().0;
        assert_eq!(scene.batch(&mut rounds, 7).len(), 2);
        let waiters = [(long, outer), (short, inner)].map(|(run, index)| run.wait_elsewhere(&scene, index));
        scene.worker(7).run(&[outer]);
        waiters.into_iter().for_each(|waiter| _ = waiter.join().unwrap());
    });
}

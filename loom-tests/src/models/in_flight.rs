//! Model 11: an entry that is announced to the driver, but not pushed yet, against a deadline that comes nearer.
//!
//! `MAILED` is set before the push. A call that finds it set, and wants an earlier deadline, does not push again, and a
//! driver that it wakes may find the intake empty. Time stands still in these models, so only the later push can wake the
//! driver then.
//!
//! Fails if the thread that pushes rings for the deadline that it gave the entry, not for the one in the state word
//! (mutation `core-stale-ring`), or reads the word before the push (`core-read-before-push`). Fails as well without the
//! fence of a call that does not push (`bell-caller-fence`), and if a new timer in the entry does not ring
//! (`entry-arm-silent`).
//!
//! A cancel or a shutdown may come in the same window. Fails if the driver leaves a cancelled entry in the wheel that it
//! finds in the intake (`rounds-over-linked`), if it makes an entry free that is in a cache (`entry-free-cached`), and if a
//! timer of a closed shard is reset (`entry-reset-closed`).

use loom::sync::Arc;
use loom::sync::atomic::AtomicBool;
use loom::sync::atomic::Ordering::{Acquire, Release};
use loom::sync::mpsc::{self, Sender};
use loom::thread::JoinHandle;

use super::{Handle, Scene, explore};
use crate::scene::Tally;
use crate::shard::core::Found;
use crate::shard::entry::{Callback, Notice, Recur};
use crate::shard::memory::Cache;
use crate::shard::rounds::Rounds;

/// The present, and the deadline of every timer that is moved to it.
const NOW: u64 = 5;
/// A deadline that does not come.
const LATER: u64 = 100;

/// Says when it runs for the first time, and wants the next run later.
struct RunsAgainLater {
    runs: Tally,
    started: Option<Sender<()>>,
}

impl Recur for RunsAgainLater {
    fn run(&mut self, _due: u64) -> Option<u64> {
        self.runs.count_run();
        if let Some(started) = self.started.take() {
            started.send(()).unwrap();
        }
        Some(LATER)
    }
}

/// A repeating timer that a worker of its own runs, and arms again for later. `caller` acts on it when the run has begun.
fn while_it_is_armed_again(
    scene: &Scene,
    rounds: &mut Rounds,
    caller: impl FnOnce(&Scene, Handle, &mut Cache) + Send + 'static,
) -> [JoinHandle<Cache>; 2] {
    let (mut cache, (started, has_started)) = (Cache::new(), mpsc::channel());
    let callback = RunsAgainLater { runs: scene.tally.clone(), started: Some(started) };
    let handle = scene.schedule(&mut cache, Callback::repeating(Box::new(callback)), NOW).unwrap();
    let batch = scene.batch(rounds, NOW);
    let worker = scene.spawn(move |scene| {
        let worker = scene.worker(NOW);
        worker.run(&batch);
        worker.into_cache()
    });
    let call = move |scene: &Scene| {
        has_started.recv().unwrap();
        caller(scene, handle, &mut cache);
        cache
    };
    [worker, scene.spawn(call)]
}

/// Moves a timer that is in the wheel to an earlier deadline. The thread that comes back makes the push.
fn push_of_a_reset(scene: &Scene, handle: &Handle, deadline: u64) -> JoinHandle<()> {
    let (index, notice) = (handle.0, scene.entry(handle).reset(deadline, NOW).unwrap());
    assert_eq!(notice, Notice::Mail, "it is announced, and not pushed");
    scene.spawn(move |scene| scene.tell(index, notice, deadline))
}

/// A reset comes while the worker arms the timer again: there are two runs, both now.
#[test]
fn reset_against_the_push_of_a_repeating_timer() {
    explore(|| {
        let scene = Scene::new();
        let mut rounds = scene.rounds();
        let threads = while_it_is_armed_again(&scene, &mut rounds, |scene, handle, _| {
            assert!(scene.reset(&handle, NOW, NOW));
        });
        scene.drive_until(&mut rounds, &scene.worker(NOW), 2);
        threads.into_iter().for_each(|thread| _ = thread.join().unwrap());
        scene.close(NOW);
    });
}

/// The timer is cancelled in the same window, and the next timer, due now, takes its entry.
#[test]
fn a_new_timer_against_the_push_of_the_old_one() {
    explore(|| {
        let scene = Scene::new();
        let mut rounds = scene.rounds();
        let threads = while_it_is_armed_again(&scene, &mut rounds, |scene, handle, cache| {
            scene.cancel(&handle);
            scene.release(handle, cache);
            scene.schedule(cache, scene.tally.once(), NOW).unwrap();
        });
        scene.drive_until(&mut rounds, &scene.worker(NOW), 2);
        threads.into_iter().for_each(|thread| _ = thread.join().unwrap());
        scene.close(NOW);
    });
}

/// Two resets of one handle: the second finds the push of the first under way, and wants an earlier deadline.
#[test]
fn reset_against_the_push_of_another_reset() {
    explore(|| {
        let scene = Scene::new();
        let (mut rounds, mut cache, worker) = (scene.rounds(), Cache::new(), scene.worker(NOW));
        let handle = scene.schedule(&mut cache, scene.tally.once(), LATER).unwrap();
        scene.drive(&mut rounds, &worker);
        let pusher = push_of_a_reset(&scene, &handle, LATER / 2);
        let caller = scene.spawn(move |scene| assert!(scene.reset(&handle, NOW, NOW)));
        scene.drive_until(&mut rounds, &worker, 1);
        pusher.join().unwrap();
        caller.join().unwrap();
        scene.close(NOW);
    });
}

/// A timer in the wheel is cancelled while the push of its reset is under way.
#[test]
fn cancel_against_the_push_of_a_reset() {
    explore(|| {
        let scene = Scene::new();
        let (mut rounds, mut cache, worker) = (scene.rounds(), Cache::new(), scene.worker(NOW));
        // Another timer comes first in the wheel, as the driver removes a first one that is cancelled.
        let [first, handle] = [LATER / 2, LATER].map(|at| scene.schedule(&mut cache, scene.tally.once(), at).unwrap());
        scene.drive(&mut rounds, &worker);
        let pusher = push_of_a_reset(&scene, &handle, NOW);
        let canceller = scene.spawn(move |scene| (scene.cancel(&handle), handle));
        scene.drive(&mut rounds, &worker);
        pusher.join().unwrap();
        let (won, handle) = canceller.join().unwrap();
        scene.drive(&mut rounds, &worker);
        assert_eq!((scene.tally.run(), scene.tally.dropped()), (usize::from(!won), 1));
        assert!(scene.cancel(&first));
        [handle, first].into_iter().for_each(|handle| _ = scene.release(handle, &mut cache));
        scene.assert_all_free(&mut rounds, [&mut cache, &mut worker.into_cache()]);
    });
}

/// The entry goes to the pool while a worker has yet to push it.
#[test]
fn cancel_against_the_push_of_a_repeating_timer() {
    explore(|| {
        let scene = Scene::new();
        let mut rounds = scene.rounds();
        let threads = while_it_is_armed_again(&scene, &mut rounds, |scene, handle, cache| {
            assert!(scene.cancel(&handle));
            scene.release(handle, cache);
            scene.core.give_back(cache);
        });
        let worker = scene.worker(NOW);
        scene.drive(&mut rounds, &worker);
        let mut caches = threads.map(|thread| thread.join().unwrap());
        scene.drive(&mut rounds, &worker);
        assert_eq!(scene.tally.run(), 1);
        scene.assert_all_free(&mut rounds, caches.iter_mut().chain([&mut worker.into_cache()]));
    });
}

/// The timer runs, or comes back with the new deadline, and the driver ends. After the close, nothing is reset.
#[test]
fn shutdown_against_the_push_of_a_reset() {
    explore(|| {
        let scene = Scene::new();
        let (mut rounds, mut cache, closed) = (scene.rounds(), Cache::new(), Arc::new(AtomicBool::new(false)));
        let handle = scene.schedule(&mut cache, scene.tally.once(), LATER).unwrap();
        scene.drive(&mut rounds, &scene.worker(NOW));
        let driver = scene.spawn(move |scene| scene.drive_until_closed(&mut rounds, &scene.worker(NOW)));
        let resetter = {
            let closed = closed.clone();
            scene.spawn(move |scene| {
                let late = closed.load(Acquire);
                let moved = scene.reset(&handle, NOW, NOW);
                assert!(!(late && moved), "the shard was closed before");
                moved
            })
        };
        scene.core.close();
        closed.store(true, Release);
        let mut unfired = Vec::new();
        let mut found = |found| match found {
            Found::Unfired { deadline, .. } => unfired.push(deadline),
            Found::Ended => unreachable!("no timer repeats"),
        };
        let running = scene.core.claim_closures(NOW, &mut found);
        scene.core.claim_running(running, true, NOW, found);
        let moved = resetter.join().unwrap();
        driver.join().unwrap();
        match scene.tally.run() {
            0 => assert_eq!(unfired, [if moved { NOW } else { LATER }]),
            _ => assert!(moved && unfired.is_empty()),
        }
        assert_eq!(scene.tally.dropped(), 1);
    });
}

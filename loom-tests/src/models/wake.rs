//! Model 8: a future that is polled by another task, moved or dropped, against fire.
//!
//! Fails if the callback of another task stays (mutation `look-old-waker`), and if an entry in the driver's hands is armed
//! anew, after a cancel (`look-taken`) or after the driver has begun (`entry-in-hands`).

use std::sync::Arc;
use std::task::{Wake, Waker};

use loom::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use loom::thread::{self, JoinHandle};

use super::{Handle, Scene, explore};
use crate::shard::cache::Cache;
use crate::shard::callback::Callback;
use crate::shard::look::Look;

/// Counts how often it is woken.
struct Task(AtomicUsize);

impl Task {
    fn new() -> Arc<Self> {
        Arc::new(Self(AtomicUsize::new(0)))
    }

    fn woken(&self) -> usize {
        self.0.load(SeqCst)
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// A future's timer, in the hands of its one owner.
struct Sleep {
    handle: Handle,
    deadline: u64,
}

impl Sleep {
    fn new(scene: &Scene, cache: &mut Cache, task: &Arc<Task>, deadline: u64) -> Self {
        let (_, index) = scene.core.hold(cache).expect("an open shard");
        let sleep = Self { handle: Handle(index), deadline };
        sleep.arm(scene, task);
        sleep
    }

    fn arm(&self, scene: &Scene, task: &Arc<Task>) {
        self.arm_with(scene, Callback::waking(Waker::from(task.clone())));
    }

    fn arm_with(&self, scene: &Scene, callback: Callback) {
        // SAFETY: the owner holds the entry, which nobody has in his hands.
        let notice = unsafe { scene.entry(&self.handle).arm(callback, self.deadline, 0) };
        scene.core.tell(self.handle.0, notice.ok().expect("an open shard"), self.deadline);
    }

    /// Whether it is pending, for this task from now on. As `Hold::poll` does it.
    fn poll(&mut self, scene: &Scene, cache: &mut Cache, task: &Arc<Task>) -> bool {
        // SAFETY: the owner has armed the entry.
        match unsafe { scene.entry(&self.handle).look(&Waker::from(task.clone()), self.deadline, 0, drop) } {
            Look::Waiting => true,
            Look::Renewed(notice) => {
                scene.core.tell(self.handle.0, notice, self.deadline);
                true
            }
            Look::Taken(callback) => {
                self.take_another(scene, cache);
                self.arm_with(scene, callback);
                true
            }
            Look::Over => false,
            Look::Closed => unreachable!("nobody shuts down"),
        }
    }

    /// The same on a thread of its own, which moves it to a `later` tick before.
    fn poll_elsewhere(
        mut self,
        scene: &Scene,
        mut cache: Cache,
        task: &Arc<Task>,
        later: Option<u64>,
    ) -> JoinHandle<(Self, Cache, bool)> {
        let (scene, task) = (scene.clone(), task.clone());
        thread::spawn(move || {
            let moved = later.is_none_or(|later| {
                let now = self.deadline;
                self.deadline = later;
                scene.reset(&self.handle, later, now)
            });
            let pending = moved && self.poll(&scene, &mut cache, &task);
            (self, cache, pending)
        })
    }

    fn take_another(&mut self, scene: &Scene, cache: &mut Cache) {
        if scene.entry(&self.handle).is_in_hands() {
            let (_, index) = scene.core.hold(cache).expect("an open shard");
            scene.release(std::mem::replace(&mut self.handle, Handle(index)), cache);
        }
    }

    fn drop(self, scene: &Scene, cache: &mut Cache) -> bool {
        let cancelled = scene.cancel(&self.handle);
        scene.release(self.handle, cache);
        cancelled
    }
}

/// Either the second poll finds that the sleep is over, or its task is woken. Nobody is woken twice.
#[test]
fn a_poll_by_another_task_against_fire() {
    explore(|| {
        let scene = Scene::new();
        let (mut rounds, mut cache) = (scene.rounds(), Cache::new());
        let (first, second) = (Task::new(), Task::new());
        let sleep = Sleep::new(&scene, &mut cache, &first, 5);
        let poller = sleep.poll_elsewhere(&scene, cache, &second, None);
        let worker = scene.worker(5);
        scene.drive(&mut rounds, &worker);
        let (sleep, mut cache, pending) = poller.join().unwrap();
        scene.drive(&mut rounds, &worker);
        assert_eq!((first.woken(), second.woken()), if pending { (0, 1) } else { (1, 0) });
        assert!(!sleep.drop(&scene, &mut cache), "it is over");
        assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (1, 1));
        scene.assert_all_free(&mut rounds, [&mut cache, &mut worker.into_cache()]);
    });
}

/// The same after it was moved later: the driver may have it in its hands for the old deadline still.
#[test]
fn a_poll_by_another_task_after_a_reset_against_fire() {
    explore(|| {
        let scene = Scene::new();
        let (mut rounds, mut cache) = (scene.rounds(), Cache::new());
        let (first, second) = (Task::new(), Task::new());
        let sleep = Sleep::new(&scene, &mut cache, &first, 5);
        let poller = sleep.poll_elsewhere(&scene, cache, &second, Some(9));
        let (worker, later) = (scene.worker(5), scene.worker(9));
        scene.drive(&mut rounds, &worker);
        let (sleep, mut cache, pending) = poller.join().unwrap();
        scene.drive(&mut rounds, &worker);
        assert_eq!((first.woken(), second.woken()), if pending { (0, 0) } else { (1, 0) });
        scene.drive(&mut rounds, &later);
        assert_eq!(second.woken(), usize::from(pending));
        assert!(!sleep.drop(&scene, &mut cache), "it is over");
        scene.assert_all_free(&mut rounds, [&mut cache, &mut worker.into_cache(), &mut later.into_cache()]);
    });
}

/// Either it wakes its task, or it is cancelled; the waker is gone in either case.
#[test]
fn a_drop_against_fire() {
    explore(|| {
        let scene = Scene::new();
        let (mut rounds, mut cache, task) = (scene.rounds(), Cache::new(), Task::new());
        let sleep = Sleep::new(&scene, &mut cache, &task, 5);
        let dropper = {
            let scene = scene.clone();
            thread::spawn(move || {
                let cancelled = sleep.drop(&scene, &mut cache);
                (cache, cancelled)
            })
        };
        let worker = scene.worker(5);
        scene.drive(&mut rounds, &worker);
        let (mut cache, cancelled) = dropper.join().unwrap();
        assert_eq!((task.woken(), Arc::strong_count(&task)), (usize::from(!cancelled), 1));
        scene.assert_all_free(&mut rounds, [&mut cache, &mut worker.into_cache()]);
    });
}

/// A task that is woken, or looks by chance, has the sleep go on at once, while the driver is still in the middle of
/// waking it.
#[test]
fn used_again_against_fire() {
    explore(|| {
        let scene = Scene::new();
        let (mut rounds, mut cache, task) = (scene.rounds(), Cache::new(), Task::new());
        let mut sleep = Sleep::new(&scene, &mut cache, &task, 5);
        let user = {
            let (scene, task) = (scene.clone(), task.clone());
            thread::spawn(move || {
                let again = !sleep.poll(&scene, &mut cache, &task);
                if again {
                    sleep.deadline = 6;
                    sleep.take_another(&scene, &mut cache);
                    sleep.arm(&scene, &task);
                }
                (sleep, cache, again)
            })
        };
        let (worker, later) = (scene.worker(5), scene.worker(6));
        scene.drive(&mut rounds, &worker);
        let (sleep, mut cache, again) = user.join().unwrap();
        scene.drive(&mut rounds, &later);
        assert_eq!(task.woken(), 1 + usize::from(again));
        assert!(!sleep.drop(&scene, &mut cache));
        scene.assert_all_free(&mut rounds, [&mut cache, &mut worker.into_cache(), &mut later.into_cache()]);
    });
}

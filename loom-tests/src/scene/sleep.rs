//! A future's timer, and the tasks that wait for it.

use std::sync::Arc;
use std::task::{Wake, Waker};

use super::{Handle, Scene};
use crate::shard::entry::Callback;
use crate::shard::entry::Look;
use crate::shard::memory::Cache;
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{AtomicUsize, Ordering::SeqCst};

/// Counts how often it is woken.
pub(crate) struct Task(AtomicUsize);

impl Task {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicUsize::new(0)))
    }

    pub(crate) fn woken(&self) -> usize {
        self.0.load(SeqCst)
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// A future's timer, in the hands of its one owner.
pub(crate) struct Sleep {
    handle: Handle,
    pub(crate) deadline: u64,
}

impl Sleep {
    pub(crate) fn new(scene: &Scene, cache: &mut Cache, task: &Arc<Task>, deadline: u64) -> Self {
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
        scene.tell(self.handle.0, notice.ok().expect("an open shard"), self.deadline);
    }

    /// Whether it is pending, for this task from `now` on. As `Hold::poll` does it.
    pub(crate) fn poll(&mut self, scene: &Scene, cache: &mut Cache, task: &Arc<Task>, now: u64) -> bool {
        // SAFETY: the owner has armed the entry.
        match unsafe {
            scene.entry(&self.handle).look(&Waker::from(task.clone()), self.deadline, now, || ((), now), drop)
        } {
            Look::Waiting => true,
            Look::Renewed(notice, ()) => {
                scene.tell(self.handle.0, notice, self.deadline);
                true
            }
            Look::Taken(callback) => {
                self.take_another(scene, cache);
                self.arm_with(scene, callback);
                true
            }
            Look::Over | Look::Closed => false,
            Look::Due { .. } => {
                scene.tally.0.completed.fetch_add(1, SeqCst);
                false
            }
        }
    }

    /// The same on a thread of its own, which moves it to a `later` tick before.
    pub(crate) fn poll_elsewhere(
        mut self,
        scene: &Scene,
        mut cache: Cache,
        task: &Arc<Task>,
        later: Option<u64>,
    ) -> JoinHandle<(Self, Cache, bool)> {
        let (scene, task) = (scene.clone(), task.clone());
        thread::spawn(move || {
            let pending = later.is_none_or(|later| self.reset(&scene, later, self.deadline));
            let pending = pending && self.poll(&scene, &mut cache, &task, 0);
            (self, cache, pending)
        })
    }

    /// Has one that is over begin anew.
    pub(crate) fn use_again(&mut self, scene: &Scene, cache: &mut Cache, task: &Arc<Task>, deadline: u64) {
        self.deadline = deadline;
        self.take_another(scene, cache);
        self.arm(scene, task);
    }

    /// Moves it, unless it is over.
    pub(crate) fn reset(&mut self, scene: &Scene, deadline: u64, now: u64) -> bool {
        let moved = scene.reset(&self.handle, deadline, now);
        if moved {
            self.deadline = deadline;
        }
        moved
    }

    fn take_another(&mut self, scene: &Scene, cache: &mut Cache) {
        if scene.entry(&self.handle).is_in_hands() {
            let (_, index) = scene.core.hold(cache).expect("an open shard");
            scene.release(std::mem::replace(&mut self.handle, Handle(index)), cache);
        }
    }

    /// As `Hold` is dropped.
    pub(crate) fn drop(self, scene: &Scene, cache: &mut Cache) -> bool {
        // SAFETY: the owner has armed the entry, and does not come back to it.
        if unsafe { scene.entry(&self.handle).cancel_and_release() }.is_some() {
            scene.core.recycle(cache, self.handle.0);
            return true;
        }
        let cancelled = scene.cancel(&self.handle);
        scene.release(self.handle, cache);
        cancelled
    }
}

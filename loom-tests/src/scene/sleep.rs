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
    /// One that is pending.
    pub(crate) fn new(scene: &Scene, cache: &mut Cache, task: &Arc<Task>, deadline: u64) -> Self {
        let sleep = Self::made(scene, cache, deadline).expect("an open shard");
        assert!(sleep.arm(scene, task), "an open shard");
        sleep
    }

    /// One that is not polled yet. `None` if the shard has been closed.
    pub(crate) fn made(scene: &Scene, cache: &mut Cache, deadline: u64) -> Option<Self> {
        let (_, index) = scene.core.hold(cache)?;
        Some(Self { handle: Handle(index), deadline })
    }

    /// The first poll. Returns whether it is pending: it is not in a closed shard.
    pub(crate) fn arm(&self, scene: &Scene, task: &Arc<Task>) -> bool {
        self.arm_with(scene, Callback::waking(Waker::from(task.clone())))
    }

    fn arm_with(&self, scene: &Scene, callback: Callback) -> bool {
        // SAFETY: the owner holds the entry, which nobody has in his hands.
        let notice = unsafe { scene.entry(&self.handle).arm(callback, self.deadline, 0) };
        notice.map(|notice| scene.tell(self.handle.0, notice, self.deadline)).is_ok()
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
            Look::Taken(callback) => self.take_another(scene, cache) && self.arm_with(scene, callback),
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

    /// Has one that is over begin anew. Returns whether it is pending: it is not in a closed shard.
    pub(crate) fn use_again(&mut self, scene: &Scene, cache: &mut Cache, task: &Arc<Task>, deadline: u64) -> bool {
        self.deadline = deadline;
        // As `Hold::reset` asks: the shutdown may not have taken the waker yet.
        let closed = scene.entry(&self.handle).is_closed();
        !closed && self.take_another(scene, cache) && self.arm(scene, task)
    }

    /// Moves it, unless it is over.
    pub(crate) fn reset(&mut self, scene: &Scene, deadline: u64, now: u64) -> bool {
        let moved = scene.reset(&self.handle, deadline, now);
        if moved {
            self.deadline = deadline;
        }
        moved
    }

    /// Leaves an entry that the driver has in its hands for another. Returns false if there is none.
    fn take_another(&mut self, scene: &Scene, cache: &mut Cache) -> bool {
        if !scene.entry(&self.handle).is_in_hands() {
            return true;
        }
        let Some((_, index)) = scene.core.hold(cache) else { return false };
        scene.release(std::mem::replace(&mut self.handle, Handle(index)), cache);
        true
    }

    /// As a `Hold` is dropped that was never armed.
    pub(crate) fn drop_unarmed(self, scene: &Scene, cache: &mut Cache) {
        scene.release(self.handle, cache);
    }

    /// As a `Hold` is dropped. Returns whether this ended a pending sleep.
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

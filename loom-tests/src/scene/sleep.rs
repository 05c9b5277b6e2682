//! A future's timer, and the tasks that wait for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize as PlainCount, Ordering::Relaxed as Plain};
use std::task::{Wake, Waker};

use super::Scene;
use crate::clock::Due;
use crate::shard::coop::Progress;
use crate::shard::hold::Hold;
use crate::shard::memory::Cache;
use crate::sync::thread::{self, JoinHandle};

/// Counts how often it is woken. Not loom's, as of the account.
pub(crate) struct Task(PlainCount);

impl Task {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(PlainCount::new(0)))
    }

    pub(crate) fn woken(&self) -> usize {
        self.0.load(Plain)
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Plain);
    }
}

/// What a `Sleep` of the crate is made of: the crate's own part of a shard, and a deadline.
pub(crate) struct Sleep {
    hold: Hold,
    pub(crate) deadline: u64,
}

impl Sleep {
    /// One that has been polled by `task`, and waits.
    pub(crate) fn new(scene: &Scene, cache: &mut Cache, task: &Arc<Task>, deadline: u64) -> Self {
        let mut sleep = Self::made(scene, cache, deadline).expect("an open shard");
        assert!(sleep.poll(scene, cache, task, 0), "it is early");
        sleep
    }

    /// One that is not polled yet. `None` if the shard has been closed.
    pub(crate) fn made(scene: &Scene, cache: &mut Cache, deadline: u64) -> Option<Self> {
        let (hold, _) = scene.act(cache, 0, || Hold::new(0, || &scene.shard));
        hold.map(|hold| Self { hold, deadline })
    }

    /// Whether it is pending, for this task from `now` on.
    pub(crate) fn poll(&mut self, scene: &Scene, cache: &mut Cache, task: &Arc<Task>, now: u64) -> bool {
        self.progress(scene, cache, task, now) == Progress::Pending
    }

    /// The same, and why it is not.
    pub(crate) fn progress(&mut self, scene: &Scene, cache: &mut Cache, task: &Arc<Task>, now: u64) -> Progress {
        let waker = Waker::from(task.clone());
        scene.act(cache, now, || self.hold.poll(self.deadline, &waker)).0
    }

    /// Polls it on a thread of its own, which moves it to a `later` tick before.
    pub(crate) fn poll_elsewhere(
        mut self,
        scene: &Scene,
        mut cache: Cache,
        task: &Arc<Task>,
        later: Option<u64>,
    ) -> JoinHandle<(Self, Cache, bool)> {
        let (scene, task) = (scene.clone(), task.clone());
        thread::spawn(move || {
            if let Some(later) = later {
                self.reset(&scene, &mut cache, later, 0);
            }
            let pending = self.poll(&scene, &mut cache, &task, 0);
            (self, cache, pending)
        })
    }

    /// Has one that is over begin anew. Returns whether it is pending: it is not in a closed shard.
    pub(crate) fn use_again(&mut self, scene: &Scene, cache: &mut Cache, task: &Arc<Task>, deadline: u64) -> bool {
        self.reset(scene, cache, deadline, 0);
        self.poll(scene, cache, task, 0)
    }

    pub(crate) fn reset(&mut self, scene: &Scene, cache: &mut Cache, deadline: u64, now: u64) {
        self.deadline = deadline;
        scene.act(cache, now, || self.hold.reset(Due { tick: deadline, now }));
    }

    /// Returns whether that cancelled a timer.
    pub(crate) fn drop(self, scene: &Scene, cache: &mut Cache) -> bool {
        scene.act(cache, 0, || drop(self)).1.cancelled.get() > 0
    }

    /// The same on a thread that is ending, and keeps nothing.
    pub(crate) fn drop_in_passing(self, scene: &Scene) -> bool {
        let mut cache = Cache::new();
        let (_, record) = scene.act_as(&mut cache, 0, true, || drop(self));
        scene.core.give_back(&mut cache);
        record.cancelled.get() > 0
    }
}

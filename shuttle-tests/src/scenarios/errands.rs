//! What callers do.

use std::sync::Arc;

use shuttle::rand::{Rng, thread_rng};

use super::stage::Stage;
use crate::scene::{Handle, Sleep, Tally, Task};
use crate::shard::coop::Progress;
use crate::shard::entry::Callback;
use crate::shard::memory::Cache;

/// A deadline less than `ticks` after `now`.
fn within(ticks: u64, now: u64) -> u64 {
    now + thread_rng().gen_range(0..ticks)
}

/// Schedules timers, and does all that can be done with their handles.
pub(super) struct TimeoutUser<'a, F> {
    stage: &'a Stage,
    callback: F,
    cache: Cache,
    handles: Vec<Handle>,
}

impl<'a, F: Fn(&Tally) -> Callback> TimeoutUser<'a, F> {
    pub(super) fn new(stage: &'a Stage, callback: F) -> Self {
        Self { stage, callback, cache: Cache::new(), handles: Vec::new() }
    }

    /// Does so many things, and lets go of every handle. Returns the cache.
    pub(super) fn spend(mut self, things: usize) -> Cache {
        for _ in 0..things {
            match thread_rng().gen_range(0..7) {
                0 | 1 => self.schedule(),
                2 => self.with_any(|user, handle| user.end(handle)),
                3 => self.with_any(|user, handle| {
                    user.cancel(&handle);
                    user.stage.scene.core.wait_for_run(user.stage.scene.entry(&handle));
                    user.let_go(handle);
                }),
                4 => self.with_any(|user, handle| {
                    let now = user.stage.now();
                    user.stage.scene.reset(&handle, within(4, now), now);
                    user.handles.push(handle);
                }),
                5 => self.with_any(Self::let_go),
                // As a thread does that ends, and another comes in its place.
                _ => self.stage.scene.core.give_back(&mut self.cache),
            }
        }
        while let Some(handle) = self.handles.pop() {
            if thread_rng().r#gen() { self.end(handle) } else { self.let_go(handle) }
        }
        self.cache
    }

    fn schedule(&mut self) {
        let callback = (self.callback)(&self.stage.scene.tally);
        let deadline = within(4, self.stage.now());
        if let Some(handle) = self.stage.scene.schedule(&mut self.cache, callback, deadline) {
            self.stage.count_scheduled();
            self.handles.push(handle);
        } else {
            self.stage.count_refused();
        }
    }

    fn with_any(&mut self, act: impl FnOnce(&mut Self, Handle)) {
        if !self.handles.is_empty() {
            let any = thread_rng().gen_range(0..self.handles.len());
            let handle = self.handles.swap_remove(any);
            act(self, handle);
        }
    }

    fn cancel(&self, handle: &Handle) {
        self.stage.scene.cancel(handle);
    }

    fn end(&mut self, handle: Handle) {
        self.cancel(&handle);
        self.let_go(handle);
    }

    fn let_go(&mut self, handle: Handle) {
        self.stage.scene.release(handle, &mut self.cache);
    }
}

/// Has one sleep, which two tasks wait for by turns.
pub(super) struct Sleeper<'a> {
    stage: &'a Stage,
    cache: Cache,
    tasks: [Arc<Task>; 2],
}

impl<'a> Sleeper<'a> {
    pub(super) fn new(stage: &'a Stage) -> Self {
        Self { stage, cache: Cache::new(), tasks: [Task::new(), Task::new()] }
    }

    /// Does so many things with sleeps, one after the other, unless the shard is shut down. Returns the cache.
    pub(super) fn spend(mut self, things: usize) -> Cache {
        let mut sleep = self.sleep();
        for _ in 0..things {
            let Some(present) = &mut sleep else { break };
            match thread_rng().gen_range(0..8) {
                0..6 => self.poll(present),
                6 => self.reset(present),
                _ => {
                    let new = self.sleep();
                    self.drop(std::mem::replace(&mut sleep, new));
                }
            }
        }
        self.drop(sleep);
        self.cache
    }

    fn task(&self) -> Arc<Task> {
        self.tasks[thread_rng().gen_range(0..2)].clone()
    }

    fn sleep(&mut self) -> Option<Sleep> {
        let deadline = within(2, self.stage.now());
        Sleep::made(&self.stage.scene, &mut self.cache, deadline)
    }

    /// Uses a sleep that is over again, at once: its entry may be in a batch still.
    fn poll(&mut self, sleep: &mut Sleep) {
        let task = self.task();
        while sleep.progress(&self.stage.scene, &mut self.cache, &task, self.stage.now()) == Progress::Elapsed {
            assert!(sleep.deadline <= self.stage.now(), "never early");
            self.reset(sleep);
        }
    }

    fn reset(&mut self, sleep: &mut Sleep) {
        let now = self.stage.now();
        sleep.reset(&self.stage.scene, &mut self.cache, within(2, now), now);
    }

    fn drop(&mut self, sleep: Option<Sleep>) {
        if let Some(sleep) = sleep {
            sleep.drop(&self.stage.scene, &mut self.cache);
        }
    }
}

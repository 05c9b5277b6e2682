//! Clients that use timers and sleeps at random.

use std::sync::Arc;

use shuttle::rand::{Rng, thread_rng};

use super::harness::Harness;
use crate::engine::entry::Callback;
use crate::engine::memory::Cache;
use crate::fixture::{Counts, Handle, Sleep, Task};
use crate::source::shard::sleep_entry::Phase;

/// Returns a random deadline less than `ticks` after `now`.
fn within(ticks: u64, now: u64) -> u64 {
    now + thread_rng().gen_range(0..ticks)
}

/// Schedules timers, and calls every operation of their handles.
pub(super) struct TimerClient<'a, F> {
    harness: &'a Harness,
    callback: F,
    cache: Cache,
    handles: Vec<Handle>,
}

impl<'a, F: Fn(&Counts, u64) -> Callback> TimerClient<'a, F> {
    pub(super) fn new(harness: &'a Harness, callback: F) -> Self {
        Self { harness, callback, cache: Cache::new(), handles: Vec::new() }
    }

    /// Performs `operations` random operations, releases every handle, and returns the cache.
    pub(super) fn run(mut self, operations: usize) -> Cache {
        for _ in 0..operations {
            match thread_rng().gen_range(0..7) {
                0 | 1 => self.schedule(),
                2 => self.with_random_handle(|client, handle| client.cancel_and_release(handle)),
                3 => self.with_random_handle(|client, handle| {
                    client.cancel(&handle);
                    client.harness.fixture.core.wait_for_run(client.harness.fixture.entry(&handle), None);
                    client.release(handle);
                }),
                4 => self.with_random_handle(|client, handle| {
                    let now = client.harness.now();
                    client.harness.fixture.reset(&handle, within(4, now), now);
                    client.handles.push(handle);
                }),
                5 => self.with_random_handle(Self::release),
                // Like a thread that ends, and another that replaces it.
                _ => self.harness.fixture.core.drain_cache(&mut self.cache),
            }
        }
        while let Some(handle) = self.handles.pop() {
            if thread_rng().r#gen() { self.cancel_and_release(handle) } else { self.release(handle) }
        }
        self.cache
    }

    fn schedule(&mut self) {
        let deadline = within(4, self.harness.now());
        let callback = (self.callback)(&self.harness.fixture.counts, deadline);
        if let Some(handle) = self.harness.fixture.schedule(&mut self.cache, callback, deadline) {
            self.harness.count_scheduled();
            self.handles.push(handle);
        } else {
            self.harness.count_refused();
        }
    }

    fn with_random_handle(&mut self, f: impl FnOnce(&mut Self, Handle)) {
        if !self.handles.is_empty() {
            let any = thread_rng().gen_range(0..self.handles.len());
            let handle = self.handles.swap_remove(any);
            f(self, handle);
        }
    }

    fn cancel(&self, handle: &Handle) {
        self.harness.fixture.cancel(handle);
    }

    fn cancel_and_release(&mut self, handle: Handle) {
        self.cancel(&handle);
        self.release(handle);
    }

    fn release(&mut self, handle: Handle) {
        self.harness.fixture.release(handle, &mut self.cache);
    }
}

/// Has one sleep, which either of two tasks polls.
pub(super) struct SleepClient<'a> {
    harness: &'a Harness,
    cache: Cache,
    tasks: [Arc<Task>; 2],
}

impl<'a> SleepClient<'a> {
    pub(super) fn new(harness: &'a Harness) -> Self {
        Self { harness, cache: Cache::new(), tasks: [Task::new(), Task::new()] }
    }

    /// Performs `operations` random operations on successive sleeps, unless the shard is shut down. Returns the cache.
    pub(super) fn run(mut self, operations: usize) -> Cache {
        let mut sleep = self.sleep();
        for _ in 0..operations {
            let Some(current) = &mut sleep else { break };
            match thread_rng().gen_range(0..8) {
                0..6 => self.poll(current),
                6 => self.reset(current),
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
        let deadline = within(2, self.harness.now());
        Sleep::new(&self.harness.fixture, &mut self.cache, deadline)
    }

    /// Polls a sleep, and reuses it at once if it is over, when its entry may still be in a batch.
    fn poll(&mut self, sleep: &mut Sleep) {
        let task = self.task();
        while sleep.phase(&self.harness.fixture, &mut self.cache, &task, self.harness.now()) == Phase::Elapsed {
            assert!(sleep.deadline <= self.harness.now(), "never early");
            self.reset(sleep);
        }
    }

    fn reset(&mut self, sleep: &mut Sleep) {
        let now = self.harness.now();
        sleep.reset(&self.harness.fixture, &mut self.cache, within(2, now), now);
    }

    fn drop(&mut self, sleep: Option<Sleep>) {
        if let Some(sleep) = sleep {
            sleep.drop(&self.harness.fixture, &mut self.cache);
        }
    }
}

//! `ExpiredTimers`: the timers that have expired in some turns, on their way to the executor, to tasks and to queues.
//!
//! All values are made due first: a callback may wait for one, and so may a task. Then the callbacks of the executor go
//! to the pool, and the wakers are called last. These are foreign code: a waker may wait for a callback of the same
//! turn. An executor that runs foreign code itself comes after the wakers, because it may take longer.
//!
//! By then the drivers lie in their cells. So foreign code that takes long keeps no other thread from driving a shard.
//!
//! Rejected: to let the pool call wakers, so that none delays a shard. Sleeps would wait while callbacks block all workers,
//! and the way through the queue costs an eighth of the CPU time of 10^5 sleeps a second: see "Tried and reverted" in
//! `docs/benchmarks/notebook.md`.

use std::mem;
use std::sync::Arc;

use super::batch::TimerBatch;
use crate::engine::deliveries::{Deliveries, Delivery};
use crate::engine::role::handed_out;
use crate::shard::Shard;
use crate::shard::driver::ExpiredEntries;

/// What is to be handed out.
#[derive(Default)]
pub(super) struct ExpiredTimers {
    /// The shards that wait until this is handed out.
    shards: Vec<Arc<Shard>>,
    /// The number of timers.
    pub(super) len: usize,
    pub(super) callbacks: TimerBatch,
    /// The tasks to wake.
    tasks: TimerBatch,
    /// The consumers of queues to wake.
    consumers: Vec<Box<dyn Delivery>>,
}

impl ExpiredTimers {
    /// Adds what has expired in one turn. Makes the values due.
    pub(super) fn add(&mut self, shard: &Arc<Shard>, due: ExpiredEntries) {
        if !self.shards.last().is_some_and(|last| Arc::ptr_eq(last, shard)) {
            self.shards.push(shard.clone());
        }
        self.len += due.len();
        self.callbacks.append(shard, due.tick, due.callbacks);
        self.tasks.append(shard, due.tick, due.wakers);
        let mut deliveries = Deliveries::default();
        due.values.into_iter().for_each(|index| shard.run(index, due.tick, &mut deliveries));
        self.consumers.extend(deliveries.publish());
    }

    /// Records that this is handed out, by a thread with this role. `run_foreign` calls the waker of a program's
    /// loop.
    pub(super) fn handed_out(&mut self, role: u32, mut run_foreign: impl FnMut(&dyn Fn())) {
        mem::take(&mut self.shards).iter().for_each(|shard| handed_out(&**shard, role, &mut run_foreign));
    }

    /// Returns whether so much has expired that it should be handed out.
    pub(super) fn is_full(&self) -> bool {
        self.len >= 128
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn has_wakers(&self) -> bool {
        !self.tasks.is_empty() || !self.consumers.is_empty()
    }

    /// Wakes consumers and tasks: foreign code.
    pub(super) fn run_wakers(&mut self) {
        self.consumers.clear();
        mem::take(&mut self.tasks).run();
    }
}

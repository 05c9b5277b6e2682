//! `HandOut`: what has expired in some turns, on its way to queues, to the executor and to tasks.
//!
//! All values are made due first: a callback may wait for one, and so may a task. Then the callbacks of the executor go
//! to the pool, and the wakers are called last. These are foreign code: a waker may wait for a callback of the same
//! turn. An executor that runs foreign code itself comes after the wakers, because it may take longer.
//!
//! The seats of the shards are put back before foreign code runs that has no part in the order of timers. So foreign code that
//! takes long keeps no other thread from driving a shard.
//!
//! Rejected: to let the pool call wakers, so that none delays a shard. Sleeps would wait while callbacks block all workers,
//! and the way through the queue costs an eighth of the CPU time of 10^5 sleeps a second: see "Tried and reverted" in
//! `docs/benchmarks/notebook.md`.

use std::mem;
use std::sync::Arc;

use smallvec::SmallVec;

use super::batch::TimerBatch;
use super::shard_set::ShardSet;
use crate::engine::alarm::AWAKE;
use crate::engine::deliveries::{Deliveries, Delivery};
use crate::engine::seat::Seated;
use crate::shard::Shard;

/// Foreign code, as [`HandOut::run`] passes it to its caller.
pub(super) enum Foreign {
    /// Wakers.
    Wakers,
    /// Callbacks, or the `execute` of a custom executor.
    Callbacks,
}

/// What is to be handed out, and the seats of the shards that wait for that.
#[derive(Default)]
pub(super) struct HandOut<'a> {
    seats: SmallVec<[(&'a Shard, Seated<'a>); 1]>,
    /// The number of timers.
    pub(super) len: usize,
    callbacks: TimerBatch,
    /// The tasks to wake.
    tasks: TimerBatch,
    /// The consumers of queues to wake.
    consumers: Vec<Box<dyn Delivery>>,
}

impl<'a> HandOut<'a> {
    /// Adds a shard after a turn. Makes the values due that have expired there.
    pub(super) fn add(&mut self, shard: &'a Arc<Shard>, mut seated: Seated<'a>) {
        let expired = &mut seated.driver.expired;
        self.len += expired.len();
        self.callbacks.append(shard, expired.tick, &mut expired.callbacks);
        self.tasks.append(shard, expired.tick, &mut expired.wakers);
        let mut deliveries = Deliveries::default();
        expired.values.drain(..).for_each(|index| shard.run(index, expired.tick, &mut deliveries));
        self.consumers.extend(deliveries.publish());
        self.seats.push((shard, seated));
    }

    /// Returns whether so much has expired that it should be handed out.
    pub(super) fn is_full(&self) -> bool {
        self.len >= 128
    }

    /// Returns whether no turn was made.
    pub(super) fn is_empty(&self) -> bool {
        self.seats.is_empty()
    }

    /// Hands everything out, and puts the seats back. `call` calls foreign code.
    pub(super) fn run(mut self, shard_set: &ShardSet, mut call: impl FnMut(Foreign, &mut dyn FnMut())) {
        if shard_set.dispatcher.queue().is_some() {
            shard_set.dispatch(&mut self.callbacks);
        }
        // Callbacks that start on this thread start in order. A manual clock waits for the wakers, too.
        if self.callbacks.is_empty() && !shard_set.is_virtual() {
            self.put_back(&mut call);
            self.call_foreign(shard_set, &mut call);
        } else {
            self.call_foreign(shard_set, &mut call);
            self.put_back(&mut call);
        }
    }

    /// Wakes consumers and tasks, and runs the callbacks that no pool runs.
    fn call_foreign(&mut self, shard_set: &ShardSet, call: &mut impl FnMut(Foreign, &mut dyn FnMut())) {
        if !self.tasks.is_empty() || !self.consumers.is_empty() {
            call(Foreign::Wakers, &mut || {
                self.consumers.clear();
                mem::take(&mut self.tasks).run();
            });
        }
        if !self.callbacks.is_empty() {
            call(Foreign::Callbacks, &mut || shard_set.dispatch(&mut self.callbacks));
        }
    }

    /// Puts the seats back. Wakes the loops of programs that have got a shard meanwhile.
    fn put_back(&mut self, call: &mut impl FnMut(Foreign, &mut dyn FnMut())) {
        let put_back = |(shard, seated): (&'a Shard, Seated<'_>)| {
            let wakes_loop = seated.put_back();
            shard.wake_clock();
            wakes_loop.then_some(shard)
        };
        let shards: Vec<_> = self.seats.drain(..).filter_map(put_back).collect();
        for shard in shards {
            call(Foreign::Wakers, &mut || shard.core.wakeup.program.wake_by(AWAKE));
        }
    }
}

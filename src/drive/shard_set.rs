//! `ShardSet`: the shards of a service, and what their threads share.
//!
//! # The leader
//!
//! A shard whose timers are few needs no awake thread of its own. Of all such shards, which are *folded*, one thread
//! expires what is due: the *leader*, which is the own thread of the first shard. It sleeps until the earliest of their
//! deadlines. So how many threads are awake follows the work, not the number of shards. The leader also checks the
//! pool. Foreign code that blocks it delays all of this until it returns: a waker, `execute`, an inline callback.
//!
//! A leader that [is behind](super::busyness) gives shards that are due to their own threads, one after each batch. Its own
//! shard stays with it. An own thread that has little to do folds its shard again.
//!
//! Shards do not fold with pinned threads, nor in virtual time, where a callback may wait for one of another shard. There,
//! the leader drives its own shard and checks the pool.
//!
//! The model is that of leader and followers (Schmidt et al., 2000), and of the hierarchical timer migration of Linux
//! 6.9.

use std::mem;
use std::panic::RefUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::batch::TimerBatch;
use super::busyness::LOAD_INTERVAL;
use crate::engine::alarm::{AWAKE, Alarms, LEADER};
use crate::engine::call_stack;
use crate::engine::gate::Gate;
use crate::engine::wakeup::DriverWakeup;
use crate::executor::{self, Dispatcher};
use crate::shard::Shard;
use crate::sync::lock;
use crate::wheel::Levels;

/// The share of its time, in percent, below which a thread has little to do.
const LITTLE: u32 = 25;

/// The shards of a service, and their executor.
pub(crate) struct ShardSet {
    pub(crate) shards: Vec<Arc<Shard>>,
    pub(super) alarms: Arc<Alarms>,
    pub(super) dispatcher: Dispatcher,
    /// Shards fold.
    pub(super) is_flexible: bool,
    /// What the gate of each thread is at first.
    pub(super) gate: Gate,
    /// Until when the leader counts as a thread that has more than a little to do.
    leader_busy: Mutex<Instant>,
}

impl ShardSet {
    /// Creates a shard for each of `levels`, from what `new` makes of its index and of its wakeup. `is_flexible`: shards fold.
    pub(crate) fn new(
        levels: Vec<Levels>,
        dispatcher: Dispatcher,
        is_flexible: bool,
        gate: Gate,
        mut new: impl FnMut(usize, DriverWakeup) -> Arc<Shard>,
    ) -> Self {
        let alarms = Arc::new(Alarms::new(levels.len()));
        if let Some(queue) = dispatcher.queue() {
            let alarms = alarms.clone();
            queue.set_waker(move || alarms.get(LEADER).wake_by(AWAKE));
        }
        let new =
            |(shard, levels)| new(shard, DriverWakeup::new(alarms.clone(), first_role(shard, is_flexible), levels));
        let shards: Vec<_> = levels.into_iter().enumerate().map(new).collect();
        Self { shards, alarms, dispatcher, is_flexible, gate, leader_busy: Mutex::new(Instant::now()) }
    }

    /// Returns whether the calling thread is one of the own threads.
    pub(crate) fn drives_here(&self) -> bool {
        self.alarms.is_attached_here()
    }

    /// Wakes all threads, which end once their shards are closed.
    pub(crate) fn wake_all(&self) {
        self.alarms.wake_all();
    }

    pub(super) fn is_virtual(&self) -> bool {
        self.shards[0].ticks.manual.is_some()
    }

    /// Returns the shards that have this role, with their indices.
    fn shards_with(&self, role: u32) -> impl Iterator<Item = (usize, &Arc<Shard>)> {
        self.shards.iter().enumerate().filter(move |(_, shard)| shard.core.wakeup.seat.role() == role)
    }

    /// Gives callbacks to the executor.
    pub(super) fn dispatch(&self, callbacks: &mut TimerBatch) {
        if !callbacks.is_empty() {
            self.dispatcher.dispatch(mem::take(callbacks), |payload| self.shards[0].report_panic(None, false, payload));
        }
    }

    /// Returns the shards that may have this role.
    pub(super) fn shards_of(&self, role: u32) -> &[Arc<Shard>] {
        if self.is_flexible { &self.shards } else { &self.shards[role as usize..=role as usize] }
    }

    /// Returns whether all shards are closed. Until then, the leader checks the pool.
    pub(super) fn are_closed(&self) -> bool {
        self.shards.iter().all(|shard| shard.core.is_closing())
    }

    /// Gives one folded shard that is due now to its own thread, if that is asleep: one that is not may be stuck. The
    /// leader, which calls this because it is behind, is not.
    pub(super) fn unfold(&self) {
        if !self.is_flexible {
            return;
        }
        self.mark_leader_busy();
        let now = self.shards[0].ticks.now_tick();
        let is_due = |&(index, shard): &(usize, &Arc<Shard>)| {
            shard.core.wakeup.wake_tick() <= now && self.alarms.get(index as u32).is_asleep()
        };
        if let Some((index, shard)) = self.shards_with(LEADER).find(is_due) {
            shard.core.wakeup.change_role(LEADER, index as u32);
        }
    }

    /// Folds the shard of an own thread that has little to do beside a leader that has little to do. The thread was
    /// awake for this `share` of its time.
    pub(super) fn balance(&self, role: u32, share: u32) {
        if share >= LITTLE {
            if role == LEADER {
                self.mark_leader_busy();
            }
        } else if self.is_flexible && role != LEADER && Instant::now() >= *lock(&self.leader_busy) {
            self.shards_with(role).for_each(|(_, shard)| _ = shard.core.wakeup.change_role(role, LEADER));
        }
    }

    /// Records that the leader has more than a little to do.
    fn mark_leader_busy(&self) {
        *lock(&self.leader_busy) = Instant::now() + 2 * LOAD_INTERVAL;
    }
}

/// Returns the role that a shard has at first: the leader's if shards fold, else its own.
pub(super) fn first_role(shard: usize, is_flexible: bool) -> u32 {
    if is_flexible { LEADER } else { shard as u32 }
}

impl Drop for ShardSet {
    fn drop(&mut self) {
        // That of a custom executor is foreign code. It may wait for the callback that drops it.
        let dispatcher = mem::replace(&mut self.dispatcher, Dispatcher::Inline);
        let waits = matches!(dispatcher, Dispatcher::Custom(_)) && call_stack::inside_any();
        let shard = self.shards[0].clone();
        let ends = move || shard.catch_panic(None, false, || drop(dispatcher));
        // If no thread can be started, it is dropped here.
        let spawn = |ends| _ = executor::spawn("corewheel-shutdown".to_owned(), ends);
        self.shards[0].catch_panic(None, false, || if waits { spawn(ends) } else { ends() });
    }
}

// See `Shard`: foreign code is called while nothing is borrowed or locked.
impl RefUnwindSafe for ShardSet {}

#[cfg(test)]
#[path = "shard_set_tests.rs"]
mod tests;

//! What the deputy does when the leader is stuck: see [`engine::deputy`](crate::engine::deputy).
//!
//! Every shard gets its own thread. The deputy gives the wakers that are left to the pool, drives the leader's shard, and
//! grows the pool.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::drivers::Drivers;
use super::expired::Wakers;
use crate::engine::deputy::Seen;
use crate::engine::wakeup::LEADER;
use crate::executor::Batch;
use crate::sync::lock;

impl Drivers {
    /// Calls wakers on the own thread of this number.
    pub(super) fn call_wakers(&self, number: u32, wakers: Arc<Wakers>) {
        if !self.is_flexible || number != LEADER {
            self.deputy.replace(number, &self.alarms);
            return wakers.run();
        }
        *lock(&self.leader_wakers) = wakers.clone();
        self.deputy.enter(&self.alarms);
        wakers.run();
        self.deputy.leave(&self.shards[0].core.wakeup);
        if !self.is_grower(LEADER) {
            self.set_grower(LEADER);
        }
    }

    /// Makes the calling own thread the one that grows the pool.
    fn set_grower(&self, number: u32) {
        // Both writes under one lock: the leader may return while the deputy becomes the grower.
        let _wakers = lock(&self.leader_wakers);
        self.grower.store(number, Ordering::Relaxed);
        self.dispatcher.set_grower(thread::current());
    }

    /// Returns whether the own thread of this number grows the pool.
    pub(super) fn is_grower(&self, number: u32) -> bool {
        // Relaxed: an own thread that is unparked for growth has set it.
        self.grower.load(Ordering::Relaxed) == number
    }

    /// Looks after the leader, if the calling own thread is the deputy. Returns the time until the next look.
    pub(super) fn look_after_leader(&self, number: u32, seen: &mut Seen) -> Option<Duration> {
        self.deputy.look(number, seen, Instant::now(), || {
            self.unfold(usize::MAX, u64::MAX);
            self.deputy.give(&self.shards[0].core.wakeup, LEADER, [number, LEADER]);
            self.set_grower(number);
            self.dispatcher.enqueue(lock(&self.leader_wakers).clone());
            self.leave_check();
        })
    }
}

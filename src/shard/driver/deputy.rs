//! What the deputy does when the leader is stuck: see [`engine::deputy`](crate::engine::deputy).
//!
//! Every shard gets its own thread. The deputy gives the wakers that are left to the pool, drives the leader's shard, and
//! gets the leader's watch over the pool.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::drivers::Drivers;
use super::expired::Wakers;
use crate::engine::deputy::Seen;
use crate::engine::wakeup::LEADER;
use crate::executor::{Batch, Watcher};
use crate::sync::lock;

impl Drivers {
    /// Calls wakers on the own thread of this number.
    pub(super) fn call_wakers(&self, number: u32, wakers: Arc<Wakers>) {
        if !self.is_flexible || number != LEADER {
            self.deputy.replace(number, &self.alarms);
            let next = (number + 1) % self.shards.len() as u32;
            self.give_watch(Watcher::Own(number), if self.is_flexible { number } else { next });
            return wakers.run();
        }
        *lock(&self.leader_wakers) = wakers.clone();
        self.deputy.enter(&self.alarms);
        wakers.run();
        self.deputy.leave(self.shards.iter().map(|shard| &shard.core.wakeup));
    }

    /// Looks after the leader, if the calling own thread is the deputy. Returns the time until the next look.
    pub(super) fn look_after_leader(&self, number: u32, seen: &mut Seen) -> Option<Duration> {
        self.deputy.look(number, seen, Instant::now(), || {
            self.unfold(usize::MAX, u64::MAX);
            self.deputy.give(&self.shards[0].core.wakeup, LEADER, [number, LEADER]);
            self.give_watch(Watcher::Own(LEADER), number);
            self.dispatcher.enqueue(lock(&self.leader_wakers).clone(), Watcher::Own(number));
        })
    }
}

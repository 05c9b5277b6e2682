//! What the deputy does when the leader is stuck: see [`engine::deputy`](crate::engine::deputy).
//!
//! It leads from then on, and its own shard is folded. It gives the wakers that the old leader has not called to the pool.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::drivers::{Drivers, Role};
use super::expired::Wakers;
use crate::engine::alarm::LEADER;
use crate::executor::{Batch, Watcher};
use crate::sync::lock;

impl Drivers {
    /// Calls wakers on an own thread. If that was the leader, another one may be afterwards.
    pub(super) fn call_wakers(&self, role: &mut Role, wakers: Arc<Wakers>) {
        if role.number != LEADER {
            self.alarms.delegate(role.thread);
            self.give_watch(Watcher::Own(role.number), (role.thread + 1) % self.shards.len() as u32);
            return wakers.run();
        }
        *lock(&self.leader_wakers) = wakers.clone();
        self.alarms.enter();
        wakers.run();
        if !self.alarms.leave(role.thread) {
            role.number = role.thread;
        }
    }

    /// Looks after the leader, if the calling own thread is the deputy. Returns the time until the next look.
    pub(super) fn look_after_leader(&self, role: &mut Role) -> Option<Duration> {
        let thread = role.thread;
        self.alarms.look(thread, &mut role.seen, Instant::now(), || {
            role.number = LEADER;
            self.shards[thread as usize].core.wakeup.change_role(thread, LEADER);
            self.give_watch(Watcher::Own(thread), thread);
            self.dispatcher.enqueue(lock(&self.leader_wakers).clone(), Watcher::Own(LEADER));
        })
    }
}

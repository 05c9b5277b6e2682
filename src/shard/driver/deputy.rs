//! What the deputy does when the leader is stuck: see [`engine::deputy`](crate::engine::deputy).
//!
//! It leads from then on, and its own shard is folded. It gives the wakers that the old leader has not called to the pool.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::drivers::{Drivers, Role};
use super::expired::Wakers;
use crate::executor::Batch;
use crate::sync::lock;

impl Drivers {
    /// Calls wakers on an own thread. If that was the leader, another one may be afterwards.
    pub(super) fn call_wakers(&self, role: &mut Role, wakers: Arc<Wakers>) {
        if !role.leads {
            self.alarms.delegate(role.thread);
            self.give_watch(role.watcher());
            return wakers.run();
        }
        *lock(&self.leader_wakers) = wakers.clone();
        self.alarms.enter();
        wakers.run();
        role.leads = self.alarms.leave(role.thread);
    }

    /// Looks after the leader, if the calling own thread is the deputy. Returns the time until the next look.
    pub(super) fn look_after_leader(&self, role: &mut Role) -> Option<Duration> {
        let mut seen = role.seen;
        let next = self.alarms.look(role.thread, &mut seen, Instant::now(), || {
            self.give_watch(role.watcher());
            role.leads = true;
            self.shards[role.thread as usize].core.wakeup.change_role(role.thread, self.role_of(role));
            self.dispatcher.enqueue(lock(&self.leader_wakers).clone(), role.watcher());
        });
        role.seen = seen;
        next
    }
}

//! What the deputy does when the leader is stuck: see [`engine::deputy`](crate::engine::deputy).
//!
//! It leads from then on. Where shards fold, its own does, and it gives the wakers that the old leader has not called to the
//! pool. Elsewhere these belong to the shard of the old leader, which waits for them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::drivers::{Drivers, Role};
use super::expired::Wakers;
use crate::engine::alarm::LEADER;
use crate::executor::Batch;
use crate::sync::lock;

impl Drivers {
    /// Calls wakers on an own thread. If that was the leader, another one may be afterwards.
    pub(super) fn call_wakers(&self, role: &mut Role, wakers: Arc<Wakers>) {
        if self.dispatcher.queue().is_none() {
            // No thread leads.
            return wakers.run();
        }
        if role.leads {
            *lock(&self.leader_wakers) = wakers.clone();
        }
        self.alarms.enter(role.thread);
        wakers.run();
        role.leads = self.alarms.leave(role.thread);
    }

    /// Looks after the leader, if the calling own thread is the deputy. Returns the time until the next look.
    pub(super) fn look_after_leader(&self, role: &mut Role) -> Option<Duration> {
        let mut seen = role.seen;
        let next = self.alarms.look(role.thread, &mut seen, Instant::now(), || {
            role.leads = true;
            if self.is_flexible {
                self.shards[role.thread as usize].core.wakeup.change_role(role.thread, LEADER);
                self.dispatcher.enqueue(lock(&self.leader_wakers).clone());
            }
        });
        role.seen = seen;
        next
    }
}

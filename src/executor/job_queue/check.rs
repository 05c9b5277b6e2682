//! The check: one thread, the leader, checks the queue.
//!
//! Workers sleep without a timeout. So they do not notice that a batch which was taken in time has become late, or that
//! all workers are blocked. The leader has timeouts, so it [checks](JobQueue::check) the queue, at a time that each
//! check sets anew. If nothing is left that could need a check, it sets none, so a busy pool does not wake the leader.
//! A dispatch, and a worker that takes a job, bring the time forward to [`LATE_AFTER`] later. Usually a dispatch has
//! done so when a worker takes its job.
//!
//! [`LATE_AFTER`]: super::jobs::LATE_AFTER
//!
//! An earlier time wakes the leader by its [alarm](crate::engine::alarm), whose word is lowered under the queue's lock.
//! The leader reads the time under that lock, after it has written the word and before each time it parks. So either
//! the event finds the word, or the leader the time.

use std::time::Instant;

use super::jobs::Jobs;
use super::queue::JobQueue;
use crate::sync::lock;

impl Jobs {
    /// Sets the time of the next check.
    pub(super) fn set_check(&mut self, at: Option<Instant>) {
        self.check_at = at;
        if at.is_some() {
            if let Some(wake) = &self.wake_leader {
                wake();
            }
        }
    }

    /// Makes the leader check by `at`.
    pub(super) fn check_by(&mut self, at: Instant) {
        if self.check_at.is_none_or(|old| old > at) {
            self.set_check(Some(at));
        }
    }
}

impl JobQueue {
    /// Sets how to wake the leader. `wake` is called under the lock, and must not call foreign code.
    pub(crate) fn set_waker(&self, wake: impl Fn() + Send + Sync + 'static) {
        lock(&self.jobs).wake_leader = Some(Box::new(wake));
    }

    /// Returns when the leader must check the queue.
    pub(crate) fn next_check(&self) -> Option<Instant> {
        lock(&self.jobs).check_at
    }

    /// Checks the queue, if it is time. Returns the number of jobs that it has added, for each of which a borrowed
    /// pool must run one more ticket.
    ///
    /// `start` starts a number of extra threads, which [`work`](Self::work). It returns how many the system has
    /// started.
    pub(crate) fn check(&self, now: Instant, start: impl FnOnce(usize) -> usize) -> usize {
        if self.next_check().is_none_or(|at| at > now) {
            return 0;
        }
        self.grow(now, start);
        // Last: while the pool grew, a worker may have taken a job, and an event may have asked for a check.
        let mut exhausted = Vec::new();
        lock(&self.jobs).check(now, &mut exhausted)
    }
}

#[cfg(all(test, not(loom)))]
#[path = "check_tests.rs"]
mod tests;

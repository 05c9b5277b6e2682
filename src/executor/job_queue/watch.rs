//! The watch: of the threads that drive, one looks after the queue.
//!
//! Workers sleep without a timeout. So they do not notice that a batch which was taken in time has become late, that
//! rayon's work waits beside a parked worker, or that all workers are blocked. The leader has timeouts, so it has the
//! *watch*: it [looks](JobQueue::watch) at a time that each look sets anew. If nothing is left that could need a look,
//! it sets none, so a busy pool does not wake it. These events bring the time forward:
//!
//! | event                                                    | to                                        |
//! |----------------------------------------------------------|-------------------------------------------|
//! | a dispatch                                               | [`LATE_AFTER`], or [`FIRST_CHECK`], later |
//! | a worker parks beside a busy one, and no look is to come | now                                       |
//! | a worker has found rayon's work                          | the time of the next search               |
//!
//! A program's loop that dispatches has the watch if no look is to come, so that no thread wakes for it. It may be away
//! for long, and must start no threads. So it gives the watch to the leader when it has looked, calls wakers or ends, and
//! any event but its own dispatches takes the watch from it.
//!
//! The leader may be inside a waker. If that blocks, a [deputy] leads, and so has the watch.
//!
//! [`LATE_AFTER`]: super::state::LATE_AFTER
//! [deputy]: crate::engine::deputy
//!
//! An earlier time wakes the leader by its [alarm](crate::engine::alarm), whose word is lowered under the queue's lock. The
//! leader reads the time under that lock, after it has written the word and before each time it parks. So either the event
//! finds the word, or the leader the time.

use std::time::{Duration, Instant};

use super::queue::JobQueue;
use crate::sync::lock;

/// Time from a dispatch to the first look at a pool whose callbacks give work to rayon: some time after its workers
/// should search.
pub(super) const FIRST_CHECK: Duration = Duration::from_micros(50);

/// A thread that may have the watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Watcher {
    /// The own thread that [leads](crate::engine::leader), for all of them.
    #[default]
    Leader,
    /// The program's loop that has the shard of this number.
    Loop(u32),
}

/// Which thread looks, and when.
#[derive(Default)]
pub(super) struct Watch {
    pub(super) by: Watcher,
    /// `None`: nothing could need a look.
    pub(super) at: Option<Instant>,
    /// Wakes the leader.
    wake: Option<Box<dyn Fn() + Send + Sync>>,
}

impl Watch {
    /// Makes the leader look by `at`, or the program's loop that has dispatched, if no look of another one is to come.
    pub(super) fn dispatched(&mut self, by: Watcher, at: Instant) {
        if by != Watcher::Leader && (self.at.is_none() || self.by == by) {
            (self.by, self.at) = (by, Some(self.at.map_or(at, |old| old.min(at))));
        } else {
            self.look_by(at);
        }
    }

    /// Gives the watch to the leader, with the time of the next look.
    pub(super) fn set(&mut self, at: Option<Instant>) {
        (self.by, self.at) = (Watcher::Leader, at);
        if at.is_some() {
            self.wake.iter().for_each(|wake| wake());
        }
    }

    /// Makes the leader look by `at`.
    pub(super) fn look_by(&mut self, at: Instant) {
        if !self.leader_looks() || self.at > Some(at) {
            self.set(Some(self.at.map_or(at, |old| old.min(at))));
        }
    }

    /// Returns whether a look of the leader is to come.
    pub(super) fn leader_looks(&self) -> bool {
        self.by == Watcher::Leader && self.at.is_some()
    }
}

impl JobQueue {
    /// Sets how to wake the leader. `wake` is called under the lock, and must not call foreign code.
    pub(crate) fn set_waker(&self, wake: impl Fn() + Send + Sync + 'static) {
        lock(&self.state).watch.wake = Some(Box::new(wake));
    }

    /// Returns when the thread must look, if it has the watch.
    pub(crate) fn watch_at(&self, by: Watcher) -> Option<Instant> {
        let watch = &lock(&self.state).watch;
        watch.at.filter(|_| watch.by == by)
    }

    /// Gives the watch from a program's loop, if it has it, to the leader.
    pub(crate) fn give_watch(&self, from: Watcher) {
        let watch = &mut lock(&self.state).watch;
        if watch.by == from {
            watch.set(watch.at);
        }
    }

    /// Looks at the queue, if it is time and the thread has the watch, which the leader has then. Returns the number of
    /// jobs that it has added, for each of which a borrowed pool must run one more ticket.
    ///
    /// `start` starts a number of threads that run the worker loop as extra workers. It returns how many the system has
    /// started.
    pub(crate) fn watch(&self, by: Watcher, now: Instant, start: impl FnOnce(usize) -> usize) -> usize {
        if self.watch_at(by).is_none_or(|at| at > now) {
            return 0;
        }
        if by == Watcher::Leader {
            self.grow(now, start);
        }
        // Last: while the pool grew, a worker may have taken a job, and an event may have asked for a look.
        let mut exhausted = Vec::new();
        lock(&self.state).check(now, &mut exhausted)
    }
}

#[cfg(all(test, not(loom)))]
#[path = "watch_tests.rs"]
mod tests;

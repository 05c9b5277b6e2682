//! The watch: of the threads that drive, one looks after the queue.
//!
//! Workers sleep without a timeout. So they do not notice that a batch which was taken in time has become late, that
//! rayon's work waits beside a parked worker, or that all workers are blocked. A thread that drives has timeouts. One of
//! them has the *watch*: it [looks](JobQueue::watch) at a time that each look sets anew. If nothing is left that could
//! need a look, it sets none, so a busy pool wakes no driver. These events move the watch, or its time:
//!
//! | event                                                    | by                 | at                                   |
//! |----------------------------------------------------------|--------------------|--------------------------------------|
//! | a dispatch, unless an own thread looks in time anyway    | the thread that dispatches | [`LATE_AFTER`], or [`FIRST_CHECK`], later |
//! | a worker parks beside a busy one, and no look is to come | the same           | now                                  |
//! | a worker has found rayon's work                          | the same           | the time of the next search          |
//! | an extra thread ends                                     | the same           | 8 ms later                           |
//! | a loop dispatches while an own thread has the watch      | the same           | [`LATE_AFTER`] or [`FIRST_CHECK`] later, at the latest |
//! | a thread of the pool asks, or another loop dispatches, while a loop has the watch | the leader | the same         |
//! | a program's loop has looked, calls wakers, or ends       | the leader         | the same                             |
//! | an own thread that does not lead calls wakers            | the leader         | the same                             |
//!
//! The thread that dispatches is awake, so the watch needs no wake-up. A program's loop may be away for long, and must
//! start no threads: it looks once. The leader may be inside a waker. If that blocks, a [deputy] leads, and has the watch.
//!
//! [deputy]: crate::engine::deputy
//!
//! An event that brings the time forward wakes the thread that has the watch, by its [alarm](crate::engine::alarm): the
//! time is written under the queue's lock, and then the alarm's word is lowered. The thread reads the time after it has
//! written that word, before each time it parks.

use std::time::{Duration, Instant};

use super::queue::JobQueue;
use super::state::LATE_AFTER;
use crate::sync::lock;

/// Time from a dispatch to the first look at a pool whose callbacks give work to rayon: some time after its workers
/// should search.
pub(super) const FIRST_CHECK: Duration = Duration::from_micros(50);

/// A thread that may have the watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watcher {
    /// The own thread that [leads](crate::engine::leader).
    Leader,
    /// Another own thread, by its number.
    Thread(u32),
    /// The program's loop that has the shard of this number.
    Loop(u32),
}

impl Watcher {
    fn is_loop(self) -> bool {
        matches!(self, Self::Loop(_))
    }
}

/// Which thread looks, and when.
pub(super) struct Watch {
    pub(super) by: Watcher,
    /// `None`: nothing could need a look.
    pub(super) at: Option<Instant>,
    /// Wakes an own thread.
    wake: Box<dyn Fn(Watcher) + Send + Sync>,
}

impl Default for Watch {
    fn default() -> Self {
        Self { by: Watcher::Leader, at: None, wake: Box::new(|_| ()) }
    }
}

impl Watch {
    /// Makes a thread look by `first`: the calling one, which dispatches, or the one that has the watch. An own thread
    /// leaves it to another that looks between now and then. A program's loop leaves it to any other.
    pub(super) fn take(&mut self, by: Watcher, now: Instant, first: Instant) {
        let Some(at) = self.at else { return (self.by, self.at) = (by, Some(first)) };
        if by.is_loop() && self.by != by {
            self.look_by(first);
        } else if self.by.is_loop() || at + LATE_AFTER <= now || first < at {
            (self.by, self.at) = (by, Some(at.min(first)));
        }
    }

    /// Sets the time of the next look.
    pub(super) fn set(&mut self, at: Option<Instant>) {
        let is_earlier = at.is_some_and(|at| self.at.is_none_or(|old| at < old));
        self.at = at;
        if is_earlier {
            (self.wake)(self.by);
        }
    }

    /// Makes the thread that has the watch look at `at`, unless it looks earlier. If that is a program's loop, the leader
    /// gets the watch: the loop may be away.
    pub(super) fn look_by(&mut self, at: Instant) {
        let at = self.at.map_or(at, |old| old.min(at));
        if self.by.is_loop() {
            (self.by, self.at) = (Watcher::Leader, None);
        }
        self.set(Some(at));
    }

    /// Returns whether an own thread looks by `at`.
    pub(super) fn looks_by(&self, at: Instant) -> bool {
        !self.by.is_loop() && self.at.is_some_and(|next| next <= at)
    }
}

impl JobQueue {
    /// Sets how to wake an own thread. `wake` must not call foreign code.
    pub(crate) fn set_waker(&self, wake: impl Fn(Watcher) + Send + Sync + 'static) {
        lock(&self.state).watch.wake = Box::new(wake);
    }

    /// Returns when the thread must look, if it has the watch.
    pub(crate) fn watch_at(&self, by: Watcher) -> Option<Instant> {
        let watch = &lock(&self.state).watch;
        watch.at.filter(|_| watch.by == by)
    }

    /// Gives the watch from a thread, if it has it, to the leader.
    pub(crate) fn give_watch(&self, from: Watcher) {
        let watch = &mut lock(&self.state).watch;
        if watch.by == from {
            watch.by = Watcher::Leader;
            let at = watch.at.take();
            watch.set(at);
        }
    }

    /// Looks at the queue, if it is time and the thread has the watch. Returns the number of jobs that it has added, for
    /// each of which a borrowed pool must run one more ticket; `None` if it was not time.
    ///
    /// `start` starts a number of threads that run the worker loop as extra workers. It returns how many the system has
    /// started. `has_ending` returns whether extra threads are about to end.
    pub(crate) fn watch(
        &self,
        by: Watcher,
        now: Instant,
        start: impl FnOnce(usize) -> usize,
        has_ending: impl FnOnce() -> bool,
    ) -> Option<usize> {
        self.watch_at(by).filter(|&at| at <= now)?;
        if !by.is_loop() {
            self.grow(now, start, has_ending);
        }
        // Last: while the pool grew, a worker may have taken a job, and an event may have asked for a look.
        let mut exhausted = Vec::new();
        Some(lock(&self.state).check(now, &mut exhausted))
    }
}

#[cfg(all(test, not(loom)))]
#[path = "watch_tests.rs"]
mod tests;

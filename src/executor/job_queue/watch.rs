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
//! | a program's loop has looked, or ends                     | an own thread      | the same                             |
//! | an own thread calls wakers, and is not the leader        | another, or the leader | the same                         |
//! | a deputy becomes the leader                              | the leader, if the deputy had it | the same               |
//!
//! The thread that dispatches is awake, so the watch needs no wake-up. A program's loop may be away for long, and must
//! start no threads: it looks once. An own thread that is stuck loses the watch at the next dispatch after it is late.
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
    /// The own thread that has this [role](crate::engine::role).
    Own(u32),
    /// The program's loop that has the shard of this number.
    Loop(u32),
}

/// Which thread looks, and when.
pub(super) struct Watch {
    by: Watcher,
    /// `None`: nothing could need a look.
    pub(super) at: Option<Instant>,
    /// Wakes the own thread that has a role.
    wake: Box<dyn Fn(u32) + Send + Sync>,
}

impl Default for Watch {
    fn default() -> Self {
        Self { by: Watcher::Own(0), at: None, wake: Box::new(|_| ()) }
    }
}

impl Watch {
    /// Lets the calling thread, which dispatches, look at `first`, unless an own thread looks between now and then.
    pub(super) fn take(&mut self, by: Watcher, now: Instant, first: Instant) {
        let is_in_time = |at| now < at + LATE_AFTER && at <= first;
        if !matches!(self.by, Watcher::Own(_)) || !self.at.is_some_and(is_in_time) {
            (self.by, self.at) = (by, Some(self.at.map_or(first, |at| at.min(first))));
        }
    }

    /// Sets the time of the next look.
    pub(super) fn set(&mut self, at: Option<Instant>) {
        let is_earlier = at.is_some_and(|at| self.at.is_none_or(|old| at < old));
        self.at = at;
        if is_earlier {
            self.wake();
        }
    }

    /// Makes the thread that has the watch look at `at`, unless it looks earlier.
    pub(super) fn look_by(&mut self, at: Instant) {
        self.set(Some(self.at.map_or(at, |old| old.min(at))));
    }

    fn wake(&self) {
        if let Watcher::Own(number) = self.by {
            (self.wake)(number);
        }
    }
}

impl JobQueue {
    /// Gives the watch to an own thread, by its role, and sets how to wake that of a role. `wake` must not call foreign
    /// code.
    pub(crate) fn set_watcher(&self, role: u32, wake: impl Fn(u32) + Send + Sync + 'static) {
        let watch = &mut lock(&self.state).watch;
        (watch.by, watch.wake) = (Watcher::Own(role), Box::new(wake));
    }

    /// Returns when the thread must look, if it has the watch.
    pub(crate) fn watch_at(&self, by: Watcher) -> Option<Instant> {
        let watch = &lock(&self.state).watch;
        watch.at.filter(|_| watch.by == by)
    }

    /// Gives the watch from one thread, if it has it, to an own thread.
    pub(crate) fn give_watch(&self, from: Watcher, to: u32) {
        let watch = &mut lock(&self.state).watch;
        if watch.by == from {
            watch.by = Watcher::Own(to);
            if watch.at.is_some() {
                watch.wake();
            }
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
        if let Watcher::Own(_) = by {
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

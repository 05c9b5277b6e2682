//! What a worker does with an entry of a batch: it claims the callback, runs it, and finishes the entry.
//!
//! | the worker finds                | and does                                                                  |
//! |---------------------------------|---------------------------------------------------------------------------|
//! | a one-shot                      | runs it, counts the end of the run, recycles the entry if it is free      |
//! | a periodic timer                | runs it, counts the end of the run, enqueues the entry for the next run   |
//! | a timer that was reset to later | enqueues the entry                                                        |
//! | a timer that has ended          | recycles the entry if it is free                                          |
//! | a closed shard                  | leaves the timer armed, for the shutdown                                  |
//!
//! The end of a run is counted and reported *before* the transition that clears `RUNNING`. That transition releases the
//! threads that wait for the run, so the report is part of the run. Loom models `shutdown` and `periodic` check this
//! order.
//!
//! Every call of a callback, and every drop of one, catches panics. A thread that drops a batch unrun goes the same way
//! through [`Shard::discard`], and drops the callbacks.
//!
//! # How the ends of timers are counted
//!
//! | event                                | counted as             |
//! |--------------------------------------|------------------------|
//! | a run that is not periodic           | `fired`, `completed`   |
//! | a periodic run, which ends no timer  | `fired`                |
//! | the last periodic run                | `fired`, `completed`   |
//! | a cancel, a drop of its sleep, or a batch dropped unrun | `cancelled` |
//! | a poll at its deadline, before a run | `completed`            |
//! | a shutdown, for a sleep              | `completed`            |
//! | a shutdown, for a closure            | `unfired`              |
//!
//! A run that has returned also counts as `returned`: what has fired and not returned is running.

use std::panic::{self, AssertUnwindSafe};

use crate::engine::call_stack;
use crate::engine::deliveries::Deliveries;
use crate::engine::entry::{ARMED, CLOSED, Callback, CallbackKind, ENQUEUED, Entry, HAS_WAITER, State, Table};
use crate::shard::thread_state::{self, Counter, ThreadCounters};
use crate::shard::{Shard, SlowRun};

impl Shard {
    /// Runs the callback of an entry in a batch that expired at the tick `due`. Does not run it if the timer was reset
    /// to a later deadline, or if the shard was shut down. Adds a value of a queue to the `deliveries` of the turn.
    #[inline]
    pub(crate) fn run(&self, index: u32, due: u64, deliveries: &mut Deliveries) {
        let entry = self.core.slab.get(index);
        self.leave_batch(index, entry, entry.start(due), |callback, deadline| {
            let mut run = self.begin_run(deadline, &callback);
            if callback.kind() == CallbackKind::Periodic {
                self.run_periodic(index, entry, callback, run);
            } else {
                self.call(callback.vtable, &mut run, || callback.deliver(deadline, deliveries));
                // Before the transition that ends the run: see the file's head.
                self.report_slow(run);
                self.finish(index, entry);
            }
        });
    }

    /// Ends a timer whose batch, expired at the tick `due`, is dropped unrun. Does not end it if it was reset to a
    /// later deadline, or if the shard was shut down.
    pub(crate) fn discard(&self, index: u32, due: u64) {
        let entry = self.core.slab.get(index);
        self.leave_batch(index, entry, entry.discard(due), |callback, _| {
            self.count_end(|counters| &counters.cancelled);
            self.catch_panic(Some(callback.vtable), true, || drop(callback));
            self.finish(index, entry);
        });
    }

    /// Completes the transition by which an entry has left its batch. Calls `end` with the callback if the callback
    /// must be run or dropped.
    #[inline]
    fn leave_batch(
        &self,
        index: u32,
        entry: &Entry,
        claimed: Result<(Callback, u64), State>,
        end: impl FnOnce(Callback, u64),
    ) {
        match claimed {
            Ok((callback, deadline)) => call_stack::enter(&self.core, entry, || end(callback, deadline)),
            Err(after) if after.has(ENQUEUED) => {
                let now = self.ticks.now_tick();
                self.core.enqueue(index, after.deadline(now), now);
            }
            Err(after) if after.has(ARMED) => {}
            // The thread that has ended the timer has counted that it left its batch.
            Err(after) if after.is_free() => return self.recycle(index),
            Err(_) => return,
        }
        self.finish_in_flight();
    }

    /// Runs a periodic callback once, and enqueues the entry for the next run.
    fn run_periodic(&self, index: u32, entry: &Entry, mut callback: Callback, mut run: SlowRun) {
        let next = self.call(callback.vtable, &mut run, || callback.run_again());
        // A timer that ends by itself is no longer pending when its last run is reported.
        let is_over = !matches!(next, Some(Some(_))) && entry.complete(next.is_none());
        if is_over {
            self.count_end(|counters| &counters.completed);
        }
        // Before the transition that ends the run: see the file's head. That is `finish` or `arm_next`, after which the
        // next run may start.
        self.report_slow(run);
        let over = if is_over {
            callback
        } else {
            // Without a next tick, the timer was cancelled, or a reset has set its deadline.
            match entry.arm_next(callback, next.flatten().unwrap_or_default(), self.ticks.now_tick()) {
                Ok((before, _)) if before.has(CLOSED) => return self.core.wake_waiters(before.has(HAS_WAITER)),
                Ok((_, deadline)) => return self.core.enqueue(index, deadline, self.ticks.now_tick()),
                Err(callback) => callback,
            }
        };
        self.catch_panic(Some(over.vtable), true, || drop(over));
        self.finish(index, entry);
    }

    /// Counts that a run starts, for this deadline. Its start ends the timer, unless the timer is periodic.
    #[inline]
    fn begin_run(&self, deadline: u64, callback: &Callback) -> SlowRun {
        let kind = callback.kind();
        if matches!(kind, CallbackKind::Once | CallbackKind::Value) {
            self.release_permit();
        }
        let lateness = self.ticks.lateness(deadline);
        // In this order, so that a reader that sees the end of a timer also sees its run and its lateness.
        let thread = thread_state::of(self);
        thread.record_lateness(lateness);
        thread.count(|counters| &counters.fired);
        if kind != CallbackKind::Periodic {
            thread.count(|counters| &counters.completed);
        }
        drop(thread);
        self.begin_slow(lateness, callback)
    }

    /// Calls a callback and catches its panic. Counts the return before the report of the panic, whose time does not
    /// belong to the call.
    #[inline(always)]
    fn call<R>(&self, of: Table, run: &mut SlowRun, callback: impl FnOnce() -> R) -> Option<R> {
        let result = panic::catch_unwind(AssertUnwindSafe(callback));
        self.stop_slow(run);
        thread_state::of(self).count(|counters| &counters.returned);
        result.map_err(|payload| self.report_panic(Some(of), true, payload)).ok()
    }

    /// Ends the run of an entry.
    #[inline]
    fn finish(&self, index: u32, entry: &Entry) {
        let (before, after) = entry.finish();
        if after.is_free() {
            self.recycle(index);
        }
        self.core.wake_waiters(before.has(HAS_WAITER));
    }

    /// Recycles a free entry, which the calling thread owns.
    fn recycle(&self, index: u32) {
        self.core.recycle(&mut thread_state::of(self).cache, index);
    }

    /// Runs foreign code, such as the drop of the callback `of` this table. Catches and reports its panic. `is_its`: the
    /// code is known to be of this shard.
    #[inline]
    pub(crate) fn catch_panic(&self, of: Option<Table>, is_its: bool, f: impl FnOnce()) {
        if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(f)) {
            self.report_panic(of, is_its, payload);
        }
    }

    /// Counts the end of a timer, and releases its permit under `max_pending`.
    pub(super) fn count_end(&self, which: impl Fn(&ThreadCounters) -> &Counter) {
        self.release_permit();
        thread_state::of(self).count(which);
    }

    /// Counts the end of a future's timer by a poll or by a shutdown, without a run.
    pub(super) fn count_completed(&self) {
        thread_state::of(self).count(|counters| &counters.completed);
    }
}

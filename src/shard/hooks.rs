//! The engine's [`RunHooks`]: counts how each timer ends, and reports panics.
//!
//! A worker comes here with a [batch](crate::drive), and the driver with wakers.
//! [`Core::run`](crate::engine::core::Core) makes the transitions. This file does what the engine cannot: it reads the
//! clock for the lateness, counts in the worker's own counters, returns permits, and passes panics to `on_panic`.
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
//!
//! All foreign code runs inside a function that catches panics.

use std::any::Any;
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Weak;
use std::time::{Duration, Instant};

use super::shard::Shard;
use super::slow_hook::SlowCallback;
use super::thread_state;
use crate::engine::deliveries::Deliveries;
use crate::engine::entry::{Callback, CallbackKind};
use crate::engine::run::{RunHooks, catch_panic};
use crate::stats::{Counter, ThreadCounters};

impl Shard {
    /// Runs the callback of an entry whose batch expired at tick `due`. That of a value adds the value to the `deliveries`
    /// of the turn.
    #[inline]
    pub(crate) fn run(&self, index: u32, due: u64, deliveries: &mut Deliveries) {
        if self.core.run(index, due, &self, deliveries) {
            self.finish_in_flight();
        }
    }

    /// Cancels a timer whose batch, expired at tick `due`, is dropped unrun. Leaves it pending if it was reset to
    /// later.
    pub(crate) fn discard(&self, index: u32, due: u64) {
        if self.core.discard(index, due, &self) {
            self.finish_in_flight();
        }
    }

    /// Counts the end of a future's timer by a poll or by a shutdown, without a run.
    pub(super) fn count_completed(&self) {
        thread_state::with(self, |thread| thread.count(|counters| &counters.completed));
    }

    /// Runs foreign code. Catches and reports its panic.
    pub(crate) fn catch_panic(&self, f: impl FnOnce()) {
        catch_panic(&self, f);
    }

    /// Counts a panic, and passes its payload to `on_panic`. Never unwinds.
    pub(crate) fn report_panic(&self, payload: Box<dyn Any + Send>) {
        thread_state::with(self, |thread| thread.count(|counters| &counters.panicked));
        let deliver = || match &self.settings.on_panic {
            Some(hook) => hook(payload),
            None => drop(payload),
        };
        if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(deliver)) {
            // Leaked, as its drop may panic again, without end.
            mem::forget(payload);
        }
    }

    /// Reports a panic if the shard still exists.
    #[cold]
    pub(crate) fn report_panic_if_alive(shard: Option<&Weak<Self>>, payload: Box<dyn Any + Send>) {
        match shard.and_then(Weak::upgrade) {
            Some(shard) => shard.report_panic(payload),
            // Leaked, as its drop may panic.
            None => mem::forget(payload),
        }
    }

    /// Counts the end of a timer, and releases its permit under `max_pending`.
    pub(super) fn count_end(&self, which: impl FnOnce(&ThreadCounters) -> &Counter) {
        self.release_permit();
        thread_state::with(self, |thread| thread.count(which));
    }
}

impl RunHooks for &Shard {
    /// `None` without an `on_slow` hook, and for a waker or a value of a queue, which are not reported.
    type Run = Option<(Instant, SlowCallback)>;

    fn now(&self) -> u64 {
        self.ticks.now_tick()
    }

    #[inline]
    fn started(&self, deadline: u64, callback: &Callback) -> Self::Run {
        let kind = callback.kind();
        if matches!(kind, CallbackKind::Once | CallbackKind::Value) {
            self.release_permit();
        }
        let lateness = self.ticks.lateness(deadline);
        // In this order, so that a reader that sees the end of a timer also sees its run and its lateness.
        thread_state::with(self, |thread| {
            thread.record_lateness(lateness);
            thread.count(|counters| &counters.fired);
            if kind != CallbackKind::Periodic {
                thread.count(|counters| &counters.completed);
            }
        });
        let hook =
            self.settings.on_slow.as_ref().filter(|_| matches!(kind, CallbackKind::Once | CallbackKind::Periodic));
        hook.map(|hook| hook.begin(Duration::from_nanos(lateness), callback.type_name()))
    }

    #[inline]
    fn returned(&self, run: &mut Self::Run) {
        if let Some((began, run)) = run {
            run.took = began.elapsed();
        }
        thread_state::with(self, |thread| thread.count(|counters| &counters.returned));
    }

    #[inline]
    fn ended(&self, run: Self::Run) {
        if let (Some((_, run)), Some(hook)) = (run, &self.settings.on_slow) {
            catch_panic(self, || hook.report(run));
        }
    }

    fn completed(&self) {
        self.count_end(|counters| &counters.completed);
    }

    fn cancelled(&self) {
        self.count_end(|counters| &counters.cancelled);
    }

    fn panicked(&self, payload: Box<dyn Any + Send>) {
        self.report_panic(payload);
    }

    fn recycle(&self, index: u32) {
        thread_state::with(self, |thread| self.core.recycle(&mut thread.cache, index));
    }
}

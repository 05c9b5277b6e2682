//! Runs callbacks for the engine: counts what became of each timer, and reports panics.

use std::any::Any;
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::time::Duration;

use super::binding::Shard;
use super::slow::Measuring;
use super::thread_state;
use crate::engine::entry::{Callback, Role};
use crate::engine::run::{RunHooks, catch_panic};
use crate::stats::ThreadCounters;

impl Shard {
    /// Runs the callback of an entry in a batch of what was due at `due`.
    pub(super) fn run(&self, index: u32, due: u64) {
        // A callback may fork, and the child comes here when it returns.
        if self.is_inherited() {
            return;
        }
        // The one branch that runs pay where there is no hook: with one, they take a path of their own.
        let was_in_flight = match &self.on_slow {
            None => self.core.run(index, due, &self),
            Some(monitor) => self.core.run(index, due, &Measuring { shard: self, monitor }),
        };
        if was_in_flight {
            self.finish_in_flight();
        }
    }

    /// Ends a timer in a batch of what was due at `due` that is dropped unrun, unless it was moved meanwhile.
    pub(super) fn discard(&self, index: u32, due: u64) {
        if !self.is_inherited() && self.core.discard(index, due, &self) {
            self.finish_in_flight();
        }
    }

    /// Counts the start of a run, and returns how late it is.
    #[inline]
    pub(super) fn count_start(&self, deadline: u64, role: Role) -> Duration {
        if matches!(role, Role::Once | Role::Value) {
            self.release_permit();
        }
        let lateness = self.ticks.lateness(deadline);
        // In this order, so that whoever sees the end of a timer sees its run, and how late that was.
        thread_state::with(self, |thread| {
            thread.late(lateness);
            thread.count(|counters| &counters.fired);
            if role != Role::Periodic {
                thread.count(|counters| &counters.completed);
            }
        });
        lateness
    }

    /// Counts a future's timer that ends with the shard.
    pub(super) fn complete(&self) {
        thread_state::with(self, |thread| thread.count(|counters| &counters.completed));
    }

    /// Drops a callback that wakes a task, and will not be called.
    pub(super) fn discard_waker(&self, callback: Callback) {
        self.drop_unfired(callback);
    }

    /// Drops a closure that will not run. Its panic goes no further.
    pub(crate) fn drop_unfired(&self, callback: Callback) {
        self.catch_panic(|| drop(callback));
    }

    /// Runs foreign code. Its panic goes no further.
    pub(crate) fn catch_panic(&self, f: impl FnOnce()) {
        catch_panic(&self, f);
    }

    /// Hands the payload of a panic to the hook. Whatever that does, it does not unwind.
    pub(super) fn report_panic(&self, payload: Box<dyn Any + Send>) {
        thread_state::with(self, |thread| thread.count(|counters| &counters.panicked));
        let deliver = || match &self.on_panic {
            Some(hook) => hook(payload),
            None => drop(payload),
        };
        if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(deliver)) {
            // Its drop may panic as well, and so on: better leaked.
            mem::forget(payload);
        }
    }

    /// Runs foreign code for a shard that the caller has released. If that is gone, there is nobody to tell of a panic.
    #[inline]
    pub(super) fn catch_panic_after_release(id: u64, f: impl FnOnce()) {
        if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(f)) {
            Self::report_panic_after_release(id, payload);
        }
    }

    #[cold]
    pub(super) fn report_panic_after_release(id: u64, payload: Box<dyn Any + Send>) {
        match thread_state::shard(id) {
            Some(shard) => shard.report_panic(payload),
            // Its drop may panic as well: better leaked.
            None => mem::forget(payload),
        }
    }

    /// Counts an end, and frees the place that the timer had under `max_pending`.
    pub(super) fn end(&self, which: impl FnOnce(&ThreadCounters) -> &crate::stats::Count) {
        self.release_permit();
        thread_state::with(self, |thread| thread.count(which));
    }
}

impl RunHooks for &Shard {
    type Run = ();

    fn now(&self) -> u64 {
        self.ticks.now_tick()
    }

    fn enqueued(&self, deadline: u64) {
        self.request_if_due(deadline);
    }

    #[inline]
    fn started(&self, deadline: u64, role: Role) {
        self.count_start(deadline, role);
    }

    #[inline]
    fn returned(&self, (): &mut ()) {}

    #[inline]
    fn ended(&self, (): ()) {}

    fn completed(&self) {
        self.end(|counters| &counters.completed);
    }

    fn cancelled(&self) {
        self.end(|counters| &counters.cancelled);
    }

    fn panicked(&self, payload: Box<dyn Any + Send>) {
        self.report_panic(payload);
    }

    fn recycle(&self, index: u32) {
        thread_state::with(self, |thread| self.core.recycle(&mut thread.cache, index));
    }
}

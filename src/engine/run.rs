//! What a worker does with an entry of a batch: it claims the callback, runs it, and finishes the entry.
//!
//! | the worker finds                | and does                                                                  |
//! |---------------------------------|---------------------------------------------------------------------------|
//! | a one-shot                      | runs it, reports the end of the run, recycles the entry if it is free     |
//! | a periodic timer                | runs it, reports the end of the run, enqueues the entry for the next run  |
//! | a timer that was reset to later | enqueues the entry                                                        |
//! | a timer that has ended          | recycles the entry if it is free                                          |
//! | a closed shard                  | leaves the timer armed, for the shutdown                                  |
//!
//! The end of a run is reported *before* the transition that clears `RUNNING`. That transition releases the threads
//! that wait for the run, so the report is part of the run. Loom models `shutdown` and `periodic` check this order.
//!
//! Every call of a callback, and every drop of one, catches panics. A thread that drops a batch unrun goes the same way
//! through [`Core::discard`], and drops the callbacks.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};

use super::call_stack;
use super::core::Core;
use super::deliveries::Deliveries;
use super::entry::{ARMED, CLOSED, Callback, CallbackKind, ENQUEUED, Entry, HAS_WAITER, State, Table};

/// The engine's calls to the shard around a run. None of them may unwind.
pub(crate) trait RunHooks {
    /// State of one run, from [`started`](Self::started) to [`ended`](Self::ended).
    type Run;
    /// Returns the present tick.
    fn now(&self) -> u64;
    /// The callback starts, for this deadline. Its start ends the timer, unless the timer is periodic.
    fn started(&self, deadline: u64, callback: &Callback) -> Self::Run;
    /// The callback has returned or panicked.
    fn returned(&self, run: &mut Self::Run);
    /// The run is over. The threads that wait for it are released after this returns.
    fn ended(&self, run: Self::Run);
    /// A periodic timer has ended by itself.
    fn completed(&self);
    /// A timer has ended because its batch was dropped unrun.
    fn cancelled(&self);
    /// The callback `of` this table, or its drop, has panicked; without a table, other foreign code.
    fn panicked(&self, of: Option<Table>, payload: Box<dyn Any + Send>);
    /// The calling thread owns this free entry, and must recycle it.
    fn recycle(&self, index: u32);
}

impl Core {
    /// Runs the callback of an entry in a batch that expired at the tick `due`. Does not run it if the timer was reset
    /// to a later deadline, or if the shard was shut down. Adds a value of a queue to `deliveries`. Returns
    /// false if the timer had already ended.
    pub(crate) fn run(&self, index: u32, due: u64, hooks: &impl RunHooks, deliveries: &mut Deliveries) -> bool {
        let entry = self.slab.get(index);
        self.leave_batch(index, entry, entry.start(due), hooks, |callback, deadline| {
            let mut run = hooks.started(deadline, &callback);
            if callback.kind() == CallbackKind::Periodic {
                self.run_periodic(index, entry, callback, run, hooks);
            } else {
                call(hooks, callback.vtable, &mut run, || callback.deliver(deadline, deliveries));
                // Before the transition that ends the run: see the file's head.
                hooks.ended(run);
                self.finish(index, entry, hooks);
            }
        })
    }

    /// Ends a timer whose batch, expired at the tick `due`, is dropped unrun. Does not end it if it was reset to a
    /// later deadline, or if the shard was shut down. Returns false if the timer had already ended.
    pub(crate) fn discard(&self, index: u32, due: u64, hooks: &impl RunHooks) -> bool {
        let entry = self.slab.get(index);
        self.leave_batch(index, entry, entry.discard(due), hooks, |callback, _| {
            hooks.cancelled();
            catch_panic(hooks, Some(callback.vtable), || drop(callback));
            self.finish(index, entry, hooks);
        })
    }

    /// Completes the transition by which an entry has left its batch. Calls `end` with the callback if the callback
    /// must be run or dropped. Returns false if the timer had already ended.
    #[inline]
    fn leave_batch(
        &self,
        index: u32,
        entry: &Entry,
        claimed: Result<(Callback, u64), State>,
        hooks: &impl RunHooks,
        end: impl FnOnce(Callback, u64),
    ) -> bool {
        match claimed {
            Ok((callback, deadline)) => call_stack::enter(self, entry, || end(callback, deadline)),
            Err(after) if after.has(ENQUEUED) => {
                let now = hooks.now();
                self.enqueue(index, after.deadline(now), now);
            }
            Err(after) if after.has(ARMED) => {}
            Err(after) => {
                if after.is_free() {
                    hooks.recycle(index);
                }
                return false;
            }
        }
        true
    }

    /// Runs a periodic callback once, and enqueues the entry for the next run.
    fn run_periodic<H: RunHooks>(&self, index: u32, entry: &Entry, mut callback: Callback, mut run: H::Run, hooks: &H) {
        let next = call(hooks, callback.vtable, &mut run, || callback.run_again());
        // A timer that ends by itself is no longer pending when its last run is reported.
        let is_over = !matches!(next, Some(Some(_))) && entry.complete(next.is_none());
        if is_over {
            hooks.completed();
        }
        // Before the transition that ends the run: see the file's head. That is `finish` or `arm_next`, after which the
        // next run may start.
        hooks.ended(run);
        let over = if is_over {
            callback
        } else {
            // Without a next tick, the timer was cancelled, or a reset has set its deadline.
            match entry.arm_next(callback, next.flatten().unwrap_or_default(), hooks.now()) {
                Ok((before, _)) if before.has(CLOSED) => return self.wake_waiters(before.has(HAS_WAITER)),
                Ok((_, deadline)) => return self.enqueue(index, deadline, hooks.now()),
                Err(callback) => callback,
            }
        };
        catch_panic(hooks, Some(over.vtable), || drop(over));
        self.finish(index, entry, hooks);
    }

    /// Ends the run of an entry.
    #[inline]
    fn finish(&self, index: u32, entry: &Entry, hooks: &impl RunHooks) {
        let (before, after) = entry.finish();
        if after.is_free() {
            hooks.recycle(index);
        }
        self.wake_waiters(before.has(HAS_WAITER));
    }
}

/// Calls a callback and catches its panic. Reports the return before the panic, so the time that the report of a panic
/// takes does not count as part of the call.
#[inline(always)]
fn call<H: RunHooks, R>(hooks: &H, of: Table, run: &mut H::Run, callback: impl FnOnce() -> R) -> Option<R> {
    let result = panic::catch_unwind(AssertUnwindSafe(callback));
    hooks.returned(run);
    result.map_err(|payload| hooks.panicked(Some(of), payload)).ok()
}

/// Runs `f`, and reports its panic to the shard instead of propagating it: that of the callback `of` this table.
#[inline]
pub(crate) fn catch_panic(hooks: &impl RunHooks, of: Option<Table>, f: impl FnOnce()) {
    _ = panic::catch_unwind(AssertUnwindSafe(f)).map_err(|payload| hooks.panicked(of, payload));
}

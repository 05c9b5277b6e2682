//! What a worker does with a timer that is due: start, run, and what comes after.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::thread;

use super::call_stack;
use super::core::Core;
use super::entry::{Callback, Finish, NextRun, Role, Start};

/// What a worker tells its surroundings. None of it may unwind.
pub(crate) trait RunHooks {
    /// What the host measures of a run.
    type Run;
    /// The present tick.
    fn now(&self) -> u64;
    /// A timer was sent to the driver, which looks at it by this tick.
    fn enqueued(&self, deadline: u64);
    /// A callback for this deadline starts, and ends the timer unless it is repeating.
    fn started(&self, deadline: u64, role: Role) -> Self::Run;
    /// The callback has returned or panicked.
    fn returned(&self, run: &mut Self::Run);
    /// The run is complete. Whatever waits for the run waits until this returns.
    fn ended(&self, run: Self::Run);
    /// A repeating timer has ended by itself.
    fn completed(&self);
    /// A timer has ended because its batch was dropped unrun.
    fn cancelled(&self);
    /// A callback has panicked, or the drop of one.
    fn panicked(&self, payload: Box<dyn Any + Send>);
    /// An entry is free.
    fn recycle(&self, index: u32);
}

impl Core {
    /// Runs the callback of an entry in a batch of what was due at `due`, unless it was moved meanwhile, or the shard was
    /// shut down. False if the timer had ended, and another has taken it out of the batch.
    pub(crate) fn run(&self, index: u32, due: u64, hooks: &impl RunHooks) -> bool {
        let start = self.slab.get(index).start(due);
        self.leave_batch(index, start, hooks, |callback, deadline| {
            let role = callback.role();
            let mut run = hooks.started(deadline, role);
            if role == Role::Periodic {
                self.run_periodic(index, callback, deadline, run, hooks);
            } else {
                call(hooks, &mut run, || callback.run(deadline));
                // Before the transition that ends the run, which releases the threads that wait for it. Loom models
                // `shutdown` and, below, `repeat`.
                hooks.ended(run);
                self.finish(index, hooks);
            }
        })
    }

    /// Ends a timer in a batch of what was due at `due` that is dropped unrun, unless it was moved meanwhile, or the shard
    /// was shut down. False if the timer had ended, and another has taken it out of the batch.
    pub(crate) fn discard(&self, index: u32, due: u64, hooks: &impl RunHooks) -> bool {
        let entry = self.slab.get(index);
        self.leave_batch(index, entry.discard(due), hooks, |callback, _| {
            hooks.cancelled();
            catch_panic(hooks, || drop(callback));
            if entry.finish_discard() {
                hooks.recycle(index);
            }
        })
    }

    /// Does what is left to do with an entry that has left its batch: `end` is given its callback, if that is to be run or
    /// dropped. False if the timer had ended before.
    #[inline]
    fn leave_batch(&self, index: u32, start: Start, hooks: &impl RunHooks, end: impl FnOnce(Callback, u64)) -> bool {
        match start {
            Start::Over { free } => {
                if free {
                    hooks.recycle(index);
                }
                return false;
            }
            Start::Enqueue { deadline } => self.enqueue_again(index, deadline, hooks),
            Start::Closed => {}
            Start::Run { callback, deadline } => {
                call_stack::enter(self, self.slab.get(index), || end(callback, deadline));
            }
        }
        true
    }

    fn run_periodic<H: RunHooks>(&self, index: u32, mut callback: Callback, deadline: u64, mut run: H::Run, hooks: &H) {
        let entry = self.slab.get(index);
        let next = call(hooks, &mut run, || callback.run_again(deadline)).flatten();
        // A timer that ends by itself is not pending any more when the host reports its last run.
        if next.is_none() && entry.end() {
            hooks.completed();
        }
        // Before the transition that ends the run, as above; also before `arm_next`, after which the next run may start.
        hooks.ended(run);
        let over = match next {
            Some(next) => match entry.arm_next(callback, next, hooks.now()) {
                NextRun::Enqueue { deadline } => return self.enqueue_again(index, deadline, hooks),
                NextRun::Closed { has_waiter } => return self.wake_waiting(has_waiter),
                NextRun::Cancelled(callback) => callback,
            },
            None => callback,
        };
        catch_panic(hooks, || drop(over));
        self.finish(index, hooks);
    }

    fn enqueue_again(&self, index: u32, deadline: u64, hooks: &impl RunHooks) {
        hooks.enqueued(self.enqueue(index, deadline, || hooks.now()));
    }

    fn finish(&self, index: u32, hooks: &impl RunHooks) {
        let Finish { has_waiter, free } = self.slab.get(index).finish();
        if free {
            hooks.recycle(index);
        }
        self.wake_waiting(has_waiter);
    }
}

/// Calls a callback as [`catch_panic`] does. What the host does about a panic is no part of the call.
fn call<H: RunHooks, R>(hooks: &H, run: &mut H::Run, callback: impl FnOnce() -> R) -> Option<R> {
    let result = panic::catch_unwind(AssertUnwindSafe(callback));
    hooks.returned(run);
    deliver(hooks, result)
}

/// Runs `f`; its panic goes to the host and no further.
#[inline]
pub(crate) fn catch_panic<R>(hooks: &impl RunHooks, f: impl FnOnce() -> R) -> Option<R> {
    deliver(hooks, panic::catch_unwind(AssertUnwindSafe(f)))
}

#[inline]
fn deliver<R>(hooks: &impl RunHooks, result: thread::Result<R>) -> Option<R> {
    result.map_err(|payload| hooks.panicked(payload)).ok()
}

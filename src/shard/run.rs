//! What a worker does with a timer that is due: start, run, and what comes after.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::thread;

use super::call_stack;
use super::core::Core;
use super::entry::{Callback, Finish, Rearm, Role, Start};

/// What a worker tells its surroundings. None of it may unwind.
pub(crate) trait Host {
    /// What the host measures of a run.
    type Run;
    /// The present tick.
    fn now(&self) -> u64;
    /// A timer was sent to the driver, which looks at it by this tick.
    fn sent(&self, deadline: u64);
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
    pub(crate) fn run(&self, index: u32, due: u64, host: &impl Host) -> bool {
        let start = self.slab.get(index).start(due);
        self.settle(index, start, host, |callback, deadline| {
            let role = callback.role();
            let mut run = host.started(deadline, role);
            if role == Role::Repeat {
                self.run_repeating(index, callback, deadline, run, host);
            } else {
                call(host, &mut run, || callback.run(deadline));
                // Before the transition that ends the run, which releases the threads that wait for it. Loom models
                // `shutdown` and, below, `repeat`.
                host.ended(run);
                self.finish(index, host);
            }
        })
    }

    /// Ends a timer in a batch of what was due at `due` that is dropped unrun, unless it was moved meanwhile, or the shard
    /// was shut down. False if the timer had ended, and another has taken it out of the batch.
    pub(crate) fn discard(&self, index: u32, due: u64, host: &impl Host) -> bool {
        let entry = self.slab.get(index);
        self.settle(index, entry.discard(due), host, |callback, _| {
            host.cancelled();
            contain(host, || drop(callback));
            if entry.discarded() {
                host.recycle(index);
            }
        })
    }

    /// Does what is left to do with an entry that has left its batch: `end` is given its callback, if that is to be run or
    /// dropped. False if the timer had ended before.
    #[inline]
    fn settle(&self, index: u32, start: Start, host: &impl Host, end: impl FnOnce(Callback, u64)) -> bool {
        match start {
            Start::Over { free } => {
                if free {
                    host.recycle(index);
                }
                return false;
            }
            Start::Mail { deadline } => self.send_again(index, deadline, host),
            Start::Closed => {}
            Start::Run { callback, deadline } => {
                call_stack::enter(self, self.slab.get(index), || end(callback, deadline));
            }
        }
        true
    }

    fn run_repeating<H: Host>(&self, index: u32, mut callback: Callback, deadline: u64, mut run: H::Run, host: &H) {
        let entry = self.slab.get(index);
        let next = call(host, &mut run, || callback.run_again(deadline)).flatten();
        // A timer that ends by itself is not pending any more when the host reports its last run.
        if next.is_none() && entry.end() {
            host.completed();
        }
        // Before the transition that ends the run, as above; also before `rearm`, after which the next run may start.
        host.ended(run);
        let over = match next {
            Some(next) => match entry.rearm(callback, next, host.now()) {
                Rearm::Mail { deadline } => return self.send_again(index, deadline, host),
                Rearm::Held { waited } => return self.wake_waiting(waited),
                Rearm::Cancelled(callback) => callback,
            },
            None => callback,
        };
        contain(host, || drop(over));
        self.finish(index, host);
    }

    fn send_again(&self, index: u32, deadline: u64, host: &impl Host) {
        host.sent(self.send(index, deadline, || host.now()));
    }

    fn finish(&self, index: u32, host: &impl Host) {
        let Finish { waited, free } = self.slab.get(index).finish();
        if free {
            host.recycle(index);
        }
        self.wake_waiting(waited);
    }
}

/// Calls a callback as [`contain`] does. What the host does about a panic is no part of the call.
fn call<H: Host, R>(host: &H, run: &mut H::Run, callback: impl FnOnce() -> R) -> Option<R> {
    let result = panic::catch_unwind(AssertUnwindSafe(callback));
    host.returned(run);
    deliver(host, result)
}

/// Runs `f`; its panic goes to the host and no further.
#[inline]
pub(crate) fn contain<R>(host: &impl Host, f: impl FnOnce() -> R) -> Option<R> {
    deliver(host, panic::catch_unwind(AssertUnwindSafe(f)))
}

#[inline]
fn deliver<R>(host: &impl Host, result: thread::Result<R>) -> Option<R> {
    result.map_err(|payload| host.panicked(payload)).ok()
}

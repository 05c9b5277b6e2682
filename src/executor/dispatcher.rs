//! Dispatches batches to the executor of a timer.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Weak};
use std::time::Instant;

use super::batch::Batch;
use super::borrowed::BorrowedPool;
use super::executor::Execute;
use super::job_queue::JobQueue;
use super::pool::Pool;

/// A running executor, to which drivers dispatch batches.
#[derive(Clone)]
pub(crate) enum Dispatcher {
    /// The service's own pool.
    Own(Arc<Pool>),
    Borrowed(Arc<BorrowedPool>),
    Inline,
    Custom(Arc<dyn Execute>),
}

impl Dispatcher {
    /// Returns a function that returns whether callbacks may have to wait until the calling thread is free. That is any
    /// thread of the pool: the others may be waiting, too. Unknown of rayon's global pool. The function keeps no pool
    /// alive.
    pub(crate) fn need_this_thread(&self) -> impl Fn() -> bool + Clone + Send + Sync + 'static {
        let own = if let Self::Own(pool) = self { Arc::downgrade(pool) } else { Weak::new() };
        let borrowed = if let Self::Borrowed(pool) = self { Arc::downgrade(pool) } else { Weak::new() };
        move || {
            own.upgrade().is_some_and(|pool| pool.has_this_thread())
                || borrowed.upgrade().is_some_and(|pool| pool.has_this_thread())
        }
    }

    /// Submits the batch for execution, or runs it. A panic of the executor itself goes to `on_panic`.
    pub(crate) fn dispatch<B: Batch>(&self, batch: B, on_panic: impl Fn(Box<dyn Any + Send>)) {
        match self {
            // One push for the whole batch, because it costs as much as several callbacks.
            Self::Own(pool) => pool.queue().push(Arc::new(batch), Instant::now()),
            Self::Borrowed(pool) => {
                pool.queue.push(Arc::new(batch), Instant::now());
                pool.spawn_tickets(1);
            }
            Self::Inline => batch.run(&|| ()),
            Self::Custom(custom) => {
                for single in batch.into_singles() {
                    let execute = || custom.execute(Box::new(move || single.run(&|| ())));
                    if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(execute)) {
                        on_panic(payload);
                    }
                }
            }
        }
    }

    /// Returns the queue of a pool.
    pub(crate) fn queue(&self) -> Option<&JobQueue> {
        match self {
            Self::Own(pool) => Some(pool.queue()),
            Self::Borrowed(pool) => Some(&pool.queue),
            Self::Inline | Self::Custom(_) => None,
        }
    }

    /// Checks the queue, as [`JobQueue::check`] does. `run_foreign` starts threads, which inherit the cores of the caller.
    pub(crate) fn check(&self, run_foreign: impl FnOnce(&dyn Fn() -> usize) -> usize) {
        match self {
            Self::Own(pool) => {
                pool.queue().check(Instant::now(), |count| run_foreign(&|| pool.start_extras(count)));
            }
            Self::Borrowed(pool) => pool.spawn_tickets(pool.queue.check(Instant::now(), |_| 0)),
            Self::Inline | Self::Custom(_) => {}
        }
    }
}

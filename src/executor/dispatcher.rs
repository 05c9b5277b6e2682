//! Dispatches batches to the executor of a timer.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Weak};
use std::time::Instant;

use super::batch::Batch;
use super::borrowed::BorrowedPool;
use super::executor::Execute;
use super::job_queue::JobQueue;
use super::pool::{Pool, serves_here};

/// A running executor, to which drivers dispatch batches.
#[derive(Clone)]
pub(crate) enum Dispatcher {
    /// The timer's own pool.
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
        // A weak reference keeps the allocation, so no other queue can have the same address.
        let own = if let Self::Own(pool) = self { Arc::downgrade(pool.queue()) } else { Weak::new() };
        let borrowed = if let Self::Borrowed(pool) = self { Arc::downgrade(pool) } else { Weak::new() };
        move || serves_here(own.as_ptr()) || borrowed.upgrade().is_some_and(|pool| pool.has_this_thread())
    }

    /// Submits the batch for execution, or runs it. A panic of the executor itself goes to `panicked`.
    pub(crate) fn dispatch<B: Batch>(&self, batch: B, panicked: impl Fn(Box<dyn Any + Send>)) {
        match self {
            // One hand-over for the whole batch, because it costs as much as several callbacks.
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
                        panicked(payload);
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
        let start = |count| {
            let Self::Own(pool) = self else { return 0 };
            run_foreign(&|| pool.start_extras(count))
        };
        let added = self.queue().map_or(0, |queue| queue.check(Instant::now(), start));
        if let Self::Borrowed(pool) = self {
            pool.spawn_tickets(added);
        }
    }
}

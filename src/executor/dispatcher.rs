//! Dispatches batches to the executor of a timer.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Weak};
use std::time::Instant;

use super::batch::Batch;
use super::borrowed::BorrowedPool;
use super::extras::Extras;
use super::facade::Execute;
use super::job_queue::JobQueue;
use super::workers;

/// A running executor, to which drivers dispatch batches.
#[derive(Clone)]
pub(crate) enum Dispatcher {
    /// The timer's own pool.
    Own {
        queue: Arc<JobQueue>,
        extras: Option<Arc<Extras>>,
    },
    Borrowed(Arc<BorrowedPool>),
    Inline,
    Custom(Arc<dyn Execute>),
}

/// Erases the type of the batch.
pub(crate) fn erase(batch: Arc<impl Batch>) -> Arc<dyn Batch> {
    batch
}

impl Dispatcher {
    /// Returns whether [`dispatch`](Self::dispatch) runs foreign code on the calling thread.
    pub(crate) fn runs_foreign_code(&self) -> bool {
        matches!(self, Self::Inline | Self::Custom(_))
    }

    /// Returns whether [`dispatch`](Self::dispatch) may wait for foreign code.
    pub(crate) fn may_block(&self) -> bool {
        matches!(self, Self::Custom(_))
    }

    /// Returns a function that returns whether callbacks may have to wait until the calling thread is free. That is any
    /// thread of the timer's own pool, or the only thread of a borrowed one. The function keeps no pool alive.
    pub(crate) fn need_this_thread(&self) -> impl Fn() -> bool + Clone + Send + Sync + 'static {
        let own = if let Self::Own { queue, .. } = self { Some(workers::is_served_here(queue)) } else { None };
        let borrowed = if let Self::Borrowed(pool) = self { Arc::downgrade(pool) } else { Weak::new() };
        move || {
            let on_own = own.as_ref().is_some_and(|is_served_here| is_served_here());
            on_own || borrowed.upgrade().is_some_and(|pool| pool.needs_this_thread())
        }
    }

    /// Submits the batch for execution, or runs it. A panic of the executor itself goes to `panicked`. Returns the
    /// batch if the caller should watch it: see [`assist`](Self::assist).
    pub(crate) fn dispatch<B: Batch>(&self, batch: B, panicked: impl Fn(Box<dyn Any + Send>)) -> Option<Arc<B>> {
        match self {
            Self::Own { queue, .. } => {
                // One hand-over for the whole batch, because it costs as much as several callbacks.
                let batch = Arc::new(batch);
                queue.push(batch.clone());
                return Some(batch);
            }
            Self::Borrowed(pool) => {
                let batch = Arc::new(batch);
                pool.push(batch.clone());
                return Some(batch);
            }
            Self::Inline => batch.run(),
            Self::Custom(custom) => {
                for single in batch.into_singles() {
                    let execute = || custom.execute(Box::new(move || single.run()));
                    if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(execute)) {
                        panicked(payload);
                    }
                }
            }
        }
        None
    }

    /// Returns the queue of the timer's own pool, whose workers can drive.
    pub(crate) fn own_queue(&self) -> Option<&Arc<JobQueue>> {
        if let Self::Own { queue, .. } = self { Some(queue) } else { None }
    }

    /// Makes idle workers assist with a batch that was not finished [`STRAGGLER_AFTER`] after its dispatch. Returns
    /// false if no worker has started it; the caller should then call again. Calls `unpin` before it starts a thread,
    /// which inherits the cores of the caller.
    ///
    /// [`STRAGGLER_AFTER`]: super::job_queue::STRAGGLER_AFTER
    pub(crate) fn assist(&self, batch: Arc<impl Batch>, unpin: impl FnOnce()) -> bool {
        match self {
            Self::Own { queue, extras } => {
                let has_monitor = queue.alert(batch, Instant::now());
                if let Some(extras) = extras.as_ref().filter(|_| !has_monitor) {
                    unpin();
                    extras.start_monitor();
                }
                true
            }
            Self::Borrowed(pool) => pool.assist(batch),
            Self::Inline | Self::Custom(_) => true,
        }
    }
}

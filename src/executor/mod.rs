//! Who runs what is due.

mod pool;

use std::any::Any;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

pub(crate) use pool::{Pool, join, spawn};

/// Where a [`Timer`](crate::Timer)'s callbacks run.
///
/// Timers that are due together are handed over together, in the order of their ticks.
#[derive(Clone)]
#[non_exhaustive]
pub enum Executor {
    /// A rayon pool of the timer's own with this many threads, at least 1. This is the default, with
    /// [`available_parallelism`](std::thread::available_parallelism) threads.
    ///
    /// A batch of due timers is split until every idle worker has a part, down to the single callback, so a slow
    /// callback delays no other while a worker is idle.
    Pool {
        /// How many threads.
        threads: usize,
    },
    /// The caller's own rayon pool, used in the same way. It must be made with [`corewheel::rayon`](crate::rayon).
    Rayon(Arc<rayon::ThreadPool>),
    /// The shard's own thread: for callbacks that only wake something. One that takes long delays every other timer of
    /// its shard.
    Inline,
    /// Anything else, one job for each callback.
    Custom(Arc<dyn Execute>),
}

/// An executor of one's own: see [`Executor::Custom`].
pub trait Execute: Send + Sync + 'static {
    /// Runs `job`, now or later, on any thread.
    ///
    /// It is called on a shard's thread, and blocks this shard for as long as it takes. A job that is dropped unrun
    /// drops its closures, and counts them as cancelled. A panic is caught, and reported to
    /// [`on_panic`](crate::Builder::on_panic).
    fn execute(&self, job: Box<dyn FnOnce() + Send>);
}

impl Default for Executor {
    fn default() -> Self {
        Self::Pool { threads: crate::parallelism() }
    }
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pool { threads } => f.debug_struct("Pool").field("threads", threads).finish(),
            Self::Rayon(pool) => f.debug_tuple("Rayon").field(pool).finish(),
            Self::Inline => f.write_str("Inline"),
            Self::Custom(_) => f.write_str("Custom(..)"),
        }
    }
}

/// Callbacks that are due. Dropping it drops them.
pub(crate) trait Work: Send + Sized + 'static {
    /// Runs all of it on the calling thread.
    fn run(self);
    /// Runs all of it on the calling thread, which is a rayon worker, and lets idle workers steal from it.
    fn run_shared(self);
    /// One piece of work for each callback.
    fn singles(self) -> impl Iterator<Item = Self>;
}

/// An executor that is up and running.
#[derive(Clone)]
pub(crate) enum Hands {
    Rayon(Arc<rayon::ThreadPool>),
    Inline,
    Custom(Arc<dyn Execute>),
}

impl Hands {
    /// Has the work done. A panic of the executor itself goes to `panicked`.
    pub(crate) fn dispatch(&self, work: impl Work, panicked: impl Fn(Box<dyn Any + Send>)) {
        match self {
            // One hand-over for all: it costs as much as several callbacks.
            Self::Rayon(pool) => pool.spawn(|| work.run_shared()),
            Self::Inline => work.run(),
            Self::Custom(custom) => {
                for single in work.singles() {
                    let execute = || custom.execute(Box::new(|| single.run()));
                    if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(execute)) {
                        panicked(payload);
                    }
                }
            }
        }
    }
}

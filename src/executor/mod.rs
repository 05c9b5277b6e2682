//! Who runs what is due.

mod desk;
mod pool;

use std::any::Any;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

pub(crate) use desk::Desk;
pub(crate) use pool::{Pool, join, spawn};

/// Where a [`Timer`](crate::Timer)'s callbacks run.
///
/// Timers that are due together are handed over together, in the order of their ticks.
///
/// A callback that waits for work that it gives to its pool must not wait there for itself: see
/// [`Timer::shutdown`](crate::Timer::shutdown#inside-callbacks) and
/// [`cancel_and_wait`](crate::TimerHandle::cancel_and_wait).
#[derive(Clone)]
#[non_exhaustive]
pub enum Executor {
    /// A rayon pool of the timer's own with this many threads, at least 1. This is the default, with
    /// [`available_parallelism`](std::thread::available_parallelism) threads.
    ///
    /// One worker runs what is due together. If it has not come to the last callback after a millisecond, all idle
    /// workers help, so a slow callback delays no other for longer while a worker is idle.
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
        Self::Pool { threads: crate::system::parallelism() }
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
pub(crate) trait Work: Send + Sync + Sized + 'static {
    /// Runs all of it on the calling thread, but for what others run meanwhile.
    fn run(&self);
    /// The same on the calling thread, which is a rayon worker, and has idle workers do the same.
    fn help(self: Arc<Self>);
    /// One piece of work for each callback.
    fn singles(self) -> impl Iterator<Item = Self>;
}

/// An executor that is up and running.
#[derive(Clone)]
pub(crate) enum Hands {
    Workers(Workers),
    Inline,
    Custom(Arc<dyn Execute>),
}

/// The threads of a pool.
#[derive(Clone)]
pub(crate) enum Workers {
    Own(Arc<Desk>),
    Rayon(Arc<rayon::ThreadPool>),
}

impl Hands {
    /// Whether [`dispatch`](Self::dispatch) runs code of the user's on the calling thread.
    pub(crate) fn runs_foreign_code(&self) -> bool {
        !matches!(self, Self::Workers(_))
    }

    /// Has the work done. A panic of the executor itself goes to `panicked`. Returns what one worker does now, and
    /// others can [`help`](Self::help) with.
    pub(crate) fn dispatch<W: Work>(&self, work: W, panicked: impl Fn(Box<dyn Any + Send>)) -> Option<Arc<W>> {
        match self {
            Self::Workers(workers) => {
                // One hand-over for all: it costs as much as several callbacks.
                let work = Arc::new(work);
                let shared = work.clone();
                workers.put(move || shared.run());
                return Some(work);
            }
            Self::Inline => work.run(),
            Self::Custom(custom) => {
                for single in work.singles() {
                    let execute = || custom.execute(Box::new(move || single.run()));
                    if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(execute)) {
                        panicked(payload);
                    }
                }
            }
        }
        None
    }

    /// Calls for more workers.
    pub(crate) fn help(&self, work: Arc<impl Work>) {
        if let Self::Workers(workers) = self {
            workers.pool().spawn(|| work.help());
        }
    }
}

impl Workers {
    fn put(&self, job: impl FnOnce() + Send + 'static) {
        match self {
            Self::Own(desk) => desk.put(Box::new(job)),
            Self::Rayon(pool) => pool.spawn(job),
        }
    }

    /// For work that those at the desk have no time for.
    fn pool(&self) -> &rayon::ThreadPool {
        match self {
            Self::Own(desk) => desk.pool(),
            Self::Rayon(pool) => pool,
        }
    }
}

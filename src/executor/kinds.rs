//! The executors that a user chooses from.

use std::fmt;
use std::sync::Arc;

/// Where a [`Timer`](crate::Timer)'s callbacks run.
///
/// Timers that are due together are handed over together, in the order of their ticks.
///
/// Callbacks may use rayon (`rayon::join`, `scope`, `par_iter`, `spawn`), which works in the pool that they run in, or in
/// rayon's global pool with `Inline` and `Custom`. A thread that waits inside such a call runs other work of rayon's
/// meanwhile. With the pools below it never runs another callback on top of one that waits, so a callback may hold a lock
/// over `rayon::join` that other callbacks take. A [custom executor](Self::Custom) may do otherwise.
///
/// A callback that waits for work that it gives to its pool must not wait there for itself: see
/// [`Timer::shutdown`](crate::Timer::shutdown) and
/// [`cancel_and_wait`](crate::TimerHandle::cancel_and_wait).
#[derive(Clone)]
#[non_exhaustive]
pub enum Executor {
    /// A rayon pool of the timer's own with this many threads, at least 1. This is the default, with
    /// [`available_parallelism`](std::thread::available_parallelism) threads.
    ///
    /// One worker runs what is due together. If it has not come to the last callback after a millisecond, all idle
    /// workers help, so a slow callback delays no other for longer while a worker is idle.
    ///
    /// While threads are blocked inside callbacks and others wait, extra threads run those:
    /// see [`max_extra_threads`](crate::Builder::max_extra_threads). To rayon, an extra thread is a pool of one thread.
    /// `join`, `scope` and `par_iter` work there as in any pool, and `spawn`ed work runs there after the callback. So a
    /// callback should not block until another thread has run what it has `spawn`ed.
    ///
    /// The threads run callbacks first. What a callback gives to rayon is run by the worker of that callback after the
    /// callbacks that are due with it. Idle workers share that work once the callback, and those due with it, take
    /// over a millisecond: the first at once, each further one about a millisecond after the one before.
    Pool {
        /// How many threads.
        threads: usize,
    },
    /// The caller's own rayon pool. It must be made with [`corewheel::rayon`](crate::rayon).
    ///
    /// Callbacks are jobs of this pool like any other. So a thread of it that waits inside `rayon::join` and the like may run
    /// callbacks meanwhile, unless it is inside a callback already. Code that is no callback, and runs in this pool, should
    /// hold no lock over such a wait that a callback takes: jobs of `rayon::spawn` and `install`, also those of
    /// callbacks, and callbacks that a [custom executor](Self::Custom) runs in this pool.
    Rayon(Arc<rayon::ThreadPool>),
    /// Rayon's global pool, which is started with rayon's defaults if nothing has started it before. The same holds as for
    /// [`Rayon`](Self::Rayon).
    RayonGlobal,
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
    ///
    /// A [`reset`](crate::TimerHandle::reset) to a later deadline takes the timer out of a job that waits. That job does
    /// nothing, run or dropped, and the timer stays pending: there is another job at its new deadline.
    ///
    /// A [`shutdown`](crate::Timer::shutdown) does not wait for a call that is in progress: so the consumer of a bounded queue may
    /// shut the timer down while `execute` waits for room. The shard's thread ends when the call has returned, and calls
    /// again for no other job. A job that is run, or dropped, after the shutdown does nothing.
    ///
    /// An executor that runs jobs in a rayon pool of its own runs them on top of what waits in that pool, as rayon does with
    /// any job: see [`Executor::Rayon`], which does not do that to callbacks.
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
            Self::RayonGlobal => f.write_str("RayonGlobal"),
            Self::Inline => f.write_str("Inline"),
            Self::Custom(_) => f.write_str("Custom(..)"),
        }
    }
}

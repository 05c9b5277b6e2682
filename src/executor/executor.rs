//! The executors from which a user chooses, and the running one, to which drivers dispatch batches.

use std::any::Any;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Weak};
use std::time::Instant;

use super::borrowed::BorrowedPool;
use super::job_queue::{Batch, JobQueue};
use super::pool::Pool;

/// Where a [`Timer`](crate::Timer)'s callbacks run.
///
/// Timers that are due together reach the executor together, some hundred at a time. Those of one shard do so in the
/// order of their ticks. Futures and delay queues do not use it: drivers hand values over and call wakers. [tuning.md]
/// compares the executors.
///
/// ```
/// use corewheel::{Executor, Timer};
///
/// // Callbacks that only set flags need no pool.
/// let timer = Timer::builder().executor(Executor::Inline).build()?;
/// # drop(timer);
/// # Ok::<(), corewheel::BuildError>(())
/// ```
///
/// # Callbacks that use rayon
///
/// Callbacks may use rayon: `join`, `scope`, `par_iter`, `spawn`. With `Pool`, all such work runs on the thread of the
/// callback. With [`Rayon`](Self::Rayon) and `RayonGlobal` it goes to that pool, and with `Inline` and `Custom` to rayon's
/// global pool. So parallel loops belong in a pool of the program: call its [`install`](rayon::ThreadPool::install) in the
/// callback, or let it run the callbacks.
///
/// A thread that waits inside such a call runs other work of rayon meanwhile. With `Pool`, that is never another
/// callback. So a callback may hold a lock over `rayon::join` or `install` that other callbacks take. With
/// [`Rayon`](Self::Rayon) and `RayonGlobal`, such a lock can deadlock, and a [custom executor](Self::Custom) may behave
/// otherwise.
///
/// A callback that waits for work in its pool must not wait there for itself: see
/// [`Timer::shutdown`](crate::Timer::shutdown) and [`cancel_and_wait`](crate::TimerHandle::cancel_and_wait).
///
/// [tuning.md]: crate::guide::tuning
#[derive(Clone)]
#[non_exhaustive]
pub enum Executor {
    /// A rayon pool of the service's own, with this many threads. This is the default, with
    /// [`available_parallelism`](std::thread::available_parallelism) threads.
    ///
    /// One worker runs what is due together. If that takes over a millisecond, all idle workers assist. So while a
    /// worker is idle, a slow callback delays others by a few milliseconds at most.
    ///
    /// On Linux and Android, while workers are blocked inside callbacks and other callbacks wait, extra threads run
    /// these: see [`max_extra_threads`](crate::Builder::max_extra_threads), also for callbacks that never count as blocked,
    /// because they poll in naps of a millisecond.
    ///
    /// To rayon, each of these threads is a pool of its own. So inside a callback `rayon::current_num_threads()` is 1, and
    /// `join`, `scope`, `par_iter` and `broadcast` run all of their work on the callback's thread. What a callback has
    /// `spawn`ed runs there once it has returned, before the next callback, and what it has given to `spawn_broadcast`
    /// once the callbacks due with it have returned. **A callback must not wait for what it has `spawn`ed itself:** as in
    /// any rayon pool of one thread, it would wait for ever. Work that spawns more without an end keeps its thread from
    /// callbacks, like a callback that does not return. A panic of work that was `spawn`ed goes to
    /// [`on_panic`](crate::Builder::on_panic).
    Pool {
        /// The number of threads; minimum: 1.
        threads: usize,
    },
    /// The program's own rayon pool, built with [`corewheel::rayon`](crate::rayon).
    ///
    /// Callbacks are jobs of this pool like any other. A thread of it that waits inside `rayon::join` and similar calls
    /// may run a callback meanwhile, unless a callback runs on that thread already. Then other threads are asked: each
    /// time, that leaves some 80 bytes in the queue of a thread that is blocked, until it is not.
    ///
    /// **A callback must hold no lock over nested `join`s that another callback takes.** Another thread may steal one half of
    /// the outer `join`. While it waits inside that half, rayon may run the other callback there, on top of it. That
    /// callback waits for the lock, and the first callback for its half: a deadlock. rayon does not tell whose work a
    /// thread has stolen. [`Pool`](Self::Pool) does not have this problem.
    ///
    /// Other code in this pool should hold no lock over a wait inside rayon that a callback takes. This concerns jobs of
    /// `rayon::spawn` and `install`, even those of callbacks, and callbacks that a [custom executor](Self::Custom) runs in
    /// this pool. A panic of work that a callback has `spawn`ed goes to the pool's own `panic_handler`; without one,
    /// rayon aborts the process.
    ///
    /// ```
    /// use corewheel::{Executor, Timer, rayon};
    /// use std::sync::Arc;
    ///
    /// let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(2).build()?);
    /// let timer = Timer::builder().executor(Executor::Rayon(pool.clone())).build()?;
    /// # drop(timer);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    Rayon(Arc<rayon::ThreadPool>),
    /// Rayon's global pool. The timer starts it with rayon's defaults if the program has not. Otherwise as
    /// [`Rayon`](Self::Rayon). If the loop of a [`Driver`](crate::Driver) is on a thread of another rayon pool, what it
    /// expires runs in that pool.
    RayonGlobal,
    /// The thread that drives the shard: its driver thread, or the loop that has its [`Driver`](crate::Driver). For
    /// callbacks that only wake something. A callback that takes long delays every other timer that this thread drives.
    Inline,
    /// Any other executor. It receives one job for each callback. The end of the timer may drop it on the calling thread,
    /// but not inside a callback.
    Custom(Arc<dyn Execute>),
}

/// An executor of the program: see [`Executor::Custom`].
///
/// ```
/// use corewheel::{Execute, Executor, Timer};
/// use std::sync::{Arc, mpsc};
/// use std::{thread, time::Duration};
///
/// /// Runs callbacks on one thread, in order.
/// struct OneThread(mpsc::Sender<Box<dyn FnOnce() + Send>>);
///
/// impl Execute for OneThread {
///     fn execute(&self, job: Box<dyn FnOnce() + Send>) {
///         let _ = self.0.send(job); // without a receiver the job is dropped: it counts as cancelled
///     }
/// }
///
/// let (sender, jobs) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
/// thread::spawn(move || jobs.into_iter().for_each(|job| job()));
/// let timer = Timer::builder().executor(Executor::Custom(Arc::new(OneThread(sender)))).build()?;
/// let (done, receiver) = mpsc::channel();
/// timer.schedule(Duration::from_millis(2), move || done.send("on that thread").unwrap())?;
/// assert_eq!(receiver.recv()?, "on that thread");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Execute: Send + Sync + 'static {
    /// Runs `job`, now or later, on any thread.
    ///
    /// The thread that drives the shard calls this. It should not block: a call delays what this thread drives at the time,
    /// until it returns. A job that is dropped unrun drops its closure and counts the timer as cancelled, except as
    /// stated below. A panic of `execute` is caught and passed to [`on_panic`](crate::Builder::on_panic).
    ///
    /// A [`reset`](crate::TimerHandle::reset) to a later deadline removes the timer from a job that waits. That job
    /// then does nothing, run or dropped. The timer stays pending, and another job follows at its new deadline.
    ///
    /// A [`shutdown`](crate::Timer::shutdown) does not wait for a call in progress. So the consumer of a bounded queue
    /// may shut the service down while `execute` waits for room. The driver ends when the call has returned, and submits
    /// no other job. A job that is run or dropped after the shutdown does nothing.
    ///
    /// An executor that runs jobs in a rayon pool runs them on top of whatever waits in that pool, as rayon does with
    /// any job. [`Executor::Rayon`] does that to callbacks only in the case that it describes.
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

//! `Timer` and `WeakTimer`: the service as its users hold it.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use super::builder::Builder;
use super::pending::Unfired;
use super::service::Service;
use crate::drive::Driver;
use crate::error::BuildError;
use crate::stats::Stats;
use crate::system::Process;

/// A timer service: runs callbacks and completes futures at their deadlines.
///
/// Clones share one service. Any number of threads may call any method at once, even from inside callbacks. Scheduling
/// is lock-free and never waits for another thread, except for the time of a [`ManualClock`](crate::ManualClock).
///
/// Dropping the last clone is a [`shutdown`](Self::shutdown) that drops pending callbacks unrun. With debug assertions,
/// it [says so](Builder::report_dropped). Handles, [delay queues](crate::DelayQueue), and futures other than an
/// [`Interval`](crate::Interval) are not clones. A callback that captures a `Timer` keeps the service alive; capture a
/// [`WeakTimer`] instead.
///
/// ```
/// use corewheel::Timer;
/// use std::sync::mpsc;
/// use std::time::{Duration, Instant};
///
/// let timer = Timer::new()?;
/// let (sender, receiver) = mpsc::channel();
/// let start = Instant::now();
/// timer.schedule(Duration::from_millis(20), move || sender.send(Instant::now()).unwrap())?;
/// assert!(receiver.recv()? - start >= Duration::from_millis(20));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Promises
///
/// [`guide::promises`](crate::guide::promises) states each in full.
///
/// - **Never early.** No callback starts, and no future completes, before its deadline by [`Timer::now`]. There are two
///   exceptions: a shutdown completes pending futures at once, and returns callbacks that the program may run.
/// - **Exactly once.** A one-shot timer fires, is cancelled, is returned by `shutdown`, or is dropped with the last
///   clone. A timer that a [custom executor](crate::Executor::Custom) drops unrun counts as cancelled. The closure is
///   run or dropped once.
/// - **Due now.** A zero delay, or a deadline that has passed, waits for neither a tick nor the slack.
/// - **Far future.** A delay too long to represent means never.
/// - **In order.** Timers of one shard that expire at different ticks reach the executor in the order of these ticks.
///   This includes all that were scheduled before the driver last read the clock.
/// - **No starvation by a neighbour.** With the default executor, a slow callback delays no other by more than a few
///   milliseconds: on Linux and Android while a core is free and the pool may grow, elsewhere while the pool has an
///   idle worker.
/// - **Panics stay inside.** A callback that panics affects no other timer.
/// - **Tickless.** While nothing is due and no callback runs, the threads sleep, except for a bounded number of
///   wake-ups after timers were scheduled or have ended.
/// - **Memory comes back.** The memory of a cancelled timer can be reused within 100 ms, whatever its deadline. After a
///   burst, memory returns to the system on Linux, Android and Apple's systems.
///
/// # Fork
///
/// The child of a `fork` has none of the service's threads, and the pending timers stay with the parent. On Linux, a
/// service of the parent appears in the child as one that has been shut down:
///
/// - It refuses new timers, and its futures are those [after the shutdown](crate::Sleep#after-the-shutdown).
///   A `shutdown` or a drop does nothing; it drops no closures.
/// - The timer of each handle has ended. `cancel` and `reset` return false, and
///   [`cancel_and_wait`](crate::TimerHandle::cancel_and_wait) does not wait.
/// - No callback starts in the child. A job that a [custom executor](crate::Executor::Custom) has received does
///   nothing.
/// - A task that waits for a [`Sleep`](crate::Sleep) is not woken. The sleep is complete when it is next polled.
/// - A [`DelayQueue`](crate::DelayQueue) refuses values and returns none. Its values stay with the parent.
///
/// A callback, a waker, a hook, an executor or a drop that the service calls may fork, too. In the child, such code
/// must not return to it. It may call async-signal-safe functions only, such as `execve` and `_exit`, as
/// [`std::process::Command`] does.
///
/// A child that needs timers builds its own `Timer`. [`Timer::global`] in the child is the parent's if the parent has
/// used it. If another thread of the parent was starting or ending during the fork, the child may find a lock of the
/// standard library taken. No thread that it starts then runs, so its own timers do not fire, and
/// [`std::process::exit`] hangs. This holds for any thread, with or without timers. A service's threads may still be
/// starting when [`Timer::new`] returns.
///
/// In virtual time, all this holds only if no other thread was using the [`ManualClock`](crate::ManualClock) or a
/// service on it during the fork. Otherwise the child must use neither. On other systems a child must not use a service
/// of the parent at all.
#[derive(Clone)]
#[must_use = "the drop of the last `Timer` drops what is pending"]
pub struct Timer(pub(crate) Arc<Service>);

/// The timer of the whole process. One cell for each count of forks: so a child does not wait for a thread of its
/// parent that was starting the timer.
pub(super) static GLOBAL: [OnceLock<Timer>; 8] = [const { OnceLock::new() }; 8];

/// Returns the cell in which this process starts its timer, unless it has inherited one.
pub(super) fn global_cell() -> &'static OnceLock<Timer> {
    &GLOBAL[Process::current().forks().min(GLOBAL.len() - 1)]
}

impl Timer {
    /// Starts a service with the default settings of [`Builder`].
    ///
    /// A program needs one, which its parts share by clones. One for each connection is wrong, because each has threads
    /// of its own: for each core that the process may use, one that drives timers, and one worker. They sleep while
    /// nothing is due. This is what each service costs, as a median on Linux and x86-64, in a release build on two
    /// cores:
    ///
    /// | | threads | memory, idle | memory, after a callback | time to start | time to end |
    /// |---|---:|---:|---:|---:|---:|
    /// | the defaults, so 2 shards and 2 workers | 4 | 80 KiB | 130 KiB | 0.3 to 0.5 ms | 0.3 to 0.5 ms |
    /// | 16 shards, 16 workers | 32 | 620 KiB | 650 KiB | 2 ms | 2 ms |
    /// | one shard, one worker | 2 | 40 KiB | 100 KiB | 0.2 ms | 0.1 ms |
    ///
    /// The memory is what is resident. Of the address space, each thread reserves a stack of 2 MiB. The first service
    /// of a process takes some 400 KiB more.
    ///
    /// # Errors
    /// Fails if the system refuses a thread.
    ///
    /// ```
    /// let timer = corewheel::Timer::new()?;
    /// assert!(timer.is_empty());
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn new() -> Result<Timer, BuildError> {
        Timer::builder().build()
    }

    /// Returns the settings of a new timer.
    ///
    /// ```
    /// use corewheel::Timer;
    /// use std::time::Duration;
    ///
    /// let timer = Timer::builder().shards(1).tick(Duration::from_micros(100)).build()?;
    /// # drop(timer);
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Returns the `Timer` of the whole process.
    ///
    /// The first call starts it with the default settings, and calls at the same time wait for that. A program that
    /// needs others calls [`Builder::build_global`] before. No drop shuts the service down. A
    /// [`shutdown`](Self::shutdown) does, for the whole process and for good.
    ///
    /// # Panics
    /// Panics if the system refuses a thread.
    ///
    /// ```
    /// use corewheel::Timer;
    /// use std::time::Duration;
    ///
    /// # futures::executor::block_on(async {
    /// Timer::global().sleep(Duration::from_millis(2)).await;
    /// # });
    /// ```
    pub fn global() -> &'static Timer {
        let existing = GLOBAL.iter().find_map(OnceLock::get);
        existing.unwrap_or_else(|| global_cell().get_or_init(|| Timer::new().expect("the process's timer starts")))
    }

    /// Returns the present by the service's clock: `Instant::now()`, or the instant of a
    /// [`ManualClock`](crate::ManualClock).
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer};
    /// use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let start = timer.now();
    /// clock.advance(Duration::from_secs(60));
    /// assert_eq!(timer.now() - start, Duration::from_secs(60));
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn now(&self) -> Instant {
        self.0.ticks.now()
    }

    /// Returns the number of pending timers. A [`Sleep`](crate::Sleep) counts from its first pending poll.
    ///
    /// Exact once callers are quiet. While other threads schedule and end timers, it may be off by these. Reads four
    /// counters of each thread for each shard that the thread uses.
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer};
    /// use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// timer.schedule(Duration::from_secs(1), || ())?;
    /// timer.schedule(Duration::from_secs(2), || ())?.cancel();
    /// assert_eq!(timer.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn len(&self) -> usize {
        usize::try_from(self.0.pending()).unwrap_or(usize::MAX)
    }

    /// Returns whether no timer is pending, as [`len`](Self::len) counts.
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer};
    /// use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// timer.schedule(Duration::from_secs(1), || ())?;
    /// clock.advance(Duration::from_secs(1));
    /// assert!(timer.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns counts of what has happened so far, and how late callbacks started.
    ///
    /// Reads all counters of each thread for each shard that the thread uses. A thread that runs callbacks or calls
    /// wakers also has a histogram of 4 KiB for each shard. The queue of the service's own pool is locked for some
    /// instructions.
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer};
    /// use std::time::Duration;
    /// let timer = Timer::builder().clock(ManualClock::new()).build()?;
    /// let timeout = timer.schedule(Duration::from_secs(1), || ())?;
    /// timeout.reset(Duration::from_secs(2));
    /// timeout.cancel();
    /// let stats = timer.stats();
    /// assert_eq!((stats.scheduled, stats.resets, stats.cancelled), (1, 1, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stats(&self) -> Stats {
        self.0.stats()
    }

    /// Ends the service, and returns the callbacks of all pending timers.
    ///
    /// It stops every shard, so that no new timer is accepted and no further callback starts. It then wakes the
    /// consumers of [delay queues](crate::DelayQueue), completes pending sleeps, waits for callbacks that are running,
    /// and ends the threads: in [this order](crate::guide::promises#the-shutdown-loses-nothing).
    ///
    /// [`Unfired`] includes callbacks that an executor has received but not started, and repeating callbacks, each with
    /// its next deadline. It is a list that this call allocates. The drop of the last clone allocates none: it ends all
    /// timers, and then drops one callback after the other.
    ///
    /// Only the first call does anything. Each other call returns an empty [`Unfired`] at once. After it, no thread
    /// wakes a task at a deadline: see [`Sleep`](crate::Sleep#after-the-shutdown), [`Timeout`](crate::Timeout) and
    /// [`Interval`](crate::Interval).
    ///
    /// ```
    /// use corewheel::Timer;
    /// use std::time::Duration;
    /// let timer = Timer::new()?;
    /// timer.schedule(Duration::from_secs(3600), || println!("saved"))?;
    /// for unfired in timer.shutdown() {
    ///     unfired.run();
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Inside callbacks
    ///
    /// A shutdown from inside a callback does not wait for that callback. A repeating timer that calls it from its
    /// callback ends with that run, and is not returned. The shutdown does not wait for the threads either; they end
    /// when the callback has returned. It waits for the other callbacks that are running. None of these may wait for
    /// it.
    ///
    /// A callback may give work to a rayon pool and wait for it, as [`rayon::join`] does with its two halves:
    ///
    /// - In the service's own pool, both halves run inside the callback, on its thread. Work that was `spawn`ed runs
    ///   after the callback. A shutdown there waits for no callback and no thread. A repeating timer that is running
    ///   then ends with that run, and is not returned.
    /// - In a pool of the program such work runs on another thread, where it looks like any other work. A shutdown
    ///   there waits forever for a callback that waits for the shutdown. With such a pool as the executor, that work
    ///   may be a callback: see [`Executor::Rayon`](crate::Executor::Rayon). Call `shutdown` from a thread that no
    ///   callback waits for.
    pub fn shutdown(&self) -> Unfired {
        self.0.shutdown(None)
    }

    /// Ends the service as [`shutdown`](Self::shutdown) does, but waits no longer than `limit` for callbacks that have
    /// started. The program can then end although a callback hangs.
    ///
    /// A callback that has not returned by then goes on, on its thread. What it captured is dropped when it returns,
    /// and a thread of the timer that runs it ends then. A repeating timer ends with this run: it is not returned, and
    /// counts as [cancelled](crate::Stats::cancelled). No other callback starts, and [`Unfired`] has all other
    /// callbacks that were pending. As after each shutdown, later calls return an empty [`Unfired`] at once.
    ///
    /// The limit counts by the real clock, also in [virtual time](crate::ManualClock). It covers the wait for threads,
    /// too: rayon tasks that callbacks have started, and destructors of thread-locals. It does not cover the tasks that
    /// this call wakes, because it calls their wakers itself. A limit of zero waits for no callback and no thread. A
    /// limit too long to represent is none. Inside a callback, this call waits for the other callbacks that are
    /// running, up to the limit.
    ///
    /// ```
    /// use corewheel::Timer;
    /// use std::{sync::mpsc, time::Duration};
    /// let timer = Timer::new()?;
    /// let (started, has_started) = mpsc::channel();
    /// let (answer, from_peer) = mpsc::channel::<()>();
    /// timer.schedule(Duration::ZERO, move || {
    ///     started.send(()).unwrap();
    ///     let _ = from_peer.recv(); // the peer never answers
    /// })?;
    /// timer.schedule(Duration::from_secs(3600), || println!("saved"))?;
    /// has_started.recv()?;
    /// let unfired = timer.shutdown_timeout(Duration::from_millis(10));
    /// assert_eq!(unfired.len(), 1);
    /// unfired.for_each(|timer| timer.run());
    /// # drop(answer);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shutdown_timeout(&self, limit: Duration) -> Unfired {
        self.0.shutdown(Instant::now().checked_add(limit))
    }

    /// Returns whether the service has been shut down: by [`shutdown`](Self::shutdown), by
    /// [`shutdown_timeout`](Self::shutdown_timeout), or because this is a [fork](Self#fork)'s child.
    ///
    /// ```
    /// let timer = corewheel::Timer::new()?;
    /// let clone = timer.clone();
    /// timer.shutdown();
    /// assert!(clone.is_shutdown());
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn is_shutdown(&self) -> bool {
        self.0.is_closed()
    }

    /// Gives the shard of the calling thread to the program's loop.
    ///
    /// Returns `None` if a [`Driver`] of this shard exists, if the service is shut down, if its time is virtual, or if
    /// the calling thread is one of the service's. Does not wait for callbacks: one that has started ends where it
    /// runs.
    pub fn take_driver(&self) -> Option<Driver> {
        self.0.take_driver()
    }

    /// Returns a reference that does not keep the service alive.
    ///
    /// ```
    /// let timer = corewheel::Timer::new()?;
    /// let weak = timer.downgrade();
    /// drop(timer);
    /// assert!(weak.upgrade().is_none());
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn downgrade(&self) -> WeakTimer {
        WeakTimer(Arc::downgrade(&self.0))
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timer")
            .field("pending", &self.len())
            .field("shutdown", &self.is_shutdown())
            .finish_non_exhaustive()
    }
}

/// A reference to a [`Timer`] that does not keep the service alive. Callbacks should capture this.
///
/// ```
/// use corewheel::{ManualClock, Timer};
/// use std::time::Duration;
/// let clock = ManualClock::new();
/// let timer = Timer::builder().clock(clock.clone()).build()?;
/// let weak = timer.downgrade();
/// timer.schedule(Duration::from_secs(1), move || {
///     if let Some(timer) = weak.upgrade() {
///         let _ = timer.schedule(Duration::from_secs(1), || println!("a second later"));
///     }
/// })?;
/// clock.advance(Duration::from_secs(2));
/// assert_eq!(timer.stats().fired, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct WeakTimer(Weak<Service>);

impl WeakTimer {
    /// Returns the timer, or `None` if its last clone has been dropped.
    ///
    /// ```
    /// let timer = corewheel::Timer::new()?;
    /// let weak = timer.downgrade();
    /// assert!(weak.upgrade().is_some_and(|timer| timer.is_empty()));
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn upgrade(&self) -> Option<Timer> {
        self.0.upgrade().map(Timer)
    }
}

impl fmt::Debug for WeakTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakTimer")
    }
}

//! How a `Timer` is to be.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::ManualClock;
use crate::executor::Executor;
use crate::shard::{PanicHook, SlowCallback, SlowHook};

/// Settings for a [`Timer`](crate::Timer): see [`Timer::builder`](crate::Timer::builder).
///
/// ```
/// use corewheel::{Executor, Timer};
/// use std::time::Duration;
///
/// let timer = Timer::builder()
///     .tick(Duration::from_micros(100))
///     .shards(2)
///     .executor(Executor::Inline)
///     .max_pending(1_000_000)
///     .thread_name("timeouts")
///     .on_panic(|_| eprintln!("a timeout handler panicked"))
///     .build()?;
/// # drop(timer);
/// # Ok::<(), corewheel::BuildError>(())
/// ```
#[must_use = "a builder does nothing until `build`"]
pub struct Builder {
    pub(super) tick: Duration,
    pub(super) shards: usize,
    pub(super) pin_cores: bool,
    pub(super) slots_per_level: Vec<usize>,
    pub(super) executor: Executor,
    pub(super) max_extra_threads: usize,
    pub(super) max_pending: Option<usize>,
    pub(super) clock: Option<ManualClock>,
    pub(super) thread_name: String,
    pub(super) on_panic: Option<Arc<PanicHook>>,
    pub(super) on_slow: Option<SlowHook>,
}

impl Builder {
    pub(super) fn new() -> Self {
        Self {
            tick: Duration::from_millis(1),
            shards: crate::system::parallelism(),
            pin_cores: false,
            slots_per_level: vec![64],
            executor: Executor::default(),
            max_extra_threads: 256,
            max_pending: None,
            clock: None,
            thread_name: "corewheel".to_owned(),
            on_panic: None,
            on_slow: None,
        }
    }

    /// How finely time is told: deadlines are rounded up to a tick. 1 ms by default, 1 µs at the least.
    ///
    /// A finer tick costs nothing while nothing is due; timers that would have been due together then wake their
    /// shard one by one.
    pub fn tick(self, tick: Duration) -> Self {
        Self { tick, ..self }
    }

    /// How many shards, each with a thread of its own: as many as
    /// [`available_parallelism`](std::thread::available_parallelism) says by default, 1 at the least.
    pub fn shards(self, shards: usize) -> Self {
        Self { shards, ..self }
    }

    /// Whether each shard's thread stays on one core: false by default. Best effort, never an error.
    ///
    /// Shard *i* stays on the *i*-th of the cores that the process may use. So several processes that pin, or several
    /// containers on one machine, use the same cores: pin where the process has its cores to itself. Threads that foreign
    /// code starts on a shard's thread (a callback, a waker, an [executor](Executor::Custom)) may use all the process's
    /// cores, pinned or not. On Linux, Android, Windows and macOS; elsewhere the setting has no effect.
    pub fn pin_cores(self, pin: bool) -> Self {
        Self { pin_cores: pin, ..self }
    }

    /// The slots of each level of the wheels, the finest first, for instance `[60, 60, 12]`: 64 per level by default, 2
    /// at the least, and 2^24 at the most. Past the last level given, as many more of its size are added as a deadline
    /// needs.
    pub fn wheel(self, slots_per_level: &[usize]) -> Self {
        Self { slots_per_level: slots_per_level.to_vec(), ..self }
    }

    /// Who runs the callbacks: a pool of the timer's own by default.
    pub fn executor(self, executor: Executor) -> Self {
        Self { executor, ..self }
    }

    /// How many more threads the [pool](Executor::Pool) may have while its own are blocked inside callbacks: 256 by default.
    ///
    /// While a callback waits and the pool's threads are blocked (on a lock, a channel, a disk, a sleep), extra threads run
    /// what is due, within a few milliseconds. A thread that is busy, or waits for a core, is not blocked: so overload starts
    /// no thread. An extra thread that has had nothing to do for 5 seconds ends, and a shutdown waits for all of
    /// them. With 0, timers that are due wait until a thread of the pool is free.
    ///
    /// This is for Linux and Android, where `/proc` tells which threads are blocked. Elsewhere, and without `/proc`, no
    /// extra thread is started. It concerns no other executor than `Pool`.
    ///
    /// [`Stats::extra_threads_needed`](crate::Stats::extra_threads_needed) tells whether there is any need for them.
    ///
    /// ```
    /// use corewheel::Timer;
    /// use std::time::Duration;
    ///
    /// // Callbacks that call a database, at most 20 at the same time beside the pool's own threads.
    /// let timer = Timer::builder().max_extra_threads(20).build()?;
    /// # drop(timer);
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn max_extra_threads(self, limit: usize) -> Self {
        Self { max_extra_threads: limit, ..self }
    }

    /// How many timers may be pending at once: any number by default. Exact, at the price of two atomic steps on a
    /// number that all threads share for each timer. A repeating timer counts as one all its life.
    pub fn max_pending(self, limit: usize) -> Self {
        Self { max_pending: Some(limit), ..self }
    }

    /// Virtual time, for tests. No deadline, no order and no [`now`](crate::Timer::now) of the timer depends on the real
    /// clock then.
    pub fn clock(self, clock: ManualClock) -> Self {
        Self { clock: Some(clock), ..self }
    }

    /// What the names of the timer's threads begin with: `corewheel` by default. (Linux shows 15 bytes of a name.)
    pub fn thread_name(self, prefix: impl Into<String>) -> Self {
        Self { thread_name: prefix.into(), ..self }
    }

    /// Called with the payload of every panic that is caught: of a callback, of the drop of one, or of a
    /// [custom executor](Executor::Custom). It is called on the thread where the panic was, from any number of threads
    /// at once. If it panics itself, that is caught.
    ///
    /// A panic of a shard's own thread is a defect of corewheel. Then this is called with a `String` that says so, or
    /// without a hook that is written to the standard error. The shard is shut down: it refuses new timers with
    /// [`Shutdown`](crate::ScheduleError::Shutdown), its sleeps are over, and its callbacks do not run: they wait for the
    /// [`shutdown`](crate::Timer::shutdown) of the timer, which hands them back. Other shards go on.
    pub fn on_panic(self, hook: impl Fn(Box<dyn Any + Send>) + Send + Sync + 'static) -> Self {
        let hook: Box<PanicHook> = Box::new(hook);
        Self { on_panic: Some(hook.into()), ..self }
    }

    /// Calls `hook` after each run of a callback that took longer than `over`, on the thread of the callback.
    ///
    /// The hook finds callbacks that block: each keeps a worker of the [`Executor`] from other timers. It is called for
    /// one-shot callbacks and for each run of a repeating one, on every executor. After a run that panics,
    /// [`on_panic`](Self::on_panic) is called first. A waker of a future is no callback, and an
    /// [`UnfiredTimer`](crate::UnfiredTimer) that the program runs is no longer the timer's: the hook is called for neither.
    ///
    /// Without a hook, no clock is read for it. With one, the real clock is read twice a run, also in
    /// [virtual time](Self::clock).
    ///
    /// The hook belongs to the run:
    ///
    /// - A call that waits for the run waits for the hook, too: [`cancel_and_wait`](crate::TimerHandle::cancel_and_wait),
    ///   [`shutdown`](crate::Timer::shutdown) and [`ManualClock::advance`].
    /// - The hook may do what a callback may do: schedule, reset or cancel, drop the last `Timer`, or shut it down. On the
    ///   hook's own timer, `cancel_and_wait` does not wait. A [`Timer`](crate::Timer) that the hook captures keeps the service
    ///   alive for ever: capture a [`WeakTimer`](crate::WeakTimer) instead.
    /// - A timer whose last run is reported is not pending any more. The next run of a repeating timer starts after the
    ///   hook has returned. A fixed delay counts from the end of the callback, not of the hook.
    /// - The hook occupies the callback's thread: keep it short. Several threads may call it at once.
    ///
    /// A panic of the hook is caught, counted in [`Stats::panicked`](crate::Stats::panicked), and given to `on_panic`. A
    /// repeating timer goes on after it.
    ///
    /// ```
    /// use corewheel::Timer;
    /// use std::time::Duration;
    ///
    /// let timer = Timer::builder()
    ///     .on_slow(Duration::from_millis(10), |slow| {
    ///         eprintln!("a callback of shard {} took {:?}, {:?} late", slow.shard, slow.took, slow.late);
    ///     })
    ///     .build()?;
    /// # drop(timer);
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn on_slow(self, over: Duration, hook: impl Fn(SlowCallback) + Send + Sync + 'static) -> Self {
        Self { on_slow: Some(SlowHook::new(over, hook)), ..self }
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("tick", &self.tick)
            .field("shards", &self.shards)
            .field("pin_cores", &self.pin_cores)
            .field("wheel", &self.slots_per_level)
            .field("executor", &self.executor)
            .field("max_extra_threads", &self.max_extra_threads)
            .field("max_pending", &self.max_pending)
            .field("clock", &self.clock)
            .field("thread_name", &self.thread_name)
            .finish_non_exhaustive()
    }
}

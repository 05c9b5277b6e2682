//! The settings of a [`Timer`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::service::Service;
use super::timer::{GLOBAL, Timer, global_cell};
use crate::clock::ManualClock;
use crate::error::BuildError;
use crate::executor::Executor;
use crate::shard::{OnPanic, Panicked, SlowCallback, SlowHook};

/// The default tick of a real clock.
const TICK: Duration = Duration::from_micros(20);

/// The default slots of each level with that tick: no timer cascades more often than by 64 slots of a coarser one.
const SLOTS: &[usize] = &[4096, 64];

/// The default slack, and the default tick of virtual time.
pub(super) const SLACK: Duration = Duration::from_millis(1);

/// Minimum tick of a timer.
const MIN_TICK: Duration = Duration::from_micros(1);

/// Maximum number of shards.
const MAX_SHARDS: usize = 1 << 16;

/// The settings of a [`Timer`]: see [`Timer::builder`](crate::Timer::builder).
///
/// The defaults are those of a server. [tuning.md] says what each setting does, and when to change it.
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
///     .on_panic(|panicked| eprintln!("{panicked}"))
///     .build()?;
/// # drop(timer);
/// # Ok::<(), corewheel::BuildError>(())
/// ```
///
/// [tuning.md]: crate::guide::tuning
#[must_use = "a builder does nothing until `build`"]
pub struct Builder {
    tick: Option<Duration>,
    slack: Option<Duration>,
    pub(super) shards: usize,
    pub(super) pin_cores: bool,
    slots_per_level: Option<Vec<usize>>,
    pub(super) executor: Executor,
    pub(super) max_extra_threads: usize,
    pub(super) max_pending: Option<usize>,
    pub(super) clock: Option<ManualClock>,
    pub(super) thread_name: String,
    pub(super) on_panic: Option<Arc<OnPanic>>,
    pub(super) on_slow: Option<SlowHook>,
    pub(super) report_dropped: bool,
}

impl Builder {
    pub(super) fn new() -> Self {
        Self {
            tick: None,
            slack: None,
            shards: crate::system::parallelism(),
            pin_cores: false,
            slots_per_level: None,
            executor: Executor::default(),
            max_extra_threads: 256,
            max_pending: None,
            clock: None,
            thread_name: "corewheel".to_owned(),
            on_panic: None,
            on_slow: None,
            report_dropped: true,
        }
    }

    /// Sets the resolution of deadlines, which are rounded up to a tick. Also sets the [`slack`](Self::slack) to the same,
    /// unless `slack` is called. Default: 20 µs, or 1 ms on a [`ManualClock`]; minimum: 1 µs.
    ///
    /// While nothing is due, a finer tick costs little: a far timer cascades once or twice more.
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer};
    /// use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).tick(Duration::from_millis(10)).build()?;
    /// let handle = timer.schedule(Duration::from_millis(11), || ())?;
    /// clock.advance(Duration::from_millis(19));
    /// assert!(handle.is_pending()); // until the tick at 20 ms
    /// clock.advance(Duration::from_millis(1));
    /// assert!(!handle.is_pending());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tick(self, tick: Duration) -> Self {
        Self { tick: Some(tick), ..self }
    }

    /// Sets how late timers may be where they are dense, so that one wake-up serves several. Default: 1 ms. Zero: each tick by
    /// itself.
    ///
    /// Each thread that drives wakes on average at most once in a slack, but up to 50 wake-ups may come early. So a timer
    /// starts within a tick of its deadline while timers are sparse, and within a slack more where they are dense. What is
    /// due when it is set waits for neither. On a [`ManualClock`] the slack has no effect. [tuning.md] has its cost.
    ///
    /// ```
    /// use corewheel::Timer;
    /// use std::time::Duration;
    /// // Paces packets: up to 4000 wake-ups a second.
    /// let timer = Timer::builder().slack(Duration::from_micros(250)).build()?;
    /// # drop(timer);
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    ///
    /// [tuning.md]: crate::guide::tuning
    pub fn slack(self, slack: Duration) -> Self {
        Self { slack: Some(slack), ..self }
    }

    /// Sets the number of shards, each of which has a wheel and a driver thread. The threads of shards with little to
    /// do sleep, unless they are pinned or in virtual time: one thread expires what is due in all of them.
    ///
    /// Default: [`available_parallelism`](std::thread::available_parallelism); minimum: 1; maximum: 65,536. One shard is
    /// enough for a program with one busy thread.
    ///
    /// ```
    /// use corewheel::Timer;
    /// let timer = Timer::builder().shards(1).build()?;
    /// assert_eq!(timer.stats().shards().len(), 1);
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn shards(self, shards: usize) -> Self {
        Self { shards, ..self }
    }

    /// Sets whether each driver thread is pinned to one core. Default: false. If so, each drives its own shard alone.
    ///
    /// Pinning is best effort and never an error. It works on Linux, Android, Windows and macOS; elsewhere the setting
    /// has no effect.
    ///
    /// The driver thread of shard *i* stays on the *i*-th core that the thread that builds the timer may use; the count
    /// begins again after the last. While it calls foreign code (a callback, a waker, an [executor](Executor::Custom)),
    /// it may use all of these cores, and so may a thread that this code starts. Two processes that pin, or two
    /// containers on one machine, use the same cores. Pin only where the process has its cores to itself.
    ///
    /// ```
    /// use corewheel::Timer;
    /// let timer = Timer::builder().shards(2).pin_cores(true).build()?;
    /// # drop(timer);
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn pin_cores(self, pin: bool) -> Self {
        Self { pin_cores: pin, ..self }
    }

    /// Sets the number of slots of each level of the wheels, the finest level first. Default: 64 for every level, but 4096
    /// for the finest with the default tick.
    ///
    /// A level has 2 to 2^24 slots. Beyond the last level of the list, the wheel adds levels of that size where a
    /// deadline needs them. No setting makes a timer less precise. [tuning.md] has a table of what each level reaches.
    ///
    /// ```
    /// use corewheel::Timer;
    /// use std::time::Duration;
    /// // Ticks of a second, and levels of a minute, an hour and half a day.
    /// let timer = Timer::builder().tick(Duration::from_secs(1)).wheel(&[60, 60, 12]).build()?;
    /// # drop(timer);
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    ///
    /// [tuning.md]: crate::guide::tuning
    pub fn wheel(self, slots_per_level: &[usize]) -> Self {
        Self { slots_per_level: Some(slots_per_level.to_vec()), ..self }
    }

    /// Sets where callbacks run. Default: a [pool](Executor::Pool) of the service's own.
    ///
    /// ```
    /// use corewheel::{Executor, Timer};
    ///
    /// let timer = Timer::builder().executor(Executor::Pool { threads: 2 }).build()?;
    /// # drop(timer);
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn executor(self, executor: Executor) -> Self {
        Self { executor, ..self }
    }

    /// Sets how many extra threads the [pool](Executor::Pool) may have while its own are blocked inside callbacks.
    /// Default: 256.
    ///
    /// While a callback waits and the pool's threads are blocked, extra threads run it within a few milliseconds. A
    /// thread is blocked on a lock, a channel, a disk or a sleep. One that computes, or waits for a core, is not
    /// blocked, so overload starts no thread. Nor is one that polls. A callback that naps again and again, each time
    /// for less than the 0.6 to 8 ms between two checks, holds its thread. Let such a callback wait
    /// for what it polls, or raise the number of threads. An extra thread ends after 5 idle seconds. A shutdown waits
    /// for all of them, as for the pool's own. With a limit of 0, timers that are due wait until a thread of the pool
    /// is free.
    ///
    /// Extra threads exist on Linux and Android, where `/proc` tells which threads are blocked. On other systems, and
    /// without `/proc`, the pool starts none. Other executors ignore the setting.
    ///
    /// [`Stats::extra_threads_needed`](crate::Stats::extra_threads_needed) counts how often the pool needed one.
    ///
    /// ```
    /// use corewheel::Timer;
    ///
    /// // Callbacks that call a database: at most 20 at the same time beside the pool's own threads.
    /// let timer = Timer::builder().max_extra_threads(20).build()?;
    /// # drop(timer);
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn max_extra_threads(self, limit: usize) -> Self {
        Self { max_extra_threads: limit, ..self }
    }

    /// Sets the maximum number of pending timers. Default: unbounded.
    ///
    /// A timer beyond the limit is refused with [`ScheduleErrorKind::Full`](crate::ScheduleErrorKind::Full). The limit is
    /// exact. It costs each timer two atomic steps on a number that all threads share. A repeating timer counts as one
    /// until it ends, and a value of a [`DelayQueue`](crate::DelayQueue) until it is due. Futures do not count.
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer};
    /// use std::time::Duration;
    /// let timer = Timer::builder().max_pending(1).build()?;
    /// let first = timer.schedule(Duration::from_secs(60), || ())?;
    /// let refused = timer.schedule(Duration::from_secs(60), || ()).unwrap_err();
    /// assert!(refused.is_full());
    /// first.cancel();
    /// timer.schedule(Duration::from_secs(60), refused.into_inner())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_pending(self, limit: usize) -> Self {
        Self { max_pending: Some(limit), ..self }
    }

    /// Sets a [`ManualClock`], for tests in virtual time. Default: the system's clock.
    ///
    /// No deadline, no order and no [`now`](crate::Timer::now) of the timer then depends on the real clock.
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// timer.schedule(Duration::from_secs(24 * 3600), || println!("a day has passed"))?;
    /// clock.advance(Duration::from_secs(24 * 3600));
    /// assert_eq!(timer.stats().fired, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clock(self, clock: ManualClock) -> Self {
        Self { clock: Some(clock), ..self }
    }

    /// Sets the prefix of the names of driver threads and pool threads. Default: `corewheel`. Linux shows 15 bytes of a
    /// name.
    ///
    /// [`build`](Self::build) refuses a prefix with a NUL character.
    ///
    /// ```
    /// use corewheel::{Executor, Timer};
    /// use std::{sync::mpsc, thread, time::Duration};
    /// let timer = Timer::builder().thread_name("timeouts").executor(Executor::Inline).shards(1).build()?;
    /// let (sender, receiver) = mpsc::channel();
    /// timer.schedule(Duration::ZERO, move || {
    ///     sender.send(thread::current().name().map(str::to_owned)).unwrap();
    /// })?;
    /// assert_eq!(receiver.recv()?.as_deref(), Some("timeouts-0"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn thread_name(self, prefix: impl Into<String>) -> Self {
        Self { thread_name: prefix.into(), ..self }
    }

    /// Calls `hook` with each panic that the timer catches while it exists: what has [panicked](Panicked), and how.
    ///
    /// These are panics of a callback, of the drop of a callback, of a waker, of the drop of a queue's value, of the
    /// [slow hook](Self::on_slow), of a [custom executor](Executor::Custom), and of work that a callback has given to
    /// `rayon::spawn` in the service's own pool. The hook runs on the thread that panicked. Several threads may call it
    /// at once. A panic of the hook itself is caught.
    ///
    /// A panic of a driver thread is a defect of corewheel. The hook then receives a `String` that says so; without a
    /// hook, this text goes to the standard error. The driver's shard is shut down, and other shards go on. The closed
    /// shard refuses new timers with [`Shutdown`](crate::ScheduleErrorKind::Shutdown), and its sleeps complete. Its
    /// callbacks do not run; the [`shutdown`](crate::Timer::shutdown) of the timer returns them. Values of delay queues
    /// that it had stay in their queues.
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer};
    /// use std::{sync::mpsc, time::Duration};
    /// let (sender, receiver) = mpsc::channel();
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder()
    ///     .clock(clock.clone())
    ///     .on_panic(move |panicked| sender.send(panicked.to_string()).unwrap())
    ///     .build()?;
    /// timer.schedule(Duration::from_secs(1), || panic!("defect {}", 17))?;
    /// clock.advance(Duration::from_secs(1));
    /// assert!(receiver.recv()?.ends_with("{{closure}} has panicked: defect 17"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_panic(self, hook: impl Fn(Panicked) + Send + Sync + 'static) -> Self {
        // A `Box` first, because the `Arc` of `benches/coherence` does not coerce.
        let hook: Box<OnPanic> = Box::new(hook);
        Self { on_panic: Some(hook.into()), ..self }
    }

    /// Calls `hook` after each run of a callback that took longer than `over`, on the thread of the callback.
    ///
    /// The hook finds callbacks that block: each of them keeps a worker of the [`Executor`] from other timers. It
    /// covers one-shot callbacks and each run of a repeating one, on every executor. After a run that panics,
    /// [`on_panic`](Self::on_panic) is called first. The hook covers no wakers, no values of a
    /// [`DelayQueue`](crate::DelayQueue), and no [`UnfiredTimer`](crate::UnfiredTimer)s that the program runs.
    ///
    /// Without a hook, the timer reads no clock for it. With one, it reads the real clock twice for each run, even in
    /// [virtual time](Self::clock).
    ///
    /// The hook is part of the run:
    ///
    /// - A call that waits for the run also waits for the hook:
    ///   [`cancel_and_wait`](crate::TimerHandle::cancel_and_wait), [`shutdown`](crate::Timer::shutdown) and
    ///   [`ManualClock::advance`].
    /// - The hook may do what a callback may do: schedule, reset or cancel, drop the last `Timer`, or shut it down. On
    ///   the reported timer, `cancel_and_wait` does not wait. A [`Timer`] that the hook captures keeps
    ///   the service alive for ever; capture a [`WeakTimer`](crate::WeakTimer) instead.
    /// - After its last run, a timer is no longer pending when the hook is called. The next run of a repeating timer
    ///   starts after the hook has returned. A fixed delay counts from the end of the callback, not of the hook.
    /// - The hook occupies the callback's thread, so keep it short. Several threads may call it at once.
    ///
    /// A panic of the hook is caught, counted in [`Stats::panicked`](crate::Stats::panicked), and passed to `on_panic`.
    /// A repeating timer goes on after it.
    ///
    /// ```
    /// use corewheel::Timer;
    /// use std::time::Duration;
    ///
    /// let timer = Timer::builder()
    ///     .on_slow(Duration::from_millis(10), |slow| {
    ///         eprintln!("{} took {:?}, {:?} late", slow.callback, slow.took, slow.late);
    ///     })
    ///     .build()?;
    /// # drop(timer);
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn on_slow(self, over: Duration, hook: impl Fn(SlowCallback) + Send + Sync + 'static) -> Self {
        // A `Box` first, because the `Arc` of `benches/coherence` does not coerce.
        let call: Box<dyn Fn(SlowCallback) + Send + Sync> = Box::new(hook);
        Self { on_slow: Some(SlowHook { over, call: call.into() }), ..self }
    }

    /// Sets whether the drop of the last [`Timer`] reports the pending callbacks that it drops. Default: true.
    ///
    /// The report is a line on the standard error, with their number and the most frequent type among them. Only a build
    /// with debug assertions has it: it tells a program that has lost its timer by accident from one that is over. A
    /// program that means it calls [`shutdown`](Timer::shutdown), or turns the report off.
    ///
    /// ```
    /// use corewheel::Timer;
    /// use std::time::Duration;
    ///
    /// let timer = Timer::builder().report_dropped(false).build()?;
    /// timer.schedule(Duration::from_secs(60), || println!("idle: closing"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn report_dropped(self, report: bool) -> Self {
        Self { report_dropped: report, ..self }
    }

    /// Builds the timer and starts its threads.
    ///
    /// # Errors
    /// Fails if a setting makes no sense, or if the system refuses a thread or memory. Threads that were started before
    /// end again. If the memory suffices for the shards and the stacks of threads, but not for what is small beside them,
    /// the process ends instead, as when a `Box` cannot be allocated.
    ///
    /// ```
    /// use corewheel::Timer;
    ///
    /// let error = Timer::builder().shards(0).build().unwrap_err();
    /// assert_eq!(error.to_string(), "no shards: give `shards` at least 1");
    /// ```
    pub fn build(self) -> Result<Timer, BuildError> {
        if self.effective_tick() < MIN_TICK {
            return Err(BuildError::TickTooShort(self.effective_tick()));
        }
        if self.shards == 0 {
            return Err(BuildError::NoShards);
        }
        if self.shards > MAX_SHARDS {
            return Err(BuildError::TooManyShards(self.shards));
        }
        if self.thread_name.contains('\0') {
            return Err(BuildError::NulInThreadName(self.thread_name));
        }
        Ok(Timer(Arc::new(Service::start(self)?)))
    }

    /// Builds the timer of the whole process: the one that [`Timer::global`] returns, and that the functions of
    /// [`corewheel::time`](crate::time) use.
    ///
    /// Call it early, because the first use of either starts that timer with the default settings. With a
    /// [`ManualClock`], a test runs code that is written for `corewheel::time` [in virtual time][tokio.md]. As with
    /// [`Timer::global`], no drop shuts the service down. Takes as long as [`build`](Self::build). If another thread starts
    /// the global timer at the same time, waits for that.
    ///
    /// # Errors
    /// Fails as [`build`](Self::build) does; a later call may then succeed. Fails with
    /// [`GlobalExists`](BuildError::GlobalExists) once the process has its timer, also after a
    /// [`shutdown`](Timer::shutdown) of it.
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build_global()?;
    /// let hour = corewheel::time::sleep(Duration::from_secs(3600)); // on that clock
    /// assert_eq!(hour.deadline(), timer.now() + Duration::from_secs(3600));
    /// clock.advance(Duration::from_secs(3600));
    /// futures::executor::block_on(hour);
    /// assert!(Timer::builder().build_global().is_err()); // there is one
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    ///
    /// [tokio.md]: crate::guide::tokio#code-that-calls-corewheeltime
    pub fn build_global(self) -> Result<&'static Timer, BuildError> {
        if GLOBAL.iter().any(|cell| cell.get().is_some()) {
            return Err(BuildError::GlobalExists);
        }
        let mut timer = Some(self.build()?);
        let global = global_cell().get_or_init(|| timer.take().expect("the cell takes one timer"));
        // If another thread was faster, the new timer ends here.
        timer.map_or(Ok(global), |_| Err(BuildError::GlobalExists))
    }

    pub(super) fn effective_tick(&self) -> Duration {
        self.tick.unwrap_or(if self.clock.is_some() { SLACK } else { TICK })
    }

    pub(super) fn effective_slack(&self) -> Duration {
        if self.clock.is_some() { Duration::ZERO } else { self.slack.or(self.tick).unwrap_or(SLACK) }
    }

    pub(super) fn effective_slots(&self) -> &[usize] {
        let default = if self.effective_tick() == TICK { SLOTS } else { &SLOTS[1..] };
        self.slots_per_level.as_deref().unwrap_or(default)
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("tick", &self.effective_tick())
            .field("slack", &self.effective_slack())
            .field("shards", &self.shards)
            .field("pin_cores", &self.pin_cores)
            .field("wheel", &self.effective_slots())
            .field("executor", &self.executor)
            .field("max_extra_threads", &self.max_extra_threads)
            .field("max_pending", &self.max_pending)
            .field("clock", &self.clock)
            .field("thread_name", &self.thread_name)
            .finish_non_exhaustive()
    }
}

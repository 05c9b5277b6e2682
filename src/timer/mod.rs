//! The facade: turns delays, instants and closures into timers of a [`Service`].

mod builder;
mod periodic;
mod service;
mod unfired;

use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

pub use builder::Builder;
pub use unfired::{Unfired, UnfiredTimer};

use crate::clock::{Deadline, Ticks};
use crate::engine::entry::{Callback, Role};
use crate::error::{BuildError, ScheduleError};
use crate::future::{Interval, Sleep, Timeout};
use crate::handle::TimerHandle;
use crate::stats::Stats;
use periodic::{FixedDelay, FixedRate, Periodic, Recurring, Schedule};
use service::Service;

impl Builder {
    /// Builds the timer and starts its threads.
    ///
    /// # Errors
    /// Fails if a setting makes no sense, or if the system refuses a thread. Threads that were started before it end
    /// again.
    ///
    /// ```
    /// use corewheel::Timer;
    ///
    /// let error = Timer::builder().shards(0).build().unwrap_err();
    /// assert_eq!(error.to_string(), "no shards: give `shards` at least 1");
    /// ```
    pub fn build(self) -> Result<Timer, BuildError> {
        Ok(Timer(Arc::new(Service::start(self)?)))
    }
}

/// A timer service: runs callbacks and completes futures at their deadlines.
///
/// Clones share one service. Any number of threads may call any method at once, even from inside callbacks. Scheduling
/// is lock-free and never waits for another thread, except that in [virtual time](crate::ManualClock) it takes a lock
/// for some instructions.
///
/// Dropping the last clone is a [`shutdown`](Self::shutdown) that drops pending callbacks unrun. Handles and futures
/// are not clones. A callback that captures a `Timer` keeps the service alive; capture a [`WeakTimer`] instead.
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
/// [guarantees.md] states each promise in full, with its argument and its tests.
///
/// - **Never early.** No callback starts, and no future completes, before its deadline by [`Timer::now`]. The one
///   exception: a shutdown completes futures at once.
/// - **Exactly once.** A one-shot timer fires, is cancelled, or is returned by `shutdown`. A timer that a [custom
///   executor](crate::Executor::Custom) drops unrun counts as cancelled. The closure is run or dropped once.
/// - **Due now.** A zero delay, or a deadline that has passed, waits for no tick.
/// - **Far future.** A delay too long to represent means never.
/// - **In order.** Timers of one shard that expire at different ticks reach the executor in the order of these ticks.
/// - **No starvation by a neighbour.** With the default executor, a slow callback delays no other by more than a few
///   milliseconds: on Linux and Android while a core is free, elsewhere while the pool has an idle worker.
/// - **Panics stay inside.** A callback that panics affects no other timer.
/// - **Tickless.** While nothing is due, the threads sleep, except to return memory when timers have ended.
/// - **Memory comes back.** The memory of a cancelled timer can be reused within 100 ms, whatever its deadline. After a
///   burst, memory returns to the system on Linux, Android and Apple's systems.
///
/// # Fork
///
/// The child of a `fork` has none of the timer's threads, and the pending timers stay with the parent. On Linux, a
/// timer of the parent appears in the child as one that has been shut down:
///
/// - It refuses new timers, and its sleeps do not wait. A `shutdown` or a drop does nothing; it drops no closures.
/// - The timer of each handle has ended. `cancel` and `reset` return false, and
///   [`cancel_and_wait`](TimerHandle::cancel_and_wait) does not wait.
/// - No callback starts in the child, even if a callback has called `fork`.
/// - A task that waits for a [`Sleep`] is not woken. The sleep is complete when it is next polled.
///
/// A child that needs timers builds its own. [`Timer::global`] in the child is the parent's if the parent has used it.
/// The child must not advance a [`ManualClock`](crate::ManualClock) that another thread was advancing during the fork.
/// On other systems a child must not use a timer of the parent at all.
///
/// [guarantees.md]: https://docs.rs/crate/corewheel/latest/source/docs/guarantees.md
#[derive(Clone)]
pub struct Timer(Arc<Service>);

impl Timer {
    /// Returns a timer with the default settings of [`Builder`].
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

    /// Returns the timer of the whole process.
    ///
    /// The first call starts it with the default settings. No drop shuts it down.
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
        static GLOBAL: OnceLock<Timer> = OnceLock::new();
        GLOBAL.get_or_init(|| Timer::new().expect("the process's timer starts"))
    }

    /// Returns the present by the timer's clock: `Instant::now()`, or the instant of a
    /// [`ManualClock`](crate::ManualClock).
    ///
    /// ```
    /// # use corewheel::{ManualClock, Timer};
    /// # use std::time::Duration;
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

    /// Schedules `f` to run once, after `delay`.
    ///
    /// A delay other than zero counts from the call, or from up to 20 µs after it: the processor's counter, which is
    /// cheap to read, bounds the present that closely. A delay too long to represent means never.
    ///
    /// Lock-free, in constant time. A closure of up to 24 bytes with at most a pointer's alignment needs no allocation.
    ///
    /// # Errors
    /// Refuses the timer after a [`shutdown`](Self::shutdown), if [`max_pending`](Builder::max_pending) timers are
    /// pending, or if the system has no memory for it. The error returns `f`.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # use corewheel::{ManualClock, Timer};
    /// # let clock = ManualClock::new();
    /// # let timer = Timer::builder().clock(clock.clone()).build()?;
    /// # let (sender, receiver) = std::sync::mpsc::channel();
    /// # let close_connection = move || sender.send("closed").unwrap();
    /// let idle = timer.schedule(Duration::from_secs(60), close_connection)?;
    /// # clock.advance(Duration::from_secs(60));
    /// # assert_eq!(receiver.recv()?, "closed");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn schedule<F>(&self, delay: Duration, f: F) -> Result<TimerHandle, ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.once(|ticks| ticks.after(delay), f)
    }

    /// Schedules `f` to run once, at `deadline`. A deadline that has passed means now. Otherwise as
    /// [`schedule`](Self::schedule).
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule).
    ///
    /// ```
    /// # use corewheel::{ManualClock, Timer};
    /// # use std::time::Duration;
    /// # let timer = Timer::builder().clock(ManualClock::new()).build()?;
    /// let deadline = timer.now() + Duration::from_secs(90);
    /// let first = timer.schedule_at(deadline, || println!("the first of a group"))?;
    /// let second = timer.schedule_at(deadline, || println!("the second"))?;
    /// assert_eq!(first.deadline(), second.deadline());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn schedule_at<F>(&self, deadline: Instant, f: F) -> Result<TimerHandle, ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.once(|ticks| ticks.at(deadline), f)
    }

    /// Schedules `f` to run after `initial_delay`, then once each `period`, counted from the deadline of the run
    /// before.
    ///
    /// Runs never overlap: a run that takes longer than `period` delays the next. After a stall, the timer makes up for
    /// missed runs one by one. It ends when it is cancelled, or when `f` panics.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule). Refuses a `period` of zero with
    /// [`ZeroPeriod`](crate::ScheduleError::ZeroPeriod).
    ///
    /// ```
    /// # use corewheel::{ManualClock, Timer};
    /// # use std::{sync::mpsc, time::Duration};
    /// # let clock = ManualClock::new();
    /// # let timer = Timer::builder().clock(clock.clone()).build()?;
    /// # let (sender, runs) = mpsc::channel();
    /// # let (time, start) = (clock.clone(), clock.now());
    /// # let report = move || sender.send((time.now() - start).as_secs()).unwrap();
    /// timer.schedule_at_fixed_rate(Duration::from_secs(1), Duration::from_secs(10), report)?;
    /// clock.advance(Duration::from_secs(25));
    /// assert_eq!(runs.try_iter().collect::<Vec<_>>(), [1, 11, 21]); // seconds
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn schedule_at_fixed_rate<F>(
        &self,
        initial_delay: Duration,
        period: Duration,
        f: F,
    ) -> Result<TimerHandle, ScheduleError<F>>
    where
        F: FnMut() + Send + 'static,
    {
        if period.is_zero() {
            self.0.reject();
            return Err(ScheduleError::ZeroPeriod(f));
        }
        let first = self.0.ticks.requested_after(initial_delay);
        self.repeating(first, FixedRate { period, f }, |schedule| schedule.f)
    }

    /// Schedules `f` to run after `initial_delay`, then again and again: each time `delay` after the run before has
    /// ended.
    ///
    /// A `delay` of zero means as soon as the executor is free. The timer ends when it is cancelled, or when `f`
    /// panics.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule).
    ///
    /// ```
    /// # use corewheel::{ManualClock, Timer};
    /// # use std::time::Duration;
    /// # let clock = ManualClock::new();
    /// # let timer = Timer::builder().clock(clock.clone()).build()?;
    /// # fn remove_old_files() {}
    /// let cleanup = timer.schedule_with_fixed_delay(Duration::ZERO, Duration::from_secs(60), remove_old_files)?;
    /// clock.advance(Duration::from_secs(150)); // runs at 0, 60 and 120 seconds
    /// assert_eq!(timer.stats().fired, 3);
    /// assert!(cleanup.cancel());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn schedule_with_fixed_delay<F>(
        &self,
        initial_delay: Duration,
        delay: Duration,
        f: F,
    ) -> Result<TimerHandle, ScheduleError<F>>
    where
        F: FnMut() + Send + 'static,
    {
        let first = self.0.ticks.requested_after(initial_delay);
        self.repeating(first, FixedDelay { delay, f }, |schedule| schedule.f)
    }

    /// Schedules `f` to run at `first`, then at each instant that `f` returns; ends on `None`.
    ///
    /// `f` receives the deadline of the run. A deadline in the past means as soon as the executor is free. The timer
    /// also ends when it is cancelled, or when `f` panics.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule).
    ///
    /// ```
    /// # use corewheel::{ManualClock, Timer};
    /// # use std::time::Duration;
    /// # let clock = ManualClock::new();
    /// # let timer = Timer::builder().clock(clock.clone()).build()?;
    /// // Four attempts, with twice the pause before each.
    /// let mut pause = Duration::from_secs(1);
    /// timer.schedule_recurring(timer.now() + pause, move |deadline| {
    ///     pause *= 2;
    ///     (pause < Duration::from_secs(10)).then(|| deadline + pause)
    /// })?;
    /// clock.advance(Duration::from_secs(1 + 2 + 4 + 8));
    /// assert_eq!((timer.stats().fired, timer.len()), (4, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn schedule_recurring<F>(&self, first: Instant, f: F) -> Result<TimerHandle, ScheduleError<F>>
    where
        F: FnMut(Instant) -> Option<Instant> + Send + 'static,
    {
        self.repeating(self.0.ticks.at(first), Recurring { f }, |schedule| schedule.f)
    }

    /// Returns a future that completes after `delay`, or at once when the service is shut down.
    ///
    /// The future runs on any executor; it needs no runtime. A delay too long to represent means never. A delay of zero
    /// is ready at the first poll, except [once in a while](Sleep#loops). If the system has no memory for the timer,
    /// the process ends, as it does when a `Box` cannot be allocated.
    ///
    /// ```
    /// # use corewheel::Timer;
    /// # use std::time::Duration;
    /// # let timer = Timer::new()?;
    /// # futures::executor::block_on(async {
    /// let start = timer.now();
    /// timer.sleep(Duration::from_millis(5)).await;
    /// assert!(timer.now() - start >= Duration::from_millis(5));
    /// # });
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn sleep(&self, delay: Duration) -> Sleep {
        self.0.sleep(self.0.ticks.requested_after(delay))
    }

    /// Returns a future that completes at `deadline`. Otherwise as [`sleep`](Self::sleep): a deadline that has passed
    /// is a delay of zero.
    ///
    /// ```
    /// # use corewheel::Timer;
    /// # use std::time::Duration;
    /// # let timer = Timer::new()?;
    /// # futures::executor::block_on(async {
    /// let frame = Duration::from_millis(2);
    /// let mut next = timer.now();
    /// for _ in 0..3 {
    ///     next += frame;
    ///     timer.sleep_until(next).await; // does not drift
    /// }
    /// # });
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        self.0.sleep(self.0.ticks.at(deadline))
    }

    /// Returns a future that awaits `future` for at most `delay`.
    ///
    /// The output is `Ok` with the output of `future`, or [`Elapsed`](crate::Elapsed).
    ///
    /// ```
    /// # use corewheel::Timer;
    /// # use std::time::Duration;
    /// # let timer = Timer::new()?;
    /// # async fn answer() -> u8 { 42 }
    /// # futures::executor::block_on(async {
    /// match timer.timeout(Duration::from_secs(5), answer()).await {
    ///     Ok(answer) => println!("the answer is {answer}"),
    ///     Err(elapsed) => eprintln!("no answer: {elapsed}"),
    /// }
    /// # });
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn timeout<F: IntoFuture>(&self, delay: Duration, future: F) -> Timeout<F::IntoFuture> {
        Timeout::new(future.into_future(), self.sleep(delay))
    }

    /// Returns a future that awaits `future` until `deadline`. Otherwise as [`timeout`](Self::timeout).
    ///
    /// ```
    /// # use corewheel::Timer;
    /// # use std::future;
    /// # use std::time::Duration;
    /// # let timer = Timer::new()?;
    /// # async fn connect() {}
    /// # async fn handshake() { future::pending().await }
    /// # futures::executor::block_on(async {
    /// // Both steps together may take 5 ms.
    /// let deadline = timer.now() + Duration::from_millis(5);
    /// assert!(timer.timeout_at(deadline, connect()).await.is_ok());
    /// assert!(timer.timeout_at(deadline, handshake()).await.is_err());
    /// # });
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn timeout_at<F: IntoFuture>(&self, deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
        Timeout::new(future.into_future(), self.sleep_until(deadline))
    }

    /// Returns an [`Interval`], which ticks once each `period`. The first tick comes at once.
    ///
    /// # Panics
    /// Panics if `period` is zero.
    ///
    /// ```
    /// # use corewheel::Timer;
    /// # use std::time::Duration;
    /// # let timer = Timer::new()?;
    /// # futures::executor::block_on(async {
    /// let mut interval = timer.interval(Duration::from_millis(2));
    /// for _ in 0..3 {
    ///     interval.tick().await;
    ///     println!("still alive");
    /// }
    /// # });
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn interval(&self, period: Duration) -> Interval {
        self.interval_at(self.now(), period)
    }

    /// Returns an [`Interval`] whose first tick comes at `start`. Otherwise as [`interval`](Self::interval).
    ///
    /// # Panics
    /// Panics if `period` is zero.
    ///
    /// ```
    /// # use corewheel::Timer;
    /// # use std::time::Duration;
    /// # let timer = Timer::new()?;
    /// # futures::executor::block_on(async {
    /// let period = Duration::from_millis(2);
    /// let start = timer.now() + period; // skips the tick that would come at once
    /// let mut interval = timer.interval_at(start, period);
    /// assert_eq!(interval.tick().await, start);
    /// # });
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn interval_at(&self, start: Instant, period: Duration) -> Interval {
        Interval::new(self.sleep_until(start), period)
    }

    /// Returns whether this timer, or a clone of it, made the sleep. O(shards).
    #[cfg(feature = "hyper")]
    pub(crate) fn made(&self, sleep: &Sleep) -> bool {
        self.0.has(sleep.shard())
    }

    #[inline]
    fn once<F>(&self, due: impl FnOnce(&Ticks) -> Deadline, f: F) -> Result<TimerHandle, ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        if Callback::stores::<F>() {
            // SAFETY: a callback stores `F`, by the condition.
            unsafe { self.once_stored(due, f) }
        } else {
            // SAFETY: a callback stores a `Box<F>`, which is a pointer.
            unsafe { self.once_stored(due, Box::new(f)) }.map_err(|error| error.map(|f| *f))
        }
    }

    /// # Safety
    /// [`Callback::stores`] must be true for `F`.
    #[inline]
    unsafe fn once_stored<F>(&self, due: impl FnOnce(&Ticks) -> Deadline, f: F) -> Result<TimerHandle, ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        let f = ManuallyDrop::new(f);
        // SAFETY: a callback stores `F`, by this function's contract. `f` is used again only if the timer is refused.
        let write = |place: *mut Callback| unsafe { Callback::write_once(place, &*f) };
        let scheduled = self.0.schedule(due, Role::Once, write);
        scheduled.map_err(|rejection| rejection.with(ManuallyDrop::into_inner(f)))
    }

    fn repeating<R, F>(
        &self,
        first: Deadline,
        schedule: R,
        into_closure: impl FnOnce(R) -> F,
    ) -> Result<TimerHandle, ScheduleError<F>>
    where
        R: Schedule + 'static,
    {
        let repeating = Periodic { schedule, ticks: self.0.ticks.clone(), next: first };
        let callback = ManuallyDrop::new(Callback::periodic(Box::new(repeating)));
        // SAFETY: this moves the callback, which is used again only if the timer is refused.
        let write = |place: *mut Callback| unsafe { callback.write(place) };
        self.0.schedule(|_| first, Role::Periodic, write).map_err(|rejection| {
            // SAFETY: the callback was made above, from a `Periodic<R>`.
            let repeating = unsafe { ManuallyDrop::into_inner(callback).into_periodic::<Periodic<R>>() };
            rejection.with(into_closure(repeating.schedule))
        })
    }

    /// Returns the number of pending timers. A [`Sleep`] counts from its first pending poll.
    ///
    /// Exact once callers are quiet. While other threads schedule and end timers, it may be off by these. Reads four
    /// counters of each thread that uses the timer.
    ///
    /// ```
    /// # use corewheel::{ManualClock, Timer};
    /// # use std::time::Duration;
    /// # let clock = ManualClock::new();
    /// # let timer = Timer::builder().clock(clock.clone()).build()?;
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
    /// # use corewheel::{ManualClock, Timer};
    /// # use std::time::Duration;
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
    /// Reads all counters of each thread that uses the timer. Each thread that runs callbacks also has a histogram of 4
    /// KiB for each shard.
    ///
    /// ```
    /// # use corewheel::{ManualClock, Timer};
    /// # use std::time::Duration;
    /// # let timer = Timer::builder().clock(ManualClock::new()).build()?;
    /// let timeout = timer.schedule(Duration::from_secs(1), || ())?;
    /// timeout.reset(Duration::from_secs(2));
    /// timeout.cancel();
    /// let stats = timer.stats();
    /// assert_eq!((stats.scheduled, stats.rearmed, stats.cancelled), (1, 1, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stats(&self) -> Stats {
        self.0.stats()
    }

    /// Ends the service, and returns the callbacks of all pending timers.
    ///
    /// It stops every shard, so that no new timer is accepted and no further callback starts. It then completes pending
    /// sleeps, waits for callbacks that are running, and ends the threads.
    ///
    /// [`Unfired`] includes callbacks that an executor has received but not started, and repeating callbacks, each with
    /// its next deadline. It is a list that this call allocates. The drop of the last clone allocates none, and drops
    /// closures in place.
    ///
    /// Only the first call does anything. Each other call returns an empty [`Unfired`] at once.
    ///
    /// ```
    /// # use corewheel::Timer;
    /// # use std::time::Duration;
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
    /// A callback may give work to its pool and wait for it, as [`rayon::join`] does with its two
    /// halves. Such work runs on another thread, where it looks like any other work:
    ///
    /// - On a thread of the timer's own pool, all work outside of a callback comes from callbacks. A shutdown there
    ///   waits for no callback and no thread. A repeating timer that is running then ends with that run, and is not
    ///   returned.
    /// - In every other case a shutdown waits forever for a callback that waits for the shutdown. There are two such
    ///   cases. The first is work that a callback has given to [`Executor::Rayon`](crate::Executor::Rayon) or to a
    ///   custom executor, which other code uses too. The second is work that a thread runs in the middle of another
    ///   callback, while that callback waits for its own part of such work. Call `shutdown` from the callback itself,
    ///   or from a thread that no callback waits for.
    pub fn shutdown(&self) -> Unfired {
        self.0.shutdown(None)
    }

    /// Ends the service as [`shutdown`](Self::shutdown) does, but waits no longer than `limit` for callbacks that have
    /// started. The program can then end although a callback hangs.
    ///
    /// A callback that has not returned by then goes on, on its thread. What it captured is dropped when it returns, and
    /// its thread ends then. A repeating timer ends with this run: it is not returned, and counts as
    /// [cancelled](crate::Stats::cancelled). No other callback starts, and [`Unfired`] has everything else that was
    /// pending. As after each shutdown, later calls return an empty [`Unfired`] at once.
    ///
    /// The limit counts by the real clock, also in [virtual time](crate::ManualClock). It covers the wait for threads,
    /// too: rayon tasks that callbacks have started, and destructors of thread-locals. It does not cover the tasks that
    /// this call wakes, because it calls their wakers itself. A limit of zero waits for nothing. A limit too long to
    /// represent is none. [Inside a callback](Self::shutdown#inside-callbacks), this call waits for the other callbacks
    /// that are running, up to the limit.
    ///
    /// ```
    /// # use corewheel::Timer;
    /// # use std::{sync::mpsc, time::Duration};
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

    /// Returns whether [`shutdown`](Self::shutdown) has been called.
    ///
    /// ```
    /// # let timer = corewheel::Timer::new()?;
    /// let clone = timer.clone();
    /// timer.shutdown();
    /// assert!(clone.is_shutdown());
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn is_shutdown(&self) -> bool {
        self.0.is_closed()
    }

    /// Returns a reference that does not keep the service alive.
    ///
    /// ```
    /// # let timer = corewheel::Timer::new()?;
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
/// # use corewheel::{ManualClock, Timer};
/// # use std::time::Duration;
/// # let clock = ManualClock::new();
/// # let timer = Timer::builder().clock(clock.clone()).build()?;
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
    /// # let timer = corewheel::Timer::new()?;
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

//! The facade.

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
    /// Starts the timer's threads.
    ///
    /// # Errors
    /// If a setting makes no sense, or a thread cannot be started; those that were are ended again.
    pub fn build(self) -> Result<Timer, BuildError> {
        Ok(Timer(Arc::new(Service::start(self)?)))
    }
}

/// A timer service: runs callbacks when they are due, none early, each once.
///
/// Clones share one service. Any method may be called from any number of threads at once, also from inside callbacks;
/// scheduling takes no lock and never waits for another thread. (In [virtual time](crate::ManualClock), which is for tests, it
/// takes one for some instructions.)
///
/// Dropping the last clone is a [`shutdown`](Self::shutdown) whose result is dropped: pending callbacks are dropped
/// unrun. Handles are not clones. A callback that captures a `Timer` holds a clone, and so keeps the service alive: let
/// it capture a [`WeakTimer`] instead.
///
/// # Promises
///
/// - **Never early.** No callback starts, and no future completes, before its deadline by [`Timer::now`]; except that a
///   shutdown completes futures at once.
/// - **Exactly once.** A one-shot timer fires, or is cancelled, or is handed back by `shutdown`; one that a
///   [custom executor](crate::Executor::Custom) drops unrun counts as cancelled. Its closure is run or dropped once.
/// - **Due now.** A zero delay, or a deadline that has passed, waits for no tick.
/// - **Far future.** A delay too long to represent means never.
/// - **In order.** Timers of one shard that are due at different ticks are handed to the executor in that order.
/// - **Panics stay inside.** A callback that panics affects no other timer.
/// - **Tickless.** While nothing is due, the threads sleep, except to give memory back when timers have ended.
///
/// # Fork
///
/// The child of a `fork` has none of the timer's threads, and what was pending is the parent's. To the child, on Linux, a
/// timer of the parent is shut down: it refuses new timers, its sleeps do not wait, and a `shutdown` or a drop does nothing,
/// not even drop closures. To the child, every handle's timer has ended: `cancel` and `reset` return false, and
/// [`cancel_and_wait`](TimerHandle::cancel_and_wait) does not wait. No callback runs there, also where a callback has
/// forked. Where the child needs timers, it builds its own; `global` is the parent's if that has used it before.
///
/// Nothing wakes a task of the child that waits for a [`Sleep`] of the parent already: the sleep is over when it is polled
/// next. A [`ManualClock`](crate::ManualClock) that another thread was moving when the process was forked must not be moved
/// in the child. On other systems than Linux a child must not use a timer of the parent at all.
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
#[derive(Clone)]
pub struct Timer(Arc<Service>);

impl Timer {
    /// A timer with the default settings: see [`Builder`].
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn new() -> Result<Timer, BuildError> {
        Timer::builder().build()
    }

    /// The settings of a timer to be.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// The timer of the whole process, started on first use with the default settings, and never shut down by a drop.
    ///
    /// # Panics
    /// If it cannot start its threads.
    pub fn global() -> &'static Timer {
        static GLOBAL: OnceLock<Timer> = OnceLock::new();
        GLOBAL.get_or_init(|| Timer::new().expect("the process's timer starts"))
    }

    /// The present, by the clock that this timer lives by.
    pub fn now(&self) -> Instant {
        self.0.ticks.now()
    }

    /// Runs `f` once, when `delay` has passed.
    ///
    /// A delay other than zero may be counted from some microseconds after the call, 30 at most, and never from before
    /// it: on the clock of the system the present is told by a counter that costs less than the clock.
    ///
    /// Lock-free, in constant time. A closure of up to 24 bytes, aligned as a pointer, is stored without an allocation.
    ///
    /// # Errors
    /// After [`shutdown`](Self::shutdown), with [`max_pending`](Builder::max_pending) timers pending already, or if the
    /// system has no memory for another timer. The error gives `f` back.
    #[inline]
    pub fn schedule<F>(&self, delay: Duration, f: F) -> Result<TimerHandle, ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.once(|ticks| ticks.after(delay), f)
    }

    /// Runs `f` once, at `deadline`, or at once if that has passed. Otherwise as [`schedule`](Self::schedule).
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule).
    #[inline]
    pub fn schedule_at<F>(&self, deadline: Instant, f: F) -> Result<TimerHandle, ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.once(|ticks| ticks.at(deadline), f)
    }

    /// Runs `f` when `initial_delay` has passed, and then every `period`, counted from when each run was due.
    ///
    /// Runs never overlap: one that takes longer than `period` delays the next, and after a stall the runs that were
    /// missed are made up one by one. The timer ends when it is cancelled, or `f` panics.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule); and if `period` is zero.
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

    /// Runs `f` when `initial_delay` has passed, and then again and again, each time `delay` after the run before has
    /// ended. A `delay` of zero means as soon as the executor is free.
    ///
    /// The timer ends when it is cancelled, or `f` panics.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule).
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

    /// Runs `f` at `first`, and then whenever it says itself: it is given the deadline that it was run for, and returns
    /// the next, or `None` to end. A deadline in the past means as soon as the executor is free.
    ///
    /// The timer also ends when it is cancelled, or `f` panics.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule).
    ///
    /// ```
    /// # use corewheel::{ManualClock, Timer};
    /// # use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
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

    /// Returns a future that completes when `delay` has passed, or at once when the service is shut down. On any
    /// executor; no runtime is needed.
    ///
    /// A delay too long to represent means never. A delay of zero is ready at the first poll, except once in a while:
    /// see [`Sleep`](Sleep#loops). If the system has no memory for another timer, the process ends, as it does when a
    /// `Box` cannot be allocated.
    pub fn sleep(&self, delay: Duration) -> Sleep {
        self.0.sleep(self.0.ticks.requested_after(delay))
    }

    /// Returns a future that completes at `deadline`. Otherwise as [`sleep`](Self::sleep): a deadline that has passed is
    /// as a delay of zero.
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        self.0.sleep(self.0.ticks.at(deadline))
    }

    /// `future`, for as long as `delay` at the most.
    pub fn timeout<F: IntoFuture>(&self, delay: Duration, future: F) -> Timeout<F::IntoFuture> {
        Timeout::new(future.into_future(), self.sleep(delay))
    }

    /// `future`, until `deadline` at the latest.
    pub fn timeout_at<F: IntoFuture>(&self, deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
        Timeout::new(future.into_future(), self.sleep_until(deadline))
    }

    /// Ticks, to be awaited: the first at once, the next a `period` later, and so on.
    ///
    /// # Panics
    /// If `period` is zero.
    pub fn interval(&self, period: Duration) -> Interval {
        self.interval_at(self.now(), period)
    }

    /// As [`interval`](Self::interval), with the first tick at `start`.
    ///
    /// # Panics
    /// If `period` is zero.
    pub fn interval_at(&self, start: Instant, period: Duration) -> Interval {
        Interval::new(self.sleep_until(start), period)
    }

    #[inline]
    fn once<F>(&self, due: impl FnOnce(&Ticks) -> Deadline, f: F) -> Result<TimerHandle, ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        if Callback::is_inline::<F>() {
            // SAFETY: as the condition says.
            unsafe { self.once_stored(due, f) }
        } else {
            // SAFETY: a callback stores any pointer.
            unsafe { self.once_stored(due, Box::new(f)) }.map_err(|error| error.map(|f| *f))
        }
    }

    /// # Safety
    /// A callback must [store](Callback::stores) the closure.
    #[inline]
    unsafe fn once_stored<F>(&self, due: impl FnOnce(&Ticks) -> Deadline, f: F) -> Result<TimerHandle, ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        let f = ManuallyDrop::new(f);
        // SAFETY: by this function's contract. The closure is used again only if the timer is refused.
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
        // SAFETY: the callback is moved, and used again only if the timer is refused.
        let write = |place: *mut Callback| unsafe { callback.write(place) };
        self.0.schedule(|_| first, Role::Periodic, write).map_err(|rejection| {
            // SAFETY: the callback was made above, of a `Periodic<R>`.
            let repeating = unsafe { ManuallyDrop::into_inner(callback).into_periodic::<Periodic<R>>() };
            rejection.with(into_closure(repeating.schedule))
        })
    }

    /// Returns the number of timers pending now. Reads four counters of each thread that uses the timer.
    ///
    /// Exact once callers are quiet. While other threads schedule and end timers, it may be off by those.
    pub fn len(&self) -> usize {
        usize::try_from(self.0.pending()).unwrap_or(usize::MAX)
    }

    /// Returns whether no timer is pending now, as [`len`](Self::len) counts them.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns what has been done so far. Reads all counters, and the lateness, of each thread that uses the timer:
    /// 4 KiB for each thread that runs callbacks, in each shard.
    pub fn stats(&self) -> Stats {
        self.0.stats()
    }

    /// Ends the service: refuses new timers, waits for callbacks that have started, ends the threads, and hands back
    /// every timer that has not started, also if the executor had it already.
    ///
    /// No callback starts any more, in any shard, before this waits for those that have started; sleeps complete before
    /// that, too. Only the first call does anything; another returns an empty [`Unfired`] at once. It allocates a list of
    /// what it hands back; the drop of the last clone, which hands nothing back, drops closures where they are.
    ///
    /// # Inside callbacks
    ///
    /// Called from inside a callback it does not wait for that, nor for the threads, which end when the callback has
    /// returned. It waits for the other callbacks that have started: one of these must not wait for this one.
    ///
    /// A callback may give work to the pool that it runs on, and wait for it, as [`rayon::join`](crate::rayon::join) does
    /// with its two halves. Such work is on another thread, and cannot be told from other work there:
    ///
    /// - On a thread of the timer's own pool, outside of any callback, all work comes from callbacks, so there the shutdown
    ///   does not wait for any callback, nor for the threads. A repeating timer that is running ends with that run, and is
    ///   not handed back.
    /// - It waits forever for a callback that waits for it in any other case: from work that was given to
    ///   [`Executor::Rayon`](crate::Executor::Rayon) or to an executor of one's own, which others use as well; or that a
    ///   thread does in the middle of another callback, which itself waits for its part of such work. Shut down from the
    ///   callback itself, or from a thread that it does not wait for.
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
    pub fn shutdown(&self) -> Unfired {
        self.0.shutdown()
    }

    /// Whether [`shutdown`](Self::shutdown) has been called.
    pub fn is_shutdown(&self) -> bool {
        self.0.is_closed()
    }

    /// A reference that does not keep the service alive.
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

/// A reference to a [`Timer`] that does not keep it alive: what a callback should capture.
#[derive(Clone)]
pub struct WeakTimer(Weak<Service>);

impl WeakTimer {
    /// The timer, unless its last clone has been dropped.
    pub fn upgrade(&self) -> Option<Timer> {
        self.0.upgrade().map(Timer)
    }
}

impl fmt::Debug for WeakTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakTimer")
    }
}

//! Schedules callbacks.
//!
//! A worker calls [`PeriodicCallback::run`] for each run of a periodic one, and the engine arms the entry for the tick that it
//! returns:
//!
//! | schedule    | the next run                                                    |
//! |-------------|-----------------------------------------------------------------|
//! | fixed rate  | one period after the deadline of the last run                   |
//! | fixed delay | one delay after the end of the last run                         |
//! | recurring   | at the instant that the callback returns; `None` ends the timer |
//! | with delays | the returned time after the end of the last run; `None` ends it |

use std::mem::ManuallyDrop;
use std::time::{Duration, Instant};

use super::timer::Timer;
use crate::clock::{Deadline, Requested, Ticks};
use crate::engine::entry::{Callback, CallbackKind, PeriodicCallback};
use crate::error::{ScheduleError, ScheduleErrorKind};
use crate::handle::TimerHandle;

impl Timer {
    /// Schedules `f` to run once, after `delay`.
    ///
    /// A delay too long to represent means never. Keep a `Timer` for as long as its timers matter: the drop of the last
    /// clone drops `f` unrun. The handle that this returns does not keep it.
    ///
    /// Lock-free, in amortised constant time. A closure of up to three pointers (24 bytes with
    /// pointers of 64 bits), with at most a pointer's alignment, needs no allocation.
    ///
    /// # Errors
    /// Refuses the timer after a [`shutdown`](Self::shutdown), if [`max_pending`](crate::Builder::max_pending) timers
    /// are pending, or if the system has no memory for it. The error returns `f`. A closure that needs a `Box` is not
    /// refused: without memory for that, the process ends.
    ///
    /// # Expected `()`, found `Result`
    ///
    /// The compiler says so of `|| sender.send(x)`, because a callback returns nothing. Ignore the result, as in
    /// `|| _ = sender.send(x)`, or unwrap it. [`on_panic`](crate::Builder::on_panic) receives the panic.
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use corewheel::{ManualClock, Timer};
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// let close_connection = move || sender.send("closed").unwrap();
    /// let idle = timer.schedule(Duration::from_secs(60), close_connection)?;
    /// clock.advance(Duration::from_secs(60));
    /// assert_eq!(receiver.recv()?, "closed");
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
    /// use corewheel::{ManualClock, Timer};
    /// use std::time::Duration;
    /// let timer = Timer::builder().clock(ManualClock::new()).build()?;
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
    /// [`ZeroPeriod`](ScheduleErrorKind::ZeroPeriod).
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer};
    /// use std::{sync::mpsc, time::Duration};
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let (sender, runs) = mpsc::channel();
    /// let (time, start) = (clock.clone(), clock.now());
    /// let report = move || sender.send((time.now() - start).as_secs()).unwrap();
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
            return Err(ScheduleError::new(ScheduleErrorKind::ZeroPeriod, f));
        }
        let first = self.0.ticks.after(initial_delay);
        self.periodic(first, f, move |f, deadline, ticks| {
            f();
            Some(ticks.deadline_at(ticks.now(), deadline.checked_add(period)))
        })
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
    /// use corewheel::{ManualClock, Timer};
    /// use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// fn remove_old_files() {}
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
        let first = self.0.ticks.after(initial_delay);
        self.periodic(first, f, move |f, _, ticks| {
            f();
            Some(ticks.after(delay))
        })
    }

    /// Schedules `f` to run at `first`, then at each instant that `f` returns; ends on `None`. For pauses instead of
    /// instants, see [`schedule_with_delays`](Self::schedule_with_delays).
    ///
    /// `f` receives the deadline of the run. A deadline in the past means as soon as the executor is free. The timer
    /// also ends when it is cancelled, or when `f` panics. A [`reset`](TimerHandle::reset) during a run wins over the
    /// deadline or the `None` that this run returns, but not over its panic.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule).
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer};
    /// use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
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
        self.periodic(self.0.ticks.at(first), f, |f, deadline, ticks| f(deadline).map(|next| ticks.at(next)))
    }

    /// Schedules `f` to run after `first`, then each time so long after the end of a run as that run has returned; ends on
    /// `None`.
    ///
    /// For a loop whose pauses change, such as one with a backoff. A pause of zero means as soon as the executor is free,
    /// and one too long to represent means never. The timer also ends when it is cancelled, or when `f` panics. A
    /// [`reset`](TimerHandle::reset) during a run wins over the pause or the `None` that this run returns, but not over its
    /// panic.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule).
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer};
    /// use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// fn connect() -> bool {
    ///     false
    /// }
    /// // At once, then again after 1, 2, 4 and 8 seconds.
    /// let mut pauses = (0..4).map(|tries| Duration::from_secs(1 << tries));
    /// timer.schedule_with_delays(Duration::ZERO, move || if connect() { None } else { pauses.next() })?;
    /// clock.advance(Duration::from_secs(1 + 2 + 4 + 8));
    /// assert_eq!((timer.stats().fired, timer.len()), (5, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn schedule_with_delays<F>(&self, first: Duration, f: F) -> Result<TimerHandle, ScheduleError<F>>
    where
        F: FnMut() -> Option<Duration> + Send + 'static,
    {
        self.periodic(self.0.ticks.after(first), f, |f, _, ticks| f().map(|pause| ticks.after(pause)))
    }

    #[inline]
    fn once<F>(&self, due: impl FnOnce(&Ticks) -> Deadline, f: F) -> Result<TimerHandle, ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        if const { Callback::is_inline::<F>() } {
            // SAFETY: a callback stores `F`, by the condition.
            unsafe { self.once_stored::<F, F>(due, f) }
        } else {
            // SAFETY: a callback stores a `Box<F>`, which is a pointer.
            unsafe { self.once_stored::<Box<F>, F>(due, Box::new(f)) }.map_err(|error| error.map(|f| *f))
        }
    }

    /// Schedules `f`, whose type is or contains the closure type `Named`.
    ///
    /// # Safety
    /// [`Callback::is_inline`] must be true for `F`.
    #[inline]
    unsafe fn once_stored<F, Named>(
        &self,
        due: impl FnOnce(&Ticks) -> Deadline,
        f: F,
    ) -> Result<TimerHandle, ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        let mut timer = match self.0.new_timer() {
            Ok(timer) => timer,
            Err(kind) => return Err(ScheduleError::new(kind, f)),
        };
        let f = ManuallyDrop::new(f);
        // SAFETY: a callback stores `F`, by this function's contract. `f` is used again only if the timer is refused.
        timer.write(|data| unsafe { Callback::write_once::<F, Named>(data, &*f) });
        let due = due(&self.0.ticks);
        // SAFETY: it was written above.
        match unsafe { timer.arm(CallbackKind::Once, due) } {
            // SAFETY: only this `TimerHandle` owns the raw handle.
            Ok(raw) => Ok(unsafe { TimerHandle::new(raw, due) }),
            Err(kind) => Err(ScheduleError::new(kind, ManuallyDrop::into_inner(f))),
        }
    }

    /// Schedules `f` at `first`, and then as [`Periodic`] does by `run`.
    fn periodic<F, R>(&self, first: Deadline, f: F, run: R) -> Result<TimerHandle, ScheduleError<F>>
    where
        F: Send + 'static,
        R: FnMut(&mut F, Instant, &Ticks) -> Option<Deadline> + Send + 'static,
    {
        let timer = match self.0.new_timer() {
            Ok(timer) => timer,
            Err(kind) => return Err(ScheduleError::new(kind, f)),
        };
        let periodic = Periodic { f, run, ticks: self.0.ticks.clone(), next: first.requested };
        match timer.arm_with(Callback::periodic::<F>(Box::new(periodic)), first) {
            // SAFETY: only this `TimerHandle` owns the raw handle.
            Ok(raw) => Ok(unsafe { TimerHandle::new(raw, first) }),
            Err((kind, callback)) => {
                // SAFETY: the callback was made above, from a `Periodic<F, R>`.
                let periodic = unsafe { callback.into_periodic::<Periodic<F, R>>() };
                Err(ScheduleError::new(kind, periodic.f))
            }
        }
    }
}

/// A periodic callback and its schedule, with the exact deadline of its next run.
///
/// The entry has only the tick. Periods that are counted from rounded ticks would drift.
struct Periodic<F, R> {
    f: F,
    /// Runs `f`, whose deadline is the given instant. Returns the next deadline, or `None` to end the timer.
    run: R,
    ticks: Ticks,
    next: Requested,
}

impl<F, R> PeriodicCallback for Periodic<F, R>
where
    F: Send,
    R: FnMut(&mut F, Instant, &Ticks) -> Option<Deadline> + Send,
{
    fn run(&mut self) -> Option<u64> {
        let next = (self.run)(&mut self.f, self.ticks.display_requested(self.next), &self.ticks)?;
        self.next = next.requested;
        Some(next.tick)
    }

    fn reset(&mut self, due: u64) {
        self.next = self.ticks.after_reset(due);
    }
}

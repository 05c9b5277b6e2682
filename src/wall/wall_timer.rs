//! The wall timer as its users see it: settings, schedules, and what is pending.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::handle::WallHandle;
use super::looks::Shared;
use super::sleep::WallSleep;
use super::table::WallTime;
use crate::error::ScheduleError;
use crate::sync::lock;
use crate::timer::Timer;

/// Schedules callbacks and wakes tasks by clocks that jump. Clones share one table.
///
/// | the deadline                                          | method                                                    |
/// |-------------------------------------------------------|-----------------------------------------------------------|
/// | a time of day, by the system's clock                  | [`schedule_at`](Self::schedule_at), [`sleep_until`](Self::sleep_until) |
/// | a delay that counts the time in which the machine is suspended | [`schedule_after`](Self::schedule_after), [`sleep`](Self::sleep) |
///
/// ```
/// use corewheel::{ManualClock, Timer, wall::WallTimer};
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let timer = Timer::builder().clock(clock.clone()).build()?;
/// let wall = WallTimer::new(&timer);
/// let (sender, receiver) = mpsc::channel();
/// let night = wall.now() + Duration::from_secs(6 * 3600);
/// wall.schedule_at(night, move || sender.send("cleaned up").unwrap())?;
///
/// clock.set_time_of_day(night - Duration::from_secs(1)); // set forward
/// assert!(receiver.try_recv().is_err());
/// clock.set_time_of_day(night);
/// assert_eq!(receiver.try_recv(), Ok("cleaned up"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Promises
///
/// - **Never early.** When a callback starts, or a future completes, the clock of its deadline has reached it. The one
///   exception is a shutdown, which completes futures.
/// - **On time.** If a clock jumps past a deadline, by a set or a suspend, the callback starts within 100 ms of the set or
///   the resume [where the system tells](Self::is_told), and else within [`look_every`](Self::look_every). A deadline that
///   the clock reaches by itself is late as any timer. A clock that is set back makes a callback wait anew.
/// - **In order.** What becomes due at once goes to the executor in the order of the times.
/// - **As any callback.** Callbacks run on the [executor](crate::Executor) of the timer, each by itself, with its
///   [`on_panic`](crate::Builder::on_panic) and [`on_slow`](crate::Builder::on_slow); the name there contains the closure's.
///
/// # Costs
///
/// For thousands of deadlines, not for timeouts: each call takes the lock of the table, in logarithmic time. Under it no
/// foreign code runs. All deadlines together take one timer of the service, which [`Timer::len`],
/// [`Stats::pending`](crate::Stats::pending) and [`max_pending`](crate::Builder::max_pending) count as one. A callback that
/// is due is a timer of its own until it starts. While `max_pending` refuses that, callbacks that are due run one after another.
///
/// On Linux, a thread `corewheel-wall` waits for sets and resumes while something is pending. Nothing looks at the clocks
/// meanwhile. A storm of sets wakes it at most once in 10 ms.
///
/// # The end
///
/// A wall timer does not keep the service alive. A [shutdown](Timer::shutdown), or the drop of the last [`Timer`] clone,
/// drops the closures that are pending, and completes the futures. [`Unfired`](crate::Unfired) has none of the closures,
/// but may have the one timer of the service, whose run does nothing. The drop of the last clone of a wall timer ends
/// nothing that is pending.
#[derive(Clone, Debug)]
pub struct WallTimer(Arc<Shared>);

impl WallTimer {
    /// Creates an empty table beside `timer`. Starts nothing before something is pending. Takes a lock of the service, in
    /// amortised constant time.
    ///
    /// ```
    /// use corewheel::{Timer, wall::WallTimer};
    /// let timer = Timer::new()?;
    /// assert!(WallTimer::new(&timer).is_empty());
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn new(timer: &Timer) -> WallTimer {
        WallTimer(Shared::new(timer))
    }

    /// Sets how often to look at the clocks at least, while something is pending and the system [does not
    /// tell](Self::is_told) of jumps. Default: 30 s. A millisecond at the least. Applies to all clones. Call it before the
    /// first schedule.
    ///
    /// ```
    /// use corewheel::{Timer, wall::WallTimer};
    /// use std::time::Duration;
    /// let timer = Timer::new()?;
    /// let wall = WallTimer::new(&timer).look_every(Duration::from_secs(5));
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn look_every(self, at_most: Duration) -> Self {
        lock(&self.0.state).look_every = at_most.max(Duration::from_millis(1));
        self
    }

    /// Returns the time of day: `SystemTime::now()`, or that of a [`ManualClock`](crate::ManualClock).
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer, wall::WallTimer};
    /// use std::time::{Duration, UNIX_EPOCH};
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let wall = WallTimer::new(&timer);
    /// clock.set_time_of_day(UNIX_EPOCH);
    /// clock.advance(Duration::from_secs(60));
    /// assert_eq!(wall.now(), UNIX_EPOCH + Duration::from_secs(60));
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn now(&self) -> SystemTime {
        self.0.shard.ticks.time_of_day()
    }

    /// Schedules `f` to run once the time of day is `at`. A time that has passed means now; so do all before the epoch.
    ///
    /// If the clock is set forward past `at`, `f` runs; if it is set back before `f` has started, `f` waits anew. Dropping
    /// the handle detaches the callback.
    ///
    /// # Errors
    ///
    /// [`Shutdown`] after a shutdown of the service. If nothing else is pending, [`Full`] at
    /// [`max_pending`](crate::Builder::max_pending), and [`OutOfMemory`] if the system has no memory for a timer. The error
    /// returns the closure.
    ///
    /// [`Full`]: crate::ScheduleErrorKind::Full
    /// [`OutOfMemory`]: crate::ScheduleErrorKind::OutOfMemory
    /// [`Shutdown`]: crate::ScheduleErrorKind::Shutdown
    ///
    /// ```
    /// use corewheel::{Timer, wall::WallTimer};
    /// use std::time::{Duration, SystemTime};
    /// let timer = Timer::new()?;
    /// let wall = WallTimer::new(&timer);
    /// let expires = SystemTime::now() + Duration::from_secs(3600);
    /// wall.schedule_at(expires, || println!("the token has expired"))?;
    /// assert_eq!(wall.len(), 1);
    /// timer.shutdown();
    /// let refused = wall.schedule_at(expires, || println!("too late")).unwrap_err();
    /// refused.into_inner()();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn schedule_at<F>(&self, at: SystemTime, f: F) -> Result<WallHandle, ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.0.schedule(WallTime::at(at), f)
    }

    /// Schedules `f` to run after `delay`, which counts the time in which the machine is suspended. A delay too long to
    /// represent means never. Otherwise as [`schedule_at`](Self::schedule_at).
    ///
    /// # Errors
    ///
    /// As [`schedule_at`](Self::schedule_at).
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer, wall::WallTimer};
    /// use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let wall = WallTimer::new(&timer);
    /// let lease = wall.schedule_after(Duration::from_secs(600), || println!("the lease has ended"))?;
    /// clock.advance(Duration::from_secs(60));
    /// clock.suspend(Duration::from_secs(540));
    /// assert!(!lease.is_pending());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn schedule_after<F>(&self, delay: Duration, f: F) -> Result<WallHandle, ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.0.schedule(WallTime::after(&self.0.shard.ticks, delay), f)
    }

    /// Returns a future that completes once the time of day is `at`.
    ///
    /// ```
    /// use corewheel::{Timer, wall::WallTimer};
    /// use std::time::{Duration, SystemTime};
    /// let timer = Timer::new()?;
    /// let wall = WallTimer::new(&timer);
    /// # futures::executor::block_on(async {
    /// let soon = SystemTime::now() + Duration::from_millis(5);
    /// wall.sleep_until(soon).await;
    /// assert!(SystemTime::now() >= soon);
    /// # });
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn sleep_until(&self, at: SystemTime) -> WallSleep {
        WallSleep::new(&self.0, WallTime::at(at))
    }

    /// Returns a future that completes after `delay`, which counts from this call, and counts the time in which the machine
    /// is suspended.
    ///
    /// ```
    /// use corewheel::{Timer, wall::WallTimer};
    /// use std::time::Duration;
    /// let timer = Timer::new()?;
    /// # futures::executor::block_on(async {
    /// WallTimer::new(&timer).sleep(Duration::from_millis(5)).await;
    /// # });
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn sleep(&self, delay: Duration) -> WallSleep {
        WallSleep::new(&self.0, WallTime::after(&self.0.shard.ticks, delay))
    }

    /// Returns the number of pending callbacks and futures. A future counts from its first pending poll until its time.
    ///
    /// ```
    /// use corewheel::{Timer, wall::WallTimer};
    /// use std::time::Duration;
    /// let timer = Timer::new()?;
    /// let wall = WallTimer::new(&timer);
    /// wall.schedule_after(Duration::from_secs(60), || println!("a minute has passed"))?;
    /// wall.schedule_at(wall.now() + Duration::from_secs(60), || println!("a minute has passed"))?;
    /// assert_eq!((wall.len(), timer.len()), (2, 1)); // one timer of the service for both
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn len(&self) -> usize {
        self.0.lock().map_or(0, |state| state.table.entries.len())
    }

    /// Returns whether nothing is pending, as [`len`](Self::len) counts.
    ///
    /// ```
    /// use corewheel::{Timer, wall::WallTimer};
    /// let timer = Timer::new()?;
    /// let wall = WallTimer::new(&timer);
    /// wall.schedule_at(wall.now(), || println!("now"))?.cancel();
    /// assert!(wall.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the system tells of sets and resumes, so that nothing looks.
    ///
    /// True on Linux and on a [`ManualClock`](crate::ManualClock). False on Linux if the system refused a thread, a
    /// `timerfd` or an `eventfd` when something last became pending; it is asked again when that next happens. False on
    /// other systems, and after a shutdown.
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer, wall::WallTimer};
    /// let timer = Timer::builder().clock(ManualClock::new()).build()?;
    /// assert!(WallTimer::new(&timer).is_told());
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn is_told(&self) -> bool {
        self.0.lock().is_some_and(|state| state.is_told)
    }
}

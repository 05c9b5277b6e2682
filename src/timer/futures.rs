//! The futures of a timer: makes sleeps and timeouts, and intervals, whose ticks tasks await.

use std::fmt;
use std::future::{IntoFuture, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use super::timer::Timer;
use crate::clock::duration_of;
use crate::future::{Sleep, Timeout};

impl Timer {
    /// Returns a future that completes after `delay`, or at once when the service is [shut
    /// down](Sleep#after-the-shutdown).
    ///
    /// The future runs on any executor; it needs no runtime. Keep a `Timer` until it is ready: the drop of the last one is a
    /// shutdown. A delay too long to represent means never. A delay of zero
    /// is ready at the first poll, except [once in a while](Sleep#loops). If the system has no memory for the timer,
    /// the process ends, as it does when a `Box` cannot be allocated.
    ///
    /// Keep a `Timer` for as long as its timers matter, because a `Sleep` does not keep it: the drop of the last clone
    /// completes the sleep before its deadline.
    ///
    /// ```
    /// use corewheel::Timer;
    /// use std::time::Duration;
    /// let timer = Timer::new()?;
    /// # futures::executor::block_on(async {
    /// let start = timer.now();
    /// timer.sleep(Duration::from_millis(5)).await;
    /// assert!(timer.now() - start >= Duration::from_millis(5));
    /// # });
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn sleep(&self, delay: Duration) -> Sleep {
        self.0.sleep(self.0.ticks.after(delay))
    }

    /// Returns a future that completes at `deadline`. Otherwise as [`sleep`](Self::sleep): a deadline that has passed
    /// is a delay of zero.
    ///
    /// ```
    /// use corewheel::Timer;
    /// use std::time::Duration;
    /// let timer = Timer::new()?;
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
    /// use corewheel::Timer;
    /// use std::time::Duration;
    /// let timer = Timer::new()?;
    /// async fn answer() -> u8 { 42 }
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
    /// use corewheel::Timer;
    /// use std::future;
    /// use std::time::Duration;
    /// let timer = Timer::new()?;
    /// async fn connect() {}
    /// async fn handshake() { future::pending().await }
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
    /// Keep a `Timer` for as long as its timers matter. For this, an interval is as good as a clone: it keeps the service
    /// alive, with all other timers.
    ///
    /// # Panics
    /// Panics if `period` is zero.
    ///
    /// ```
    /// use corewheel::Timer;
    /// use std::time::Duration;
    /// let timer = Timer::new()?;
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
    /// use corewheel::Timer;
    /// use std::time::Duration;
    /// let timer = Timer::new()?;
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
        assert!(!period.is_zero(), "a period of zero: give an interval a longer one");
        let behavior = MissedTickBehavior::default();
        Interval { sleep: self.sleep_until(start), timer: self.clone(), period, behavior }
    }
}

/// How late a tick may be without counting as missed: tokio's tolerance.
const LATE: Duration = Duration::from_millis(5);

/// A source of ticks with a fixed period.
///
/// [`Timer::interval`](crate::Timer::interval) and [`Timer::interval_at`](crate::Timer::interval_at) return it. A tick
/// that is due while no task awaits it completes at the next call of [`tick`](Self::tick). [`MissedTickBehavior`]
/// decides about the ticks after it.
///
/// An interval keeps the service alive, as a clone of its [`Timer`] does, and the drop of the last one is a shutdown. When
/// the service is shut down by a call, the next tick completes at once, before its instant; see
/// [`is_shutdown`](Self::is_shutdown). No tick comes after that. As a `Stream` (feature `futures-core`) the interval ends.
///
/// An `Interval` is [`Unpin`]: it can be moved between polls.
///
/// Overdue ticks complete without a pause. After every 128 of them on a thread, one is pending first so that [other
/// tasks](Sleep#loops) get their turn. No tick is lost by this.
///
/// ```
/// use corewheel::Timer;
/// use std::time::Duration;
///
/// let timer = Timer::new()?;
/// # futures::executor::block_on(async {
/// let mut interval = timer.interval(Duration::from_millis(5));
/// let first = interval.tick().await; // at once
/// assert_eq!(interval.tick().await - first, Duration::from_millis(5));
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Interval {
    /// Is dropped before the timer, whose drop may be a shutdown.
    sleep: Sleep,
    timer: Timer,
    period: Duration,
    behavior: MissedTickBehavior,
}

/// What an [`Interval`] does about missed ticks. A tick is missed if it is over 5 ms late.
///
/// An example: the period is 50 ms, and 120 ms pass between the second tick and the next call of [`Interval::tick`].
/// The ticks then complete after this many milliseconds:
///
/// | tick    | 1st | 2nd | 3rd | 4th | 5th | 6th |
/// |---------|-----|-----|-----|-----|-----|-----|
/// | `Burst` | 0   | 50  | 170 | 170 | 200 | 250 |
/// | `Delay` | 0   | 50  | 170 | 220 | 270 | 320 |
/// | `Skip`  | 0   | 50  | 170 | 200 | 250 | 300 |
///
/// ```
/// use corewheel::{MissedTickBehavior, Timer};
/// use std::time::Duration;
///
/// let timer = Timer::new()?;
/// let mut interval = timer.interval(Duration::from_millis(50));
/// assert_eq!(interval.missed_tick_behavior(), MissedTickBehavior::Burst);
/// interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
/// # Ok::<(), corewheel::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissedTickBehavior {
    /// Missed ticks complete one after the other, without a pause.
    #[default]
    Burst,
    /// Missed ticks are dropped, and the period counts from the late tick.
    Delay,
    /// Missed ticks are dropped, and the next tick is the next one of the original grid.
    Skip,
}

impl Interval {
    /// Completes at the next tick, and returns the instant for which that tick was scheduled.
    ///
    /// Cancel safe: dropping the future before it completes loses no tick.
    ///
    /// ```
    /// use corewheel::Timer;
    /// use std::time::Duration;
    /// let timer = Timer::new()?;
    /// # futures::executor::block_on(async {
    /// let mut interval = timer.interval(Duration::from_millis(2));
    /// for _ in 0..3 {
    ///     let scheduled = interval.tick().await;
    ///     println!("{:?} late", timer.now() - scheduled);
    /// }
    /// # });
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub async fn tick(&mut self) -> Instant {
        poll_fn(|context| self.poll_tick(context)).await
    }

    /// Polls for the next tick: [`tick`](Self::tick) for code that implements a future itself.
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer};
    /// use std::time::Duration;
    /// use std::task::{Context, Poll, Waker};
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let mut interval = timer.interval(Duration::from_secs(1));
    /// let mut context = Context::from_waker(Waker::noop());
    /// let first = clock.now();
    /// assert_eq!(interval.poll_tick(&mut context), Poll::Ready(first));
    /// assert!(interval.poll_tick(&mut context).is_pending());
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!(interval.poll_tick(&mut context), Poll::Ready(first + Duration::from_secs(1)));
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn poll_tick(&mut self, context: &mut Context<'_>) -> Poll<Instant> {
        ready!(self.sleep.poll_served(context));
        let due = self.sleep.deadline();
        let now = self.timer.now();
        let late = now.saturating_duration_since(due);
        let beyond_grid = || duration_of(late.as_nanos() % self.period.as_nanos());
        let (from, delay) = match self.behavior {
            MissedTickBehavior::Delay if late > LATE => (now, self.period),
            MissedTickBehavior::Skip if late > LATE => (now, self.period - beyond_grid()),
            _ => (due, self.period),
        };
        self.sleep.reset_by(|ticks| ticks.deadline_at(now, from.checked_add(delay)));
        Poll::Ready(due)
    }

    /// Schedules the next tick one period from now. Later ticks follow it, one period apart.
    ///
    /// The waker of a pending poll stays in place. Lock-free, in constant time, as [`Sleep::reset`]. After a shutdown, no
    /// tick comes.
    ///
    /// ```
    /// use corewheel::Timer;
    /// use std::time::Duration;
    /// let timer = Timer::new()?;
    /// # futures::executor::block_on(async {
    /// let mut interval = timer.interval(Duration::from_millis(5));
    /// let start = timer.now();
    /// interval.reset(); // the first tick no longer comes at once
    /// assert!(interval.tick().await >= start + Duration::from_millis(5));
    /// # });
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn reset(&mut self) {
        self.reset_after(self.period);
    }

    /// Schedules the next tick for now. Otherwise as [`reset`](Self::reset).
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer};
    /// use std::time::Duration;
    /// use futures::FutureExt;
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let mut flush = timer.interval(Duration::from_secs(60));
    /// assert!(flush.tick().now_or_never().is_some());
    /// // The buffer is full, so the next tick comes before its time:
    /// flush.reset_immediately();
    /// assert_eq!(flush.tick().now_or_never(), Some(clock.now()));
    /// assert!(flush.tick().now_or_never().is_none()); // the next one comes in a minute
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn reset_immediately(&mut self) {
        self.reset_after(Duration::ZERO);
    }

    /// Schedules the next tick `delay` from now. A delay too long to represent means never. Otherwise as
    /// [`reset`](Self::reset).
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer};
    /// use std::time::Duration;
    /// use futures::FutureExt;
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let mut poll = timer.interval(Duration::from_secs(10));
    /// // The server asks for a longer pause, once:
    /// poll.reset_after(Duration::from_secs(30));
    /// clock.advance(Duration::from_secs(29));
    /// assert!(poll.tick().now_or_never().is_none());
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!(poll.tick().now_or_never(), Some(clock.now()));
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn reset_after(&mut self, delay: Duration) {
        Pin::new(&mut self.sleep).reset_after(delay);
    }

    /// Schedules the next tick for `instant`. An instant that has passed is due at once. Otherwise as
    /// [`reset`](Self::reset).
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer};
    /// use std::time::Duration;
    /// use futures::FutureExt;
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let mut report = timer.interval(Duration::from_secs(3600));
    /// // The next report comes with the next full hour of another clock:
    /// let full_hour = clock.now() + Duration::from_secs(42);
    /// report.reset_at(full_hour);
    /// clock.advance(Duration::from_secs(42));
    /// assert_eq!(report.tick().now_or_never(), Some(full_hour));
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn reset_at(&mut self, instant: Instant) {
        Pin::new(&mut self.sleep).reset(instant);
    }

    /// Returns the time between two ticks.
    ///
    /// ```
    /// let timer = corewheel::Timer::new()?;
    /// use std::time::Duration;
    /// assert_eq!(timer.interval(Duration::from_secs(1)).period(), Duration::from_secs(1));
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Returns what the interval does about missed ticks. Default: [`Burst`](MissedTickBehavior::Burst).
    ///
    /// ```
    /// use corewheel::{MissedTickBehavior, Timer};
    /// use std::time::Duration;
    /// let timer = Timer::new()?;
    /// let interval = timer.interval(Duration::from_secs(1));
    /// assert_eq!(interval.missed_tick_behavior(), MissedTickBehavior::Burst);
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.behavior
    }

    /// Sets what the interval does about missed ticks.
    ///
    /// ```
    /// use corewheel::{ManualClock, MissedTickBehavior, Timer};
    /// use std::time::Duration;
    /// use futures::FutureExt;
    ///
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let mut interval = timer.interval(Duration::from_secs(1));
    /// interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    /// clock.advance(Duration::from_secs(10)); // no task awaits a tick for ten seconds
    /// assert!(interval.tick().now_or_never().is_some());
    /// assert!(interval.tick().now_or_never().is_none()); // the next comes in a second
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.behavior = behavior;
    }

    /// Returns whether the service has been shut down. If so, at most one tick completes, before its instant.
    ///
    /// ```
    /// use corewheel::Timer;
    /// use std::time::Duration;
    /// let timer = Timer::new()?;
    /// # futures::executor::block_on(async {
    /// let mut interval = timer.interval(Duration::from_millis(2));
    /// timer.shutdown();
    /// loop {
    ///     interval.tick().await;
    ///     if interval.is_shutdown() {
    ///         break;
    ///     }
    ///     println!("still alive");
    /// }
    /// # });
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn is_shutdown(&self) -> bool {
        self.timer.is_shutdown()
    }
}

impl fmt::Debug for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interval")
            .field("next", &self.sleep.deadline())
            .field("period", &self.period)
            .field("missed_tick_behavior", &self.behavior)
            .finish()
    }
}

/// The ticks as a stream, which ends when the service is shut down.
#[cfg(feature = "futures-core")]
impl futures_core::Stream for Interval {
    type Item = Instant;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Instant>> {
        if !self.is_shutdown() {
            let tick = ready!(self.poll_tick(context));
            // A shutdown during the poll may have completed the tick before its instant.
            if !self.is_shutdown() {
                return Poll::Ready(Some(tick));
            }
        }
        Poll::Ready(None)
    }
}

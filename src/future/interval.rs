//! Ticks at a fixed period, to be awaited.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use super::Sleep;

/// A tick that is later than this was missed: as tokio has it.
const LATE: Duration = Duration::from_millis(5);

/// Completes again and again, a period apart: what [`Timer::interval`](crate::Timer::interval) and
/// [`Timer::interval_at`](crate::Timer::interval_at) return.
///
/// A tick that nobody awaits happens when [`tick`](Self::tick) is next called; what becomes of those after it is up to
/// [`MissedTickBehavior`].
///
/// When the service is shut down, a tick that is pending completes at once, before it is due: see
/// [`is_shutdown`](Self::is_shutdown). Each tick after it is pending once, wakes its task, and completes when it is polled
/// again. As a `Stream` (feature `futures-core`) the interval ends then.
///
/// Ticks that are overdue complete without a pause, but after every 128 of them one is pending like that, so that other
/// tasks have their turn: see [`Sleep`](Sleep#loops). None is lost by it.
///
/// ```
/// use corewheel::Timer;
/// use std::time::Duration;
///
/// let timer = Timer::new()?;
/// let mut interval = timer.interval(Duration::from_millis(10));
/// futures::executor::block_on(async {
///     let first = interval.tick().await;
///     assert_eq!(interval.tick().await - first, Duration::from_millis(10));
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Interval {
    sleep: Sleep,
    period: Duration,
    behavior: MissedTickBehavior,
}

/// What an [`Interval`] does when ticks have been missed.
///
/// With a period of 50 ms, and 120 ms between the second tick and the next call of [`Interval::tick`], ticks complete
/// after so many milliseconds:
///
/// | tick    | 1st | 2nd | 3rd | 4th | 5th | 6th |
/// |---------|-----|-----|-----|-----|-----|-----|
/// | `Burst` | 0   | 50  | 170 | 170 | 200 | 250 |
/// | `Delay` | 0   | 50  | 170 | 220 | 270 | 320 |
/// | `Skip`  | 0   | 50  | 170 | 200 | 250 | 300 |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissedTickBehavior {
    /// They are made up for, one after the other, without a pause.
    #[default]
    Burst,
    /// They are gone, and the period counts from the late tick on.
    Delay,
    /// They are gone, and the next tick is the next one of those that were due from the beginning.
    Skip,
}

impl Interval {
    /// # Panics
    /// If the period is zero.
    pub(crate) fn new(first: Sleep, period: Duration) -> Self {
        assert!(!period.is_zero(), "a period of zero: give an interval a longer one");
        Self { sleep: first, period, behavior: MissedTickBehavior::default() }
    }

    /// Completes at the next tick, and tells when that was due.
    ///
    /// To drop the future before it completes loses no tick.
    pub async fn tick(&mut self) -> Instant {
        poll_fn(|context| self.poll_tick(context)).await
    }

    /// As [`tick`](Self::tick), for those who poll themselves.
    pub fn poll_tick(&mut self, context: &mut Context<'_>) -> Poll<Instant> {
        ready!(Pin::new(&mut self.sleep).poll(context));
        let due = self.sleep.deadline();
        let now = self.sleep.now();
        let late = now.saturating_duration_since(due);
        let (from, delay) = match self.behavior {
            MissedTickBehavior::Delay if late > LATE => (now, self.period),
            MissedTickBehavior::Skip if late > LATE => (now, self.period - remainder(late, self.period)),
            _ => (due, self.period),
        };
        self.sleep.reset_by(|ticks| ticks.after_instant(from, delay));
        Poll::Ready(due)
    }

    /// Has the next tick come a period from now.
    pub fn reset(&mut self) {
        let (now, period) = (self.sleep.now(), self.period);
        self.sleep.reset_by(|ticks| ticks.after_instant(now, period));
    }

    /// The time between two ticks.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// What is done when ticks have been missed.
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.behavior
    }

    /// Sets what is done when ticks have been missed.
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.behavior = behavior;
    }

    /// Returns whether the service has been shut down: then no tick waits until it is due.
    pub fn is_shutdown(&self) -> bool {
        self.sleep.is_closed()
    }
}

/// By how much `time` is more than a whole number of periods.
fn remainder(time: Duration, period: Duration) -> Duration {
    let nanos = time.as_nanos() % period.as_nanos();
    // Less than a second is left below 10^9, so this loses nothing.
    Duration::new((nanos / 1_000_000_000) as u64, (nanos % 1_000_000_000) as u32)
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

/// Ends when the service is shut down.
#[cfg(feature = "futures-core")]
impl futures_core::Stream for Interval {
    type Item = Instant;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Instant>> {
        if !self.is_shutdown() {
            let tick = ready!(self.poll_tick(context));
            // A shutdown since then may have completed it before it was due.
            if !self.is_shutdown() {
                return Poll::Ready(Some(tick));
            }
        }
        Poll::Ready(None)
    }
}

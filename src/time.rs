//! tokio's names for timers, on the [global timer](crate::Timer::global).
//!
//! In a file that is written for `tokio::time`, only the `use` line changes:
//!
//! ```
//! use corewheel::time::{self, Duration, Instant}; // was: use tokio::time::{self, Duration, Instant};
//!
//! # futures::executor::block_on(async {
//! let start = Instant::now();
//! time::sleep(Duration::from_millis(5)).await;
//! assert!(start.elapsed() >= Duration::from_millis(5));
//!
//! let answer = time::timeout(Duration::from_secs(5), async { 42 }).await;
//! assert_eq!(answer, Ok(42));
//! # });
//! ```
//!
//! What differs from tokio:
//!
//! - No runtime is needed: nothing here panics outside of one, or in one without `enable_time`. A runtime that shuts down
//!   has no effect on these futures.
//! - A sleep of zero, or one that is polled after its deadline, is [ready at once](Sleep#loops).
//! - [`Instant`] is that of `std`, so it has neither `from_std` nor `into_std`.
//! - There is no `pause`: [`Builder::build_global`](crate::Builder::build_global) puts these functions on a
//!   [`ManualClock`](crate::ManualClock), and other tests use a [`Timer`] on one.
//! - The futures of this module are [`Unpin`], except for a [`Timeout`] of a future that is not.
//!
//! The functions start the global timer on their first use, unless `build_global` has built it.
//!
//! # Panics
//!
//! Each function panics if the system refuses the threads of the global timer.

use std::future::IntoFuture;

pub use std::time::{Duration, Instant};

pub use crate::future::{Sleep, Timeout};
use crate::timer::Timer;
pub use crate::timer::{Interval, MissedTickBehavior};

/// The errors of this module.
pub mod error {
    pub use crate::future::Elapsed;
}

/// Returns a future that completes after `duration`. As [`Timer::sleep`].
///
/// ```
/// use corewheel::time::{Duration, sleep};
///
/// # futures::executor::block_on(async {
/// sleep(Duration::from_millis(5)).await;
/// # });
/// ```
pub fn sleep(duration: Duration) -> Sleep {
    Timer::global().sleep(duration)
}

/// Returns a future that completes at `deadline`. As [`Timer::sleep_until`].
///
/// ```
/// use corewheel::Timer;
/// use corewheel::time::{Duration, sleep_until};
///
/// # futures::executor::block_on(async {
/// sleep_until(Timer::global().now() + Duration::from_millis(5)).await;
/// # });
/// ```
pub fn sleep_until(deadline: Instant) -> Sleep {
    Timer::global().sleep_until(deadline)
}

/// Returns a future that awaits `future` for at most `duration`. As [`Timer::timeout`].
///
/// ```
/// use corewheel::time::{Duration, error::Elapsed, timeout};
///
/// # futures::executor::block_on(async {
/// let late: Result<(), Elapsed> = timeout(Duration::from_millis(5), std::future::pending()).await;
/// assert!(late.is_err());
/// # });
/// ```
pub fn timeout<F: IntoFuture>(duration: Duration, future: F) -> Timeout<F::IntoFuture> {
    Timer::global().timeout(duration, future)
}

/// Returns a future that awaits `future` until `deadline`. As [`Timer::timeout_at`].
///
/// ```
/// use corewheel::Timer;
/// use corewheel::time::{Duration, timeout_at};
///
/// # futures::executor::block_on(async {
/// let deadline = Timer::global().now() + Duration::from_secs(5);
/// assert_eq!(timeout_at(deadline, async { "in time" }).await, Ok("in time"));
/// # });
/// ```
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    Timer::global().timeout_at(deadline, future)
}

/// Returns an interval whose first tick is at once. As [`Timer::interval`].
///
/// # Panics
///
/// Panics if `period` is zero.
///
/// ```
/// use corewheel::time::{Duration, MissedTickBehavior, interval};
///
/// # futures::executor::block_on(async {
/// let mut heartbeat = interval(Duration::from_millis(2));
/// heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
/// for _ in 0..3 {
///     heartbeat.tick().await;
/// }
/// # });
/// ```
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    Timer::global().interval(period)
}

/// Returns an interval whose first tick is at `start`. As [`Timer::interval_at`].
///
/// # Panics
///
/// Panics if `period` is zero.
///
/// ```
/// use corewheel::Timer;
/// use corewheel::time::{Duration, interval_at};
///
/// # futures::executor::block_on(async {
/// let start = Timer::global().now() + Duration::from_millis(5);
/// let mut ticks = interval_at(start, Duration::from_secs(1));
/// assert_eq!(ticks.tick().await, start);
/// # });
/// ```
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    Timer::global().interval_at(start, period)
}

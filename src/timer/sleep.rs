//! Makes futures.

use std::future::IntoFuture;
use std::time::{Duration, Instant};

use super::interval::Interval;
use super::timer::Timer;
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
        Interval::new(self, start, period)
    }

    /// Returns whether this timer, or a clone of it, made the sleep. O(shards).
    #[cfg(feature = "hyper")]
    pub(crate) fn made(&self, sleep: &Sleep) -> bool {
        self.0.shards.iter().any(|own| std::ptr::eq(&**own, sleep.shard()))
    }
}

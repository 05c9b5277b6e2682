//! Futures on timers: [`Sleep`] is a future on an entry of a shard; [`Timeout`] contains one. They run on any executor,
//! without a runtime.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use pin_project_lite::pin_project;

use crate::clock::{Deadline, Requested, Ticks};
use crate::shard::{Phase, Shard, SleepEntry};

/// A future that completes at a deadline.
///
/// [`Timer::sleep`](crate::Timer::sleep) and [`Timer::sleep_until`](crate::Timer::sleep_until) return it. It completes
/// before its deadline only if a shutdown [ends](Self#after-the-shutdown) the service first.
///
/// A sleep becomes a timer at its first pending poll. Before that, no count includes it, and no thread wakes for it.
/// The driver of its shard, or the thread that shuts the service down, calls the waker of the last poll, without a
/// lock. A waker should not block: until it returns, it delays all timers that its thread drives. With a pool, these
/// may be those of all shards. A panic of the waker is caught, counted, and passed to
/// [`on_panic`](crate::Builder::on_panic).
///
/// Dropping a `Sleep` cancels it. A `Sleep` does not keep the service alive. It does not count against
/// [`max_pending`](crate::Builder::max_pending), and is never refused. Its methods, its polls and its drop take no lock
/// and never wait for another thread. (In [virtual time](crate::ManualClock), a poll at the deadline may take one for
/// some instructions.)
///
/// A `Sleep` is [`Unpin`]: it can be moved between polls, and `Pin::new(&mut sleep)` is enough to reset it.
///
/// After it has completed, it can be [`reset`](Self::reset) and awaited again. Another poll without a reset is no
/// error; the sleep is still complete.
///
/// ```
/// use corewheel::Timer;
/// use std::time::Duration;
///
/// let timer = Timer::new()?;
/// # futures::executor::block_on(async {
/// println!("working");
/// timer.sleep(Duration::from_millis(5)).await;
/// println!("rested");
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Loops
///
/// No loop that awaits sleeps, or the first of several, keeps its executor from other tasks. A sleep that need not wait is
/// ready at once: its deadline has passed, or it is polled after it has completed. But after 128 or some more of these on
/// a thread, the next ones are pending once: each wakes its task, and is ready when it is polled again. tokio's sleeps do
/// the same when their budget is spent.
///
/// A loop that polls all of several, and goes on if any is ready, may go on for some such numbers. One that takes what is
/// ready and polls again before it returns, such as that of `ready_chunks` over an overdue interval, does not end.
///
/// # After the shutdown
///
/// A shutdown, or the drop of the last [`Timer`](crate::Timer) clone, completes the sleep at once, before its deadline.
/// [`is_shutdown`](Self::is_shutdown) then returns true. A sleep that is made or reset later is not early, but no
/// thread wakes its task: it is pending until a poll finds that its deadline has come. So a loop over sleeps neither
/// spins nor goes faster. A task that should end then waits for a signal of its own beside the sleep.
#[must_use = "a sleep does nothing unless it is polled"]
pub struct Sleep {
    entry: SleepEntry,
    /// The tick of the deadline.
    tick: u64,
    requested: Requested,
}

impl Sleep {
    pub(crate) fn new(entry: SleepEntry, deadline: Deadline) -> Self {
        Self { entry, tick: deadline.tick, requested: deadline.requested }
    }

    /// Makes a shutdown leave the sleep pending, as it leaves one that is made afterwards.
    #[cfg(any(feature = "hyper", feature = "quinn"))]
    pub(crate) fn outlasting_shutdown(mut self) -> Self {
        self.entry.at_shutdown = Phase::AfterShutdown;
        self
    }

    /// Polls the sleep, but leaves it pending for ever if its deadline was set after the shutdown.
    pub(crate) fn poll_served(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.entry.phase == Phase::AfterShutdown { Poll::Pending } else { Pin::new(self).poll(context) }
    }

    /// Returns the shard of the timer; after a shutdown, any shard of the service.
    pub(crate) fn shard(&self) -> &Shard {
        self.entry.shard()
    }

    /// Returns the deadline. A sleep that never completes reports an instant a hundred years ahead.
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer};
    /// use std::time::Duration;
    /// let timer = Timer::builder().clock(ManualClock::new()).build()?;
    /// let sleep = timer.sleep(Duration::from_secs(10));
    /// assert_eq!(sleep.deadline(), timer.now() + Duration::from_secs(10));
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn deadline(&self) -> Instant {
        self.shard().ticks.display_requested(self.requested)
    }

    /// Returns whether the deadline has come, or a shutdown has completed the sleep.
    ///
    /// If so, the next poll is ready, except one that [gives way](Sleep#loops) to other tasks. A deadline between two
    /// [ticks](crate::Builder::tick) comes with the later one. Registers no waker. Lock-free, in constant time.
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer};
    /// use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let cooldown = timer.sleep(Duration::from_secs(10));
    /// assert!(!cooldown.is_elapsed());
    /// clock.advance(Duration::from_secs(10));
    /// assert!(cooldown.is_elapsed()); // also without a poll
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn is_elapsed(&self) -> bool {
        matches!(self.entry.phase(self.tick), Phase::Elapsed | Phase::Shutdown)
    }

    /// Returns whether the service was shut down before the deadline came: the sleep was completed by that, or no
    /// thread [wakes](Self#after-the-shutdown) its task.
    ///
    /// ```
    /// use corewheel::Timer;
    /// use std::time::Duration;
    /// let timer = Timer::new()?;
    /// # futures::executor::block_on(async {
    /// let mut sleep = timer.sleep(Duration::from_secs(3600));
    /// timer.shutdown();
    /// (&mut sleep).await;
    /// assert!(sleep.is_shutdown());
    /// # });
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn is_shutdown(&self) -> bool {
        matches!(self.entry.phase(self.tick), Phase::Shutdown | Phase::AfterShutdown)
    }

    /// Sets a new deadline. The waker of a pending sleep stays in place. A sleep that has completed must be polled
    /// again.
    ///
    /// Lock-free, in constant time. A reset of a pending sleep to a later deadline
    /// is one atomic step that disturbs no other thread; see *Re-arming in place* in [protocols.md].
    ///
    /// ```
    /// use corewheel::Timer;
    /// use std::{pin::pin, time::Duration};
    /// let timer = Timer::new()?;
    /// # futures::executor::block_on(async {
    /// let mut sleep = pin!(timer.sleep(Duration::from_secs(3600)));
    /// sleep.as_mut().reset(timer.now() + Duration::from_millis(5));
    /// sleep.await;
    /// # });
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    ///
    /// [protocols.md]: https://docs.rs/crate/corewheel/latest/source/docs/internals/protocols.md
    #[inline]
    pub fn reset(mut self: Pin<&mut Self>, deadline: Instant) {
        self.reset_by(|ticks| ticks.at(deadline));
    }

    /// Sets a new deadline, `delay` from now. A delay too long to represent means never. Otherwise as
    /// [`reset`](Self::reset), but cheaper: it needs no [`Instant`].
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer};
    /// use std::{pin::Pin, time::Duration};
    /// let timer = Timer::builder().clock(ManualClock::new()).build()?;
    /// let mut idle = timer.sleep(Duration::from_secs(60));
    /// // A byte has arrived:
    /// Pin::new(&mut idle).reset_after(Duration::from_secs(90));
    /// assert_eq!(idle.deadline(), timer.now() + Duration::from_secs(90));
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    #[inline]
    pub fn reset_after(mut self: Pin<&mut Self>, delay: Duration) {
        self.reset_by(|ticks| ticks.after(delay));
    }

    /// Sets the deadline that `when` returns.
    #[inline]
    pub(crate) fn reset_by(&mut self, when: impl FnOnce(&Ticks) -> Deadline) {
        // Arrives while the clock is read.
        self.entry.prefetch();
        let deadline = when(&self.shard().ticks);
        (self.tick, self.requested) = (deadline.tick, deadline.requested);
        self.entry.reset(deadline);
    }
}

impl Future for Sleep {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let tick = self.tick;
        let phase = self.entry.poll(tick, context.waker());
        self.entry.complete(phase, context.waker())
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep")
            .field("deadline", &self.deadline())
            .field("is_elapsed", &self.is_elapsed())
            .finish_non_exhaustive()
    }
}

pin_project! {
    /// A future that awaits another future until a deadline.
    ///
    /// [`Timer::timeout`](crate::Timer::timeout) and [`Timer::timeout_at`](crate::Timer::timeout_at) return it. Each
    /// poll polls the other future first, so a future that is ready is never timed out.
    ///
    /// When the service is shut down, the timeout completes at once with an [`Elapsed`] whose
    /// [`is_shutdown`](Elapsed::is_shutdown) is true. A timeout that is created later has no deadline: it completes with
    /// its future. One that is created after its deadline gives way to other tasks as a [`Sleep`](Sleep#loops) does. Its
    /// future is then polled once more.
    ///
    /// ```
    /// use corewheel::Timer;
    /// use std::future;
    /// use std::time::Duration;
    ///
    /// let timer = Timer::new()?;
    /// # futures::executor::block_on(async {
    /// assert_eq!(timer.timeout(Duration::from_millis(5), future::ready(7)).await, Ok(7));
    /// assert!(timer.timeout(Duration::from_millis(5), future::pending::<u8>()).await.is_err());
    /// # });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[derive(Debug)]
    #[must_use = "a timeout does nothing unless it is polled"]
    pub struct Timeout<F> {
        #[pin]
        future: F,
        sleep: Sleep,
    }
}

impl<F> Timeout<F> {
    pub(crate) fn new(future: F, sleep: Sleep) -> Self {
        Self { future, sleep }
    }

    /// Returns a reference to the future.
    ///
    /// ```
    /// let timer = corewheel::Timer::new()?;
    /// use std::{future, time::Duration};
    /// let timeout = timer.timeout(Duration::from_secs(1), future::ready(7));
    /// println!("waiting for {:?}", timeout.get_ref());
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn get_ref(&self) -> &F {
        &self.future
    }

    /// Returns a mutable reference to the future.
    ///
    /// ```
    /// let timer = corewheel::Timer::new()?;
    /// use std::{future, time::Duration};
    /// let mut timeout = timer.timeout(Duration::from_secs(1), future::ready(7));
    /// *timeout.get_mut() = future::ready(8);
    /// assert_eq!(futures::executor::block_on(timeout), Ok(8));
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn get_mut(&mut self) -> &mut F {
        &mut self.future
    }

    /// Returns the future, without the deadline.
    ///
    /// ```
    /// let timer = corewheel::Timer::new()?;
    /// use std::{future, time::Duration};
    /// let timeout = timer.timeout(Duration::from_secs(1), future::ready(7));
    /// assert_eq!(futures::executor::block_on(timeout.into_inner()), 7);
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn into_inner(self) -> F {
        self.future
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(output) = this.future.poll(context) {
            return Poll::Ready(Ok(output));
        }
        ready!(this.sleep.poll_served(context));
        Poll::Ready(Err(Elapsed { shutdown: this.sleep.is_shutdown() }))
    }
}

/// The error of a [`Timeout`]: its deadline, or a shutdown, came before its future was ready.
///
/// ```
/// let timer = corewheel::Timer::new()?;
/// use std::{future, time::Duration};
/// let timeout = timer.timeout(Duration::from_millis(1), future::pending::<()>());
/// let elapsed = futures::executor::block_on(timeout).unwrap_err();
/// assert_eq!(elapsed.to_string(), "the deadline came before the future was ready");
/// # Ok::<(), corewheel::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed {
    shutdown: bool,
}

impl Elapsed {
    /// Returns whether the [`Timer`](crate::Timer) was shut down before the deadline.
    ///
    /// ```
    /// let timer = corewheel::Timer::new()?;
    /// use std::{future, time::Duration};
    /// let timeout = timer.timeout(Duration::from_secs(3600), future::pending::<()>());
    /// timer.shutdown();
    /// assert!(futures::executor::block_on(timeout).unwrap_err().is_shutdown());
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn is_shutdown(&self) -> bool {
        self.shutdown
    }
}

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.shutdown {
            "the timer was shut down before the future was ready or its deadline came"
        } else {
            "the deadline came before the future was ready"
        })
    }
}

impl Error for Elapsed {}

/// Returns an error of the kind [`TimedOut`](io::ErrorKind::TimedOut), whose inner error is the `Elapsed`. So `?`
/// works in functions that return an [`io::Result`].
///
/// ```
/// let timer = corewheel::Timer::new()?;
/// use std::{future, io, time::Duration};
///
/// let read = async {
///     timer.timeout(Duration::from_millis(1), future::pending::<()>()).await?;
///     io::Result::Ok(())
/// };
/// let error = futures::executor::block_on(read).unwrap_err();
/// assert_eq!(error.kind(), io::ErrorKind::TimedOut);
/// # Ok::<(), corewheel::BuildError>(())
/// ```
impl From<Elapsed> for io::Error {
    fn from(elapsed: Elapsed) -> io::Error {
        io::Error::new(io::ErrorKind::TimedOut, elapsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_less_than_a_cache_line() {
        if cfg!(target_pointer_width = "64") {
            assert_eq!(size_of::<Sleep>(), 48);
        } else {
            assert!(size_of::<Sleep>() < 48);
        }
    }
}

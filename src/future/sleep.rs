//! The future that completes at a deadline.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::clock::{Deadline, Requested, Ticks};
use crate::shard::{Coop, Progress, Shard, SleepEntry};

/// Completes at a deadline, never before, except that a shutdown completes it: what
/// [`Timer::sleep`](crate::Timer::sleep) and [`Timer::sleep_until`](crate::Timer::sleep_until) return.
///
/// Until it is first polled, it is no timer: nothing is counted, and no thread is woken for it. The waker that it was last
/// polled with is called on a thread of the timer, without a lock; a panic of it is caught, counted, and given to
/// [`on_panic`](crate::Builder::on_panic). Dropping a `Sleep` cancels it.
///
/// It does not keep the service alive. When that is shut down, it completes at once;
/// [`is_shutdown`](Self::is_shutdown) tells. It neither counts against [`max_pending`](crate::Builder::max_pending) nor
/// is it ever refused.
///
/// Polling and dropping it take no lock and never wait for another thread. After it has completed it can be
/// [`reset`](Self::reset) and awaited again; to poll it once more without that is no error, and it is complete still.
///
/// # Loops
///
/// No loop over sleeps keeps its executor from other tasks. A sleep that need not wait (its deadline has passed, or it
/// is polled after it has completed) is ready at once, but after every 128 of these on a thread one is pending first: it
/// wakes its task and is ready when it is polled again, as tokio's are by their budget. A sleep that is made or reset
/// after the shutdown is pending like that each time.
///
/// ```
/// use corewheel::Timer;
/// use std::time::{Duration, Instant};
///
/// let timer = Timer::new()?;
/// let start = Instant::now();
/// futures::executor::block_on(timer.sleep(Duration::from_millis(20)));
/// assert!(start.elapsed() >= Duration::from_millis(20));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a sleep does nothing unless it is polled"]
pub struct Sleep {
    source: Source,
    /// The tick at which it is due.
    tick: u64,
    requested: Requested,
}

enum Source {
    Held(SleepEntry),
    /// The service had been shut down before: no entry can be armed.
    Closed {
        /// Has the clock.
        shard: Arc<Shard>,
        progress: Progress,
        coop: Coop,
    },
}

impl Sleep {
    /// Creates a sleep until `deadline`. `entry` is `None` if the service has been shut down; then `shard` returns any of its
    /// shards.
    #[inline]
    pub(crate) fn new(entry: Option<SleepEntry>, deadline: Deadline, shard: impl FnOnce() -> Arc<Shard>) -> Self {
        let closed =
            || Source::Closed { shard: shard(), progress: Progress::after_shutdown(deadline), coop: Coop::new(true) };
        Self { source: entry.map_or_else(closed, Source::Held), tick: deadline.tick, requested: deadline.requested() }
    }

    /// Makes a shutdown not complete the sleep: if its deadline has not come then, it stays pending for ever.
    #[cfg(any(feature = "hyper", feature = "quinn"))]
    pub(crate) fn outlasting_shutdown(mut self) -> Self {
        self.coop().outlast_shutdown();
        self
    }

    #[cfg(any(feature = "hyper", feature = "quinn"))]
    fn coop(&mut self) -> &mut Coop {
        match &mut self.source {
            Source::Held(entry) => &mut entry.coop,
            Source::Closed { coop, .. } => coop,
        }
    }

    #[inline]
    fn ticks(&self) -> &Ticks {
        match &self.source {
            Source::Held(entry) => entry.ticks(),
            Source::Closed { shard, .. } => &shard.ticks,
        }
    }

    /// Returns the instant at which it completes. If that is never, this is an instant a hundred years ahead.
    pub fn deadline(&self) -> Instant {
        self.ticks().display_requested(self.requested)
    }

    /// Returns whether the deadline has come, or the service has been shut down.
    ///
    /// The next poll is ready then, except one that gives way to other tasks: see [Loops](Sleep#loops).
    #[inline]
    pub fn is_elapsed(&self) -> bool {
        self.progress() != Progress::Pending
    }

    /// Returns whether it completes, or has completed, before its deadline, because the service was shut down.
    pub fn is_shutdown(&self) -> bool {
        self.progress() == Progress::Shutdown
    }

    #[inline]
    fn progress(&self) -> Progress {
        match &self.source {
            Source::Held(entry) => entry.progress(self.tick),
            Source::Closed { progress, .. } => *progress,
        }
    }

    /// Returns whether the service has been shut down, whatever became of this sleep.
    pub(crate) fn is_closed(&self) -> bool {
        match &self.source {
            Source::Held(entry) => entry.is_closed(),
            Source::Closed { .. } => true,
        }
    }

    /// Moves the deadline, also after the sleep has completed: then it is to be polled again. The waker stays the one it
    /// was last polled with.
    ///
    /// Lock-free, in constant time. To move a pending one later costs one atomic step and disturbs no other thread.
    #[inline]
    pub fn reset(mut self: Pin<&mut Self>, deadline: Instant) {
        self.reset_by(|ticks| ticks.at(deadline));
    }

    /// As [`reset`](Self::reset), to `delay` from now: that is cheaper, as most of the time no clock is read. A delay too
    /// long to represent means never.
    #[inline]
    pub fn reset_after(mut self: Pin<&mut Self>, delay: Duration) {
        self.reset_by(|ticks| ticks.requested_after(delay));
    }

    /// The same, to what `when` tells.
    #[inline]
    pub(crate) fn reset_by(&mut self, when: impl FnOnce(&Ticks) -> Deadline) {
        let deadline = when(self.ticks());
        (self.tick, self.requested) = (deadline.tick, deadline.requested());
        match &mut self.source {
            Source::Held(entry) => entry.reset(deadline),
            Source::Closed { progress, coop, .. } => {
                *progress = Progress::after_shutdown(deadline);
                coop.renew(true);
            }
        }
    }

    /// The present, by the timer's clock.
    pub(crate) fn now(&self) -> Instant {
        self.ticks().now()
    }
}

impl Future for Sleep {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { source, tick, .. } = &mut *self;
        let (progress, coop) = match source {
            Source::Held(entry) => (entry.poll(*tick, context.waker()), &mut entry.coop),
            Source::Closed { progress, coop, .. } => (*progress, coop),
        };
        coop.poll(progress, context.waker())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_less_than_a_cache_line() {
        assert_eq!(size_of::<Sleep>(), 48);
    }
}

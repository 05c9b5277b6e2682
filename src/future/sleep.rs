//! The future that completes at a deadline.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::clock::{Asked, Due, Ticks};
use crate::shard::{Hold, Progress};

/// Completes at a deadline: what [`Timer::sleep`](crate::Timer::sleep) and
/// [`Timer::sleep_until`](crate::Timer::sleep_until) return.
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
pub struct Sleep(State);

enum State {
    Held {
        hold: Hold,
        /// The tick at which it is due.
        tick: u64,
        asked: Asked,
    },
    /// The service had been shut down before.
    Over { deadline: Instant },
}

impl Sleep {
    /// What holds an entry sleeps until it is `due`; what does not is over, and tells `deadline`.
    #[inline]
    pub(crate) fn new(hold: Option<Hold>, due: Due, deadline: impl FnOnce() -> Instant) -> Self {
        Self(match hold {
            Some(hold) => State::Held { hold, tick: due.tick, asked: due.asked() },
            None => State::Over { deadline: deadline() },
        })
    }

    /// When it completes. If that is never, this is an instant a hundred years ahead.
    pub fn deadline(&self) -> Instant {
        match &self.0 {
            State::Held { hold, asked, .. } => hold.ticks().shown_as(*asked),
            State::Over { deadline } => *deadline,
        }
    }

    /// Whether the deadline has come, or the service has been shut down.
    pub fn is_elapsed(&self) -> bool {
        self.progress() != Progress::Pending
    }

    /// Whether it completes, or has completed, before its deadline, as the service was shut down.
    pub fn is_shutdown(&self) -> bool {
        self.progress() == Progress::Shutdown
    }

    fn progress(&self) -> Progress {
        match &self.0 {
            State::Held { hold, tick, .. } => hold.progress(*tick),
            State::Over { .. } => Progress::Shutdown,
        }
    }

    /// Moves the deadline, also after the sleep has completed: then it is to be polled again. The waker stays the one it
    /// was last polled with.
    ///
    /// Lock-free, in constant time. To move a pending one later costs one atomic step and disturbs no other thread.
    pub fn reset(mut self: Pin<&mut Self>, deadline: Instant) {
        match &mut self.0 {
            State::Held { .. } => self.reset_by(|ticks| ticks.at(deadline)),
            State::Over { deadline: shown } => *shown = deadline,
        }
    }

    /// As [`reset`](Self::reset), to `delay` from now: that is cheaper, as most of the time no clock is read. A delay too
    /// long to represent means never.
    ///
    /// After a shutdown, which ends all sleeps, the deadline stays as it was.
    pub fn reset_after(mut self: Pin<&mut Self>, delay: Duration) {
        self.reset_by(|ticks| ticks.after(delay));
    }

    /// The same, to what `when` tells.
    #[inline]
    pub(crate) fn reset_by(&mut self, when: impl FnOnce(&Ticks) -> Due) {
        if let State::Held { hold, tick, asked } = &mut self.0 {
            let due = when(hold.ticks());
            (*tick, *asked) = (due.tick, due.asked());
            hold.reset(due);
        }
    }

    /// The present, by the timer's clock.
    pub(crate) fn now(&self) -> Instant {
        match &self.0 {
            State::Held { hold, .. } => hold.ticks().now(),
            State::Over { deadline } => *deadline,
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let progress = match &mut self.0 {
            State::Held { hold, tick, .. } => hold.poll(*tick, context.waker()),
            State::Over { .. } => Progress::Shutdown,
        };
        if progress == Progress::Pending { Poll::Pending } else { Poll::Ready(()) }
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

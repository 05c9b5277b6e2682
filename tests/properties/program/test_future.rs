//! The kinds of futures: a sleep, a timeout and an interval.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use corewheel::{Interval, MissedTickBehavior, Sleep, Timeout};

use super::grammar::{Missed, of_nanos};

/// An interval's tick that completes later than this counts as missed.
const LATE: Duration = Duration::from_millis(5);

pub enum TestFuture {
    Sleep(Sleep),
    Timeout(Timeout<ManualFuture>),
    Interval { interval: Interval, period: Duration, missed: Missed },
}

/// The result of a poll that is ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// A sleep is over: by its deadline or by the shutdown.
    Slept {
        by_shutdown: bool,
    },
    /// A timeout is over: by its deadline or by the shutdown.
    Elapsed {
        by_shutdown: bool,
    },
    /// The inner future of a timeout completed.
    Completed,
    Tick(Instant),
}

/// The inner future of a timeout: ready once the program completes it.
pub struct ManualFuture {
    is_complete: bool,
    /// The waker of the last poll.
    waker: Option<Waker>,
    polls: usize,
}

impl ManualFuture {
    pub fn new(is_complete: bool) -> Self {
        Self { is_complete, waker: None, polls: 0 }
    }

    fn complete(&mut self) {
        self.is_complete = true;
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Future for ManualFuture {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.polls += 1;
        if self.is_complete {
            return Poll::Ready(());
        }
        self.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl TestFuture {
    pub fn interval(mut interval: Interval, period: Duration, missed: Missed) -> Self {
        interval.set_missed_tick_behavior(missed.behavior());
        Self::Interval { interval, period, missed }
    }

    /// Polls the future. A timeout must poll its inner future each time.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<Output> {
        match self {
            Self::Sleep(sleep) => {
                let polled = Pin::new(&mut *sleep).poll(context);
                polled.map(|()| Output::Slept { by_shutdown: sleep.is_shutdown() })
            }
            Self::Timeout(timeout) => {
                let polls = timeout.get_ref().polls;
                let polled = Pin::new(&mut *timeout).poll(context);
                assert_eq!(timeout.get_ref().polls, polls + 1, "polls of the inner future");
                polled.map(|answered| match answered {
                    Ok(()) => Output::Completed,
                    Err(elapsed) => Output::Elapsed { by_shutdown: elapsed.is_shutdown() },
                })
            }
            Self::Interval { interval, .. } => interval.poll_tick(context).map(Output::Tick),
        }
    }

    /// Whether this is a timeout whose inner future is ready.
    pub fn inner_is_ready(&self) -> bool {
        matches!(self, Self::Timeout(timeout) if timeout.get_ref().is_complete)
    }

    /// Completes the inner future of a timeout. The first call wakes the task that polled last.
    pub fn complete_inner(&mut self) {
        if let Self::Timeout(timeout) = self {
            timeout.get_mut().complete();
        }
    }

    /// Drops the future: of a timeout, first the sleep, then the inner future.
    pub fn end(self) {
        if let Self::Timeout(timeout) = self {
            drop(timeout.into_inner());
        }
    }
}

impl Missed {
    pub fn behavior(self) -> MissedTickBehavior {
        match self {
            Self::Burst => MissedTickBehavior::Burst,
            Self::Delay => MissedTickBehavior::Delay,
            Self::Skip => MissedTickBehavior::Skip,
        }
    }

    /// Returns when the next tick is due after one that was due at `due` and completes at `now`.
    pub fn next(self, due: Duration, now: Duration, period: Duration) -> Duration {
        let late = now.saturating_sub(due);
        match self {
            Self::Delay if late > LATE => now + period,
            Self::Skip if late > LATE => {
                let missed = late.as_nanos() / period.as_nanos();
                due + of_nanos(period.as_nanos() * (missed + 1))
            }
            Self::Burst | Self::Delay | Self::Skip => due + period,
        }
    }
}

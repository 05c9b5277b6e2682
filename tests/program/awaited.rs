//! The kinds of futures: a sleep, and what is made of one.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use corewheel::{Interval, MissedTickBehavior, Sleep, Timeout};

use super::language::{Missed, of_nanos};

/// A tick that is later than this was missed.
const LATE: Duration = Duration::from_millis(5);

pub enum Awaited {
    Sleep(Sleep),
    Timeout(Timeout<Answer>),
    Interval { interval: Interval, period: Duration, missed: Missed },
}

/// What comes of a poll that is ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// Of a sleep that is over, or was ended by the shutdown.
    Slept {
        by_shutdown: bool,
    },
    /// Of a timeout: its deadline came first, or the shutdown.
    Elapsed {
        by_shutdown: bool,
    },
    /// Of a timeout: the other future was ready.
    Answered,
    Tick(Instant),
}

/// The future that a timeout waits for: ready when the program says so.
pub struct Answer {
    given: bool,
    /// Of the last poll.
    waker: Option<Waker>,
    polls: usize,
}

impl Answer {
    pub fn new(given: bool) -> Self {
        Self { given, waker: None, polls: 0 }
    }

    fn give(&mut self) {
        self.given = true;
        self.waker.take().into_iter().for_each(Waker::wake);
    }
}

impl Future for Answer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.polls += 1;
        if self.given {
            return Poll::Ready(());
        }
        self.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Awaited {
    pub fn interval(mut interval: Interval, period: Duration, missed: Missed) -> Self {
        interval.set_missed_tick_behavior(missed.behavior());
        Self::Interval { interval, period, missed }
    }

    /// A timeout must poll the other future each time.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<Output> {
        match self {
            Self::Sleep(sleep) => {
                let polled = Pin::new(&mut *sleep).poll(context);
                polled.map(|()| Output::Slept { by_shutdown: sleep.is_shutdown() })
            }
            Self::Timeout(timeout) => {
                let polls = timeout.get_ref().polls;
                let polled = Pin::new(&mut *timeout).poll(context);
                assert_eq!(timeout.get_ref().polls, polls + 1, "polls of what a timeout waits for");
                polled.map(|answered| match answered {
                    Ok(()) => Output::Answered,
                    Err(elapsed) => Output::Elapsed { by_shutdown: elapsed.is_shutdown() },
                })
            }
            Self::Interval { interval, .. } => interval.poll_tick(context).map(Output::Tick),
        }
    }

    /// Whether the future that it waits for is ready.
    pub fn is_answered(&self) -> bool {
        matches!(self, Self::Timeout(timeout) if timeout.get_ref().given)
    }

    /// Makes ready what it waits for. That wakes the task that polled last, if this has not been done before.
    pub fn answer(&mut self) {
        if let Self::Timeout(timeout) = self {
            timeout.get_mut().give();
        }
    }

    /// Drops the timer's part first, where there are two.
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

    /// When the next tick is due after one that was due at `due` and completes now.
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

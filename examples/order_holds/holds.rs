//! What the shop needs of a timer, and its implementation with corewheel.

use std::thread;
use std::time::{Duration, Instant};

use corewheel::{BuildError, Executor, ManualClock, Timer, TimerHandle};

pub trait Holds: Sync {
    type Hold: Send;

    /// Begins a hold. Runs `release` after `time`, unless the hold is confirmed before.
    fn hold(&self, time: Duration, release: impl FnOnce() + Send + 'static) -> Self::Hold;
    /// Ends a hold before its time. Returns false if it was released before.
    fn confirm(&self, hold: Self::Hold) -> bool;
    /// Returns the number of pending holds.
    fn len(&self) -> usize;

    fn now(&self) -> Instant;
    /// Waits until `to`, and releases the holds that end before.
    fn wait_until(&self, to: Instant);
}

/// The clock.
pub enum Time {
    Virtual(ManualClock),
    Real,
}

impl Time {
    pub fn now(&self) -> Instant {
        match self {
            Self::Virtual(clock) => clock.now(),
            Self::Real => Instant::now(),
        }
    }

    pub fn wait_until(&self, to: Instant) {
        match self {
            Self::Virtual(clock) => clock.advance_to(to),
            Self::Real => thread::sleep(to.saturating_duration_since(Instant::now())),
        }
    }
}

pub struct Wheels {
    timer: Timer,
    time: Time,
}

impl Wheels {
    pub fn start(time: Time) -> Result<Self, BuildError> {
        // A release only increments a counter, so it needs no pool.
        let builder = Timer::builder().executor(Executor::Inline);
        let timer = match &time {
            Time::Virtual(clock) => builder.clock(clock.clone()),
            Time::Real => builder,
        };
        Ok(Self { timer: timer.build()?, time })
    }
}

impl Holds for Wheels {
    type Hold = TimerHandle;

    fn hold(&self, time: Duration, release: impl FnOnce() + Send + 'static) -> TimerHandle {
        self.timer.schedule(time, release).expect("it has not been shut down")
    }

    fn confirm(&self, hold: TimerHandle) -> bool {
        hold.cancel()
    }

    fn len(&self) -> usize {
        self.timer.len()
    }

    fn now(&self) -> Instant {
        self.timer.now()
    }

    fn wait_until(&self, to: Instant) {
        self.time.wait_until(to);
    }
}

//! This crate's timer.

use std::time::Duration;

use corewheel::{Timer, TimerHandle};

use super::Contender;

pub struct CoreWheel(Timer);

impl Contender for CoreWheel {
    const NAME: &'static str = "corewheel";
    type Handle = TimerHandle;

    fn start() -> Self {
        Self(Timer::new().expect("the timer starts"))
    }

    fn schedule(&self, delay: Duration, callback: impl FnOnce() + Send + 'static) -> TimerHandle {
        self.0.schedule(delay, callback).expect("the timer is open")
    }

    fn cancel(&self, handle: TimerHandle) -> bool {
        handle.cancel()
    }

    fn rearm(&self, handle: &mut TimerHandle, delay: Duration) -> bool {
        handle.reset(delay)
    }
}

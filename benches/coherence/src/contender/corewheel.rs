//! The crate, by its public interface.

use std::time::Duration;

use super::Timers;
use crate::{Executor, Timer, TimerHandle};

pub fn start(shards: usize) -> Timer {
    Timer::builder().shards(shards).executor(Executor::Inline).build().expect("a timer")
}

impl Timers for Timer {
    type Handle = TimerHandle;

    fn schedule(&self, delay: Duration) -> TimerHandle {
        Timer::schedule(self, delay, || ()).unwrap_or_else(|error| panic!("{error}"))
    }

    fn cancel(&self, handle: TimerHandle) -> bool {
        handle.cancel()
    }

    fn reset(&self, handle: &mut TimerHandle, delay: Duration) {
        assert!(handle.reset(delay), "it is pending");
    }
}

//! This crate, through its public interface.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use coherence::count;

use super::timers::Timers;
use crate::{Executor, Sleep, Timer, TimerHandle};

/// The futures of a timer. Their waker does nothing.
pub struct Sleeps(pub Timer);

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
        assert!(handle.reset(delay), "the timer is pending");
    }
}

impl Timers for Sleeps {
    type Handle = Pin<Box<Sleep>>;

    fn schedule(&self, delay: Duration) -> Self::Handle {
        let mut sleep = Box::pin(self.0.sleep(delay));
        assert!(poll(sleep.as_mut()));
        sleep
    }

    fn cancel(&self, sleep: Self::Handle) -> bool {
        // A drop does not return whether the sleep was pending.
        !count::silently(|| sleep.is_elapsed())
    }

    fn reset(&self, sleep: &mut Self::Handle, delay: Duration) {
        sleep.as_mut().reset(Instant::now() + delay);
        assert!(poll(sleep.as_mut()));
    }
}

/// Polls a sleep. Returns whether it is pending.
fn poll(sleep: Pin<&mut Sleep>) -> bool {
    sleep.poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

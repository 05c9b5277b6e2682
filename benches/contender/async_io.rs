//! `Timer` of smol's async-io: a B-tree behind a mutex, and a thread that waits for the earliest deadline.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

use async_io::Timer;

use super::interface::{Contender, poll};

/// A timer is a `Timer` that has been polled once, with the target as its waker.
pub struct AsyncIo;

impl Contender for AsyncIo {
    const NAME: &'static str = "async-io";
    type Handle = Timer;

    fn start() -> Self {
        Self
    }

    fn schedule(&self, delay: Duration, target: Arc<impl Wake + Send + Sync + 'static>) -> Timer {
        let mut timer = Timer::after(delay);
        poll(Pin::new(&mut timer), target);
        timer
    }

    fn cancel(&self, timer: Timer) -> Option<bool> {
        drop(timer);
        None
    }

    fn rearm(&self, timer: &mut Timer, delay: Duration, _: &Arc<impl Wake + Send + Sync + 'static>) -> Option<bool> {
        // The timer keeps its waker.
        timer.set_after(delay);
        None
    }
}

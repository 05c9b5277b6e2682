//! async-io's `Timer`, of smol: a B-tree behind a mutex, and a thread that waits for what is due.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

use async_io::Timer;

use super::{Contender, poll};

/// A timer is a `Timer` that has been polled once, by a waker that is the target.
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
        // It keeps its waker.
        timer.set_after(delay);
        None
    }
}

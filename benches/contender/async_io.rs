//! async-io's `Timer`, of smol: a B-tree behind a mutex, and a thread that waits for what is due.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use async_io::Timer;

use super::Contender;

/// A timer is a `Timer` that has been polled once, by a waker that is the target.
pub struct AsyncIo;

impl Contender for AsyncIo {
    const NAME: &'static str = "async-io";
    type Handle = Timer;

    fn start(_: usize) -> Self {
        Self
    }

    fn schedule(&self, delay: Duration, target: Arc<impl Wake + Send + Sync + 'static>) -> Timer {
        let mut timer = Timer::after(delay);
        let waker = Waker::from(target);
        if Pin::new(&mut timer).poll(&mut Context::from_waker(&waker)).is_ready() {
            waker.wake();
        }
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

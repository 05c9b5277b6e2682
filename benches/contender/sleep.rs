//! This crate's `Sleep`, used from any thread.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use corewheel::{Sleep, Timer};

use super::Contender;

/// A timer is a `Sleep` that has been polled once, by a waker that is the target. It needs no box.
pub struct CoreSleep(Timer);

impl Contender for CoreSleep {
    const NAME: &'static str = "corewheel-sleep";
    type Handle = Sleep;

    fn start(_: usize) -> Self {
        Self(Timer::new().expect("the timer starts"))
    }

    fn schedule(&self, delay: Duration, target: Arc<impl Wake + Send + Sync + 'static>) -> Sleep {
        let mut sleep = self.0.sleep(delay);
        let waker = Waker::from(target);
        if let Poll::Ready(()) = Pin::new(&mut sleep).poll(&mut Context::from_waker(&waker)) {
            waker.wake();
        }
        sleep
    }

    fn cancel(&self, sleep: Sleep) -> Option<bool> {
        Some(!sleep.is_elapsed())
    }

    fn rearm(&self, sleep: &mut Sleep, delay: Duration, _: &Arc<impl Wake + Send + Sync + 'static>) -> Option<bool> {
        let was_pending = !sleep.is_elapsed();
        if was_pending {
            let deadline = self.0.now() + delay;
            Pin::new(sleep).reset(deadline);
        }
        Some(was_pending)
    }
}

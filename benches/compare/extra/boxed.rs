//! This crate's `Sleep` as a program has it that had tokio's: in a box, and polled after each reset.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

use corewheel::{Sleep, Timer};

use crate::contender::Contender;
use crate::contender::interface::{boxed, poll};

/// A timer is a box with a `Sleep`, which has been polled once, with the target as its waker.
pub struct BoxedSleep(Timer);

impl Contender for BoxedSleep {
    const NAME: &'static str = "corewheel-sleep-boxed";
    type Handle = Pin<Box<Sleep>>;

    fn start() -> Self {
        Self(Timer::new().expect("the timer starts"))
    }

    fn schedule(&self, delay: Duration, target: Arc<impl Wake + Send + Sync + 'static>) -> Pin<Box<Sleep>> {
        boxed(self.0.sleep(delay), target)
    }

    fn cancel(&self, _: Pin<Box<Sleep>>) -> Option<bool> {
        None
    }

    fn rearm(
        &self,
        sleep: &mut Pin<Box<Sleep>>,
        delay: Duration,
        target: &Arc<impl Wake + Send + Sync + 'static>,
    ) -> Option<bool> {
        sleep.as_mut().reset_after(delay);
        poll(sleep.as_mut(), target.clone());
        None
    }
}

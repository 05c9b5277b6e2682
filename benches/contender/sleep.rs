//! This crate's `Sleep`, used from plain threads.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

use corewheel::{Sleep, Timer};

use super::interface::{Contender, poll};

/// A timer is a `Sleep` that has been polled once, with the target as its waker. It needs no box, and no poll after a
/// reset.
pub struct CoreSleep(Timer);

impl Contender for CoreSleep {
    const NAME: &'static str = "corewheel-sleep";
    type Handle = Sleep;

    fn start() -> Self {
        Self(Timer::new().expect("the timer starts"))
    }

    fn schedule(&self, delay: Duration, target: Arc<impl Wake + Send + Sync + 'static>) -> Sleep {
        let mut sleep = self.0.sleep(delay);
        poll(Pin::new(&mut sleep), target);
        sleep
    }

    fn cancel(&self, _: Sleep) -> Option<bool> {
        None
    }

    fn rearm(&self, sleep: &mut Sleep, delay: Duration, _: &Arc<impl Wake + Send + Sync + 'static>) -> Option<bool> {
        Pin::new(sleep).reset_after(delay);
        None
    }
}

//! hyper's timer: a server or a client takes its timeouts from a [`Timer`].

use std::pin::Pin;
use std::time::{Duration, Instant};

use hyper::rt;

use crate::{Sleep, Timer};

/// For the builders of hyper and hyper-util: `builder.timer(timer.clone())`, and `pool_timer` of hyper-util's client.
///
/// A shutdown of the timer does not complete these sleeps: from then on they stay pending for ever, and hyper goes on
/// without timeouts. hyper would take a sleep that completes for one whose deadline has come: it would end connections,
/// or begin the same sleep again without a pause.
///
/// ```
/// let timer = corewheel::Timer::new()?;
/// let mut builder = hyper::server::conn::http1::Builder::new();
/// builder.timer(timer.clone()).header_read_timeout(std::time::Duration::from_secs(10));
/// # Ok::<(), corewheel::BuildError>(())
/// ```
impl rt::Timer for Timer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(Timer::sleep(self, duration).outlasting_shutdown())
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(Timer::sleep_until(self, deadline).outlasting_shutdown())
    }

    fn now(&self) -> Instant {
        Timer::now(self)
    }

    /// Re-arms in place.
    fn reset(&self, sleep: &mut Pin<Box<dyn rt::Sleep>>, new_deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<Sleep>() {
            Some(sleep) => sleep.reset(new_deadline),
            // Another timer's.
            None => *sleep = rt::Timer::sleep_until(self, new_deadline),
        }
    }
}

impl rt::Sleep for Sleep {}

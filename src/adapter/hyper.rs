//! hyper's timer trait: servers and clients take their timeouts from a [`Timer`].

use std::pin::Pin;
use std::ptr;
use std::time::{Duration, Instant};

use hyper::rt;

use crate::{Sleep, Timer};

/// The timer of hyper's and hyper-util's builders: `builder.timer(timer.clone())`, and `pool_timer` of hyper-util's
/// client.
///
/// A shutdown of the [`Timer`] does not complete these sleeps, as hyper takes the completion of a sleep for its
/// deadline, and would end connections. They are [sleeps after the shutdown](Sleep#after-the-shutdown) then: no thread
/// wakes a task at their deadline, and hyper continues without timeouts.
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

    /// Resets the sleep itself, without a new allocation. A sleep of another timer is replaced by one of this timer,
    /// which wakes no task before it is polled.
    fn reset(&self, sleep: &mut Pin<Box<dyn rt::Sleep>>, new_deadline: Instant) {
        let made = |sleep: &Sleep| self.0.shards.iter().any(|own| ptr::eq(&**own, sleep.shard()));
        match sleep.as_mut().downcast_mut_pin::<Sleep>() {
            Some(sleep) if made(&sleep) => sleep.reset(new_deadline),
            // A sleep of another timer, whose clock and lifetime may differ; or of another implementation.
            _ => *sleep = rt::Timer::sleep_until(self, new_deadline),
        }
    }
}

impl rt::Sleep for Sleep {}

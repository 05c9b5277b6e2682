//! tokio's `Sleep`, used from the workers of a runtime.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::{block_in_place, unconstrained};
use tokio::time::{Instant, Sleep, sleep};

use super::{Contender, poll};
use crate::harness::laps::cores;

/// How many threads of a benchmark can be workers. The others of the runtime are left to do what those never come to:
/// to wait for what is due.
const USERS: usize = 8;

/// A timer is a `Sleep` that has been polled once, by a waker that is the target. Its box is all that is allocated.
///
/// With `ALTERNATIVE` it is tokio's other timer, which a worker keeps for itself: `enable_alt_timer`. That exists only if
/// all is built with `--cfg tokio_unstable`.
pub struct TokioSleep<const ALTERNATIVE: bool = false>(Runtime);

impl<const ALTERNATIVE: bool> Contender for TokioSleep<ALTERNATIVE> {
    const NAME: &'static str = if ALTERNATIVE { "tokio-alternative" } else { "tokio" };
    type Handle = Pin<Box<Sleep>>;

    fn start() -> Self {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(cores() + USERS).enable_time();
        #[cfg(tokio_unstable)]
        if ALTERNATIVE {
            builder.enable_alt_timer();
        }
        Self(builder.build().expect("the runtime starts"))
    }

    fn schedule(&self, delay: Duration, target: Arc<impl Wake + Send + Sync + 'static>) -> Pin<Box<Sleep>> {
        let mut sleep = Box::pin(sleep(delay));
        poll(sleep.as_mut(), target);
        sleep
    }

    fn cancel(&self, sleep: Pin<Box<Sleep>>) -> Option<bool> {
        Some(!sleep.is_elapsed())
    }

    fn rearm(
        &self,
        sleep: &mut Pin<Box<Sleep>>,
        delay: Duration,
        target: &Arc<impl Wake + Send + Sync + 'static>,
    ) -> Option<bool> {
        let was_pending = !sleep.is_elapsed();
        if was_pending {
            sleep.as_mut().reset(Instant::now() + delay);
            if ALTERNATIVE {
                // It is no timer until it is polled again.
                poll(sleep.as_mut(), target.clone());
            }
        }
        Some(was_pending)
    }

    fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        // A task that does not yield would use up its budget, and then no `Sleep` registers.
        self.0.spawn(unconstrained(async { work() }));
    }

    fn wait<R>(&self, until: impl FnOnce() -> R) -> R {
        // A worker's own timers stand still while it does not come back, unless another takes them over.
        if ALTERNATIVE { block_in_place(until) } else { until() }
    }
}

//! tokio's `Sleep`, used from the workers of a runtime.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Wake;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::{block_in_place, unconstrained};
use tokio::time::{Instant, Sleep, sleep};

use super::interface::{Contender, boxed, poll};
use crate::harness::threads::cores;

/// Number of the runtime's workers that threads of a benchmark can occupy. The other workers drive the timers.
const USERS: usize = 8;

/// A timer is a `Sleep` that has been polled once, with the target as its waker. Its box is the only allocation.
///
/// With `ALTERNATIVE`, the runtime has tokio's other timer, `enable_alt_timer`, in which each worker keeps its own
/// timers. It exists only in builds with `--cfg tokio_unstable`.
///
/// With `OUTSIDE`, the users are threads of the program that have entered the runtime, so any number of them can block.
///
/// With `POLLED`, a sleep is polled after each reset, as in a `select!`.
pub struct TokioSleep<const ALTERNATIVE: bool = false, const OUTSIDE: bool = false, const POLLED: bool = false>(
    Runtime,
);

impl<const ALTERNATIVE: bool, const OUTSIDE: bool, const POLLED: bool> Contender
    for TokioSleep<ALTERNATIVE, OUTSIDE, POLLED>
{
    const NAME: &'static str = match (ALTERNATIVE, OUTSIDE, POLLED) {
        (true, ..) => "tokio-alternative",
        (false, true, true) => "tokio-outside-polled",
        (false, true, false) => "tokio-outside",
        (false, false, _) => "tokio",
    };
    type Handle = Pin<Box<Sleep>>;

    fn start() -> Self {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(if OUTSIDE { cores() } else { cores() + USERS }).enable_time();
        #[cfg(tokio_unstable)]
        if ALTERNATIVE {
            builder.enable_alt_timer();
        }
        Self(builder.build().expect("the runtime starts"))
    }

    fn schedule(&self, delay: Duration, target: Arc<impl Wake + Send + Sync + 'static>) -> Pin<Box<Sleep>> {
        boxed(sleep(delay), target)
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
        sleep.as_mut().reset(Instant::now() + delay);
        // The alternative registers its timer only then.
        if ALTERNATIVE || POLLED {
            poll(sleep.as_mut(), target.clone());
        }
        None
    }

    fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        if OUTSIDE {
            let runtime = self.0.handle().clone();
            thread::spawn(move || {
                let _context = runtime.enter();
                work();
            });
            return;
        }
        // A task that does not yield would exhaust its budget, and then no `Sleep` would register.
        self.0.spawn(unconstrained(async { work() }));
    }

    fn wait<R>(&self, until: impl FnOnce() -> R) -> R {
        // A blocked worker does not drive its own timers; `block_in_place` moves them to another worker.
        if ALTERNATIVE { block_in_place(until) } else { until() }
    }
}

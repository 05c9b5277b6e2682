//! The API of the crate `pingora-timeout` on corewheel's timers.
//!
//! | | pingora-timeout | here |
//! |---|---|---|
//! | when a timeout is over | at the next multiple of 10 ms | at the next of 1 ms, never early |
//! | a timeout that is not needed any more | stays until its deadline, with its waker | is cancelled when it is dropped |
//! | a long timeout | needs tokio's timer, because it would stay so long | is like any other |
//! | a thread | wakes every 10 ms | sleeps until something is due |
//!
//! As there, nothing is armed before the future has been pending once. No runtime is needed: every function uses
//! [`Timer::global`], which starts anew in a forked child.

pub mod fast_timeout;
pub mod timer;

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use corewheel::{Sleep, Timer};
use pin_project_lite::pin_project;

pub use fast_timeout::{fast_sleep as sleep, fast_timeout as timeout};

/// Makes the future that ends a [`Timeout`].
pub trait ToTimeout {
    /// Returns a future that completes once the time is over, counted from this call.
    fn timeout(&self) -> Pin<Box<dyn Future<Output = ()> + Send + Sync>>;
    /// Returns the timeout of this length.
    fn create(duration: Duration) -> Self;
}

/// Defines types that name a length of time, for the type parameter of [`Timeout`].
macro_rules! lengths {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        pub struct $name(std::time::Duration);

        impl $crate::ToTimeout for $name {
            fn timeout(&self) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + Sync>> {
                Box::pin($crate::sleep_for(self.0))
            }

            fn create(duration: std::time::Duration) -> Self {
                Self(duration)
            }
        }
    )*};
}
use lengths;

lengths! {
    /// The timeout of [`tokio_timeout`].
    TokioTimeout;
}

/// The time was over before the future was ready.
#[derive(Debug)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Timeout Elapsed")
    }
}

impl Error for Elapsed {}

/// Limits the time of a future. Keeps its name, though no timer of tokio is left.
pub fn tokio_timeout<T: Future>(duration: Duration, future: T) -> Timeout<T, TokioTimeout> {
    Timeout::new(duration, future)
}

pin_project! {
    /// A future with a limit of time. `F` is the function that made it.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct Timeout<T, F> {
        #[pin]
        value: T,
        // `None` until the value has been pending.
        delay: Option<Pin<Box<dyn Future<Output = ()> + Send + Sync>>>,
        length: F,
    }
}

impl<T: Future, F: ToTimeout> Timeout<T, F> {
    fn new(duration: Duration, value: T) -> Self {
        Self { value, delay: None, length: F::create(duration) }
    }
}

impl<T: Future, F: ToTimeout> Future for Timeout<T, F> {
    type Output = Result<T::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(output) = this.value.poll(context) {
            return Poll::Ready(Ok(output));
        }
        ready!(this.delay.get_or_insert_with(|| this.length.timeout()).as_mut().poll(context));
        Poll::Ready(Err(Elapsed))
    }
}

/// Returns a sleep on the timer that all functions use.
fn sleep_for(duration: Duration) -> Sleep {
    Timer::global().sleep(duration)
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::time::Instant;

    use futures::executor::block_on;

    use super::*;

    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(3_600);

    #[test]
    fn a_future_that_takes_too_long_is_elapsed_and_not_early() {
        let begun = Instant::now();
        assert!(block_on(timeout(SHORT, pending::<()>())).is_err());
        assert!(block_on(tokio_timeout(SHORT, pending::<()>())).is_err());
        assert!(begun.elapsed() >= 2 * SHORT);
    }

    #[test]
    fn a_future_that_is_ready_arms_no_timer() {
        let before = Timer::global().stats().scheduled;
        assert_eq!(block_on(timeout(LONG, ready(1))).unwrap(), 1);
        assert_eq!(Timer::global().stats().scheduled, before);
    }

    #[test]
    fn a_timeout_that_is_dropped_leaves_no_timer() {
        let begun = Instant::now();
        block_on(async {
            let mut limited = Box::pin(timeout(LONG, pending::<()>()));
            assert!(futures::poll!(&mut limited).is_pending());
        });
        // The timers of other tests are short.
        while !Timer::global().is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(20), "the timer of an hour is left");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_sleep_and_a_registered_timer_take_their_time() {
        let begun = Instant::now();
        block_on(sleep(SHORT));
        assert!(begun.elapsed() >= SHORT);
        let stub = timer::TimerManager::new().register_timer(SHORT);
        block_on(stub.poll());
        assert!(begun.elapsed() >= 2 * SHORT);
    }
}

//! A future that gives up at a deadline.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::Sleep;

pin_project! {
    /// Another future, until a deadline: what [`Timer::timeout`](crate::Timer::timeout) and
    /// [`Timer::timeout_at`](crate::Timer::timeout_at) return.
    ///
    /// The other future is polled first, so that one that is ready is never timed out. When the service is shut down, the
    /// timeout ends at once with an [`Elapsed`] whose [`is_shutdown`](Elapsed::is_shutdown) is true. One that is made
    /// after that, or whose deadline has passed, gives way to other tasks as a [`Sleep`](Sleep#loops) does: its future is
    /// polled once more then.
    ///
    /// ```
    /// use corewheel::Timer;
    /// use std::future;
    /// use std::time::Duration;
    ///
    /// let timer = Timer::new()?;
    /// let answer = timer.timeout(Duration::from_millis(20), future::pending::<u8>());
    /// assert!(futures::executor::block_on(answer).is_err());
    /// let answer = timer.timeout(Duration::from_millis(20), future::ready(7));
    /// assert_eq!(futures::executor::block_on(answer), Ok(7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[derive(Debug)]
    #[must_use = "a timeout does nothing unless it is polled"]
    pub struct Timeout<F> {
        #[pin]
        future: F,
        sleep: Sleep,
    }
}

impl<F> Timeout<F> {
    pub(crate) fn new(future: F, sleep: Sleep) -> Self {
        Self { future, sleep }
    }

    /// The future.
    pub fn get_ref(&self) -> &F {
        &self.future
    }

    /// The future.
    pub fn get_mut(&mut self) -> &mut F {
        &mut self.future
    }

    /// The future, without the deadline.
    pub fn into_inner(self) -> F {
        self.future
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(output) = this.future.poll(context) {
            return Poll::Ready(Ok(output));
        }
        ready!(Pin::new(&mut *this.sleep).poll(context));
        Poll::Ready(Err(Elapsed { shutdown: this.sleep.is_shutdown() }))
    }
}

/// The deadline of a [`Timeout`] came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed {
    shutdown: bool,
}

impl Elapsed {
    /// Whether it did not come, but the [`Timer`](crate::Timer) was shut down.
    pub fn is_shutdown(&self) -> bool {
        self.shutdown
    }
}

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.shutdown {
            "the timer was shut down before the future was ready or its deadline came"
        } else {
            "the deadline came before the future was ready"
        })
    }
}

impl Error for Elapsed {}

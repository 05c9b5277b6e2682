//! The future that gives another future until a deadline.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::Sleep;

pin_project! {
    /// A future that awaits another future until a deadline.
    ///
    /// [`Timer::timeout`](crate::Timer::timeout) and [`Timer::timeout_at`](crate::Timer::timeout_at) return it. Each
    /// poll polls the other future first, so a future that is ready is never timed out.
    ///
    /// When the service is shut down, the timeout completes at once with an [`Elapsed`] whose
    /// [`is_shutdown`](Elapsed::is_shutdown) is true. A timeout that is created later has no deadline: it completes with
    /// its future. One that is created after its deadline gives way to other tasks as a [`Sleep`](Sleep#loops) does. Its
    /// future is then polled once more.
    ///
    /// ```
    /// use corewheel::Timer;
    /// use std::future;
    /// use std::time::Duration;
    ///
    /// let timer = Timer::new()?;
    /// # futures::executor::block_on(async {
    /// assert_eq!(timer.timeout(Duration::from_millis(5), future::ready(7)).await, Ok(7));
    /// assert!(timer.timeout(Duration::from_millis(5), future::pending::<u8>()).await.is_err());
    /// # });
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

    /// Returns a reference to the future.
    ///
    /// ```
    /// let timer = corewheel::Timer::new()?;
    /// use std::{future, time::Duration};
    /// let timeout = timer.timeout(Duration::from_secs(1), future::ready(7));
    /// println!("waiting for {:?}", timeout.get_ref());
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn get_ref(&self) -> &F {
        &self.future
    }

    /// Returns a mutable reference to the future.
    ///
    /// ```
    /// let timer = corewheel::Timer::new()?;
    /// use std::{future, time::Duration};
    /// let mut timeout = timer.timeout(Duration::from_secs(1), future::ready(7));
    /// *timeout.get_mut() = future::ready(8);
    /// assert_eq!(futures::executor::block_on(timeout), Ok(8));
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn get_mut(&mut self) -> &mut F {
        &mut self.future
    }

    /// Returns the future, without the deadline.
    ///
    /// ```
    /// let timer = corewheel::Timer::new()?;
    /// use std::{future, time::Duration};
    /// let timeout = timer.timeout(Duration::from_secs(1), future::ready(7));
    /// assert_eq!(futures::executor::block_on(timeout.into_inner()), 7);
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
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
        ready!(this.sleep.poll_served(context));
        Poll::Ready(Err(Elapsed { shutdown: this.sleep.is_shutdown() }))
    }
}

/// The error of a [`Timeout`]: its deadline, or a shutdown, came before its future was ready.
///
/// ```
/// let timer = corewheel::Timer::new()?;
/// use std::{future, time::Duration};
/// let timeout = timer.timeout(Duration::from_millis(1), future::pending::<()>());
/// let elapsed = futures::executor::block_on(timeout).unwrap_err();
/// assert_eq!(elapsed.to_string(), "the deadline came before the future was ready");
/// # Ok::<(), corewheel::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed {
    shutdown: bool,
}

impl Elapsed {
    /// Returns whether the [`Timer`](crate::Timer) was shut down before the deadline.
    ///
    /// ```
    /// let timer = corewheel::Timer::new()?;
    /// use std::{future, time::Duration};
    /// let timeout = timer.timeout(Duration::from_secs(3600), future::pending::<()>());
    /// timer.shutdown();
    /// assert!(futures::executor::block_on(timeout).unwrap_err().is_shutdown());
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
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

/// Returns an error of the kind [`TimedOut`](io::ErrorKind::TimedOut), whose inner error is the `Elapsed`. So `?`
/// works in functions that return an [`io::Result`].
///
/// ```
/// let timer = corewheel::Timer::new()?;
/// use std::{future, io, time::Duration};
///
/// let read = async {
///     timer.timeout(Duration::from_millis(1), future::pending::<()>()).await?;
///     io::Result::Ok(())
/// };
/// let error = futures::executor::block_on(read).unwrap_err();
/// assert_eq!(error.kind(), io::ErrorKind::TimedOut);
/// # Ok::<(), corewheel::BuildError>(())
/// ```
impl From<Elapsed> for io::Error {
    fn from(elapsed: Elapsed) -> io::Error {
        io::Error::new(io::ErrorKind::TimedOut, elapsed)
    }
}

//! Why a timer was refused.

use std::error::Error;
use std::fmt;
use std::io;

/// The error of [`Timer::schedule`](crate::Timer::schedule) and its siblings, and of
/// [`DelayQueue::push`](crate::DelayQueue::push). It returns the closure, which has been neither run nor dropped, or
/// the value.
///
/// ```
/// use corewheel::{ScheduleError, Timer};
/// use std::time::Duration;
/// let timer = Timer::new()?;
/// timer.shutdown();
/// match timer.schedule(Duration::from_secs(1), || println!("saved")) {
///     Ok(_handle) => {}
///     Err(ScheduleError::Shutdown(save)) => save(), // now or never
///     Err(other) => eprintln!("{other}"),
/// }
/// # Ok::<(), corewheel::BuildError>(())
/// ```
#[non_exhaustive]
pub enum ScheduleError<F> {
    /// The [`Timer`](crate::Timer) has been shut down, or the [`DelayQueue`](crate::DelayQueue) was closed.
    Shutdown(F),
    /// [`max_pending`](crate::Builder::max_pending) timers are pending.
    Full(F),
    /// The period of a [fixed rate](crate::Timer::schedule_at_fixed_rate) is zero.
    ZeroPeriod(F),
    /// The system has no memory for another timer. Pending timers are not affected. Without memory for a boxed closure,
    /// the process ends instead.
    OutOfMemory(F),
}

impl<F> ScheduleError<F> {
    /// Returns the closure.
    ///
    /// ```
    /// use corewheel::Timer;
    /// use std::time::Duration;
    /// let timer = Timer::new()?;
    /// timer.shutdown();
    /// if let Err(refused) = timer.schedule(Duration::from_secs(1), || println!("saved")) {
    ///     let save = refused.into_inner();
    ///     save();
    /// }
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn into_inner(self) -> F {
        match self {
            Self::Shutdown(f) | Self::Full(f) | Self::ZeroPeriod(f) | Self::OutOfMemory(f) => f,
        }
    }

    /// Returns whether [`max_pending`](crate::Builder::max_pending) is the reason.
    ///
    /// ```
    /// use corewheel::Timer;
    /// use std::time::Duration;
    /// let timer = Timer::builder().max_pending(0).build()?;
    /// assert!(timer.schedule(Duration::from_secs(1), || ()).unwrap_err().is_full());
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full(_))
    }

    /// Returns whether the shutdown of the service, or the [close](crate::DelayQueue::close) of the queue, is the
    /// reason.
    ///
    /// ```
    /// use corewheel::Timer;
    /// use std::time::Duration;
    /// let timer = Timer::new()?;
    /// timer.shutdown();
    /// assert!(timer.schedule(Duration::from_secs(1), || ()).unwrap_err().is_shutdown());
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn is_shutdown(&self) -> bool {
        matches!(self, Self::Shutdown(_))
    }

    /// Drops the closure, and returns the reason alone. The result has a type that a function can name.
    ///
    /// ```
    /// use corewheel::{ScheduleError, Timer, TimerHandle};
    /// use std::time::Duration;
    ///
    /// fn watch(timer: &Timer, name: String) -> Result<TimerHandle, ScheduleError<()>> {
    ///     let late = move || eprintln!("{name} takes long");
    ///     timer.schedule(Duration::from_secs(5), late).map_err(ScheduleError::without_closure)
    /// }
    /// assert!(watch(&Timer::new()?, "startup".to_owned())?.cancel());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn without_closure(self) -> ScheduleError<()> {
        self.map(drop)
    }

    /// Returns the same reason with the converted closure.
    #[cold]
    pub(crate) fn map<G>(self, convert: impl FnOnce(F) -> G) -> ScheduleError<G> {
        match self {
            Self::Shutdown(f) => ScheduleError::Shutdown(convert(f)),
            Self::Full(f) => ScheduleError::Full(convert(f)),
            Self::ZeroPeriod(f) => ScheduleError::ZeroPeriod(convert(f)),
            Self::OutOfMemory(f) => ScheduleError::OutOfMemory(convert(f)),
        }
    }
}

impl<F> fmt::Debug for ScheduleError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shutdown(_) => "Shutdown(..)",
            Self::Full(_) => "Full(..)",
            Self::ZeroPeriod(_) => "ZeroPeriod(..)",
            Self::OutOfMemory(_) => "OutOfMemory(..)",
        })
    }
}

impl<F> fmt::Display for ScheduleError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shutdown(_) => {
                "the timer has been shut down, or the queue was closed: schedule or push before that, or build a new one"
            }
            Self::Full(_) => "too many timers are pending: cancel some, wait, or raise `max_pending`",
            Self::ZeroPeriod(_) => "a period of zero: give a longer one, or use `schedule_with_fixed_delay`",
            Self::OutOfMemory(_) => "the system has no memory for another timer: cancel some, or raise its limit",
        })
    }
}

impl<F> Error for ScheduleError<F> {}

/// Drops the closure. The inner error of the result is the `ScheduleError<()>`, and its kind follows from the reason:
///
/// | reason        | kind                                             |
/// |---------------|--------------------------------------------------|
/// | `Shutdown`    | [`BrokenPipe`](io::ErrorKind::BrokenPipe)        |
/// | `Full`        | [`QuotaExceeded`](io::ErrorKind::QuotaExceeded)  |
/// | `ZeroPeriod`  | [`InvalidInput`](io::ErrorKind::InvalidInput)    |
/// | `OutOfMemory` | [`OutOfMemory`](io::ErrorKind::OutOfMemory)      |
///
/// ```
/// use corewheel::{Timer, TimerHandle};
/// use std::{io, time::Duration};
///
/// fn watch(timer: &Timer) -> io::Result<TimerHandle> {
///     Ok(timer.schedule(Duration::from_secs(5), || eprintln!("the start takes long"))?)
/// }
/// let timer = Timer::new()?;
/// timer.shutdown();
/// let refused = watch(&timer).unwrap_err();
/// assert_eq!(refused.kind(), io::ErrorKind::BrokenPipe);
/// # Ok::<(), corewheel::BuildError>(())
/// ```
impl<F> From<ScheduleError<F>> for io::Error {
    fn from(error: ScheduleError<F>) -> Self {
        let kind = match error {
            ScheduleError::Shutdown(_) => io::ErrorKind::BrokenPipe,
            ScheduleError::Full(_) => io::ErrorKind::QuotaExceeded,
            ScheduleError::ZeroPeriod(_) => io::ErrorKind::InvalidInput,
            ScheduleError::OutOfMemory(_) => io::ErrorKind::OutOfMemory,
        };
        io::Error::new(kind, error.without_closure())
    }
}

//! Why a timer was refused.

use std::error::Error;
use std::fmt;
use std::io;

/// The error of [`Timer::schedule`](crate::Timer::schedule) and its siblings, and of
/// [`DelayQueue::push`](crate::DelayQueue::push). It returns the closure, which has been neither run nor dropped, or
/// the value.
///
/// ```
/// use corewheel::{ScheduleErrorKind, Timer};
/// use std::time::Duration;
/// let timer = Timer::new()?;
/// timer.shutdown();
/// match timer.schedule(Duration::from_secs(1), || println!("saved")) {
///     Ok(_handle) => {}
///     Err(refused) if refused.kind() == ScheduleErrorKind::Shutdown => refused.into_inner()(), // now or never
///     Err(other) => eprintln!("{other}"),
/// }
/// # Ok::<(), corewheel::BuildError>(())
/// ```
///
/// # With `?`
///
/// The error is `Sync` for every closure, and `Send` for those that [`schedule`](crate::Timer::schedule) accepts. So `?`
/// converts it into an `anyhow::Error` or a `Box<dyn Error + Send + Sync>`, whatever the closure captures. That error then
/// owns the closure; a conversion into an [`io::Error`] drops it.
///
/// ```
/// use corewheel::Timer;
/// use std::{error::Error, sync::mpsc, time::Duration};
/// fn start(timer: &Timer) -> Result<(), Box<dyn Error + Send + Sync>> {
///     let (_sender, receiver) = mpsc::channel::<()>(); // the receiver is not `Sync`
///     timer.schedule(Duration::from_secs(1), move || _ = receiver.recv())?;
///     Ok(())
/// }
/// start(&Timer::new()?)?;
/// # Ok::<(), Box<dyn Error + Send + Sync>>(())
/// ```
///
/// It is not `Send` for a closure that is not:
///
/// ```compile_fail,E0277
/// fn is_send<T: Send>() {}
/// is_send::<corewheel::ScheduleError<std::rc::Rc<()>>>();
/// ```
pub struct ScheduleError<F> {
    kind: ScheduleErrorKind,
    /// The closure, or the value of a queue. No method may give out a reference to it: see `Sync` below.
    refused: F,
}

/// Why a timer was refused: see [`ScheduleError::kind`].
///
/// ```
/// use corewheel::{ScheduleErrorKind, Timer};
/// use std::time::Duration;
/// let error = Timer::new()?.schedule_at_fixed_rate(Duration::ZERO, Duration::ZERO, || ()).unwrap_err();
/// assert_eq!(error.kind(), ScheduleErrorKind::ZeroPeriod);
/// # Ok::<(), corewheel::BuildError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ScheduleErrorKind {
    /// The [`Timer`](crate::Timer) has been shut down, or the [`DelayQueue`](crate::DelayQueue) was closed.
    Shutdown,
    /// [`max_pending`](crate::Builder::max_pending) timers are pending.
    Full,
    /// The period of a [fixed rate](crate::Timer::schedule_at_fixed_rate) is zero.
    ZeroPeriod,
    /// The system has no memory for another timer. Pending timers are not affected. Without memory for a boxed closure,
    /// the process ends instead.
    OutOfMemory,
}

impl<F> ScheduleError<F> {
    pub(crate) fn new(kind: ScheduleErrorKind, refused: F) -> Self {
        Self { kind, refused }
    }

    /// Returns why the timer was refused.
    ///
    /// ```
    /// use corewheel::{ScheduleErrorKind, Timer};
    /// use std::time::Duration;
    /// let timer = Timer::builder().max_pending(0).build()?;
    /// let refused = timer.schedule(Duration::from_secs(1), || ()).unwrap_err();
    /// assert_eq!(refused.kind(), ScheduleErrorKind::Full);
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn kind(&self) -> ScheduleErrorKind {
        self.kind
    }

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
        self.refused
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
        self.kind == ScheduleErrorKind::Full
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
        self.kind == ScheduleErrorKind::Shutdown
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
        ScheduleError::new(self.kind, convert(self.refused))
    }
}

// SAFETY: no thread can use the `F` by a reference to the error, because no safe function gives out a reference to it, and
// the traits below read the kind alone. What gives out the `F` itself takes the error, which needs `F: Send` to change its
// thread.
unsafe impl<F> Sync for ScheduleError<F> {}

impl<F> fmt::Debug for ScheduleError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScheduleError").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl<F> fmt::Display for ScheduleError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            ScheduleErrorKind::Shutdown => {
                "the timer has been shut down, or the queue was closed: schedule or push before that, or build a new one"
            }
            ScheduleErrorKind::Full => "too many timers are pending: cancel some, wait, or raise `max_pending`",
            ScheduleErrorKind::ZeroPeriod => "a period of zero: give a longer one, or use `schedule_with_fixed_delay`",
            ScheduleErrorKind::OutOfMemory => "the system has no memory for another timer: cancel some, or raise its limit",
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
        let kind = match error.kind {
            ScheduleErrorKind::Shutdown => io::ErrorKind::BrokenPipe,
            ScheduleErrorKind::Full => io::ErrorKind::QuotaExceeded,
            ScheduleErrorKind::ZeroPeriod => io::ErrorKind::InvalidInput,
            ScheduleErrorKind::OutOfMemory => io::ErrorKind::OutOfMemory,
        };
        io::Error::new(kind, error.without_closure())
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn errors_convert_to_io_errors_that_keep_the_reason() {
        // Neither `Send` nor `'static`: the closure is dropped.
        let number = Rc::new(1);
        let borrowed = &number;
        for (kind, expected) in [
            (ScheduleErrorKind::Shutdown, io::ErrorKind::BrokenPipe),
            (ScheduleErrorKind::Full, io::ErrorKind::QuotaExceeded),
            (ScheduleErrorKind::ZeroPeriod, io::ErrorKind::InvalidInput),
            (ScheduleErrorKind::OutOfMemory, io::ErrorKind::OutOfMemory),
        ] {
            let error = ScheduleError::new(kind, || assert_eq!(**borrowed, 1));
            let text = error.to_string();
            let error = io::Error::from(error);
            let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<ScheduleError<()>>()).unwrap();
            assert_eq!((error.to_string(), inner.to_string()), (text.clone(), text));
            assert_eq!((error.kind(), inner.kind()), (expected, kind));
        }
    }
}

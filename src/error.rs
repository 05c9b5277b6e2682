//! Errors, each with a message that says what to change.

use std::error::Error;
use std::time::Duration;
use std::{fmt, io};

/// The error of [`Builder::build`](crate::Builder::build) and of [`Wheel::with_levels`](crate::Wheel::with_levels).
///
/// Its message says what to change.
///
/// ```
/// use corewheel::{BuildError, Timer};
/// use std::time::Duration;
///
/// let error = Timer::builder().tick(Duration::ZERO).build().unwrap_err();
/// assert!(matches!(error, BuildError::TickTooShort(_)));
/// assert_eq!(error.to_string(), "a tick of 0ns is too short: give `tick` at least 1µs");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// The [tick](crate::Builder::tick) is shorter than 1 µs.
    TickTooShort(Duration),
    /// The number of [shards](crate::Builder::shards) is 0.
    NoShards,
    /// The list of slots per [level](crate::Builder::wheel) is empty.
    NoLevels,
    /// A level has fewer than 2 slots.
    TooFewSlots {
        /// The index of the level; 0 is the finest.
        level: usize,
        /// The number of slots it was given.
        slots: usize,
    },
    /// A level has more than 2^24 slots.
    TooManySlots {
        /// The index of the level; 0 is the finest.
        level: usize,
        /// The number of slots it was given.
        slots: usize,
    },
    /// [`Executor::Pool`](crate::Executor::Pool) has no threads.
    NoPoolThreads,
    /// The [thread name](crate::Builder::thread_name) contains a NUL character, here with it.
    NulInThreadName(String),
    /// The system refused a thread, with this error. Threads that were started before it have ended again.
    ThreadStart(io::Error),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TickTooShort(tick) => write!(f, "a tick of {tick:?} is too short: give `tick` at least 1µs"),
            Self::NoShards => f.write_str("no shards: give `shards` at least 1"),
            Self::NoLevels => f.write_str("no levels: give the wheel the slots of at least one level"),
            Self::TooFewSlots { level, slots } => {
                write!(f, "level {level} has {slots} slots: give every level at least 2")
            }
            Self::TooManySlots { level, slots } => {
                write!(f, "level {level} has {slots} slots: give every level at most 16777216 (2^24)")
            }
            Self::NoPoolThreads => {
                f.write_str("a pool of no threads: give `Executor::Pool` at least 1, or use `Executor::Inline`")
            }
            Self::NulInThreadName(name) => {
                write!(f, "the thread name {name:?} contains a NUL character: give `thread_name` one without")
            }
            Self::ThreadStart(_) => f.write_str(
                "a thread could not be started: raise the limit on threads or memory, \
                 or ask for fewer shards and pool threads",
            ),
        }
    }
}

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::ThreadStart(cause) => Some(cause),
            _ => None,
        }
    }
}

/// The error of [`Timer::schedule`](crate::Timer::schedule) and its siblings, and of
/// [`DelayQueue::push`](crate::DelayQueue::push). It returns the closure, which has been neither run nor dropped, or the
/// value.
///
/// ```
/// # use corewheel::{ScheduleError, Timer};
/// # use std::time::Duration;
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
    /// The [`Timer`](crate::Timer) has been shut down.
    Shutdown(F),
    /// [`max_pending`](crate::Builder::max_pending) timers are pending.
    Full(F),
    /// The period of a [fixed rate](crate::Timer::schedule_at_fixed_rate) is zero.
    ZeroPeriod(F),
    /// The system has no memory for another timer. Pending timers are not affected.
    OutOfMemory(F),
}

/// The reason for which a timer was rejected, without its closure. It is as wide as a pointer, so that a `Result` with
/// a handle is returned in registers.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(crate) enum Rejection {
    Shutdown,
    Full,
    OutOfMemory,
}

impl Rejection {
    /// Adds the closure.
    #[cold]
    pub(crate) fn with<F>(self, f: F) -> ScheduleError<F> {
        match self {
            Self::Shutdown => ScheduleError::Shutdown(f),
            Self::Full => ScheduleError::Full(f),
            Self::OutOfMemory => ScheduleError::OutOfMemory(f),
        }
    }
}

impl<F> ScheduleError<F> {
    /// Returns the closure.
    ///
    /// ```
    /// # use corewheel::Timer;
    /// # use std::time::Duration;
    /// # let timer = Timer::new()?;
    /// # timer.shutdown();
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
    /// # use corewheel::Timer;
    /// # use std::time::Duration;
    /// let timer = Timer::builder().max_pending(0).build()?;
    /// assert!(timer.schedule(Duration::from_secs(1), || ()).unwrap_err().is_full());
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full(_))
    }

    /// Returns whether the shutdown of the timer is the reason.
    ///
    /// ```
    /// # use corewheel::Timer;
    /// # use std::time::Duration;
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
    /// # assert!(watch(&Timer::new()?, "startup".to_owned())?.cancel());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn without_closure(self) -> ScheduleError<()> {
        self.map(drop)
    }

    /// Returns the same reason with the converted closure.
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
            Self::Shutdown(_) => "the timer has been shut down: schedule before `shutdown`, or build a new `Timer`",
            Self::Full(_) => "too many timers are pending: cancel some, wait, or raise `max_pending`",
            Self::ZeroPeriod(_) => "a period of zero: give a longer one, or use `schedule_with_fixed_delay`",
            Self::OutOfMemory(_) => "the system has no memory for another timer: cancel some, or raise its limit",
        })
    }
}

impl<F> Error for ScheduleError<F> {}

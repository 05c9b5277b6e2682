//! What can go wrong, said so that the reader knows what to change.

use std::error::Error;
use std::time::Duration;
use std::{fmt, io};

/// Why a [`Builder`](crate::Builder) could not build a [`Timer`](crate::Timer), or
/// [`Wheel::with_levels`](crate::Wheel::with_levels) a wheel.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// The tick is zero, or shorter than the 1 µs that is the least.
    TickTooShort(Duration),
    /// No shard was asked for; one is the least.
    NoShards,
    /// The list of slots per level is empty; one level is the least.
    NoLevels,
    /// A level has fewer than 2 slots: it could never hold a timer.
    TooFewSlots {
        /// The level, counted from 0, the finest.
        level: usize,
        /// The slots it was given.
        slots: usize,
    },
    /// A level has more slots than the 2^24 a level can address.
    TooManySlots {
        /// The level, counted from 0, the finest.
        level: usize,
        /// The slots it was given.
        slots: usize,
    },
    /// [`Executor::Pool`](crate::Executor::Pool) was given no threads.
    NoPoolThreads,
    /// A thread could not be started. Every thread started before it has ended again.
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

/// Why a timer was not accepted. It carries the closure, which nobody has run or dropped.
#[non_exhaustive]
pub enum ScheduleError<F> {
    /// The [`Timer`](crate::Timer) has been shut down.
    Shutdown(F),
    /// [`max_pending`](crate::Builder::max_pending) timers are pending already.
    Full(F),
    /// A fixed rate needs a period longer than zero.
    ZeroPeriod(F),
    /// The system has no memory for another timer. Those that there are go on.
    OutOfMemory(F),
}

/// Why a timer was rejected, without its closure. As wide as a pointer, so that a result that is a handle otherwise is
/// returned in registers.
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
    /// The closure that was refused.
    pub fn into_inner(self) -> F {
        match self {
            Self::Shutdown(f) | Self::Full(f) | Self::ZeroPeriod(f) | Self::OutOfMemory(f) => f,
        }
    }

    /// Whether [`max_pending`](crate::Builder::max_pending) was the reason.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full(_))
    }

    /// Whether the timer's shutdown was the reason.
    pub fn is_shutdown(&self) -> bool {
        matches!(self, Self::Shutdown(_))
    }

    /// The reason alone; the closure is dropped.
    pub fn without_closure(self) -> ScheduleError<()> {
        self.map(drop)
    }

    /// The same reason around what `convert` makes of the closure.
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

//! Errors, each with a message that says what to change: here [`BuildError`], of a timer or a wheel that could not be built,
//! and in `schedule` [`ScheduleError`], of a timer that was refused.

#[cfg(feature = "std")]
mod schedule;

use core::error::Error;
use core::fmt;
use core::time::Duration;
#[cfg(feature = "std")]
use std::io;

#[cfg(feature = "std")]
pub use self::schedule::{ScheduleError, ScheduleErrorKind};

/// The error of [`Wheel::with_levels`](crate::Wheel::with_levels) and of [`Builder::build`](crate::Builder::build).
///
/// Its message says what to change. Without the feature `std`, only the variants of a wheel occur.
///
/// ```
/// use corewheel::{BuildError, Wheel};
///
/// let error = Wheel::<()>::with_levels(0, &[60, 1]).unwrap_err();
/// assert!(matches!(error, BuildError::TooFewSlots { level: 1, slots: 1 }));
/// assert_eq!(error.to_string(), "level 1 has 1 slots: give every level at least 2");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// The [tick](crate::Builder::tick) is shorter than 1 µs.
    TickTooShort(Duration),
    /// The number of [shards](crate::Builder::shards) is 0.
    NoShards,
    /// The number of [shards](crate::Builder::shards) is over 65,536.
    TooManyShards(usize),
    /// The list of slots per [level](crate::Wheel::with_levels) is empty.
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
    NulInThreadName(alloc::string::String),
    /// The system refused a thread, with this error. Threads that were started before it have ended again.
    #[cfg(feature = "std")]
    ThreadStart(io::Error),
    /// The system refused the memory of the shards or of the list of pool threads, with this error.
    /// [`build`](crate::Builder::build) says when the process ends instead.
    #[cfg(feature = "std")]
    OutOfMemory(io::Error),
    /// The timer of the whole process exists already: see [`Builder::build_global`](crate::Builder::build_global).
    GlobalExists,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TickTooShort(tick) => write!(f, "a tick of {tick:?} is too short: give `tick` at least 1µs"),
            Self::NoShards => f.write_str("no shards: give `shards` at least 1"),
            Self::TooManyShards(shards) => write!(f, "{shards} shards are too many: give `shards` at most 65536"),
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
            #[cfg(feature = "std")]
            Self::ThreadStart(_) => f.write_str(
                "a thread could not be started: raise the limit on threads or memory, \
                 or ask for fewer shards and pool threads",
            ),
            #[cfg(feature = "std")]
            Self::OutOfMemory(_) => f.write_str(
                "no memory for the shards or the pool: raise the limit on memory, \
                 or ask for fewer shards and pool threads",
            ),
            Self::GlobalExists => f.write_str(
                "the global timer exists already: call `build_global` once, before any use of `Timer::global` or \
                 `corewheel::time`",
            ),
        }
    }
}

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            #[cfg(feature = "std")]
            Self::ThreadStart(cause) | Self::OutOfMemory(cause) => Some(cause),
            _ => None,
        }
    }
}

/// The inner error of the result is the `BuildError`. Its kind is that of the system's error if the system refused a
/// thread or memory, [`AlreadyExists`](io::ErrorKind::AlreadyExists) if the global timer exists, and otherwise
/// [`InvalidInput`](io::ErrorKind::InvalidInput).
///
/// ```
/// use corewheel::Timer;
/// use std::io;
///
/// fn start(shards: usize) -> io::Result<Timer> {
///     Ok(Timer::builder().shards(shards).build()?)
/// }
/// assert_eq!(start(0).unwrap_err().kind(), io::ErrorKind::InvalidInput);
/// ```
#[cfg(feature = "std")]
impl From<BuildError> for io::Error {
    fn from(error: BuildError) -> Self {
        let kind = match &error {
            BuildError::ThreadStart(cause) | BuildError::OutOfMemory(cause) => cause.kind(),
            BuildError::GlobalExists => io::ErrorKind::AlreadyExists,
            _ => io::ErrorKind::InvalidInput,
        };
        io::Error::new(kind, error)
    }
}

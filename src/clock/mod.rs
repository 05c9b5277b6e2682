//! Time: whose it is, and how it is counted.
//!
//! | file        | concern                                                         |
//! |-------------|-----------------------------------------------------------------|
//! | `ticks`     | time in ticks since a timer's birth                             |
//! | `manual`    | virtual time                                                    |
//! | `quiescence` | how virtual time waits for the drivers                         |
//! | `reckoning` | the present without a look at the clock, never early            |
//! | `pace`      | how much time the counts of a counter can be                    |
//! | `counter`   | the counter                                                     |

mod counter;
#[cfg(test)]
mod machine;
mod manual;
mod pace;
pub(crate) mod quiescence;
mod reckoning;
mod ticks;

use std::cell::Cell;
use std::sync::OnceLock;
use std::time::Instant;

use counter::Processor;
pub use manual::ManualClock;
pub(crate) use manual::{OnClock, Pinned, Registration};
pub(crate) use quiescence::{Quiesce, Quiescence, Quiet};
pub(crate) use reckoning::Present;
use reckoning::{Fix, Reckoning};
pub(crate) use ticks::{Asked, Due, NEVER, Ticks, UNKNOWN};

/// What a timer reads the time from.
#[derive(Clone, Debug)]
pub(crate) enum Clock {
    /// `Instant::now`.
    System(SystemClock),
    /// Virtual time.
    Manual(ManualClock),
}

/// `Instant::now`, and what can stand in for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SystemClock(Option<&'static Reckoning<Processor>>);

thread_local! {
    static LAST: Cell<Option<Fix>> = const { Cell::new(None) };
}

impl Clock {
    /// The clock of the system. The first call in a process takes a third of a millisecond.
    pub(crate) fn system() -> Self {
        static RECKONING: OnceLock<Option<Reckoning<Processor>>> = OnceLock::new();
        Self::System(SystemClock(RECKONING.get_or_init(|| Processor::find().and_then(Reckoning::new)).as_ref()))
    }

    /// The present.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        match self {
            Self::System(_) => Instant::now(),
            Self::Manual(clock) => clock.now(),
        }
    }

    /// How many nanoseconds `instant` is on the scale of [`about`](Self::about).
    pub(crate) fn nanos(&self, instant: Instant) -> Option<u64> {
        match self {
            Self::System(SystemClock(Some(reckoning))) => Some(reckoning.nanos(instant)),
            _ => None,
        }
    }

    /// Between which instants the present is, in nanoseconds: cheaper than [`now`](Self::now), and so close, some
    /// microseconds, that a deadline can be counted from it. `None` if only `now` can tell.
    #[inline(always)]
    pub(crate) fn about(&self) -> Option<Present> {
        let Self::System(SystemClock(Some(reckoning))) = self else { return None };
        Some(LAST.with(|last| reckoning.present(last)))
    }

    /// The present on this scale, give or take some microseconds: cheaper still.
    #[inline]
    pub(crate) fn roughly(&self) -> Option<u64> {
        let Self::System(SystemClock(Some(reckoning))) = self else { return None };
        Some(LAST.with(|last| reckoning.likely(last)))
    }
}

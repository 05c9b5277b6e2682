//! What a timer reads the time from.

use std::cell::Cell;
use std::sync::OnceLock;
use std::time::Instant;

use super::counter::Processor;
use super::manual::ManualClock;
use super::tsc_clock::{Anchor, Bounds, TscClock};

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
pub(crate) struct SystemClock(Option<&'static TscClock<Processor>>);

thread_local! {
    static LAST: Cell<Option<Anchor>> = const { Cell::new(None) };
}

impl Clock {
    /// The clock of the system. The first call in a process takes a third of a millisecond.
    pub(crate) fn system() -> Self {
        static TSC_CLOCK: OnceLock<Option<TscClock<Processor>>> = OnceLock::new();
        Self::System(SystemClock(TSC_CLOCK.get_or_init(|| Processor::find().and_then(TscClock::new)).as_ref()))
    }

    /// The present.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        match self {
            Self::System(_) => Instant::now(),
            Self::Manual(clock) => clock.now(),
        }
    }

    /// How many nanoseconds `instant` is on the scale of [`bounds`](Self::bounds).
    pub(crate) fn nanos(&self, instant: Instant) -> Option<u64> {
        match self {
            Self::System(SystemClock(Some(tsc_clock))) => Some(tsc_clock.nanos(instant)),
            _ => None,
        }
    }

    /// Between which instants the present is, in nanoseconds: cheaper than [`now`](Self::now), and so close, some
    /// microseconds, that a deadline can be counted from it. `None` if only `now` can tell.
    #[inline(always)]
    pub(crate) fn bounds(&self) -> Option<Bounds> {
        let Self::System(SystemClock(Some(tsc_clock))) = self else { return None };
        Some(LAST.with(|last| tsc_clock.bounds(last)))
    }

    /// The present on this scale, give or take some microseconds: cheaper still.
    #[inline]
    pub(crate) fn now_approx(&self) -> Option<u64> {
        let Self::System(SystemClock(Some(tsc_clock))) = self else { return None };
        Some(LAST.with(|last| tsc_clock.approx(last)))
    }
}

//! The source of a timer's time: the system's clock or virtual time.

use std::cell::Cell;
use std::sync::OnceLock;
use std::time::Instant;

use super::counter::Processor;
use super::manual::ManualClock;
use super::tsc_clock::{Anchor, Bounds, TscClock};

/// The source of a timer's time.
#[derive(Clone, Debug)]
pub(crate) enum Clock {
    /// The system's clock, `Instant::now`.
    System(SystemClock),
    /// Virtual time.
    Manual(ManualClock),
}

/// `Instant::now`, and the [interpolated clock](TscClock) where the processor allows one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SystemClock(Option<&'static TscClock<Processor>>);

thread_local! {
    /// This thread's anchor for the interpolated clock.
    static LAST: Cell<Option<Anchor>> = const { Cell::new(None) };
}

impl Clock {
    /// Returns the system's clock. The first call in a process takes a third of a millisecond, to calibrate the
    /// counter.
    pub(crate) fn system() -> Self {
        static TSC_CLOCK: OnceLock<Option<TscClock<Processor>>> = OnceLock::new();
        Self::System(SystemClock(TSC_CLOCK.get_or_init(|| Processor::find().and_then(TscClock::new)).as_ref()))
    }

    /// Returns the present.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        match self {
            Self::System(_) => Instant::now(),
            Self::Manual(clock) => clock.now(),
        }
    }

    /// Converts an instant to the nanoseconds of [`bounds`](Self::bounds). `None` if the clock has no bounds.
    pub(super) fn nanos(&self, instant: Instant) -> Option<u64> {
        match self {
            Self::System(SystemClock(Some(tsc_clock))) => Some(tsc_clock.nanos(instant)),
            _ => None,
        }
    }

    /// Returns bounds of the present, in nanoseconds. They cost less than [`now`](Self::now), and are some microseconds
    /// apart: close enough to compute a deadline. `None` if only `now` returns the present.
    #[inline(always)]
    pub(crate) fn bounds(&self) -> Option<Bounds> {
        let Self::System(SystemClock(Some(tsc_clock))) = self else { return None };
        Some(LAST.with(|last| tsc_clock.bounds(last)))
    }

    /// Returns the present within some microseconds, in the nanoseconds of [`bounds`](Self::bounds). It costs still
    /// less.
    #[inline]
    pub(crate) fn now_approx(&self) -> Option<u64> {
        let Self::System(SystemClock(Some(tsc_clock))) = self else { return None };
        Some(LAST.with(|last| tsc_clock.approx(last)))
    }
}

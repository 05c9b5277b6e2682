//! The crate's `clock`, without the system's clock and without `ManualClock`: all time is virtual here.

#[path = "../../../src/clock/quiescence.rs"]
pub(crate) mod quiescence;
#[path = "../../../src/clock/ticks.rs"]
mod ticks;

use std::sync::Arc;
use std::time::Instant;

pub(crate) use quiescence::{Quiesce, Quiescence};
pub(crate) use ticks::{Deadline, NEVER, Requested, Ticks, UNKNOWN_NANOS, duration_of};

use crate::shard::Shard;

/// The crate's time source, with instants alone.
mod origin {
    use std::time::Instant;

    use super::ManualClock;

    /// There is one clock.
    pub(super) const STALENESS: u64 = 0;

    /// Has the size of the crate's own type, so that the fields beside it have the same offsets. So has `ManualClock`.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Origin {
        pub(super) instant: Instant,
        _after: u64,
        pub(super) uncertainty: u64,
    }

    impl Origin {
        pub(super) fn of(_manual: Option<&ManualClock>) -> Self {
            Self { instant: Instant::now(), _after: 0, uncertainty: 0 }
        }

        pub(super) fn elapsed(&self) -> u64 {
            Instant::now().saturating_duration_since(self.instant).as_nanos() as u64
        }

        pub(super) fn elapsed_coarse(&self) -> u64 {
            self.elapsed()
        }
    }
}

/// An empty type: there is no manual clock.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Never>);

#[derive(Debug)]
enum Never {}

impl ManualClock {
    pub(crate) fn note_panic(&self, _report: impl FnOnce() -> String) {
        match *self.0 {}
    }

    pub(crate) fn now(&self) -> Instant {
        match *self.0 {}
    }

    pub(crate) fn register(&self, _shard: Arc<Shard>) {
        match *self.0 {}
    }
}

//! The crate's `clock`, without the processor's counter and without `ManualClock`: all time is virtual here.

#[path = "../../../src/clock/quiescence.rs"]
pub(crate) mod quiescence;
#[path = "../../../src/clock/ticks.rs"]
mod ticks;

use std::marker::PhantomData;
use std::sync::{Arc, Weak};
use std::time::Instant;

pub(crate) use quiescence::{Quiesce, Quiescence, Quiet};
pub(crate) use ticks::{Deadline, NEVER, Requested, Ticks, UNKNOWN};

use crate::shard::Shard;

/// Has the size of the crate's own type, so that the fields beside it have the same offsets. So has `ManualClock`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SystemClock(Option<&'static Never>);

#[derive(Debug)]
enum Never {}

#[derive(Clone, Debug)]
pub(crate) enum Clock {
    System(SystemClock),
    Manual(ManualClock),
}

/// Bounds of the present, which only a counter provides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) earliest: u64,
    pub(crate) latest: u64,
}

impl Clock {
    pub(crate) fn system() -> Self {
        Self::System(SystemClock(None))
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::now()
    }

    pub(crate) fn nanos(&self, _instant: Instant) -> Option<u64> {
        None
    }

    pub(crate) fn bounds(&self) -> Option<Bounds> {
        None
    }

    pub(crate) fn now_approx(&self) -> Option<u64> {
        None
    }
}

/// An empty type: there is no manual clock.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Never>);

/// A shard as the clock sees it.
#[allow(dead_code, reason = "there is no manual clock")]
pub(crate) trait OnClock: Quiesce<Time = Instant> {
    fn next_deadline(&self) -> Option<Instant>;
    fn request_search(&self) -> Option<u64>;
    fn wait_for_search(&self, request: Option<u64>) -> Option<Instant>;
}

/// The only type of shard: the counted `Weak` needs a size.
pub(crate) type ClockShard = Shard;

pub(crate) struct Registration;
pub(crate) struct Pinned<'a>(PhantomData<&'a ManualClock>);

impl ManualClock {
    pub(crate) fn pin(&self) -> Pinned<'_> {
        match *self.0 {}
    }

    pub(crate) fn register(&self, _shard: Weak<ClockShard>) -> Registration {
        match *self.0 {}
    }
}

impl Pinned<'_> {
    pub(crate) fn now(&self) -> Instant {
        Instant::now()
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {}
}

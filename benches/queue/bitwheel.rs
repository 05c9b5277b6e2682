//! The wheel of `bitwheel`. Its deadlines are instants; a tick is a millisecond.

use std::time::{Duration, Instant};

use bitwheel::timer::{BitWheel, Timer, TimerHandle};

use super::interface::Queue;

/// Number of values that a slot takes. It is fixed, and the farthest slots have some 3,100 of the values that wait.
const SLOT: usize = 8192;

/// A value, with its deadline.
struct Waiting(u64, u64);

impl Timer for Waiting {
    type Context = Vec<(u64, u64)>;

    fn fire(&mut self, expired: &mut Self::Context) {
        expired.push((self.0, self.1));
    }
}

/// Three levels of 64 slots, so four minutes, and no search for another slot. A value never moves to a finer level: one
/// that waits in the third is late by up to four seconds.
pub struct Bits {
    start: Instant,
    wheel: Box<BitWheel<Waiting, 3, 1, SLOT, 1>>,
    expired: Vec<(u64, u64)>,
}

impl Bits {
    fn at(&self, tick: u64) -> Instant {
        self.start + Duration::from_millis(tick)
    }
}

impl Queue for Bits {
    const NAME: &'static str = "bitwheel";
    const STEPS: bool = false;
    type Key = TimerHandle;

    fn new() -> Self {
        let start = Instant::now();
        Self { start, wheel: BitWheel::boxed_with_epoch(start), expired: Vec::new() }
    }

    fn insert(&mut self, deadline: u64, value: u64) -> TimerHandle {
        let at = self.at(deadline);
        self.wheel.insert(at, Waiting(deadline, value)).expect("the slot has room")
    }

    fn remove(&mut self, key: TimerHandle) -> Option<u64> {
        self.wheel.cancel(key).map(|Waiting(_, value)| value)
    }

    fn advance(&mut self, now: u64, mut expired: impl FnMut(u64, u64)) {
        let now = self.at(now);
        self.wheel.poll(now, &mut self.expired);
        self.expired.drain(..).for_each(|(deadline, value)| expired(deadline, value));
    }
}

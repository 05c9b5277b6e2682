//! The wheel of `nexus-timer`. Its deadlines are instants; a tick is a millisecond.

use std::time::{Duration, Instant};

use nexus_timer::{TimerHandle, Wheel};

use super::interface::Queue;

/// Number of values by which its storage grows.
const CHUNK: usize = 4096;

pub struct Nexus {
    start: Instant,
    /// The deadlines and the values.
    wheel: Wheel<(u64, u64)>,
    expired: Vec<(u64, u64)>,
}

impl Nexus {
    fn at(&self, tick: u64) -> Instant {
        self.start + Duration::from_millis(tick)
    }
}

impl Queue for Nexus {
    const NAME: &'static str = "nexus-timer";
    const STEPS: bool = false;
    type Key = TimerHandle<(u64, u64)>;

    fn new() -> Self {
        let start = Instant::now();
        Self { start, wheel: Wheel::unbounded(CHUNK, start), expired: Vec::new() }
    }

    fn insert(&mut self, deadline: u64, value: u64) -> Self::Key {
        self.wheel.schedule(self.at(deadline), (deadline, value))
    }

    fn remove(&mut self, key: Self::Key) -> Option<u64> {
        self.wheel.cancel(key).map(|(_, value)| value)
    }

    fn detach(&mut self, key: Self::Key) {
        self.wheel.free(key);
    }

    fn advance(&mut self, now: u64, mut expired: impl FnMut(u64, u64)) {
        self.wheel.poll(self.at(now), &mut self.expired);
        self.expired.drain(..).for_each(|(deadline, value)| expired(deadline, value));
    }
}

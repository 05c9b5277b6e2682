//! A counter and a clock for tests. They advance when they are read, and when the test advances them.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::counter::Source;

/// Nanoseconds that a read of the counter takes; a read of the clock takes twice as long.
const READ: u64 = 12;

pub(super) struct FakeTsc {
    epoch: Instant,
    /// Picoseconds since the epoch.
    clock: Cell<u64>,
    /// Thousandths of a cycle.
    counter: Cell<u64>,
    /// Cycles per microsecond.
    frequency: Cell<u64>,
    /// Milliseconds by which the clock advances in a second.
    rate: Cell<u64>,
    /// Nanoseconds of delay before and after the next read of the clock.
    delay: Cell<u64>,
    /// Number of reads of the clock.
    clock_reads: Cell<u32>,
    /// The counter stands still while the processor is idle.
    halts: Cell<bool>,
    /// Nanoseconds by which an unordered read of the counter is early.
    lookahead: Cell<u64>,
}

impl FakeTsc {
    pub(super) fn new(megahertz: u64) -> Self {
        Self {
            epoch: Instant::now(),
            clock: Cell::new(0),
            counter: Cell::new(1 << 40),
            frequency: Cell::new(megahertz),
            rate: Cell::new(1000),
            delay: Cell::new(0),
            clock_reads: Cell::new(0),
            halts: Cell::new(false),
            lookahead: Cell::new(0),
        }
    }

    /// Advances the clock and the counter by this much real time.
    pub(super) fn advance(&self, nanos: u64) {
        self.clock.set(self.clock.get() + nanos * self.rate.get());
        self.counter.set(self.counter.get() + nanos * self.frequency.get());
    }

    /// Slews the clock: from now on it advances by `millis` in a second.
    pub(super) fn slew(&self, millis: u64) {
        self.rate.set(millis);
    }

    /// Changes the frequency of the counter, without effect on the clock.
    pub(super) fn set_frequency(&self, megahertz: u64) {
        self.frequency.set(megahertz);
    }

    /// Makes the counter jump.
    pub(super) fn jump(&self, cycles: i64) {
        self.counter.set(self.counter.get().wrapping_add_signed(cycles * 1000));
    }

    /// Delays the thread before and after its next read of the clock.
    pub(super) fn delay_next_read(&self, nanos: u64) {
        self.delay.set(nanos);
    }

    /// Makes unordered reads of the counter execute this many nanoseconds early.
    pub(super) fn set_lookahead(&self, nanos: u64) {
        self.lookahead.set(nanos);
    }

    /// Makes the counter stand still while the processor is idle, and report that it is not invariant.
    pub(super) fn halt_when_idle(&self) {
        self.halts.set(true);
    }

    /// Advances time while the processor is idle.
    pub(super) fn idle(&self, nanos: u64) {
        let counter = self.counter.get();
        self.advance(nanos);
        if self.halts.get() {
            self.counter.set(counter);
        }
    }

    /// Returns the present, without a read that takes time.
    pub(super) fn now(&self) -> Instant {
        self.epoch + Duration::from_nanos(self.clock.get() / 1000)
    }

    /// Returns the number of reads of the clock.
    pub(super) fn clock_reads(&self) -> u32 {
        self.clock_reads.get()
    }
}

impl Source for &FakeTsc {
    fn is_invariant(&self) -> bool {
        !self.halts.get()
    }

    fn read_ordered(&self) -> u64 {
        self.advance(READ);
        self.counter.get() / 1000
    }

    fn read_unordered(&self) -> u64 {
        self.advance(READ);
        (self.counter.get() - self.lookahead.get() * self.frequency.get()) / 1000
    }

    fn instant(&self) -> Instant {
        self.clock_reads.set(self.clock_reads.get() + 1);
        let delay = self.delay.take();
        self.advance(READ + delay);
        let now = self.now();
        self.advance(READ + delay);
        now
    }
}

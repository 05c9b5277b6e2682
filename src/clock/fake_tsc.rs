//! A machine of which tests turn the knobs: a counter and a clock that move when they are read, and when told to.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::counter::Source;

/// What it takes to read the counter, or half of what it takes to read the clock.
const READ: u64 = 12;

pub(super) struct FakeTsc {
    epoch: Instant,
    /// In picoseconds since the birth.
    clock: Cell<u64>,
    /// In thousandths.
    counter: Cell<u64>,
    /// Counts a microsecond.
    frequency: Cell<u64>,
    /// How much the clock moves in a second, in milliseconds.
    steered: Cell<u64>,
    /// Nanoseconds for which the next to read the clock will be held up before, and after.
    hold_up: Cell<u64>,
    looks: Cell<u32>,
    /// The counter stands while the processor is idle.
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
            steered: Cell::new(1000),
            hold_up: Cell::new(0),
            looks: Cell::new(0),
            halts: Cell::new(false),
            lookahead: Cell::new(0),
        }
    }

    /// So many nanoseconds pass.
    pub(super) fn pass(&self, nanos: u64) {
        self.clock.set(self.clock.get() + nanos * self.steered.get());
        self.counter.set(self.counter.get() + nanos * self.frequency.get());
    }

    /// So much less or more than a thousand milliseconds of the clock are in a second.
    pub(super) fn steer(&self, millis: u64) {
        self.steered.set(millis);
    }

    /// Changes the counter's frequency, and not what the clock is.
    pub(super) fn tune(&self, megahertz: u64) {
        self.frequency.set(megahertz);
    }

    /// The counter jumps.
    pub(super) fn jump(&self, counts: i64) {
        self.counter.set(self.counter.get().wrapping_add_signed(counts * 1000));
    }

    /// Whoever reads the clock next is held up before and after.
    pub(super) fn hold_up(&self, nanos: u64) {
        self.hold_up.set(nanos);
    }

    /// Unordered reads of the counter come so many nanoseconds early.
    pub(super) fn look_ahead(&self, nanos: u64) {
        self.lookahead.set(nanos);
    }

    /// From now on the counter stands while the processor is idle, and is known to.
    pub(super) fn halt_when_idle(&self) {
        self.halts.set(true);
    }

    /// The processor is idle for so many nanoseconds.
    pub(super) fn idle(&self, nanos: u64) {
        let counter = self.counter.get();
        self.pass(nanos);
        if self.halts.get() {
            self.counter.set(counter);
        }
    }

    /// What the clock says, at no cost.
    pub(super) fn now(&self) -> Instant {
        self.epoch + Duration::from_nanos(self.clock.get() / 1000)
    }

    /// How often the clock was read.
    pub(super) fn looks(&self) -> u32 {
        self.looks.get()
    }
}

impl Source for &FakeTsc {
    fn is_invariant(&self) -> bool {
        !self.halts.get()
    }

    fn read_ordered(&self) -> u64 {
        self.pass(READ);
        self.counter.get() / 1000
    }

    fn read_unordered(&self) -> u64 {
        self.pass(READ);
        (self.counter.get() - self.lookahead.get() * self.frequency.get()) / 1000
    }

    fn instant(&self) -> Instant {
        self.looks.set(self.looks.get() + 1);
        let hold_up = self.hold_up.take();
        self.pass(READ + hold_up);
        let now = self.now();
        self.pass(READ + hold_up);
        now
    }
}

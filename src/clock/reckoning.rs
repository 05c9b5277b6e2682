//! Dead reckoning: the present, told from the last look at the clock and the counts since.
//!
//! A thread that schedules a timer wants the present for one purpose: to add a delay to it. For that it need not be
//! exact, but it must not be early, or the timer would be: *latest* must be no earlier than what [`Instant::now`] said
//! to anybody before. And to tell that a deadline has passed, *earliest* must be no later than what `Instant::now` will
//! say to anybody after. Between the two is the present.
//!
//! ```text
//!                           likely = clock + the most time that the counts since can be   ≤ clock + LIMIT
//!      counter              │   latest = likely + LOOKAHEAD
//!     ────┼──┼──────────┼───┼───┼───► time by `Instant::now`
//!            │          the present
//!            clock = earliest
//! ```
//!
//! Each thread keeps a *fix*: the counter and, read after it, the clock. To tell the present it glances at the counter
//! alone. If by the [`Pace`] of the clock [`LIMIT`] may have passed since the fix, it takes a new one.
//!
//! # Why no timer is early
//!
//! - *Earliest* is what the clock said at the fix, and `Instant` never goes back, for no thread and in no sleep.
//! - *Latest* is that plus the most that the clock can have moved by. It moves with the counter (see
//!   [`counter`](super::counter)); the counter of the fix was read before the clock, so no count is missed, however
//!   long the thread was held up between the two; a count is at most so much time, however the kernel steers (see
//!   [`pace`](super::pace)); and the counts that a glance is early by are allowed for ([`LOOKAHEAD`]). Nothing adds up
//!   over hours, as every fix starts anew.
//!
//! # Why no timer is late
//!
//! - While a fix is in use, *likely* is within [`LIMIT`] of its clock, and the present is after that. So *latest* is
//!   less than `LIMIT + LOOKAHEAD`, 30 µs, ahead of the present whatever the counter does; and if it does as measured,
//!   half of that: a quarter of `LIMIT`, which is the margin in the pace, and `LOOKAHEAD`.
//! - Within a thread *latest* does not go back, unless the counter has just been caught as below, so that timers with
//!   equal delays stay in order: after a new fix it is at least what it can have been by the one before, which had the
//!   same limit.
//!
//! # What if the counter jumps
//!
//! - Forward, or the clock stops and the counter does not, as in some kinds of sleep: a new fix. *Latest* is not farther
//!   ahead than the limit.
//! - Back, or the counter stops and the clock does not, as when the machine sleeps and forgets it, or the kernel chooses
//!   another source: the counter is caught at the next fix, by the clock having gone farther than the pace allows, and is
//!   not used again. Before that it can deceive a thread only if it is back within the counts of that thread's
//!   fix: some 20 µs of all the time it can be set to.
//!
//! # Why not a crate
//!
//! `quanta`, `minstant` and `fastant` measure the counter's rate once and count on from there; `fast-clock` leaves it to
//! its caller. They aim at the clock, not above it, and drift away from it as the kernel steers: `quanta` by 80 µs a
//! second in its issue 99. None says by how much it may be behind, which is all that counts here.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::counter::{LOOKAHEAD, Source};
use super::pace::Pace;

/// For how long a fix is used, in nanoseconds. Twice as long would be hardly cheaper for a thread that asks every
/// microsecond, and twice as far off.
pub(super) const LIMIT: u64 = 20_000;

/// Between which instants the present is. In nanoseconds, as arithmetic with instants costs as much as what is saved here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Present {
    /// No later than what the clock will say next.
    pub(crate) earliest: u64,
    /// Some microseconds off, rather later than earlier.
    pub(crate) likely: u64,
    /// No earlier than what the clock said last.
    pub(crate) latest: u64,
}

/// What a thread knows of the time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fix {
    /// Read before the clock.
    counter: u64,
    /// What the clock said, in nanoseconds since the birth of the reckoning.
    clock: u64,
    /// What was told by earlier fixes is not after this.
    told: u64,
}

/// A counter that stands in for its clock.
#[derive(Debug)]
pub(super) struct Reckoning<S> {
    source: S,
    /// What the present is counted from.
    birth: Instant,
    pace: Pace,
    /// For how many counts a fix is used.
    reach: u64,
    /// The counter is not what it was taken for.
    caught: AtomicBool,
}

impl<S: Source> Reckoning<S> {
    /// Measures the pace. `None` if the counter makes no sense.
    pub(super) fn new(source: S) -> Option<Self> {
        let birth = source.instant();
        let pace = Pace::measure(&source)?;
        Some(Self { source, birth, reach: pace.counts_within(LIMIT)?, pace, caught: AtomicBool::new(false) })
    }

    /// Nanoseconds from the birth of the reckoning to an instant after it.
    pub(super) fn nanos(&self, instant: Instant) -> u64 {
        u64::try_from(instant.saturating_duration_since(self.birth).as_nanos()).unwrap_or(u64::MAX)
    }

    /// The present, for a thread whose last fix is in `last`, in nanoseconds since the birth of the reckoning.
    #[inline]
    pub(super) fn present(&self, last: &Cell<Option<Fix>>) -> Present {
        let counter = self.source.glance();
        if let Some(Fix { counter: before, clock, told }) = last.get() {
            // One that seems to be ahead of the counter wraps to the farthest past.
            let counts = counter.wrapping_sub(before);
            if counts <= self.reach {
                let likely = clock + self.pace.most_nanos(counts);
                return Present { earliest: clock, likely, latest: told.max(likely + LOOKAHEAD) };
            }
        }
        self.look(counter, last)
    }

    /// Looks at the clock.
    #[cold]
    fn look(&self, counter: u64, last: &Cell<Option<Fix>>) -> Present {
        let clock = self.nanos(self.source.instant());
        let before = last.take();
        if before.is_some_and(|before| self.contradicts(before, clock)) {
            // Relaxed, as is the load: who does not see it yet finds out at its own next look.
            self.caught.store(true, Ordering::Relaxed);
        }
        if self.caught.load(Ordering::Relaxed) {
            return Present { earliest: clock, likely: clock, latest: clock };
        }
        let told = before.map_or(clock, |before| clock.max(before.clock + LIMIT + LOOKAHEAD));
        last.set(Some(Fix { counter, clock, told }));
        Present { earliest: clock, likely: clock, latest: told }
    }

    /// Whether the clock, as it was just read, went farther since a fix than the counter would have it.
    fn contradicts(&self, fix: Fix, clock: u64) -> bool {
        match self.source.counter().checked_sub(fix.counter) {
            Some(counts) => clock.saturating_sub(fix.clock) > self.pace.most_nanos(counts),
            None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::machine::Machine;
    use super::*;

    const FREQUENCIES: [u64; 4] = [25, 1000, 2500, 5700];

    /// A thread of a machine, and what it was told.
    struct Thread<'a> {
        machine: &'a Machine,
        reckoning: Reckoning<&'a Machine>,
        last: Cell<Option<Fix>>,
        latest: u64,
    }

    impl<'a> Thread<'a> {
        fn on(machine: &'a Machine) -> Self {
            let reckoning = Reckoning::new(machine).expect("the counter makes sense");
            Self { machine, reckoning, last: Cell::new(None), latest: 0 }
        }

        /// Asks for the present, checks all that is promised of it, and returns how far *latest* is ahead.
        fn ask(&mut self) -> u64 {
            let before = self.now();
            let Present { earliest, latest, .. } = self.reckoning.present(&self.last);
            let after = self.now();
            assert!(latest >= before, "{} ns early", before - latest);
            assert!(earliest <= after, "{} ns late", earliest - after);
            assert!(latest <= after + LIMIT + LOOKAHEAD, "{} ns late", latest - after);
            assert!(latest >= self.latest, "{} ns back", self.latest - latest);
            self.latest = latest;
            latest.saturating_sub(after)
        }

        fn now(&self) -> u64 {
            self.reckoning.nanos(self.machine.now())
        }

        fn trusts_the_counter(&self) -> bool {
            !self.reckoning.caught.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn the_present_is_where_it_is_said_to_be_however_the_clock_is_steered() {
        for megahertz in FREQUENCIES {
            for (first, then) in [(1000, 1000), (900, 1100), (1100, 900), (1000, 1100)] {
                let machine = Machine::new(megahertz);
                machine.steer(first);
                let mut thread = Thread::on(&machine);
                machine.steer(then);
                let mut random = fastrand::Rng::with_seed(megahertz);
                for _ in 0..100_000 {
                    let most = 1 << random.u32(0..17);
                    machine.pass(random.u64(0..most));
                    let ahead = thread.ask();
                    if first == then {
                        assert!(ahead <= LIMIT / 4 + LOOKAHEAD, "{ahead} ns");
                    }
                }
                assert!(thread.trusts_the_counter());
            }
        }
    }

    #[test]
    fn glances_may_be_early() {
        for then in [900, 1000, 1100] {
            let machine = Machine::new(2500);
            machine.steer(900);
            let mut thread = Thread::on(&machine);
            machine.steer(then);
            let mut random = fastrand::Rng::with_seed(then);
            for _ in 0..100_000 {
                machine.pass(random.u64(0..LIMIT));
                machine.look_ahead(if random.bool() { LOOKAHEAD * 1000 / 1100 } else { 0 });
                thread.latest = 0;
                thread.ask();
            }
            assert!(thread.trusts_the_counter());
        }
    }

    #[test]
    fn the_clock_is_seldom_read() {
        let machine = Machine::new(2500);
        let mut thread = Thread::on(&machine);
        let (start, looks) = (machine.now(), machine.looks());
        for _ in 0..100_000 {
            machine.pass(100);
            thread.ask();
        }
        let passed = (machine.now() - start).as_nanos() as u64;
        assert!(u64::from(machine.looks() - looks) <= passed / (LIMIT * 3 / 4));
    }

    #[test]
    fn whoever_is_held_up_at_a_look_is_not_misled() {
        let machine = Machine::new(2500);
        let mut thread = Thread::on(&machine);
        for held_up in [1, 500, 15_000, 4_000_000].repeat(100) {
            machine.pass(LIMIT);
            machine.hold_up(held_up);
            (0..100).for_each(|_| {
                thread.ask();
            });
        }
        assert!(thread.trusts_the_counter(), "nothing was wrong with the counter");
    }

    #[test]
    fn a_counter_that_jumps_forward_is_met_with_a_look() {
        let machine = Machine::new(2500);
        let mut thread = Thread::on(&machine);
        for counts in [100, 10_000, 60_000, 1 << 40] {
            thread.ask();
            machine.jump(counts);
            (0..1000).for_each(|_| {
                thread.ask();
            });
        }
        assert!(thread.trusts_the_counter());
    }

    #[test]
    fn a_counter_that_jumps_back_is_caught() {
        let machine = Machine::new(2500);
        let mut thread = Thread::on(&machine);
        thread.ask();
        machine.jump(-1_000_000);
        thread.latest = 0;
        (0..1000).for_each(|_| {
            thread.ask();
        });
        assert!(!thread.trusts_the_counter());
        let looks = machine.looks();
        (0..1000).for_each(|_| assert_eq!(thread.ask(), 0));
        assert_eq!(machine.looks() - looks, 1000);
    }

    #[test]
    fn a_counter_that_slows_down_is_caught_at_the_next_look() {
        let machine = Machine::new(2500);
        let mut thread = Thread::on(&machine);
        thread.ask();
        machine.tune(1500);
        // It is believed for as long as a fix is used.
        machine.pass(LIMIT * 2);
        thread.latest = 0;
        (0..1000).for_each(|_| {
            thread.ask();
        });
        assert!(!thread.trusts_the_counter());
    }
}

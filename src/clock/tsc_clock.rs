//! Dead reckoning: the present, told from the last look at the clock and the counts since.
//!
//! A thread that schedules a timer wants the present for one purpose: to add a delay to it. For that it need not be
//! exact, but it must not be early, or the timer would be: *latest* must be no earlier than what [`Instant::now`] said
//! to anybody before. And to tell that a deadline has passed, *earliest* must be no later than what `Instant::now` will
//! say to anybody after. Between the two is the present.
//!
//! ```text
//!      counter              latest = clock + the most time that the counts since can be   ≤ clock + LIMIT
//!     ────┼──┼──────────┼───┼───► time by `Instant::now`
//!            │          the present
//!            clock = earliest
//! ```
//!
//! Each thread keeps a *fix*: the counter and, read after it, the clock. To tell the present it reads the counter
//! alone, in order; or as it comes, where some microseconds more or less do not matter. If by the [`Calibration`] of the clock [`LIMIT`] may have passed since the fix, it takes a new one.
//!
//! # Why no timer is early
//!
//! - *Earliest* is what the clock said at the fix, and `Instant` never goes back, for no thread and in no sleep.
//! - *Latest* is that plus the most that the clock can have moved by. The clock moves with the counter, which does not
//!   stand while a thread is idle; the counter is read after all that the thread has seen of the clock (for both see
//!   [`counter`](super::counter)). The counter of the fix was read before the clock, so no count is missed, however long
//!   the thread was held up between the two. And a count is at most so much time, however the kernel steers (see
//!   [`calibration`](super::calibration)). Nothing adds up over hours, as every fix starts anew.
//!
//! # Why no timer is late
//!
//! - While a fix is in use, *latest* is within [`LIMIT`], 20 µs, of its clock, and the present is after that. So that is
//!   as far as *latest* can be ahead of the present whatever the counter does; and if it does as measured, a quarter of
//!   that, which is the margin in the pace.
//! - Within a thread *latest* does not go back, unless the counter has just been caught as below, so that timers with
//!   equal delays stay in order: after a new fix it is at least what it can have been by the one before, which had the
//!   same limit.
//!
//! # What if the counter jumps
//!
//! - Forward, or the clock stops and the counter does not, as in some kinds of sleep: a new fix. *Latest* is not farther
//!   ahead than the limit.
//! - Back, when the machine sleeps and forgets the counter; or it runs slower than the clock, when the kernel chooses
//!   another source as this one has failed: the counter is caught at the next fix, by the clock having gone farther than
//!   the pace allows, and is not used again. Before that a thread believes it while it is within the counts of the
//!   thread's fix. A counter that has jumped back comes by there once, for some 20 µs, as late as it has jumped back. One
//!   that has become slower by one part in `n` has the thread be early by one part in `n` of 20 µs.
//! - It stands while the clock goes on: then it would be believed for as long as that lasts. This is why only an
//!   invariant counter is used, which stands for no thread that runs or waits.
//!
//! # Why not a crate
//!
//! `quanta`, `minstant` and `fastant` measure the counter's rate once and count on from there; `fast-clock` leaves it to
//! its caller. They aim at the clock, not above it, and drift away from it as the kernel steers: `quanta` by 80 µs a
//! second in its issue 99. None says by how much it may be behind, which is all that counts here.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::calibration::Calibration;
use super::counter::Source;

/// For how long a fix is used, in nanoseconds. Twice as long would be hardly cheaper for a thread that asks every
/// microsecond, and twice as far off.
pub(super) const LIMIT: u64 = 20_000;

/// Between which instants the present is. In nanoseconds, as arithmetic with instants costs as much as what is saved here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// No later than what the clock will say next.
    pub(crate) earliest: u64,
    /// No earlier than what the clock said last.
    pub(crate) latest: u64,
}

/// What a thread knows of the time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Anchor {
    /// Read before the clock.
    counter: u64,
    /// What the clock said, in nanoseconds since the birth of the reckoning.
    clock: u64,
    /// What was told by earlier fixes is not after this.
    floor: u64,
}

/// A counter that stands in for its clock.
#[derive(Debug)]
pub(super) struct TscClock<S> {
    source: S,
    /// What the present is counted from.
    epoch: Instant,
    calibration: Calibration,
    /// For how many counts a fix is used.
    reach: u64,
    /// The counter is not what it was taken for.
    untrusted: AtomicBool,
}

impl<S: Source> TscClock<S> {
    /// Measures the pace. `None` if the counter makes no sense, or may stand still.
    pub(super) fn new(source: S) -> Option<Self> {
        if !source.is_invariant() {
            return None;
        }
        let epoch = source.instant();
        let calibration = Calibration::measure(&source)?;
        Some(Self {
            source,
            epoch,
            reach: calibration.counts_within(LIMIT)?,
            calibration,
            untrusted: AtomicBool::new(false),
        })
    }

    /// Nanoseconds from the birth of the reckoning to an instant after it.
    pub(super) fn nanos(&self, instant: Instant) -> u64 {
        u64::try_from(instant.saturating_duration_since(self.epoch).as_nanos()).unwrap_or(u64::MAX)
    }

    /// The present, for a thread whose last fix is in `last`, in nanoseconds since the birth of the reckoning.
    #[inline(always)]
    pub(super) fn bounds(&self, last: &Cell<Option<Anchor>>) -> Bounds {
        let counter = self.source.read_ordered();
        match self.since_anchor(counter, last) {
            Some((Anchor { clock, floor, .. }, approx)) => Bounds { earliest: clock, latest: floor.max(approx) },
            None => self.re_anchor(counter, last),
        }
    }

    /// The present, give or take some microseconds, for half the price. What is read early tells an earlier present, or that
    /// the fix is to be renewed.
    #[inline]
    pub(super) fn approx(&self, last: &Cell<Option<Anchor>>) -> u64 {
        let counter = self.source.read_unordered();
        match self.since_anchor(counter, last) {
            Some((_, approx)) => approx,
            None => self.re_anchor(self.source.read_ordered(), last).earliest,
        }
    }

    /// The fix, and the latest that the clock can say by now. `None` if there is no fix, or it is too old.
    #[inline(always)]
    fn since_anchor(&self, counter: u64, last: &Cell<Option<Anchor>>) -> Option<(Anchor, u64)> {
        let anchor = last.get()?;
        // A fix that seems to be ahead of the counter wraps to the farthest past.
        let counts = counter.wrapping_sub(anchor.counter);
        (counts <= self.reach).then(|| (anchor, anchor.clock + self.calibration.most_nanos_within(counts)))
    }

    /// Looks at the clock, after the counter.
    #[cold]
    fn re_anchor(&self, counter: u64, last: &Cell<Option<Anchor>>) -> Bounds {
        let clock = self.nanos(self.source.instant());
        let before = last.take();
        if before.is_some_and(|before| self.contradicts(before, clock)) {
            // Relaxed, as is the load: who does not see it yet finds out at its own next look.
            self.untrusted.store(true, Ordering::Relaxed);
        }
        if self.untrusted.load(Ordering::Relaxed) {
            return Bounds { earliest: clock, latest: clock };
        }
        let floor = before.map_or(clock, |before| clock.max(before.clock + LIMIT));
        last.set(Some(Anchor { counter, clock, floor }));
        Bounds { earliest: clock, latest: floor }
    }

    /// Whether the clock, as it was just read, went farther since a fix than the counter would have it.
    fn contradicts(&self, anchor: Anchor, clock: u64) -> bool {
        match self.source.read_ordered().checked_sub(anchor.counter) {
            Some(counts) => clock.saturating_sub(anchor.clock) > self.calibration.most_nanos(counts),
            None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake_tsc::FakeTsc;
    use super::*;

    const FREQUENCIES: [u64; 4] = [25, 1000, 2500, 5700];

    /// A thread of a machine, and what it was told.
    struct Thread<'a> {
        fake_tsc: &'a FakeTsc,
        tsc_clock: TscClock<&'a FakeTsc>,
        last: Cell<Option<Anchor>>,
        latest: u64,
    }

    impl<'a> Thread<'a> {
        fn on(fake_tsc: &'a FakeTsc) -> Self {
            Self::find(fake_tsc).expect("the counter makes sense")
        }

        fn find(fake_tsc: &'a FakeTsc) -> Option<Self> {
            let tsc_clock = TscClock::new(fake_tsc)?;
            Some(Self { fake_tsc, tsc_clock, last: Cell::new(None), latest: 0 })
        }

        /// Asks for the present, checks all that is promised of it, and returns how far *latest* is ahead.
        fn ask(&mut self) -> u64 {
            let before = self.now();
            let Bounds { earliest, latest, .. } = self.tsc_clock.bounds(&self.last);
            let after = self.now();
            assert!(latest >= before, "{} ns early", before - latest);
            assert!(earliest <= after, "{} ns late", earliest - after);
            assert!(latest <= after + LIMIT, "{} ns late", latest - after);
            assert!(latest >= self.latest, "{} ns back", self.latest - latest);
            self.latest = latest;
            latest.saturating_sub(after)
        }

        fn now(&self) -> u64 {
            self.tsc_clock.nanos(self.fake_tsc.now())
        }

        fn trusts_the_counter(&self) -> bool {
            !self.tsc_clock.untrusted.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn the_present_is_where_it_is_said_to_be_however_the_clock_is_steered() {
        for megahertz in FREQUENCIES {
            for (first, then) in [(1000, 1000), (900, 1100), (1100, 900), (1000, 1100)] {
                let fake_tsc = FakeTsc::new(megahertz);
                fake_tsc.steer(first);
                let mut thread = Thread::on(&fake_tsc);
                fake_tsc.steer(then);
                let mut random = fastrand::Rng::with_seed(megahertz);
                for _ in 0..100_000 {
                    let most = 1 << random.u32(0..17);
                    fake_tsc.pass(random.u64(0..most));
                    let ahead = thread.ask();
                    if first == then {
                        assert!(ahead <= LIMIT / 4, "{ahead} ns");
                    }
                }
                assert!(thread.trusts_the_counter());
            }
        }
    }

    #[test]
    fn unordered_reads_may_be_early() {
        let fake_tsc = FakeTsc::new(2500);
        let mut thread = Thread::on(&fake_tsc);
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..100_000 {
            fake_tsc.pass(random.u64(0..LIMIT));
            let early = if random.bool() { random.u64(0..2 * LIMIT) } else { 0 };
            fake_tsc.look_ahead(early);
            let before = thread.now();
            let approx = thread.tsc_clock.approx(&thread.last);
            let after = thread.now();
            assert!(approx + early >= before && approx <= after + LIMIT / 4 + 10, "{approx} and not {after}");
            thread.ask();
        }
        assert!(thread.trusts_the_counter());
    }

    /// Nothing tells such a counter from one that has gone on for a moment: each time that it was idle, the thread would be
    /// early by as long.
    #[test]
    fn a_counter_that_stands_while_its_processor_is_idle_is_not_used() {
        for halts in [false, true] {
            let fake_tsc = FakeTsc::new(2500);
            if halts {
                fake_tsc.halt_when_idle();
            }
            let Some(mut thread) = Thread::find(&fake_tsc) else {
                assert!(halts, "nothing was wrong with the counter");
                continue;
            };
            for seconds in 0..50 {
                thread.ask();
                fake_tsc.idle(seconds * 1_000_000_000);
            }
            assert!(!halts && thread.trusts_the_counter());
        }
    }

    #[test]
    fn the_clock_is_seldom_read() {
        let fake_tsc = FakeTsc::new(2500);
        let mut thread = Thread::on(&fake_tsc);
        let (start, looks) = (fake_tsc.now(), fake_tsc.looks());
        for _ in 0..100_000 {
            fake_tsc.pass(100);
            thread.ask();
        }
        let passed = (fake_tsc.now() - start).as_nanos() as u64;
        assert!(u64::from(fake_tsc.looks() - looks) <= passed / (LIMIT * 3 / 4));
    }

    #[test]
    fn whoever_is_held_up_at_a_look_is_not_misled() {
        let fake_tsc = FakeTsc::new(2500);
        let mut thread = Thread::on(&fake_tsc);
        for held_up in [1, 500, 15_000, 4_000_000].repeat(100) {
            fake_tsc.pass(LIMIT);
            fake_tsc.hold_up(held_up);
            (0..100).for_each(|_| {
                thread.ask();
            });
        }
        assert!(thread.trusts_the_counter(), "nothing was wrong with the counter");
    }

    #[test]
    fn a_counter_that_jumps_forward_is_met_with_a_look() {
        let fake_tsc = FakeTsc::new(2500);
        let mut thread = Thread::on(&fake_tsc);
        for counts in [100, 10_000, 60_000, 1 << 40] {
            thread.ask();
            fake_tsc.jump(counts);
            (0..1000).for_each(|_| {
                thread.ask();
            });
        }
        assert!(thread.trusts_the_counter());
    }

    #[test]
    fn a_counter_that_jumps_back_is_caught() {
        let fake_tsc = FakeTsc::new(2500);
        let mut thread = Thread::on(&fake_tsc);
        thread.ask();
        fake_tsc.jump(-1_000_000);
        thread.latest = 0;
        (0..1000).for_each(|_| {
            thread.ask();
        });
        assert!(!thread.trusts_the_counter());
        let looks = fake_tsc.looks();
        (0..1000).for_each(|_| assert_eq!(thread.ask(), 0));
        assert_eq!(fake_tsc.looks() - looks, 1000);
    }

    #[test]
    fn a_counter_that_slows_down_is_caught_at_the_next_look() {
        let fake_tsc = FakeTsc::new(2500);
        let mut thread = Thread::on(&fake_tsc);
        thread.ask();
        fake_tsc.tune(1500);
        // It is believed for as long as a fix is used.
        fake_tsc.pass(LIMIT * 2);
        thread.latest = 0;
        (0..1000).for_each(|_| {
            thread.ask();
        });
        assert!(!thread.trusts_the_counter());
    }
}

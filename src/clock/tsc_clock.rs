//! An interpolated clock: bounds of the present, from the last clock read and the cycles since.
//!
//! A thread that schedules a timer adds a delay to the present. For that purpose an inexact present is enough, as long
//! as the timer is not early. So the clock returns two [`Bounds`], as Spanner's TrueTime does (Corbett et al.,
//! *Spanner: Google's Globally-Distributed Database*, 2012). The present is between them:
//!
//! - *latest* is at or after every value that [`Instant::now`] has returned so far, to any thread. A delay is added to
//!   it.
//! - *earliest* is at or before every value that `Instant::now` returns from then on. A deadline up to it has passed.
//!
//! ```text
//!      counter              latest = clock + maximum time of the cycles since   ≤ clock + LIMIT
//!     ────┼──┼──────────┼───┼───► time by `Instant::now`
//!            │          the present
//!            clock = earliest
//! ```
//!
//! Each thread keeps an *anchor*: the counter and, read after it, the clock. To get bounds, the thread reads only the
//! counter, in order. Where some microseconds do not matter, it reads the counter unordered. Once [`LIMIT`] may have
//! passed since the anchor, by the [`Calibration`], the thread takes a new one.
//!
//! # Why no timer is early
//!
//! *Earliest* is the clock of the anchor. `Instant` never goes back, between threads or over a sleep of the machine.
//!
//! *Latest* adds the maximum time by which the clock can have advanced. It is never too early, because:
//!
//! - The clock advances with the counter, which does not stand still while a thread is idle (see
//!   [`counter`](super::counter)).
//! - The counter is read after every clock read that the thread can have seen (see there, too).
//! - The counter of the anchor was read before its clock. So no cycle is missed, even if the thread was preempted
//!   between the two.
//! - A cycle takes at most the calibrated time, however the kernel slews the clock (see
//!   [`calibration`](super::calibration)).
//! - Errors do not accumulate, because each anchor starts anew.
//!
//! # Why no timer is late
//!
//! - While an anchor is in use, *latest* is at most [`LIMIT`], 20 µs, after its clock. The present is after that clock,
//!   too. So *latest* is at most 20 µs ahead of the present, whatever the counter does. If the counter runs as
//!   calibrated, it is at most a quarter of that ahead, which is the margin of the calibration.
//! - Within a thread *latest* does not go back, so timers with equal delays stay in order. A new anchor has a *floor*:
//!   the maximum that the anchor before it could return, which had the same limit. The exception is the read that finds
//!   the counter untrusted, see below.
//!
//! # What if the counter misbehaves
//!
//! - **It jumps forward, or runs on while the clock stands still**, as in some kinds of sleep. The thread takes a new
//!   anchor. *Latest* is not farther ahead than the limit.
//! - **It jumps back**, when the machine sleeps and resets the counter. The next anchor detects this, because the clock
//!   has advanced by more than the calibration allows. From then on the counter is untrusted, and not used again.
//!   Before that, a thread trusts the counter as long as it is within the cycles of the thread's anchor. A counter that
//!   has jumped back passes there once, for some 20 µs. The thread's *latest* is then too early by the length of the
//!   jump.
//! - **It becomes slower than the clock**, when the kernel chooses another source because this one has failed. The next
//!   anchor detects it in the same way. Before that, if the counter is slower by one part in `n`, *latest* is too early
//!   by one part in `n` of 20 µs.
//! - **It stands still while the clock advances.** No check could detect that: the thread would trust the counter for
//!   as long as it stands. So only an invariant counter is used, which stands still for no thread that runs or waits.
//!
//! # Why not a crate
//!
//! `quanta`, `minstant` and `fastant` measure the counter's rate once and extrapolate from there; `fast-clock` leaves
//! the measurement to its caller. They approximate the clock instead of bounding it, and drift away from it as the
//! kernel slews: `quanta` by 80 µs a second in its issue 99. None documents by how much it may be behind the clock, and
//! that is the property that matters here.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::calibration::Calibration;
use super::counter::Source;

/// Maximum age of an anchor in nanoseconds. Twice the age would double the error, and save little even for a thread
/// that reads the clock every microsecond.
const LIMIT: u64 = 20_000;

/// The bounds of the present, in nanoseconds: arithmetic with instants would cost as much as is saved here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// At or before every clock read from now on.
    pub(super) earliest: u64,
    /// At or after every clock read so far.
    pub(super) latest: u64,
}

/// A thread's last read of the clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Anchor {
    /// The counter, read before the clock.
    counter: u64,
    /// The clock, in nanoseconds since the epoch.
    clock: u64,
    /// Minimum of *latest*: no bound from an earlier anchor is after it.
    floor: u64,
}

/// The clock that is interpolated by a counter.
#[derive(Debug)]
pub(super) struct TscClock<S> {
    source: S,
    /// The origin of all nanoseconds here.
    epoch: Instant,
    calibration: Calibration,
    /// Maximum age of an anchor in cycles.
    max_age: u64,
    /// The counter has contradicted the clock, and is not used again.
    untrusted: AtomicBool,
}

impl<S: Source> TscClock<S> {
    /// Calibrates the counter. `None` if it may stand still or has no stable rate.
    pub(super) fn new(source: S) -> Option<Self> {
        if !source.is_invariant() {
            return None;
        }
        let epoch = source.instant();
        let calibration = Calibration::measure(&source)?;
        Some(Self {
            source,
            epoch,
            max_age: calibration.cycles_within(LIMIT)?,
            calibration,
            untrusted: AtomicBool::new(false),
        })
    }

    /// Returns the nanoseconds from the epoch to an instant after it.
    pub(super) fn nanos(&self, instant: Instant) -> u64 {
        u64::try_from(instant.saturating_duration_since(self.epoch).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Returns the bounds of the present, for a thread whose anchor is in `last`.
    #[inline(always)]
    pub(super) fn bounds(&self, last: &Cell<Option<Anchor>>) -> Bounds {
        let counter = self.source.read_ordered();
        match self.since_anchor(counter, last) {
            Some((Anchor { clock, floor, .. }, approx)) => Bounds { earliest: clock, latest: floor.max(approx) },
            None => self.re_anchor(counter, last),
        }
    }

    /// Returns the present within some microseconds, for half the cost. An early read of the counter gives an earlier
    /// present, or a new anchor.
    #[inline]
    pub(super) fn approx(&self, last: &Cell<Option<Anchor>>) -> u64 {
        let counter = self.source.read_unordered();
        match self.since_anchor(counter, last) {
            Some((_, approx)) => approx,
            None => self.re_anchor(self.source.read_ordered(), last).earliest,
        }
    }

    /// Returns the anchor, and the latest that the clock can be by now. `None` if there is no anchor, or it is too old.
    #[inline(always)]
    fn since_anchor(&self, counter: u64, last: &Cell<Option<Anchor>>) -> Option<(Anchor, u64)> {
        let anchor = last.get()?;
        // If the anchor seems to be ahead of the counter, the difference wraps, and is too large.
        let cycles = counter.wrapping_sub(anchor.counter);
        (cycles <= self.max_age).then(|| (anchor, anchor.clock + self.calibration.max_nanos_within(cycles)))
    }

    /// Takes a new anchor: reads the clock. `counter` was read before.
    #[cold]
    fn re_anchor(&self, counter: u64, last: &Cell<Option<Anchor>>) -> Bounds {
        let clock = self.nanos(self.source.instant());
        let before = last.take();
        if before.is_some_and(|before| self.contradicts(before, clock)) {
            // Relaxed, as is the load: a thread that does not see the flag yet detects the contradiction at its own
            // next anchor.
            self.untrusted.store(true, Ordering::Relaxed);
        }
        if self.untrusted.load(Ordering::Relaxed) {
            return Bounds { earliest: clock, latest: clock };
        }
        let floor = before.map_or(clock, |before| clock.max(before.clock + LIMIT));
        last.set(Some(Anchor { counter, clock, floor }));
        Bounds { earliest: clock, latest: floor }
    }

    /// Returns whether the clock, which was just read, has advanced since the anchor by more than the counter allows.
    fn contradicts(&self, anchor: Anchor, clock: u64) -> bool {
        match self.source.read_ordered().checked_sub(anchor.counter) {
            Some(cycles) => clock.saturating_sub(anchor.clock) > self.calibration.max_nanos(cycles),
            None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake_tsc::FakeTsc;
    use super::*;

    const FREQUENCIES: [u64; 4] = [25, 1000, 2500, 5700];

    /// A thread that reads the clock, and the last *latest* that it got.
    struct Thread<'a> {
        fake_tsc: &'a FakeTsc,
        tsc_clock: TscClock<&'a FakeTsc>,
        last: Cell<Option<Anchor>>,
        latest: u64,
    }

    impl<'a> Thread<'a> {
        fn new(fake_tsc: &'a FakeTsc) -> Self {
            Self::try_new(fake_tsc).expect("a stable rate")
        }

        fn try_new(fake_tsc: &'a FakeTsc) -> Option<Self> {
            let tsc_clock = TscClock::new(fake_tsc)?;
            Some(Self { fake_tsc, tsc_clock, last: Cell::new(None), latest: 0 })
        }

        /// Gets the bounds, checks all that is promised of them, and returns how far *latest* is ahead.
        fn check_bounds(&mut self) -> u64 {
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
    fn the_bounds_hold_however_the_clock_is_slewed() {
        for megahertz in FREQUENCIES {
            for (first, then) in [(1000, 1000), (900, 1100), (1100, 900), (1000, 1100)] {
                let fake_tsc = FakeTsc::new(megahertz);
                fake_tsc.slew(first);
                let mut thread = Thread::new(&fake_tsc);
                fake_tsc.slew(then);
                let mut random = fastrand::Rng::with_seed(megahertz);
                for _ in 0..100_000 {
                    let most = 1 << random.u32(0..17);
                    fake_tsc.advance(random.u64(0..most));
                    let ahead = thread.check_bounds();
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
        let mut thread = Thread::new(&fake_tsc);
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..100_000 {
            fake_tsc.advance(random.u64(0..LIMIT));
            let early = if random.bool() { random.u64(0..2 * LIMIT) } else { 0 };
            fake_tsc.set_lookahead(early);
            let before = thread.now();
            let approx = thread.tsc_clock.approx(&thread.last);
            let after = thread.now();
            assert!(approx + early >= before && approx <= after + LIMIT / 4 + 10, "{approx} and not {after}");
            thread.check_bounds();
        }
        assert!(thread.trusts_the_counter());
    }

    /// The thread could not tell such a counter from one that has run for a moment. Its bounds would be too early by
    /// the whole idle time.
    #[test]
    fn a_counter_that_stands_still_in_idle_processors_is_not_used() {
        for halts in [false, true] {
            let fake_tsc = FakeTsc::new(2500);
            if halts {
                fake_tsc.halt_when_idle();
            }
            let Some(mut thread) = Thread::try_new(&fake_tsc) else {
                assert!(halts, "the counter is invariant");
                continue;
            };
            for seconds in 0..50 {
                thread.check_bounds();
                fake_tsc.idle(seconds * 1_000_000_000);
            }
            assert!(!halts && thread.trusts_the_counter());
        }
    }

    #[test]
    fn the_clock_is_seldom_read() {
        let fake_tsc = FakeTsc::new(2500);
        let mut thread = Thread::new(&fake_tsc);
        let (start, reads) = (fake_tsc.now(), fake_tsc.clock_reads());
        for _ in 0..100_000 {
            fake_tsc.advance(100);
            thread.check_bounds();
        }
        let passed = (fake_tsc.now() - start).as_nanos() as u64;
        assert!(u64::from(fake_tsc.clock_reads() - reads) <= passed / (LIMIT * 3 / 4));
    }

    #[test]
    fn the_bounds_hold_if_a_thread_is_preempted_at_a_clock_read() {
        let fake_tsc = FakeTsc::new(2500);
        let mut thread = Thread::new(&fake_tsc);
        for delay in [1, 500, 15_000, 4_000_000].repeat(100) {
            fake_tsc.advance(LIMIT);
            fake_tsc.delay_next_read(delay);
            (0..100).for_each(|_| {
                thread.check_bounds();
            });
        }
        assert!(thread.trusts_the_counter(), "the counter is right");
    }

    #[test]
    fn a_counter_that_jumps_forward_causes_a_new_anchor() {
        let fake_tsc = FakeTsc::new(2500);
        let mut thread = Thread::new(&fake_tsc);
        for cycles in [100, 10_000, 60_000, 1 << 40] {
            thread.check_bounds();
            fake_tsc.jump(cycles);
            (0..1000).for_each(|_| {
                thread.check_bounds();
            });
        }
        assert!(thread.trusts_the_counter());
    }

    #[test]
    fn a_counter_that_jumps_back_is_detected() {
        let fake_tsc = FakeTsc::new(2500);
        let mut thread = Thread::new(&fake_tsc);
        thread.check_bounds();
        fake_tsc.jump(-1_000_000);
        thread.latest = 0;
        (0..1000).for_each(|_| {
            thread.check_bounds();
        });
        assert!(!thread.trusts_the_counter());
        let reads = fake_tsc.clock_reads();
        (0..1000).for_each(|_| assert_eq!(thread.check_bounds(), 0));
        assert_eq!(fake_tsc.clock_reads() - reads, 1000);
    }

    #[test]
    fn a_counter_that_slows_down_is_detected_at_the_next_anchor() {
        let fake_tsc = FakeTsc::new(2500);
        let mut thread = Thread::new(&fake_tsc);
        thread.check_bounds();
        fake_tsc.set_frequency(1500);
        // The thread trusts the counter until the anchor is too old.
        fake_tsc.advance(LIMIT * 2);
        thread.latest = 0;
        (0..1000).for_each(|_| {
            thread.check_bounds();
        });
        assert!(!thread.trusts_the_counter());
    }
}

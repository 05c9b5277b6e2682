//! How fast the clock can run, told by a counter: the most time that so many counts can be.
//!
//! It is measured once, in [`SAMPLES`] legs of [`SAMPLE_TIME`]. On either end of a leg the counter is read before the clock and
//! after it. So the counts between the two looks at the clock are at the least those from `after` the first to `before`
//! the second, and at the most those from `before` the first to `after` the second, whatever held the thread up in
//! between. The legs' fastest is the pace; and if their slowest is not close to it, then the thread was held up
//! between counter and clock, or the machine slept in a leg, and all is measured again.
//!
//! ```text
//!     counter   before│after                    before│after
//!                     │                               │
//!     clock         start ──────── a leg ──────────► end
//! ```
//!
//! The kernel steers the clock to keep it right, by changing how much time a count is. It lets nobody steer by more than
//! a tenth either way (`adjtimex`: `tick`, and 500 ppm of `freq`), and if the pace was measured while it went slowest,
//! it can come to go 1.1 / 0.9 times as fast. So a quarter is put on top: [`MARGIN`].

use std::time::{Duration, Instant};

use super::counter::Source;

const SAMPLE_TIME: Duration = Duration::from_micros(100);
const SAMPLES: usize = 3;
/// How often to measure before the counter is given up.
const ATTEMPTS: usize = 10;
/// The fastest and the slowest that a leg tells may differ by one part in so many.
const AGREEMENT: u64 = 64;
/// One part in so many is put on top of what was measured.
const MARGIN: u64 = 4;
/// A pace is kept in 2^-32 ns a count.
const FRACTION: u32 = 32;

/// The most nanoseconds that a count can be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calibration(u64);

impl Calibration {
    /// Measures for a third of a millisecond or, if it is disturbed, some more. `None` if the counter makes no sense.
    pub(super) fn measure(source: &impl Source) -> Option<Self> {
        (0..ATTEMPTS).find_map(|_| Self::attempt(source))
    }

    fn attempt(source: &impl Source) -> Option<Self> {
        let (mut slowest, mut fastest) = (u64::MAX, 0);
        for _ in 0..SAMPLES {
            let sample = sample(source)?;
            slowest = slowest.min(sample.slowest);
            fastest = fastest.max(sample.fastest);
        }
        if fastest - slowest > slowest / AGREEMENT {
            return None;
        }
        fastest.checked_add(fastest.div_ceil(MARGIN)).map(Self)
    }

    /// The most nanoseconds that can be between two looks at the clock, so many counts from before the first until
    /// before, or after, the second.
    #[inline]
    pub(super) fn most_nanos(self, counts: u64) -> u64 {
        // Both count in whole units: one count more than the difference may have passed, and two nanoseconds for the
        // clock and the shift.
        let nanos = ((u128::from(counts) + 1) * u128::from(self.0)) >> FRACTION;
        u64::try_from(nanos).unwrap_or(u64::MAX).saturating_add(2)
    }

    /// As [`most_nanos`](Self::most_nanos), for counts that are [within](Self::counts_within) less than 2^31 ns.
    #[inline]
    pub(super) fn most_nanos_within(self, counts: u64) -> u64 {
        (((counts + 1) * self.0) >> FRACTION) + 2
    }

    /// The most counts for which [`most_nanos`](Self::most_nanos) is not above `nanos`. `None` if that is not even one.
    pub(super) fn counts_within(self, nanos: u64) -> Option<u64> {
        let counts = (u128::from(nanos.checked_sub(2)?) << FRACTION) / u128::from(self.0);
        u64::try_from(counts).ok()?.checked_sub(1).filter(|&counts| counts > 0)
    }
}

/// The bounds of what a count was in one leg, in 2^-32 ns.
struct Sample {
    slowest: u64,
    fastest: u64,
}

fn sample(source: &impl Source) -> Option<Sample> {
    let start = Bracket::take(source);
    let end = loop {
        let bracket = Bracket::take(source);
        if bracket.instant - start.instant >= SAMPLE_TIME {
            break bracket;
        }
        std::hint::spin_loop();
    };
    let nanos = (end.instant - start.instant).as_nanos() << FRACTION;
    let bound = |from: u64, to: u64| {
        let counts = to.checked_sub(from).filter(|&counts| counts > 0)?;
        u64::try_from(nanos.div_ceil(counts.into())).ok()
    };
    Some(Sample { slowest: bound(start.before, end.after)?, fastest: bound(start.after, end.before)? })
}

/// A look at the clock between two at the counter.
struct Bracket {
    before: u64,
    instant: Instant,
    after: u64,
}

impl Bracket {
    fn take(source: &impl Source) -> Self {
        Self { before: source.read_ordered(), instant: source.instant(), after: source.read_ordered() }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::super::fake_tsc::FakeTsc;
    use super::*;

    /// The most that a million counts can be, without the margin.
    fn million(calibration: Calibration) -> u64 {
        calibration.most_nanos(1_000_000) * MARGIN / (MARGIN + 1)
    }

    #[test]
    fn is_as_measured_and_never_slower() {
        for megahertz in [25, 1000, 2500, 5700] {
            let calibration = Calibration::measure(&&FakeTsc::new(megahertz)).expect("the counter makes sense");
            let truth = 1_000_000_000 / megahertz;
            let measured = million(calibration);
            assert!(truth <= measured && measured <= truth + truth / AGREEMENT + 1, "{measured} for {truth}");
        }
    }

    #[test]
    fn whoever_is_held_up_measures_again() {
        let fake_tsc = FakeTsc::new(2500);
        fake_tsc.hold_up(4_000_000);
        let calibration = Calibration::measure(&&fake_tsc).expect("the counter makes sense");
        assert!((400_000..410_000).contains(&million(calibration)));
    }

    /// A machine to which something happens at the counter's n-th read.
    struct Disturbed<F>(FakeTsc, Cell<u32>, F);

    impl<F: Fn(&FakeTsc, u32)> Source for Disturbed<F> {
        fn read_ordered(&self) -> u64 {
            self.1.set(self.1.get() + 1);
            (self.2)(&self.0, self.1.get());
            (&self.0).read_ordered()
        }
        fn read_unordered(&self) -> u64 {
            self.read_ordered()
        }
        fn is_invariant(&self) -> bool {
            true
        }
        fn instant(&self) -> Instant {
            (&self.0).instant()
        }
    }

    fn measure_disturbed(disturb: impl Fn(&FakeTsc, u32)) -> Option<Calibration> {
        Calibration::measure(&Disturbed(FakeTsc::new(2500), Cell::new(0), disturb))
    }

    #[test]
    fn a_sleep_in_a_leg_is_not_part_of_it() {
        for jump in [1_000_000, 1_000_000_000, -1_000_000] {
            let slept = |fake_tsc: &FakeTsc, nth| {
                if nth == 1000 {
                    fake_tsc.jump(jump);
                }
            };
            let calibration = measure_disturbed(slept).expect("it slept once only");
            assert!((400_000..410_000).contains(&million(calibration)));
        }
    }

    #[test]
    fn a_counter_without_a_pace_has_none() {
        assert!(measure_disturbed(|fake_tsc, _| fake_tsc.tune(0)).is_none(), "it stands");
        let erratic = |fake_tsc: &FakeTsc, nth| fake_tsc.tune(if nth % 10_000 < 5_000 { 1000 } else { 2500 });
        assert!(measure_disturbed(erratic).is_none());
    }

    #[test]
    fn counts_and_nanoseconds_agree() {
        let calibration = Calibration::measure(&&FakeTsc::new(2500)).expect("the counter makes sense");
        for nanos in [10, 1000, 20_000] {
            let counts = calibration.counts_within(nanos).expect("more than one count");
            assert!(calibration.most_nanos(counts) <= nanos);
            assert!(calibration.most_nanos(counts + 10) > nanos);
        }
        assert!(calibration.most_nanos(u64::MAX) > u64::MAX / 4, "no overflow in centuries");
    }
}

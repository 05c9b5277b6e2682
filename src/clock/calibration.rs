//! Calibration: the most time that a cycle of the counter can be on the clock.
//!
//! The first timer of a process measures this once, in [`SAMPLES`] samples of [`SAMPLE_TIME`]. At either end of a
//! sample, a thread reads the counter, the clock, and the counter again. The cycles between the two clock reads are at
//! least those from `after` the first read to `before` the second, and at most those from `before` the first to `after`
//! the second. This holds even if the thread is preempted in between.
//!
//! ```text
//!     counter   before│after                    before│after
//!                     │                               │
//!     clock         start ─────── a sample ─────────► end
//! ```
//!
//! The result is the maximum of all samples, in nanoseconds per cycle. If the minimum is not close to it, the thread
//! was preempted between counter and clock, or the machine slept during a sample. All samples are then taken again.
//!
//! The kernel slews the clock to keep it right, which changes the time per cycle. `adjtimex` allows a tenth in either
//! direction (`tick`, and 500 ppm of `freq`). If the samples were taken at the slowest clock, a cycle can later be
//! 1.1/0.9 times as long. So the calibration adds a [`MARGIN`] of a quarter.

use std::time::{Duration, Instant};

use super::counter::Source;

/// Length of a sample.
const SAMPLE_TIME: Duration = Duration::from_micros(100);
const SAMPLES: usize = 3;
/// Number of attempts before the counter is refused.
const ATTEMPTS: usize = 10;
/// The maximum and the minimum of the samples may differ by 1 / `AGREEMENT`.
const AGREEMENT: u64 = 64;
/// The calibration adds 1 / `MARGIN` to the maximum.
const MARGIN: u64 = 4;
/// Rates are in units of 2^-32 ns per cycle.
const FRACTION: u32 = 32;

/// The maximum rate of the clock, per cycle of the counter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calibration(u64);

impl Calibration {
    /// Measures the rate. This takes a third of a millisecond, or more if the thread is preempted. `None` if the
    /// counter has no stable rate.
    pub(super) fn measure(source: &impl Source) -> Option<Self> {
        (0..ATTEMPTS).find_map(|_| Self::attempt(source))
    }

    fn attempt(source: &impl Source) -> Option<Self> {
        let (mut min, mut max) = (u64::MAX, 0);
        for _ in 0..SAMPLES {
            let sample = sample(source)?;
            min = min.min(sample.min);
            max = max.max(sample.max);
        }
        if max - min > min / AGREEMENT {
            return None;
        }
        max.checked_add(max.div_ceil(MARGIN)).map(Self)
    }

    /// Returns the maximum time in nanoseconds between two clock reads. `cycles` are counted from before the first read
    /// to before or after the second.
    #[inline]
    pub(super) fn max_nanos(self, cycles: u64) -> u64 {
        // Counter and clock count whole units. So the truth may be one cycle more than the difference, and two
        // nanoseconds more for the clock and the shift.
        let nanos = ((u128::from(cycles) + 1) * u128::from(self.0)) >> FRACTION;
        u64::try_from(nanos).unwrap_or(u64::MAX).saturating_add(2)
    }

    /// Like [`max_nanos`](Self::max_nanos), but cheaper, for [cycles within](Self::cycles_within) less than 2^31 ns.
    #[inline]
    pub(super) fn max_nanos_within(self, cycles: u64) -> u64 {
        (((cycles + 1) * self.0) >> FRACTION) + 2
    }

    /// Returns the most cycles for which [`max_nanos`](Self::max_nanos) does not exceed `nanos`. `None` if that is not
    /// even one.
    pub(super) fn cycles_within(self, nanos: u64) -> Option<u64> {
        let cycles = (u128::from(nanos.checked_sub(2)?) << FRACTION) / u128::from(self.0);
        u64::try_from(cycles).ok()?.checked_sub(1).filter(|&cycles| cycles > 0)
    }
}

/// The bounds of the rate in one sample.
struct Sample {
    min: u64,
    max: u64,
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
        let cycles = to.checked_sub(from).filter(|&cycles| cycles > 0)?;
        u64::try_from(nanos.div_ceil(cycles.into())).ok()
    };
    Some(Sample { min: bound(start.before, end.after)?, max: bound(start.after, end.before)? })
}

/// A read of the clock between two reads of the counter.
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

    /// Returns the maximum time of 10^6 cycles, without the margin.
    fn million(calibration: Calibration) -> u64 {
        calibration.max_nanos(1_000_000) * MARGIN / (MARGIN + 1)
    }

    #[test]
    fn the_rate_is_as_measured_and_never_lower() {
        for megahertz in [25, 1000, 2500, 5700] {
            let calibration = Calibration::measure(&&FakeTsc::new(megahertz)).expect("a stable rate");
            let truth = 1_000_000_000 / megahertz;
            let measured = million(calibration);
            assert!(truth <= measured && measured <= truth + truth / AGREEMENT + 1, "{measured} for {truth}");
        }
    }

    #[test]
    fn a_preempted_thread_measures_again() {
        let fake_tsc = FakeTsc::new(2500);
        fake_tsc.delay_next_read(4_000_000);
        let calibration = Calibration::measure(&&fake_tsc).expect("a stable rate");
        assert!((400_000..410_000).contains(&million(calibration)));
    }

    /// A counter with a disturbance at its n-th read.
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
    fn a_sample_during_which_the_machine_slept_is_discarded() {
        for jump in [1_000_000, 1_000_000_000, -1_000_000] {
            let slept = |fake_tsc: &FakeTsc, nth| {
                if nth == 1000 {
                    fake_tsc.jump(jump);
                }
            };
            let calibration = measure_disturbed(slept).expect("the machine slept once");
            assert!((400_000..410_000).contains(&million(calibration)));
        }
    }

    #[test]
    fn a_counter_without_a_stable_rate_is_refused() {
        assert!(measure_disturbed(|fake_tsc, _| fake_tsc.set_frequency(0)).is_none(), "it stands still");
        let erratic = |fake_tsc: &FakeTsc, nth| fake_tsc.set_frequency(if nth % 10_000 < 5_000 { 1000 } else { 2500 });
        assert!(measure_disturbed(erratic).is_none());
    }

    #[test]
    fn cycles_and_nanoseconds_agree() {
        let calibration = Calibration::measure(&&FakeTsc::new(2500)).expect("a stable rate");
        for nanos in [10, 1000, 20_000] {
            let cycles = calibration.cycles_within(nanos).expect("more than one cycle");
            assert!(calibration.max_nanos(cycles) <= nanos);
            assert!(calibration.max_nanos(cycles + 10) > nanos);
        }
        assert!(calibration.max_nanos(u64::MAX) > u64::MAX / 4, "no overflow in centuries");
    }
}

//! A histogram of how late runs start, with buckets that widen with their values.

use std::fmt;
use std::ops::AddAssign;
use std::time::Duration;

use super::Count;

/// The logarithm of the number of buckets in an octave. The width of a bucket is at most an eighth of its values.
const FINENESS: u32 = 3;
const PER_OCTAVE: u64 = 1 << FINENESS;
const BUCKETS: usize = ((64 - FINENESS + 1) as usize) << FINENESS;

/// How much later than the tick of its deadline each run started, in buckets an eighth of their value wide.
///
/// ```
/// # use corewheel::{ManualClock, Timer};
/// # use std::time::Duration;
/// # let clock = ManualClock::new();
/// # let timer = Timer::builder().clock(clock.clone()).build()?;
/// # timer.schedule(Duration::from_secs(1), || ())?;
/// # clock.advance(Duration::from_secs(1));
/// let lateness = timer.stats().lateness;
/// println!("p50 {:?}, p99 {:?}, max {:?}", lateness.quantile(0.5), lateness.quantile(0.99), lateness.max());
/// # assert_eq!((lateness.count(), lateness.max()), (1, Duration::ZERO));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Lateness {
    /// The runs of each bucket; empty before the first run.
    buckets: Vec<u64>,
    max: u64,
}

impl Lateness {
    /// Returns the number of runs.
    ///
    /// ```
    /// # let timer = corewheel::Timer::new()?;
    /// let stats = timer.stats();
    /// assert_eq!(stats.lateness.count(), stats.fired);
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns the lateness that `share` of the runs did not exceed, for a share from 0.0 to 1.0.
    ///
    /// The result is rounded up, by at most an eighth. It is zero if there was no run.
    ///
    /// ```
    /// # let timer = corewheel::Timer::new()?;
    /// # use std::time::Duration;
    /// if timer.stats().lateness.quantile(0.99) > Duration::from_millis(10) {
    ///     eprintln!("over 1 % of the callbacks start 10 ms late");
    /// }
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn quantile(&self, share: f64) -> Duration {
        let wanted = (share.clamp(0.0, 1.0) * self.count() as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let bucket = self.buckets.iter().position(|runs| {
            seen += runs;
            seen >= wanted
        });
        Duration::from_nanos(bucket.map_or(0, last_of).min(self.max))
    }

    /// Returns the lateness, and the number of runs, of each bucket that has grown since `earlier`, a former reading.
    /// The lateness is rounded up, by at most an eighth.
    #[cfg(feature = "metrics")]
    pub(crate) fn since(&self, earlier: &Lateness) -> impl Iterator<Item = (Duration, u64)> {
        let before = earlier.buckets.iter().copied().chain(std::iter::repeat(0));
        let runs = self.buckets.iter().zip(before).map(|(now, before)| now.saturating_sub(before));
        let late = |bucket| Duration::from_nanos(last_of(bucket).min(self.max));
        runs.enumerate().filter(|&(_, runs)| runs > 0).map(move |(bucket, runs)| (late(bucket), runs))
    }

    /// Returns the greatest lateness, exactly.
    ///
    /// ```
    /// # let timer = corewheel::Timer::new()?;
    /// let lateness = timer.stats().lateness;
    /// assert!(lateness.quantile(0.5) <= lateness.max());
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max)
    }
}

impl fmt::Debug for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lateness")
            .field("count", &self.count())
            .field("p50", &self.quantile(0.5))
            .field("p99", &self.quantile(0.99))
            .field("max", &self.max())
            .finish()
    }
}

impl AddAssign<&Lateness> for Lateness {
    fn add_assign(&mut self, other: &Lateness) {
        if !other.buckets.is_empty() {
            self.buckets.resize(BUCKETS, 0);
        }
        for (sum, part) in self.buckets.iter_mut().zip(&other.buckets) {
            *sum += part;
        }
        self.max = self.max.max(other.max);
    }
}

/// A histogram that one thread writes and others read.
pub(crate) struct Recorder {
    buckets: [Count; BUCKETS],
    max: Count,
}

impl Recorder {
    pub(crate) fn new() -> Box<Self> {
        Box::new(Self { buckets: std::array::from_fn(|_| Count::default()), max: Count::default() })
    }

    #[inline]
    pub(crate) fn record(&self, lateness: Duration, shared: bool) {
        let nanos = u64::try_from(lateness.as_nanos()).unwrap_or(u64::MAX);
        self.max.raise(nanos);
        self.buckets[bucket_of(nanos)].add(1, shared);
    }

    /// Adds the recorded runs to `sum`.
    pub(crate) fn add_to(&self, sum: &mut Lateness) {
        sum.buckets.resize(BUCKETS, 0);
        for (sum, bucket) in sum.buckets.iter_mut().zip(&self.buckets) {
            *sum += bucket.get();
        }
        sum.max = sum.max.max(self.max.get());
    }
}

/// Returns the bucket of a value. There is one bucket for each value below `PER_OCTAVE`; above, each power of two has
/// `PER_OCTAVE` buckets.
#[inline]
fn bucket_of(value: u64) -> usize {
    if value < PER_OCTAVE {
        return value as usize;
    }
    let octave = value.ilog2() - FINENESS;
    (u64::from(octave) * PER_OCTAVE + (value >> octave)) as usize
}

/// Returns the greatest value of a bucket.
fn last_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let Some(octave) = (bucket / PER_OCTAVE).checked_sub(1) else {
        return bucket;
    };
    let first = (bucket - octave * PER_OCTAVE) << octave;
    first + ((1 << octave) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_belongs_to_it() {
        let mut values: Vec<u64> = (0..2000).collect();
        values.extend((0..64).flat_map(|bit| [1 << bit, (1 << bit) - 1, (1 << bit) + (1 << bit) / 3]));
        values.push(u64::MAX);
        for value in values {
            let bucket = bucket_of(value);
            assert!(bucket < BUCKETS);
            let last = last_of(bucket);
            assert!(last >= value && last - value <= value / 8, "{value} in a bucket to {last}");
            assert_eq!(bucket_of(last), bucket);
        }
    }

    #[test]
    fn a_sum_has_the_runs_and_the_greatest_lateness_of_its_parts() {
        let parts = [9, 3].map(|millis| {
            let (recorder, mut part) = (Recorder::new(), Lateness::default());
            recorder.record(Duration::from_millis(millis), false);
            recorder.add_to(&mut part);
            part
        });
        let mut sum = Lateness::default();
        parts.iter().for_each(|part| sum += part);
        sum += &Lateness::default();
        assert_eq!((sum.count(), sum.max()), (2, Duration::from_millis(9)));
        assert!(sum.quantile(0.5) < Duration::from_millis(4) && sum.quantile(1.0) == sum.max());
    }

    #[test]
    fn quantiles_tell_what_was_recorded() {
        let recorder = Recorder::new();
        let read = || {
            let mut lateness = Lateness::default();
            recorder.add_to(&mut lateness);
            lateness
        };
        assert_eq!(read().quantile(0.5), Duration::ZERO);
        for micros in 1..=1000 {
            recorder.record(Duration::from_micros(micros), micros % 2 == 0);
        }
        let lateness = read();
        assert_eq!(lateness.count(), 1000);
        assert_eq!(lateness.max(), Duration::from_micros(1000));
        assert_eq!(lateness.quantile(1.0), lateness.max());
        for (share, micros) in [(0.01, 10), (0.5, 500), (0.99, 990)] {
            let (found, exact) = (lateness.quantile(share), Duration::from_micros(micros));
            assert!(found >= exact && found <= exact * 9 / 8, "{share}: {found:?}");
        }
    }
}

//! How late runs start: a histogram with buckets that grow with what they hold.

use std::fmt;
use std::ops::AddAssign;
use std::time::Duration;

use super::Count;

/// Buckets to an octave, as a power of two: a bucket is at most an eighth of what it holds wide.
const FINENESS: u32 = 3;
const PER_OCTAVE: u64 = 1 << FINENESS;
const BUCKETS: usize = ((64 - FINENESS + 1) as usize) << FINENESS;

/// How much later than its due tick each run started, in buckets an eighth of their value wide.
#[derive(Clone, Default)]
pub struct Lateness {
    /// Runs by bucket; empty as long as there was none.
    buckets: Vec<u64>,
    max: u64,
}

impl Lateness {
    /// The number of runs.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The lateness that this share of the runs, from 0.0 to 1.0, did not exceed: exact to an eighth, rounded up. Zero
    /// if there was no run.
    pub fn quantile(&self, share: f64) -> Duration {
        let wanted = (share.clamp(0.0, 1.0) * self.count() as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let bucket = self.buckets.iter().position(|runs| {
            seen += runs;
            seen >= wanted
        });
        Duration::from_nanos(bucket.map_or(0, last_of).min(self.max))
    }

    /// How many runs were how late since `earlier`, a former state of this. Exact to an eighth, rounded up.
    #[cfg(feature = "metrics")]
    pub(crate) fn since(&self, earlier: &Lateness) -> impl Iterator<Item = (Duration, u64)> {
        let before = earlier.buckets.iter().copied().chain(std::iter::repeat(0));
        let runs = self.buckets.iter().zip(before).map(|(now, before)| now.saturating_sub(before));
        let late = |bucket| Duration::from_nanos(last_of(bucket).min(self.max));
        runs.enumerate().filter(|&(_, runs)| runs > 0).map(move |(bucket, runs)| (late(bucket), runs))
    }

    /// The greatest lateness.
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

/// A histogram that one thread fills and others read.
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

    /// Adds what was recorded to `sum`.
    pub(crate) fn add_to(&self, sum: &mut Lateness) {
        sum.buckets.resize(BUCKETS, 0);
        for (sum, bucket) in sum.buckets.iter_mut().zip(&self.buckets) {
            *sum += bucket.get();
        }
        sum.max = sum.max.max(self.max.get());
    }
}

/// Below `PER_OCTAVE` a bucket for each value, above it `PER_OCTAVE` buckets for each power of two.
#[inline]
fn bucket_of(value: u64) -> usize {
    if value < PER_OCTAVE {
        return value as usize;
    }
    let octave = value.ilog2() - FINENESS;
    (u64::from(octave) * PER_OCTAVE + (value >> octave)) as usize
}

/// The greatest value of a bucket.
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

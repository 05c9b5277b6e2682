//! A histogram of how late runs start, with buckets that widen with their values.

use std::fmt;
use std::ops::AddAssign;
use std::time::Duration;

/// The logarithm of the number of buckets in an octave. The width of a bucket is at most an eighth of its values.
const FINENESS: u32 = 3;
const PER_OCTAVE: u64 = 1 << FINENESS;
pub(super) const BUCKETS: usize = ((64 - FINENESS + 1) as usize) << FINENESS;

/// How much later than the tick of its deadline each run started, in buckets at most an eighth of their values wide.
///
/// A deadline that has passed when it is set counts from then. So the runs by which a fixed rate makes up for a stall
/// are hardly late: the deadline of such a run is set when the run before it has ended.
///
/// ```
/// use corewheel::{ManualClock, Timer};
/// use std::time::Duration;
/// let clock = ManualClock::new();
/// let timer = Timer::builder().clock(clock.clone()).build()?;
/// timer.schedule(Duration::from_secs(1), || ())?;
/// clock.advance(Duration::from_secs(1));
/// let lateness = timer.stats().lateness;
/// println!("p50 {:?}, p99 {:?}, max {:?}", lateness.quantile(0.5), lateness.quantile(0.99), lateness.max());
/// assert_eq!((lateness.count(), lateness.max()), (1, Duration::ZERO));
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
    /// let timer = corewheel::Timer::new()?;
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
    /// let timer = corewheel::Timer::new()?;
    /// use std::time::Duration;
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

    /// Returns the lateness of the runs since `earlier`, a former reading of the same timer or shard. O(buckets).
    ///
    /// [`max`](Self::max) is that of this reading: a maximum has no difference.
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer};
    /// use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// timer.schedule_at_fixed_rate(Duration::from_secs(1), Duration::from_secs(1), || ())?;
    /// let before = timer.stats().lateness;
    /// clock.advance(Duration::from_secs(60));
    /// let of_the_last_minute = timer.stats().lateness.since(&before);
    /// assert_eq!(of_the_last_minute.count(), 60);
    /// println!("p99 of the last minute: {:?}", of_the_last_minute.quantile(0.99));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn since(&self, earlier: &Lateness) -> Lateness {
        let before = earlier.buckets.iter().copied().chain(std::iter::repeat(0));
        let buckets = self.buckets.iter().zip(before).map(|(now, before)| now.saturating_sub(before)).collect();
        Lateness { buckets, max: self.max }
    }

    /// Returns each bucket that has runs: the greatest lateness that it covers, and its number of runs. In ascending
    /// order; O(buckets), of which there are 496.
    ///
    /// Up to 8 ns, each nanosecond has a bucket; above, each power of two is divided into 8 buckets of equal width. A
    /// bucket covers what exceeds the one below, which is missing here if it has no runs. The numbers are not
    /// cumulative.
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer};
    /// use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// timer.schedule(Duration::from_secs(1), || ())?;
    /// clock.advance(Duration::from_secs(1));
    /// let lateness = timer.stats().lateness;
    /// for (up_to, runs) in lateness.buckets() {
    ///     println!("{runs} runs were up to {up_to:?} late");
    /// }
    /// assert_eq!(lateness.buckets().map(|(_, runs)| runs).sum::<u64>(), lateness.count());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        let occupied = self.buckets.iter().copied().enumerate().filter(|&(_, runs)| runs > 0);
        occupied.map(|(bucket, runs)| (Duration::from_nanos(last_of(bucket)), runs))
    }

    /// Returns the greatest lateness since the timer was built, not rounded.
    ///
    /// ```
    /// let timer = corewheel::Timer::new()?;
    /// let lateness = timer.stats().lateness;
    /// assert!(lateness.quantile(0.5) <= lateness.max());
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max)
    }

    /// Adds the runs of each bucket.
    pub(super) fn add(&mut self, runs: impl Iterator<Item = u64>, max: u64) {
        self.buckets.resize(BUCKETS, 0);
        for (sum, part) in self.buckets.iter_mut().zip(runs) {
            *sum += part;
        }
        self.max = self.max.max(max);
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
            self.add(other.buckets.iter().copied(), other.max);
        }
    }
}

/// Returns the bucket of a value. There is one bucket for each value below `PER_OCTAVE`; above, each power of two has
/// `PER_OCTAVE` buckets.
#[inline]
pub(super) fn bucket_of(value: u64) -> usize {
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

#[cfg(all(test, not(loom)))]
#[path = "lateness_tests.rs"]
mod tests;

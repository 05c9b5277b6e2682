//! Unit tests of `lateness`.

use super::*;
use crate::stats::{ShardStats, ThreadCounters};

/// Returns what the counters have recorded.
fn recorded(counters: &ThreadCounters) -> Lateness {
    let mut sum = ShardStats::default();
    counters.add_to(&mut sum);
    sum.lateness
}

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
        let counters = ThreadCounters::default();
        counters.record_lateness(millis * 1_000_000);
        recorded(&counters)
    });
    let mut sum = Lateness::default();
    parts.iter().for_each(|part| sum += part);
    sum += &Lateness::default();
    assert_eq!((sum.count(), sum.max()), (2, Duration::from_millis(9)));
    assert!(sum.quantile(0.5) < Duration::from_millis(4) && sum.quantile(1.0) == sum.max());
}

#[test]
fn the_bucket_of_a_value_has_the_least_bound_that_is_not_below_it() {
    for nanos in (0..100).chain([1_000, 1 << 20, (1 << 20) - 1, 123_456_789, u64::MAX]) {
        let counters = ThreadCounters::default();
        counters.record_lateness(nanos);
        let lateness = recorded(&counters);
        let buckets: Vec<_> = lateness.buckets().collect();
        let [(bound, 1)] = buckets[..] else { panic!("{buckets:?}") };
        let bound = bound.as_nanos() as u64;
        assert!(bound >= nanos && bound - nanos <= nanos / 8, "{nanos} in a bucket to {bound}");
        let below = bucket_of(nanos).checked_sub(1).map(last_of);
        assert!(below.is_none_or(|below| below < nanos), "{nanos} fits the bucket below");
    }
}

#[test]
fn quantiles_tell_what_was_recorded() {
    let counters = ThreadCounters::default();
    assert_eq!(recorded(&counters).quantile(0.5), Duration::ZERO);
    for micros in 1..=1000 {
        counters.record_lateness(micros * 1000);
    }
    let lateness = recorded(&counters);
    assert_eq!(lateness.count(), 1000);
    assert_eq!(lateness.max(), Duration::from_micros(1000));
    assert_eq!(lateness.quantile(1.0), lateness.max());
    for (share, micros) in [(0.01, 10), (0.5, 500), (0.99, 990)] {
        let found = lateness.quantile(share);
        let exact = Duration::from_micros(micros);
        assert!(found >= exact && found <= exact * 9 / 8, "{share}: {found:?}");
    }
}

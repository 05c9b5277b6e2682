//! The bare wheel in comparison with others, on one thread, with 10^5 values waiting.
//!
//! ```text
//! cargo bench -p benches --bench wheel
//! cargo bench -p benches --bench wheel -- --quick
//! ```
//!
//! `insert` and `remove` are the cost of one operation. `advance` is the cost of expiring all 10^5 values, tick by
//! tick: about three values expire in four ticks. `nexus-timer` is left out there, because it scans every waiting value
//! at each tick, and `bitwheel`, because it expires far values late.

mod harness {
    pub mod random;
}
mod queue;

use std::iter;
use std::time::Duration;

use corewheel::Wheel;
use criterion::{Criterion, Throughput};

use harness::random::Random;
use queue::bitwheel::Bits;
use queue::heap::Heap;
use queue::nexus::Nexus;
use queue::{Queue, measure};

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    operation(&mut criterion, "insert", |(inserting, _)| inserting);
    operation(&mut criterion, "remove", |(_, removing)| removing);
    advance::<Wheel<u64>>(&mut criterion);
    advance::<Nexus>(&mut criterion);
    advance::<Bits>(&mut criterion);
    advance::<Heap>(&mut criterion);
    criterion.final_summary();
}

fn operation(criterion: &mut Criterion, name: &str, timed: fn((Duration, Duration)) -> Duration) {
    in_chunks::<Wheel<u64>>(criterion, name, timed);
    in_chunks::<Nexus>(criterion, name, timed);
    in_chunks::<Bits>(criterion, name, timed);
    in_chunks::<Heap>(criterion, name, timed);
}

fn in_chunks<Q: Queue>(criterion: &mut Criterion, name: &str, timed: fn((Duration, Duration)) -> Duration) {
    criterion.benchmark_group(name).bench_function(Q::NAME, |bencher| {
        let mut random = Random::new(0);
        let mut queue: Q = measure::filled(&mut random);
        bencher.iter_custom(|times| timed(measure::in_chunks(&mut queue, &mut random, times)));
    });
}

fn advance<Q: Queue>(criterion: &mut Criterion) {
    if !Q::STEPS {
        return;
    }
    let mut group = criterion.benchmark_group("advance");
    group.throughput(Throughput::Elements(measure::WAITING)).bench_function(Q::NAME, |bencher| {
        let mut random = Random::new(0);
        bencher.iter_custom(|times| iter::repeat_with(|| measure::drain::<Q>(&mut random)).take(times as usize).sum());
    });
}

//! The bare wheel beside the standard library's heap, on one thread, with 10^5 values waiting.
//!
//! ```text
//! cargo bench --bench wheel
//! cargo bench --bench wheel -- --quick
//! ```
//!
//! `insert` and `remove` are the cost of one. `advance` is the cost of taking all 10^5 out, tick by tick: some three
//! values expire in four ticks.

mod queue;
#[path = "workload/random.rs"]
mod random;

use std::time::{Duration, Instant};

use corewheel::Wheel;
use criterion::{Criterion, Throughput};

use queue::Queue;
use queue::heap::Heap;
use random::Random;

const WAITING: u64 = 100_000;
/// Deadlines are at most so many ticks away: two minutes of milliseconds.
const REACH: u64 = 1 << 17;
/// How many values are inserted, or removed, in one go.
const CHUNK: u64 = 1024;

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    for (name, timed) in [("insert", Timed::Insert), ("remove", Timed::Remove)] {
        in_chunks::<Wheel<u64>>(&mut criterion, name, timed);
        in_chunks::<Heap>(&mut criterion, name, timed);
    }
    advance::<Wheel<u64>>(&mut criterion);
    advance::<Heap>(&mut criterion);
    criterion.final_summary();
}

#[derive(Clone, Copy)]
enum Timed {
    Insert,
    Remove,
}

/// A queue with the values that wait.
fn filled<Q: Queue>(random: &mut Random) -> Q {
    let mut queue = Q::new();
    for value in 0..WAITING {
        queue.insert(random.next(1..REACH), value);
    }
    queue
}

/// Inserts values and removes them, beside those that wait; one of the two is timed.
fn in_chunks<Q: Queue>(criterion: &mut Criterion, name: &str, timed: Timed) {
    criterion.benchmark_group(name).bench_function(Q::NAME, |bencher| {
        let mut random = Random::new(0);
        let mut queue = filled::<Q>(&mut random);
        let mut keys = Vec::with_capacity(CHUNK as usize);
        bencher.iter_custom(|times| {
            let mut took = Duration::ZERO;
            let mut left = times;
            while left > 0 {
                let chunk = left.min(CHUNK);
                left -= chunk;
                let start = Instant::now();
                keys.extend((0..chunk).map(|value| queue.insert(random.next(1..REACH), value)));
                let inserted = Instant::now();
                for (value, key) in (0..).zip(keys.drain(..)) {
                    assert_eq!(queue.remove(key), Some(value));
                }
                took += match timed {
                    Timed::Insert => inserted - start,
                    Timed::Remove => inserted.elapsed(),
                };
            }
            took
        });
    });
}

/// Lets all the values expire, tick by tick.
fn advance<Q: Queue>(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("advance");
    group.throughput(Throughput::Elements(WAITING)).bench_function(Q::NAME, |bencher| {
        let mut random = Random::new(0);
        bencher.iter_custom(|times| {
            let drain = || {
                let mut queue = filled::<Q>(&mut random);
                let mut expired = 0;
                let start = Instant::now();
                for now in 1..REACH {
                    queue.advance(now, |deadline, _| {
                        assert_eq!(deadline, now);
                        expired += 1;
                    });
                }
                let took = start.elapsed();
                assert_eq!(expired, WAITING);
                took
            };
            std::iter::repeat_with(drain).take(times as usize).sum()
        });
    });
}

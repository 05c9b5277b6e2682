//! The measurements of a [`Queue`].

use std::time::{Duration, Instant};

use super::interface::Queue;
use crate::harness::random::Random;

pub const WAITING: u64 = 100_000;
/// Upper bound of the deadlines, in ticks: two minutes of milliseconds.
const REACH: u64 = 1 << 17;
/// Number of values that are inserted, or removed, at a time.
const CHUNK: u64 = 1024;

/// Returns a queue with the waiting values.
pub fn filled<Q: Queue>(random: &mut Random) -> Q {
    let mut queue = Q::new();
    for value in 0..WAITING {
        let key = queue.insert(random.next(1..REACH), value);
        queue.detach(key);
    }
    queue
}

/// Inserts and removes values while others wait. Returns the time of the insertions and that of the removals.
pub fn in_chunks<Q: Queue>(queue: &mut Q, random: &mut Random, times: u64) -> (Duration, Duration) {
    let (mut inserting, mut removing) = (Duration::ZERO, Duration::ZERO);
    let mut keys = Vec::with_capacity(CHUNK as usize);
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
        inserting += inserted - start;
        removing += inserted.elapsed();
    }
    (inserting, removing)
}

/// Expires all values, tick by tick. Returns the time that this took.
pub fn drain<Q: Queue>(random: &mut Random) -> Duration {
    let mut queue = filled::<Q>(random);
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
}

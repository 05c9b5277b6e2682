//! What is measured, on any [`Queue`].

use std::time::{Duration, Instant};

use super::Queue;
use crate::harness::random::Random;

pub const WAITING: u64 = 100_000;
/// Deadlines are at most so many ticks away: two minutes of milliseconds.
const REACH: u64 = 1 << 17;
/// How many values are inserted, or removed, in one go.
const CHUNK: u64 = 1024;

/// A queue with the values that wait.
pub fn filled<Q: Queue>(random: &mut Random) -> Q {
    let mut queue = Q::new();
    for value in 0..WAITING {
        let key = queue.insert(random.next(1..REACH), value);
        queue.detach(key);
    }
    queue
}

/// Inserts values and removes them, beside those that wait: how long each of the two took.
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

/// Lets all the values expire, tick by tick.
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

//! `Stragglers`: finds batches that take too long, and calls idle workers to assist.
//!
//! The driver adds each [`TimerBatch`] that it has dispatched to a pool, and checks it a millisecond later. It sleeps no
//! longer than until the next check. A batch is finished when the workers have dropped it.
//!
//! | the batch                       | in the timer's own pool           | in a borrowed rayon pool                     |
//! |---------------------------------|-----------------------------------|----------------------------------------------|
//! | is finished                     | is no longer watched              | is no longer watched                         |
//! | has begun                       | an alert calls the idle workers, once | more workers are called, once           |
//! | has not begun                   | the same                          | is checked again after twice the interval, up to 64 ms |

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::batch::TimerBatch;
use crate::executor::{Dispatcher, STRAGGLER_AFTER};

/// Maximum time between two checks of a batch that no worker has begun.
const MAX_INTERVAL: Duration = Duration::from_millis(64);

/// Dispatched batches, ordered by the time of their next check.
#[derive(Default)]
pub(super) struct Stragglers(BinaryHeap<Reverse<Watched>>);

/// A batch, and when to check it.
struct Watched {
    check_at: Instant,
    interval: Duration,
    batch: Arc<TimerBatch>,
}

impl Stragglers {
    /// Watches a batch that was dispatched just now.
    pub(super) fn add(&mut self, batch: Arc<TimerBatch>) {
        self.watch(batch, STRAGGLER_AFTER);
    }

    /// Watches a batch that should already be finished: the next check is at once.
    pub(super) fn add_straggler(&mut self, batch: Arc<TimerBatch>) {
        self.watch(batch, Duration::ZERO);
    }

    /// Calls for assistance with batches that take too long. Returns the time until the next check. Calls `unpin`
    /// before a thread is started.
    pub(super) fn check(&mut self, dispatcher: &Dispatcher, mut unpin: impl FnMut()) -> Option<Duration> {
        loop {
            let Watched { check_at, interval, batch } = &self.0.peek()?.0;
            // The driver has one count here. The workers drop theirs when they have finished the batch.
            if Arc::strong_count(batch) > 1 {
                let left = check_at.saturating_duration_since(Instant::now());
                if !left.is_zero() {
                    return Some(left);
                }
                if !dispatcher.assist(batch.clone(), &mut unpin) {
                    // All workers are busy. The longer they have been busy, the longer they may stay busy.
                    let (batch, interval) = (batch.clone(), (*interval * 2).min(MAX_INTERVAL));
                    self.0.pop();
                    self.watch(batch, interval);
                    continue;
                }
            }
            self.0.pop();
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    fn watch(&mut self, batch: Arc<TimerBatch>, interval: Duration) {
        self.0.push(Reverse(Watched { check_at: Instant::now() + interval, interval, batch }));
    }
}

impl Ord for Watched {
    fn cmp(&self, other: &Self) -> Ordering {
        self.check_at.cmp(&other.check_at)
    }
}

impl PartialOrd for Watched {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Watched {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Watched {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Ticks;
    use crate::executor::BorrowedPool;
    use crate::shard::{Shard, ShardSettings};

    const HOUR: Duration = Duration::from_secs(3600);

    fn batches<const N: usize>() -> [Arc<TimerBatch>; N] {
        let shard = Shard::new(ShardSettings::new(Ticks::new(None, STRAGGLER_AFTER)));
        [(); N].map(|()| Arc::new(TimerBatch::new(shard.clone(), 0, Vec::new())))
    }

    #[test]
    fn the_batch_that_should_be_finished_first_is_checked_first() {
        let [late, soon] = batches();
        let mut stragglers = Stragglers::default();
        stragglers.watch(late.clone(), HOUR);
        stragglers.add_straggler(soon.clone());
        let next = stragglers.check(&Dispatcher::Inline, || ());
        assert!(next.is_some_and(|left| left > HOUR / 2), "{next:?}");
        assert_eq!(
            (Arc::strong_count(&late), Arc::strong_count(&soon)),
            (2, 1),
            "the executor was asked about the other"
        );
    }

    #[test]
    fn a_finished_batch_is_not_checked() {
        let [finished] = batches();
        let mut stragglers = Stragglers::default();
        stragglers.watch(finished, HOUR);
        assert_eq!(stragglers.check(&Dispatcher::Inline, || ()), None);
        assert_eq!(stragglers.len(), 0);
    }

    /// The executor is asked again after each interval, which doubles up to the maximum.
    #[test]
    fn a_batch_that_no_worker_has_begun_is_checked_ever_more_rarely() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let dispatcher = Dispatcher::Borrowed(Arc::new(BorrowedPool::new(Arc::new(pool))));
        let [waiting] = batches();
        let mut stragglers = Stragglers::default();
        stragglers.add(waiting.clone());
        for _ in 0..10 {
            // Its time has come.
            let Reverse(watched) = stragglers.0.pop().unwrap();
            let next = (watched.interval * 2).min(MAX_INTERVAL);
            stragglers.0.push(Reverse(Watched { check_at: Instant::now(), ..watched }));
            assert!(stragglers.check(&dispatcher, || ()).is_some_and(|left| left <= MAX_INTERVAL));
            // A test thread that is descheduled for that long checks more than once.
            assert!(stragglers.0.peek().is_some_and(|Reverse(watched)| watched.interval >= next));
        }
    }
}

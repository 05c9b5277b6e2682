//! The driver's eye on batches that take long.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::batch::Batch;
use crate::executor::{Dispatcher, STRAGGLER_AFTER};

/// Maximum time between two looks at a batch that nobody has begun.
const MAX_INTERVAL: Duration = Duration::from_millis(64);

/// Batches that were handed over, by the time at which they should be finished.
#[derive(Default)]
pub(crate) struct Stragglers(BinaryHeap<Reverse<Watched>>);

struct Watched {
    check_at: Instant,
    interval: Duration,
    batch: Arc<Batch>,
}

impl Stragglers {
    /// Watches a batch that was handed over just now.
    pub(crate) fn add(&mut self, batch: Arc<Batch>) {
        self.watch(batch, STRAGGLER_AFTER);
    }

    /// Watches a batch that should be finished by now.
    pub(crate) fn add_straggler(&mut self, batch: Arc<Batch>) {
        self.watch(batch, Duration::ZERO);
    }

    /// Calls for assistance with batches that take too long, and returns the time until the next look. `unpin` is called
    /// before a thread is started.
    pub(crate) fn check(&mut self, dispatcher: &Dispatcher, mut unpin: impl FnMut()) -> Option<Duration> {
        loop {
            let Watched { check_at, interval, batch } = &self.0.peek()?.0;
            // The last of the workers that run it drops it when it is through.
            if Arc::strong_count(batch) > 1 {
                let left = check_at.saturating_duration_since(Instant::now());
                if !left.is_zero() {
                    return Some(left);
                }
                if !dispatcher.assist(batch.clone(), &mut unpin) {
                    // All workers are busy. The longer they have been, the longer they may be.
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

    fn watch(&mut self, batch: Arc<Batch>, interval: Duration) {
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
    use crate::clock::{Clock, Ticks};
    use crate::executor::BorrowedPool;
    use crate::shard::Shard;

    const HOUR: Duration = Duration::from_secs(3600);

    fn batches<const N: usize>() -> [Arc<Batch>; N] {
        let shard = Shard::new(Ticks::new(Clock::system(), STRAGGLER_AFTER), None, None, None, || false);
        [(); N].map(|()| Arc::new(Batch::new(shard.clone(), 0, Vec::new())))
    }

    #[test]
    fn the_batch_that_should_be_finished_first_is_checked_first() {
        let [late, soon] = batches();
        let mut stragglers = Stragglers::default();
        stragglers.watch(late.clone(), HOUR);
        stragglers.add_straggler(soon.clone());
        let next = stragglers.check(&Dispatcher::Inline, || ());
        assert!(next.is_some_and(|left| left > HOUR / 2), "{next:?}");
        assert_eq!((Arc::strong_count(&late), Arc::strong_count(&soon)), (2, 1), "the other has been seen to");
    }

    #[test]
    fn a_finished_batch_is_not_checked() {
        let [finished] = batches();
        let mut stragglers = Stragglers::default();
        stragglers.watch(finished, HOUR);
        assert_eq!(stragglers.check(&Dispatcher::Inline, || ()), None);
        assert_eq!(stragglers.len(), 0);
    }

    /// The executor is asked again and again, twice as long after, up to the longest interval.
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
            // A thread that is held up for as long looks more than once.
            assert!(stragglers.0.peek().is_some_and(|Reverse(watched)| watched.interval >= next));
        }
    }
}

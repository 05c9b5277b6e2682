//! The delay queues of a service, which its shutdown closes.

use std::mem;
use std::sync::{Arc, Mutex};

use super::Timer;
use crate::shard::Shard;
use crate::sync::lock;

/// Refers to a queue whose timer may be shut down.
pub(crate) trait QueueRef: Send + Sync {
    /// Returns whether the queue still exists.
    fn exists(&self) -> bool;

    /// Begins to close the queue: it is not over before it is [closed](Self::close).
    fn begin_close(&self);

    /// Closes the queue, if it still exists, and ends the waits of threads. What this returns calls wakers.
    fn close(&self) -> Option<Box<dyn FnOnce()>>;
}

/// The queues of a service that have not been closed.
#[derive(Default)]
pub(super) struct OpenQueues(pub(super) Mutex<Vec<Box<dyn QueueRef>>>);

impl Timer {
    /// Adds a new queue, which the shutdown closes. After the shutdown, closes it at once. Amortised constant
    /// time.
    pub(crate) fn add_queue(&self, queue: impl QueueRef + Clone + 'static) {
        if !self.0.is_closed() {
            self.0.queues.add(queue.clone());
        }
        // After it was added: a shutdown either finds it in the list, or is seen here. A new queue has no wakers.
        if self.0.is_closed() {
            queue.begin_close();
            drop(queue.close());
        }
    }

    /// Returns the id and the shards of the service.
    pub(crate) fn shards(&self) -> (u64, &[Arc<Shard>]) {
        (self.0.id, &self.0.shards)
    }
}

impl OpenQueues {
    fn add(&self, queue: impl QueueRef + 'static) {
        let mut queues = lock(&self.0);
        // Before the list grows, it forgets the queues that were dropped. At least half of it is free then.
        if queues.len() == queues.capacity() {
            queues.retain(|queue| queue.exists());
            let kept = queues.len();
            queues.reserve(kept);
        }
        queues.push(Box::new(queue));
    }

    /// Closes all queues, after `end_timers` has ended their timers. Calls wakers.
    pub(super) fn close(&self, end_timers: impl FnOnce()) {
        let queues = mem::take(&mut *lock(&self.0));
        // All before the first waker is called: it may wait for a thread that waits in another queue.
        queues.iter().for_each(|queue| queue.begin_close());
        end_timers();
        let wakes: Vec<_> = queues.iter().filter_map(|queue| queue.close()).collect();
        wakes.into_iter().for_each(|wake| wake());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    impl QueueRef for Weak<AtomicUsize> {
        fn exists(&self) -> bool {
            self.strong_count() > 0
        }

        fn begin_close(&self) {}

        fn close(&self) -> Option<Box<dyn FnOnce()>> {
            self.upgrade()?.fetch_add(1, Relaxed);
            None
        }
    }

    #[test]
    fn dropped_queues_are_forgotten_and_the_others_closed_once() {
        let queues = OpenQueues::default();
        let kept = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
        kept.iter().for_each(|queue| queues.add(Arc::downgrade(queue)));
        (0..1000).for_each(|_| queues.add(Arc::downgrade(&Arc::new(AtomicUsize::new(0)))));
        assert!(lock(&queues.0).len() <= 8);
        queues.close(|| ());
        queues.close(|| ());
        assert!(kept.iter().all(|queue| queue.load(Relaxed) == 1));
    }
}

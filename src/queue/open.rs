//! The queues of one service, which its shutdown closes.

use std::mem;
use std::sync::{Arc, Mutex, Weak};
use std::task::Waker;

use super::hand_over::HandOver;
use crate::sync::lock;

/// A queue whose timer may be shut down.
pub(super) trait Close: Send + Sync {
    /// Ends the waits of threads. Returns the wakers to be passed to `wake`.
    fn close(&self) -> Vec<Waker>;
    fn wake(&self, wakers: Vec<Waker>);
}

impl<T: Send, H: Send + Sync> Close for HandOver<T, H> {
    fn close(&self) -> Vec<Waker> {
        HandOver::close(self)
    }

    fn wake(&self, wakers: Vec<Waker>) {
        HandOver::wake(self, wakers);
    }
}

/// Number of queues from which those that are gone are looked for.
const FEW: usize = 16;

/// The queues of a service that have not been closed.
pub(crate) struct OpenQueues(Mutex<List>);

struct List {
    queues: Vec<Weak<dyn Close>>,
    /// The length from which queues that are gone are looked for.
    prune_at: usize,
}

impl OpenQueues {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(List { queues: Vec::new(), prune_at: FEW }))
    }

    /// Adds a queue. The caller then closes it if the service is shut down already. Amortised constant time.
    pub(super) fn add(&self, queue: &Arc<impl Close + 'static>) {
        let queue = Arc::downgrade(queue);
        let mut list = lock(&self.0);
        if list.queues.len() >= list.prune_at {
            list.queues.retain(|queue| queue.strong_count() > 0);
            list.prune_at = FEW.max(2 * list.queues.len());
        }
        list.queues.push(queue);
    }

    /// Closes all queues: the shards of the service are closed. Calls wakers.
    pub(crate) fn close(&self) {
        let queues = mem::take(&mut lock(&self.0).queues);
        // All before the first waker is called: it may wait for a thread that waits in another queue.
        let closed: Vec<_> = queues.iter().filter_map(Weak::upgrade).map(|queue| (queue.close(), queue)).collect();
        closed.into_iter().for_each(|(wakers, queue)| queue.wake(wakers));
    }

    /// Calls `f` under the lock.
    #[cfg(test)]
    pub(crate) fn while_locked<R>(&self, f: impl FnOnce() -> R) -> R {
        let _locked = lock(&self.0);
        f()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    impl Close for AtomicUsize {
        fn close(&self) -> Vec<Waker> {
            self.fetch_add(1, Relaxed);
            Vec::new()
        }

        fn wake(&self, _wakers: Vec<Waker>) {}
    }

    #[test]
    fn queues_that_are_gone_are_forgotten_and_the_others_closed_once() {
        let (queues, kept) = (OpenQueues::new(), Arc::new(AtomicUsize::new(0)));
        queues.add(&kept);
        (0..1000).for_each(|_| queues.add(&Arc::new(AtomicUsize::new(0))));
        assert!(lock(&queues.0).queues.len() <= 2 * FEW);
        queues.close();
        queues.close();
        assert_eq!(kept.load(Relaxed), 1);
    }
}

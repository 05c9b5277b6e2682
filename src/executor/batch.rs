//! What executors run: batches of callbacks, and loans of a shard's driver. They know neither timers nor shards.

use crate::sync::Arc;

/// Callbacks that expire together. Workers take them one by one from a common cursor, so any number of workers may run
/// the same batch.
pub(crate) trait Batch: Send + Sync + 'static {
    /// Runs all callbacks that no worker has taken.
    fn run(&self);
    /// Runs the next callback that no worker has taken. Returns false if there is none.
    fn run_one(&self) -> bool;
    /// Returns whether a worker has taken a callback.
    fn is_started(&self) -> bool;
    /// Returns whether no callback is left to take. Callbacks that were taken may still be running.
    fn is_exhausted(&self) -> bool;
    /// Splits the batch into one for each callback, or fewer once the timers are shut down.
    fn into_singles(self) -> impl Iterator<Item = Self>
    where
        Self: Sized;
}

/// A shard's driver, lent to a worker.
pub(crate) trait Loan: Send + Sync + 'static {
    /// Drives the shard until callbacks expire, and returns them for the worker to run. If it gives the driver back,
    /// returns an empty batch. `None`: the loan is over.
    fn next_batch(&self) -> Option<Arc<dyn Batch>>;
    /// Makes the loan end soon. Any thread may call this at any time.
    fn recall(&self);
}

/// A batch for tests of the executors.
#[cfg(all(test, not(loom)))]
pub(super) mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A batch that calls one function a number of times.
    pub(crate) struct Callbacks {
        callbacks: Vec<Box<dyn Fn() + Send + Sync>>,
        taken: AtomicUsize,
    }

    impl Callbacks {
        pub(crate) fn of(callbacks: usize, call: impl Fn() + Clone + Send + Sync + 'static) -> Self {
            let callbacks = (0..callbacks).map(|_| Box::new(call.clone()) as _).collect();
            Self { callbacks, taken: AtomicUsize::new(0) }
        }
    }

    impl super::Batch for Callbacks {
        fn run(&self) {
            while self.run_one() {}
        }

        fn run_one(&self) -> bool {
            let next = self.callbacks.get(self.taken.fetch_add(1, Ordering::Relaxed));
            next.is_some_and(|call| {
                call();
                true
            })
        }

        fn is_started(&self) -> bool {
            self.taken.load(Ordering::Relaxed) > 0
        }

        fn is_exhausted(&self) -> bool {
            self.taken.load(Ordering::Relaxed) >= self.callbacks.len()
        }

        fn into_singles(self) -> impl Iterator<Item = Self> {
            std::iter::empty()
        }
    }
}

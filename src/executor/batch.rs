//! What the executor knows of the timers that it runs, and of their shard.

use crate::sync::Arc;

/// Callbacks that are due together. Workers take them one by one from a common cursor, so any number of workers may run
/// the same batch.
pub(crate) trait Batch: Send + Sync + 'static {
    /// Runs the callbacks that nobody has taken yet.
    fn run(&self);
    /// Runs the next of them. False if none is left.
    fn run_one(&self) -> bool;
    /// Whether a callback has been taken.
    fn is_begun(&self) -> bool;
    /// Whether no callback is left to take. Those that were taken may still be running.
    fn is_spent(&self) -> bool;
    /// One batch for each callback. Fewer once the timers are shut down.
    fn singles(self) -> impl Iterator<Item = Self>
    where
        Self: Sized;
}

/// The driving of a shard, lent to a worker.
pub(crate) trait Loan: Send + Sync + 'static {
    /// Drives the shard until callbacks are due, which the worker then runs. `None`: the loan is over.
    fn next_batch(&self) -> Option<Arc<dyn Batch>>;
    /// Has the loan end soon. May be called at any time by any thread.
    fn recall(&self);
}

/// A batch for tests of what runs batches.
#[cfg(all(test, not(loom)))]
pub(super) mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// As many calls of one function.
    pub(in crate::executor) struct Callbacks {
        callbacks: Vec<Box<dyn Fn() + Send + Sync>>,
        taken: AtomicUsize,
    }

    impl Callbacks {
        pub(in crate::executor) fn of(callbacks: usize, call: impl Fn() + Clone + Send + Sync + 'static) -> Self {
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

        fn is_begun(&self) -> bool {
            self.taken.load(Ordering::Relaxed) > 0
        }

        fn is_spent(&self) -> bool {
            self.taken.load(Ordering::Relaxed) >= self.callbacks.len()
        }

        fn singles(self) -> impl Iterator<Item = Self> {
            std::iter::empty()
        }
    }
}

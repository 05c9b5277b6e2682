//! What executors run: batches of callbacks. They know neither timers nor shards.

/// Callbacks that expire together. Workers take them one by one from a common cursor, so any number of workers may run
/// the same batch.
pub(crate) trait Batch: Send + Sync + 'static {
    /// Runs all callbacks that no worker has taken. Calls `after_each` after each of them.
    fn run(&self, after_each: &dyn Fn());
    /// Returns whether no callback is left to take. Callbacks that were taken may still be running.
    fn is_exhausted(&self) -> bool;
    /// Splits the batch into one for each callback, or fewer once the timers are shut down.
    fn into_singles(self) -> impl Iterator<Item = Self>
    where
        Self: Sized;
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
        fn run(&self, after_each: &dyn Fn()) {
            while let Some(call) = self.callbacks.get(self.taken.fetch_add(1, Ordering::Relaxed)) {
                call();
                after_each();
            }
        }

        fn is_exhausted(&self) -> bool {
            self.taken.load(Ordering::Relaxed) >= self.callbacks.len()
        }

        fn into_singles(self) -> impl Iterator<Item = Self> {
            std::iter::empty()
        }
    }
}

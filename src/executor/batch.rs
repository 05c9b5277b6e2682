//! What executors run: batches of callbacks.

/// Callbacks that expire together. Workers take them one by one from a common cursor, so any number of workers may run
/// the same batch. A batch knows timers and shards; an executor knows neither.
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

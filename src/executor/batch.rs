//! What the executor knows of the timers that it runs.

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

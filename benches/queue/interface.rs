//! The interface of a single-threaded queue of deadlines that the benchmarks can measure.

/// A queue of values, ordered by their deadlines in ticks.
pub trait Queue {
    /// Name in the results.
    const NAME: &'static str;

    /// Whether the cost of an advance depends on the number of expiring values, not on that of waiting ones.
    const STEPS: bool = true;

    /// Identifies a waiting value.
    type Key;

    /// Returns an empty queue at tick 0.
    fn new() -> Self;

    fn insert(&mut self, deadline: u64, value: u64) -> Self::Key;

    /// Removes and returns a value; `None` if it has expired or was removed.
    fn remove(&mut self, key: Self::Key) -> Option<u64>;

    /// Releases the key of a value, which continues to wait.
    fn detach(&mut self, _: Self::Key) {}

    /// Expires every value whose deadline is not after `now`, in the order of the deadlines.
    fn advance(&mut self, now: u64, expired: impl FnMut(u64, u64));
}

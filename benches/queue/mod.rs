//! What a single-threaded queue of deadlines must be able to do to be measured.

pub mod heap;
pub mod measure;
pub mod nexus;
pub mod wheel;

/// Values by their deadlines, which are ticks.
pub trait Queue {
    /// What it is called in the results.
    const NAME: &'static str;

    /// Whether an advance costs by what expires, and not by all that waits.
    const STEPS: bool = true;

    /// Names a value while it waits.
    type Key;

    /// An empty one, for which it is now tick 0.
    fn new() -> Self;

    fn insert(&mut self, deadline: u64, value: u64) -> Self::Key;

    /// Takes a value out; `None` once it is gone.
    fn remove(&mut self, key: Self::Key) -> Option<u64>;

    /// Lets a value wait on without its key.
    fn detach(&mut self, _: Self::Key) {}

    /// Takes out every value whose deadline is not after `now`, in the order of the deadlines.
    fn advance(&mut self, now: u64, expired: impl FnMut(u64, u64));
}

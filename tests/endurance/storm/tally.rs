//! Counts that the records do not contain.

use corewheel::UnfiredTimer;

#[derive(Default)]
pub struct Tally {
    /// Resets by handles that returned true.
    pub resets: u64,
    /// Resets of sleeps, which return no result.
    pub sleep_resets: u64,
    /// Threads that ended by a panic.
    pub thread_panics: u64,
    pub unfired: Vec<UnfiredTimer>,
    /// Number of shutdowns that handed timers back.
    pub shutdowns: u32,
}

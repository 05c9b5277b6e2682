//! What the queue needs of the threads that serve it. Scenarios implement it with their own clock, and without
//! rayon.

use std::time::{Duration, Instant};

use crate::sync::thread;

/// Returns how often a certain thread has gone to sleep, if it is asleep now. `None` if it is awake or that is unknown.
/// Any thread may call it.
pub(crate) type SleepProbe = Box<dyn Fn() -> Option<u64> + Send + Sync>;

/// A thread that can run the worker loop.
pub(crate) trait WorkerThread {
    /// Returns the present.
    fn now(&self) -> Instant {
        Instant::now()
    }

    /// Parks the calling thread until it is unparked, for `timeout` at most. May return spuriously.
    fn park(&self, timeout: Option<Duration>) {
        match timeout {
            Some(timeout) => thread::park_timeout(timeout),
            None => thread::park(),
        }
    }

    /// Runs what a callback has left to rayon, except for broadcasts. Called after each callback.
    fn after_callback(&self) {}

    /// Runs all that callbacks have left to rayon.
    fn after_batch(&self) {}

    /// Returns the probe by which the pool finds out whether the thread is asleep.
    fn sleep_probe(&self) -> SleepProbe;
}

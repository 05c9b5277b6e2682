//! What the queue needs of the threads that serve it. Scenarios implement it with their own clock and rayon.

use std::time::{Duration, Instant};

use crate::sync::Arc;
use crate::sync::thread;

/// Returns how often a certain thread has gone to sleep, if it is asleep now. `None` if it is awake or that is unknown.
/// Any thread may call it.
pub(crate) type SleepProbe = Arc<dyn Fn() -> Option<u64> + Send + Sync>;

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

    /// Runs one of rayon's tasks from the thread's own queue. Returns false if there is none.
    fn run_own_task(&self) -> bool;
    /// Like [`run_own_task`](Self::run_own_task), but from any queue of the pool.
    fn run_any_task(&self) -> bool;
    /// Returns the probe by which the pool finds out whether the thread is asleep.
    fn sleep_probe(&self) -> SleepProbe;
}

//! What the queue asks of the threads that serve it.

use std::time::{Duration, Instant};

use crate::sync::{Arc, Condvar, MutexGuard};

/// Tells of a certain thread, to any thread: how often it has gone to sleep, if it is asleep; `None` if it is not, or
/// if that is not known.
pub(crate) type SleepProbe = Arc<dyn Fn() -> Option<u64> + Send + Sync>;

/// A thread that can wait: by the system's clock, or in a scenario by that of the scenario.
pub(crate) trait Waits {
    /// The present.
    fn now(&self) -> Instant {
        Instant::now()
    }

    /// Waits for a call, at most that long.
    fn wait_timeout<'a, T>(
        &self,
        call: &Arc<Condvar>,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> MutexGuard<'a, T> {
        call.wait_timeout(guard, timeout).unwrap_or_else(|poisoned| poisoned.into_inner()).0
    }
}

/// What a worker loop asks of the thread that runs it.
pub(crate) trait WorkerThread: Waits {
    /// Runs a piece of rayon's work that lies in the thread's own queue. False if there is none.
    fn run_own_task(&self) -> bool;
    /// The same with any queue of the pool.
    fn run_any_task(&self) -> bool;
    /// What tells the monitor whether the thread is asleep.
    fn sleep_probe(&self) -> SleepProbe;
}

/// What the monitor's loop asks of the thread that runs it.
pub(crate) trait MonitorThread: Waits {
    /// Starts a thread that runs the worker loop as an extra. False if the system refuses.
    fn start_extra(&self) -> bool;
}

//! What the queue needs of the threads that serve it. Scenarios implement it with their own clock and rayon.

use std::time::{Duration, Instant};

use crate::sync::{Arc, Condvar, MutexGuard, unpoisoned};

/// Returns how often a certain thread has gone to sleep, if it is asleep now. `None` if it is awake or that is unknown.
/// Any thread may call it.
pub(crate) type SleepProbe = Arc<dyn Fn() -> Option<u64> + Send + Sync>;

/// A thread that can wait with a timeout.
pub(crate) trait TimedWait {
    /// Returns the present.
    fn now(&self) -> Instant {
        Instant::now()
    }

    /// Waits on the condition variable until it is notified, for `timeout` at most.
    fn wait_timeout<'a, T>(
        &self,
        condvar: &Arc<Condvar>,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> MutexGuard<'a, T> {
        unpoisoned(condvar.wait_timeout(guard, timeout)).0
    }
}

/// A thread that can run the worker loop.
pub(crate) trait WorkerThread: TimedWait {
    /// Runs one of rayon's tasks from the thread's own queue. Returns false if there is none.
    fn run_own_task(&self) -> bool;
    /// Like [`run_own_task`](Self::run_own_task), but from any queue of the pool.
    fn run_any_task(&self) -> bool;
    /// Returns the probe by which the monitor finds out whether the thread is asleep.
    fn sleep_probe(&self) -> SleepProbe;
}

/// A thread that can run the monitor loop.
pub(crate) trait MonitorThread: TimedWait {
    /// Starts a thread that runs the worker loop as an extra worker. Returns false if the system refuses.
    fn start_extra(&self) -> bool;
}

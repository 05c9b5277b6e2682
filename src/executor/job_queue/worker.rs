//! What the queue needs of the threads that run its jobs, and what a check samples of them.

use std::time::{Duration, Instant};

use crate::sync::{Arc, AtomicBool, Ordering, thread};

/// A thread that can run the worker loop. Scenarios implement it with their own clock, and without rayon.
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

    /// Returns a function that any thread may call: how often the calling thread has gone to sleep, if it is asleep then.
    /// `None` if it is awake or that is unknown.
    fn sleeps_if_asleep() -> impl Fn() -> Option<u64> + Send + Sync + 'static;
}

/// What a check samples of a worker.
pub(super) struct WorkerStatus {
    /// See [`WorkerThread::sleeps_if_asleep`].
    sleeps_if_asleep: Box<dyn Fn() -> Option<u64> + Send + Sync>,
    /// The worker is inside a callback or rayon's work.
    pub(super) in_foreign_code: AtomicBool,
}

impl WorkerStatus {
    pub(super) fn new(sleeps_if_asleep: impl Fn() -> Option<u64> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { sleeps_if_asleep: Box::new(sleeps_if_asleep), in_foreign_code: AtomicBool::new(false) })
    }

    /// Runs `f`, which is foreign code.
    pub(super) fn run_foreign(&self, f: impl FnOnce()) {
        // Relaxed, as in `sample`: a hint. A stale value costs at most one extra thread too many or too few.
        self.in_foreign_code.store(true, Ordering::Relaxed);
        f();
        self.in_foreign_code.store(false, Ordering::Relaxed);
    }

    /// Returns how often the thread has gone to sleep, if it is asleep inside foreign code.
    pub(super) fn sample(&self) -> Option<u64> {
        let is_inside = || self.in_foreign_code.load(Ordering::Relaxed);
        is_inside().then(|| (self.sleeps_if_asleep)()).flatten().filter(|_| is_inside())
    }
}

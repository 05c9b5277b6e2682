//! What the queue needs of the threads that run its jobs, and what a check samples of them.

use std::time::{Duration, Instant};

use crate::sync::{Arc, AtomicBool, Ordering, thread};

/// A thread that can be a [worker](super::JobQueue::work). Scenarios implement it with their own clock, without rayon.
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

    /// Returns a function that any thread may call. It samples the calling thread: how often that has gone to sleep, if
    /// it is asleep. `None` if it is awake or that is unknown.
    fn sample() -> impl Fn() -> Option<u64> + Send + Sync + 'static;
}

/// What a check samples of a worker.
pub(super) struct WorkerStatus {
    /// See [`WorkerThread::sample`].
    sample: Box<dyn Fn() -> Option<u64> + Send + Sync>,
    /// The worker is inside a callback, or runs what callbacks have left to rayon.
    pub(super) in_foreign_code: AtomicBool,
}

impl WorkerStatus {
    pub(super) fn new(sample: impl Fn() -> Option<u64> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { sample: Box::new(sample), in_foreign_code: AtomicBool::new(false) })
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
        is_inside().then(|| (self.sample)()).flatten().filter(|_| is_inside())
    }
}

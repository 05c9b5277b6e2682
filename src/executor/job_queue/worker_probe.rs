//! What a check reads of a worker: whether it is asleep inside foreign code.

use super::worker_thread::SleepProbe;
use crate::sync::{Arc, AtomicBool, Ordering};

/// What a check reads of a worker.
pub(super) struct WorkerProbe {
    sleep_probe: SleepProbe,
    /// The worker is inside a callback or rayon's work.
    pub(super) in_foreign_code: AtomicBool,
}

impl WorkerProbe {
    pub(super) fn new(sleep_probe: SleepProbe) -> Arc<Self> {
        Arc::new(Self { sleep_probe, in_foreign_code: AtomicBool::new(false) })
    }

    /// Runs `f`, which is foreign code.
    pub(super) fn run_foreign(&self, f: impl FnOnce()) {
        // Relaxed, as in `sample`: a hint. A stale value costs at most one extra worker too many or too few.
        self.in_foreign_code.store(true, Ordering::Relaxed);
        f();
        self.in_foreign_code.store(false, Ordering::Relaxed);
    }

    /// Returns how often the thread has gone to sleep, if it is asleep inside foreign code.
    pub(super) fn sample(&self) -> Option<u64> {
        let is_inside = || self.in_foreign_code.load(Ordering::Relaxed);
        is_inside().then(|| (self.sleep_probe)()).flatten().filter(|_| is_inside())
    }
}

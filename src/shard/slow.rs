//! Reports callbacks that take long.
//!
//! A run is measured from just before the callback is called until it has returned or panicked, by the real clock: in
//! virtual time the timer's own clock stands still meanwhile. Without a hook no clock is read.
//!
//! The hook is called while the run is still in progress to all others: before the transition that ends the run, and within
//! the run's frame of the [call stack](super::call_stack). So whatever waits for the run waits for the hook too, and the
//! hook itself may call whatever a callback may call.

use std::sync::Arc;
use std::time::{Duration, Instant};

/// A run of a callback that took longer than [`Builder::on_slow`](crate::Builder::on_slow) allows.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct SlowCallback {
    /// How long the callback took, by the real clock, also in [virtual time](crate::ManualClock).
    ///
    /// This includes the drop of what a one-shot callback captured, unless the callback gave it away. It excludes
    /// [`on_panic`](crate::Builder::on_panic).
    pub took: Duration,
    /// How much later than its due tick the run started: its sample in [`Stats::lateness`](crate::Stats::lateness).
    pub late: Duration,
    /// The index of the callback's shard in [`Stats::shards`](crate::Stats::shards).
    pub shard: usize,
}

/// The hook for slow callbacks, with its threshold.
#[derive(Clone)]
pub(crate) struct SlowHook {
    over: Duration,
    call: Arc<dyn Fn(SlowCallback) + Send + Sync>,
}

/// Measures the runs of one shard for the hook.
pub(crate) struct SlowMonitor {
    hook: SlowHook,
    shard: usize,
}

/// A run that is measured.
pub(crate) struct MeasuredRun {
    late: Duration,
    began: Instant,
    took: Duration,
}

impl SlowHook {
    pub(crate) fn new(over: Duration, call: impl Fn(SlowCallback) + Send + Sync + 'static) -> Self {
        Self { over, call: Arc::new(call) }
    }

    /// Returns the monitor for the shard with this index.
    pub(crate) fn monitor(self, shard: usize) -> SlowMonitor {
        SlowMonitor { hook: self, shard }
    }
}

impl SlowMonitor {
    /// Calls the hook if the run was slow. Unwinds if the hook panics.
    pub(crate) fn report(&self, run: &MeasuredRun) {
        if run.took > self.hook.over {
            (self.hook.call)(SlowCallback { took: run.took, late: run.late, shard: self.shard });
        }
    }
}

impl MeasuredRun {
    /// Begins the measurement, just before the callback is called.
    pub(crate) fn begin(late: Duration) -> Self {
        Self { late, took: Duration::ZERO, began: Instant::now() }
    }

    /// Ends the measurement.
    pub(crate) fn end(&mut self) {
        self.took = self.began.elapsed();
    }
}

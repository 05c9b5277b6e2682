//! `on_slow`: the user's hook, which reports runs that take long. [`measuring`](super::measuring) calls it.

use std::sync::Arc;
use std::time::Duration;

/// A run of a callback that took longer than the threshold of [`Builder::on_slow`](crate::Builder::on_slow).
///
/// ```
/// use corewheel::{SlowCallback, Timer};
/// # use corewheel::ManualClock;
/// use std::sync::mpsc;
/// use std::{thread, time::Duration};
///
/// let (sender, reports) = mpsc::channel();
/// # let clock = ManualClock::new();
/// let timer = Timer::builder()
/// #   .clock(clock.clone())
///     .on_slow(Duration::from_millis(1), move |slow| sender.send(slow).unwrap())
///     .build()?;
/// timer.schedule(Duration::from_secs(1), || thread::sleep(Duration::from_millis(2)))?;
/// # clock.advance(Duration::from_secs(1));
/// let slow: SlowCallback = reports.recv()?;
/// assert!(slow.took > Duration::from_millis(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct SlowCallback {
    /// How long the callback took, by the real clock, even in [virtual time](crate::ManualClock).
    ///
    /// This includes the drop of what a one-shot callback captured, unless the callback gave it away. It excludes
    /// [`on_panic`](crate::Builder::on_panic).
    pub took: Duration,
    /// How much later than the tick of its deadline the run started: its sample in
    /// [`Stats::lateness`](crate::Stats::lateness).
    pub late: Duration,
    /// The index of the callback's shard in [`Stats::shards`](crate::Stats::shards).
    pub shard: usize,
}

/// The user's hook for slow callbacks, with its threshold.
#[derive(Clone)]
pub(crate) struct SlowHook {
    over: Duration,
    call: Arc<dyn Fn(SlowCallback) + Send + Sync>,
}

impl SlowHook {
    pub(crate) fn new(over: Duration, call: impl Fn(SlowCallback) + Send + Sync + 'static) -> Self {
        let call: Box<dyn Fn(SlowCallback) + Send + Sync> = Box::new(call);
        Self { over, call: call.into() }
    }

    /// Returns the monitor of the shard with this index.
    pub(crate) fn monitor(self, shard: usize) -> SlowMonitor {
        SlowMonitor { hook: self, shard }
    }
}

/// The hook of one shard, with the shard's index.
pub(crate) struct SlowMonitor {
    hook: SlowHook,
    shard: usize,
}

impl SlowMonitor {
    /// Calls the hook if the run took longer than the threshold. Unwinds if the hook panics.
    pub(super) fn report(&self, took: Duration, late: Duration) {
        if took > self.hook.over {
            (self.hook.call)(SlowCallback { took, late, shard: self.shard });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_run_is_slow_if_it_takes_longer_than_the_threshold() {
        let (sender, receiver) = mpsc::channel();
        let monitor = SlowHook::new(Duration::from_millis(3), move |slow| sender.send(slow).unwrap()).monitor(7);
        let report = |nanos| {
            monitor.report(Duration::from_nanos(nanos), Duration::from_millis(9));
            receiver.try_recv().map(|slow| (slow.took.as_nanos(), slow.late, slow.shard)).ok()
        };
        assert_eq!(report(3_000_000), None);
        assert_eq!(report(3_000_001), Some((3_000_001, Duration::from_millis(9), 7)));
    }
}

//! `on_slow`: the user's hook, which reports runs that take long.
//!
//! A worker measures from just before it calls the callback until the callback has returned or panicked. It uses the
//! real clock, because a virtual clock stands still meanwhile. Without a hook, it reads no clock.
//!
//! The worker calls the hook before the transition that ends the run, and within the run's frame on the
//! [call stack](crate::engine::call_stack). So a thread that waits for the run also waits for the hook. The hook may
//! call whatever a callback may call.

use std::sync::Arc;
use std::time::{Duration, Instant};

/// A run of a callback that took longer than the threshold of [`Builder::on_slow`](crate::Builder::on_slow).
///
/// ```
/// use corewheel::{ManualClock, SlowCallback, Timer};
/// use std::sync::mpsc;
/// use std::{thread, time::Duration};
///
/// let (sender, reports) = mpsc::channel();
/// let clock = ManualClock::new();
/// let timer = Timer::builder()
///     .clock(clock.clone())
///     .on_slow(Duration::from_millis(1), move |slow| sender.send(slow).unwrap())
///     .build()?;
/// timer.schedule(Duration::from_secs(1), || thread::sleep(Duration::from_millis(2)))?;
/// clock.advance(Duration::from_secs(1));
/// let slow: SlowCallback = reports.recv()?;
/// assert!(slow.took > Duration::from_millis(1));
/// assert!(slow.callback.ends_with("::{{closure}}"), "{}", slow.callback);
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
    /// How much later than the tick of its deadline the run started: its value in
    /// [`Stats::lateness`](crate::Stats::lateness).
    pub late: Duration,
    /// The index of the callback's shard in [`Stats::shards`](crate::Stats::shards).
    pub shard: usize,
    /// The name of the closure's type, by [`std::any::type_name`]. It names the function that scheduled the callback:
    /// `my_server::session::open::{{closure}}`, for example.
    pub callback: &'static str,
}

/// The user's hook for slow callbacks, with its threshold.
#[derive(Clone)]
pub(crate) struct SlowHook {
    pub(crate) over: Duration,
    pub(crate) call: Arc<dyn Fn(SlowCallback) + Send + Sync>,
}

impl SlowHook {
    pub(crate) fn new(over: Duration, call: impl Fn(SlowCallback) + Send + Sync + 'static) -> Self {
        let call: Box<dyn Fn(SlowCallback) + Send + Sync> = Box::new(call);
        Self { over, call: call.into() }
    }

    /// Begins to measure a run. Returns the present, and the report, in which the caller fills in how long it took.
    pub(super) fn begin(late: Duration, shard: usize, callback: &'static str) -> (Instant, SlowCallback) {
        (Instant::now(), SlowCallback { took: Duration::ZERO, late, shard, callback })
    }

    /// Calls the hook if the run took longer than the threshold. Unwinds if the hook panics.
    pub(super) fn report(&self, run: SlowCallback) {
        if run.took > self.over {
            (self.call)(run);
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
        let hook = SlowHook::new(Duration::from_millis(3), move |slow| sender.send(slow).unwrap());
        let report = |nanos| {
            let (_, run) = SlowHook::begin(Duration::from_millis(9), 7, "a closure");
            hook.report(SlowCallback { took: Duration::from_nanos(nanos), ..run });
            receiver.try_recv().map(|slow| (slow.took.as_nanos(), slow.late, slow.shard, slow.callback)).ok()
        };
        assert_eq!(report(3_000_000), None);
        assert_eq!(report(3_000_001), Some((3_000_001, Duration::from_millis(9), 7, "a closure")));
    }
}

//! The user's hooks: `on_panic`, which gets the panics of foreign code, and `on_slow`, which reports runs that take long.
//!
//! For `on_slow`, a worker measures from just before it calls the callback until the callback has returned or panicked.
//! It uses the real clock, because a virtual clock stands still meanwhile. Without a hook, it reads no clock.
//!
//! The worker calls the hook before the transition that ends the run, and within the run's frame on the
//! [call stack](crate::engine::call_stack). So a thread that waits for the run also waits for the hook. The hook may
//! call whatever a callback may call.

use std::any::Any;
use std::fmt;
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::shard::Shard;
use super::thread_state;
use crate::engine::entry::{Callback, CallbackKind, Table};

/// The user's hook `on_panic`.
pub(crate) type OnPanic = dyn Fn(Panicked) + Send + Sync;

/// A panic that a timer has caught, for [`Builder::on_panic`](crate::Builder::on_panic).
///
/// ```
/// use corewheel::{ManualClock, Panicked, Timer};
/// use std::{sync::mpsc, time::Duration};
/// let (sender, panics) = mpsc::channel();
/// let clock = ManualClock::new();
/// let timer = Timer::builder().clock(clock.clone()).on_panic(move |panicked| sender.send(panicked).unwrap()).build()?;
/// timer.schedule(Duration::from_secs(1), || panic!("defect {}", 17))?;
/// clock.advance(Duration::from_secs(1));
/// let panicked: Panicked = panics.recv()?;
/// assert_eq!(panicked.payload_as_str(), Some("defect 17"));
/// assert!(panicked.callback.is_some_and(|name| name.ends_with("{{closure}}")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Panicked {
    /// What the code has panicked with, as [`std::panic::catch_unwind`] returns it.
    /// [`resume_unwind`](std::panic::resume_unwind) passes it on.
    pub payload: Box<dyn Any + Send>,
    /// The name of the closure's type, by [`std::any::type_name`], if a callback has panicked, or its drop. It names the
    /// function that scheduled the callback: `my_server::session::open::{{closure}}`, for example. `None` for all else:
    /// a waker, a value of a queue, a hook, an executor, work that a callback has given to rayon.
    pub callback: Option<&'static str>,
    /// The index in [`Stats::shards`](crate::Stats::shards) of the shard whose timer, driver or waker it is. `None` if
    /// that is unknown, or if it is none's: an executor, rayon's work, the consumers and values of a queue, what the drop
    /// of the last [`Timer`](crate::Timer) drops.
    pub shard: Option<usize>,
}

impl Panicked {
    /// Returns the message, if the payload is a `&'static str` or a `String`, as that of [`panic!`] is.
    ///
    /// ```
    /// use corewheel::{Panicked, Timer};
    ///
    /// fn is_expected(panicked: &Panicked) -> bool {
    ///     panicked.payload_as_str().is_some_and(|message| message.contains("out of fuel"))
    /// }
    /// ```
    pub fn payload_as_str(&self) -> Option<&str> {
        message_of(&*self.payload)
    }
}

/// Returns the message of a panic, if it has one.
pub(super) fn message_of(payload: &(dyn Any + Send)) -> Option<&str> {
    payload.downcast_ref().copied().or_else(|| payload.downcast_ref().map(String::as_str))
}

/// One line for a log: what has panicked, and the message.
impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.callback.unwrap_or("what is no callback");
        write!(f, "{what} has panicked: {}", self.payload_as_str().unwrap_or("no message"))
    }
}

/// A run that is measured. `None` without an `on_slow` hook, and for a waker or a value of a queue, which are not reported.
pub(crate) type SlowRun = Option<(Instant, SlowCallback)>;

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
    /// Calls the hook if the run took longer than the threshold. Unwinds if the hook panics.
    fn report(&self, run: SlowCallback) {
        if run.took > self.over {
            (self.call)(run);
        }
    }
}

impl Shard {
    /// Begins to measure a run that starts this late, in nanoseconds.
    pub(super) fn begin_slow(&self, lateness: u64, callback: &Callback) -> SlowRun {
        let is_reported = matches!(callback.kind(), CallbackKind::Once | CallbackKind::Periodic);
        self.settings.on_slow.as_ref().filter(|_| is_reported)?;
        let (late, shard) = (Duration::from_nanos(lateness), self.settings.index);
        // The worker fills in how long it took.
        let run = SlowCallback { took: Duration::ZERO, late, shard, callback: callback.type_name() };
        Some((Instant::now(), run))
    }

    /// The callback has returned or panicked.
    pub(super) fn stop_slow(&self, run: &mut SlowRun) {
        if let Some((began, run)) = run {
            run.took = began.elapsed();
        }
    }

    /// Reports a run that took long.
    pub(super) fn report_slow(&self, run: SlowRun) {
        if let (Some((_, run)), Some(hook)) = (run, &self.settings.on_slow) {
            self.catch_panic(None, true, || hook.report(run));
        }
    }

    /// Counts a panic, and passes it to `on_panic`. Never unwinds. Its arguments are those of
    /// [`catch_panic`](Self::catch_panic).
    pub(crate) fn report_panic(&self, of: Option<Table>, is_its: bool, payload: Box<dyn Any + Send>) {
        thread_state::of(self).count(|counters| &counters.panicked);
        let callback = of.and_then(|table| table.closure_name());
        let panicked = Panicked { payload, callback, shard: is_its.then_some(self.settings.index) };
        self.ticks.manual.iter().for_each(|clock| clock.note_panic(|| panicked.to_string()));
        let deliver = || match &self.settings.on_panic {
            Some(hook) => hook(panicked),
            None => drop(panicked),
        };
        if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(deliver)) {
            // Leaked, as its drop may panic again, without end.
            mem::forget(payload);
        }
    }

    /// Reports a panic of what is no callback, if the shard still exists. `is_its`: it is code of that shard.
    #[cold]
    pub(crate) fn report_panic_if_alive(shard: Option<&Weak<Self>>, is_its: bool, payload: Box<dyn Any + Send>) {
        match shard.and_then(Weak::upgrade) {
            Some(shard) => shard.report_panic(None, is_its, payload),
            // Leaked, as its drop may panic.
            None => mem::forget(payload),
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
        let call = Arc::new(move |slow| sender.send(slow).unwrap());
        let hook = SlowHook { over: Duration::from_millis(3), call };
        let report = |nanos| {
            let (took, late) = (Duration::from_nanos(nanos), Duration::from_millis(9));
            hook.report(SlowCallback { took, late, shard: 7, callback: "a closure" });
            receiver.try_recv().map(|slow| (slow.took.as_nanos(), slow.late, slow.shard, slow.callback)).ok()
        };
        assert_eq!(report(3_000_000), None);
        assert_eq!(report(3_000_001), Some((3_000_001, Duration::from_millis(9), 7, "a closure")));
    }
}

//! The engine's [`RunHooks`]: counts how each timer ends, and reports panics.
//!
//! A worker comes here with a [batch](crate::drive), and the driver with wakers.
//! [`Core::run`](crate::engine::core::Core) makes the transitions. This file does what the engine cannot: it reads the
//! clock for the lateness, counts in the worker's own counters, returns permits, and passes panics to `on_panic`.
//!
//! | event                                | counted as             |
//! |--------------------------------------|------------------------|
//! | a run that is not periodic           | `fired`, `completed`   |
//! | a periodic run, which ends no timer  | `fired`                |
//! | the last periodic run                | `fired`, `completed`   |
//! | a cancel, a drop of its sleep, or a batch dropped unrun | `cancelled` |
//! | a poll at its deadline, before a run | `completed`            |
//! | a shutdown, for a sleep              | `completed`            |
//! | a shutdown, for a closure            | `unfired`              |
//!
//! A run that has returned also counts as `returned`: what has fired and not returned is running.
//!
//! All foreign code runs inside a function that catches panics.

use std::any::Any;
use std::fmt;
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Weak;
use std::time::{Duration, Instant};

use super::shard::Shard;
use super::slow_hook::{SlowCallback, SlowHook};
use super::thread_state;
use crate::engine::deliveries::Deliveries;
use crate::engine::entry::{Callback, CallbackKind, Table};
use crate::engine::run::{RunHooks, catch_panic};
use crate::stats::{Counter, ThreadCounters};

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
        self.payload.downcast_ref().copied().or_else(|| self.payload.downcast_ref().map(String::as_str))
    }
}

/// One line for a log: what has panicked, and the message.
impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.callback.unwrap_or("what is no callback");
        write!(f, "{what} has panicked: {}", self.payload_as_str().unwrap_or("no message"))
    }
}

impl Shard {
    /// Runs the callback of an entry whose batch expired at tick `due`. That of a value adds the value to the `deliveries`
    /// of the turn.
    #[inline]
    pub(crate) fn run(&self, index: u32, due: u64, deliveries: &mut Deliveries) {
        if self.core.run(index, due, &self, deliveries) {
            self.finish_in_flight();
        }
    }

    /// Cancels a timer whose batch, expired at tick `due`, is dropped unrun. Leaves it pending if it was reset to
    /// later.
    pub(crate) fn discard(&self, index: u32, due: u64) {
        if self.core.discard(index, due, &self) {
            self.finish_in_flight();
        }
    }

    /// Counts the end of a future's timer by a poll or by a shutdown, without a run.
    pub(super) fn count_completed(&self) {
        thread_state::with(self, |thread| thread.count(|counters| &counters.completed));
    }

    /// Runs foreign code, such as the drop of the callback `of` this table. Catches and reports its panic. `is_its`: the
    /// code is known to be of this shard.
    pub(crate) fn catch_panic(&self, of: Option<Table>, is_its: bool, f: impl FnOnce()) {
        if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(f)) {
            self.report_panic(of, is_its, payload);
        }
    }

    /// Counts a panic, and passes it to `on_panic`. Never unwinds. Its arguments are those of
    /// [`catch_panic`](Self::catch_panic).
    pub(crate) fn report_panic(&self, of: Option<Table>, is_its: bool, payload: Box<dyn Any + Send>) {
        thread_state::with(self, |thread| thread.count(|counters| &counters.panicked));
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

    /// Counts the end of a timer, and releases its permit under `max_pending`.
    pub(super) fn count_end(&self, which: impl FnOnce(&ThreadCounters) -> &Counter) {
        self.release_permit();
        thread_state::with(self, |thread| thread.count(which));
    }
}

impl RunHooks for &Shard {
    /// `None` without an `on_slow` hook, and for a waker or a value of a queue, which are not reported.
    type Run = Option<(Instant, SlowCallback)>;

    fn now(&self) -> u64 {
        self.ticks.now_tick()
    }

    #[inline]
    fn started(&self, deadline: u64, callback: &Callback) -> Self::Run {
        let kind = callback.kind();
        if matches!(kind, CallbackKind::Once | CallbackKind::Value) {
            self.release_permit();
        }
        let lateness = self.ticks.lateness(deadline);
        // In this order, so that a reader that sees the end of a timer also sees its run and its lateness.
        thread_state::with(self, |thread| {
            thread.record_lateness(lateness);
            thread.count(|counters| &counters.fired);
            if kind != CallbackKind::Periodic {
                thread.count(|counters| &counters.completed);
            }
        });
        let hook =
            self.settings.on_slow.as_ref().filter(|_| matches!(kind, CallbackKind::Once | CallbackKind::Periodic));
        hook.map(|_| SlowHook::begin(Duration::from_nanos(lateness), self.settings.index, callback.type_name()))
    }

    #[inline]
    fn returned(&self, run: &mut Self::Run) {
        if let Some((began, run)) = run {
            run.took = began.elapsed();
        }
        thread_state::with(self, |thread| thread.count(|counters| &counters.returned));
    }

    #[inline]
    fn ended(&self, run: Self::Run) {
        if let (Some((_, run)), Some(hook)) = (run, &self.settings.on_slow) {
            catch_panic(self, None, || hook.report(run));
        }
    }

    fn completed(&self) {
        self.count_end(|counters| &counters.completed);
    }

    fn cancelled(&self) {
        self.count_end(|counters| &counters.cancelled);
    }

    fn panicked(&self, of: Option<Table>, payload: Box<dyn Any + Send>) {
        self.report_panic(of, true, payload);
    }

    fn recycle(&self, index: u32) {
        thread_state::with(self, |thread| self.core.recycle(&mut thread.cache, index));
    }
}

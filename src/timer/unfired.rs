//! The timers that a shutdown returns.

use std::fmt;
use std::iter::FusedIterator;
use std::time::Instant;
use std::vec;

use super::census::TimerKind;
use crate::clock::Ticks;
use crate::engine::entry::{Callback, CallbackKind};

/// The callbacks of the timers that were pending when their [`Timer`](crate::Timer) was shut down, in the order of
/// their deadlines.
///
/// [`Timer::shutdown`](crate::Timer::shutdown) returns it. Dropping it drops the closures.
///
/// ```
/// use corewheel::{ManualClock, Timer};
/// use std::time::Duration;
/// let timer = Timer::builder().clock(ManualClock::new()).build()?;
/// let start = timer.now();
/// timer.schedule(Duration::from_secs(20), || println!("flushed"))?;
/// timer.schedule(Duration::from_secs(10), || println!("committed"))?;
/// let unfired = timer.shutdown();
/// assert_eq!(unfired.len(), 2);
/// let deadlines: Vec<_> = unfired.map(|timer| (timer.deadline - start).as_secs()).collect();
/// assert_eq!(deadlines, [10, 20]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Unfired {
    /// The callbacks with the ticks of their deadlines, sorted by these.
    timers: vec::IntoIter<(u64, Callback)>,
    /// Converts these ticks to instants.
    ticks: Ticks,
    /// The deadline of a tick that no instant stands for: no earlier than any other.
    never: Instant,
}

/// The callback of a timer that was pending when its [`Timer`](crate::Timer) was shut down. Dropping it drops the
/// closure.
///
/// ```
/// use corewheel::{ManualClock, Timer};
/// use std::time::Duration;
/// let timer = Timer::builder().clock(ManualClock::new()).build()?;
/// timer.schedule(Duration::from_secs(10), || println!("committed"))?;
/// let soon = timer.now() + Duration::from_secs(60);
/// for unfired in timer.shutdown() {
///     if unfired.deadline < soon {
///         unfired.run();
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[non_exhaustive]
pub struct UnfiredTimer {
    /// The deadline, rounded up to the service's tick. For a repeating timer, that of its next run.
    pub deadline: Instant,
    callback: Callback,
}

impl UnfiredTimer {
    /// Runs the callback on the calling thread; a repeating callback runs once.
    ///
    /// # Panics
    /// Panics if the callback panics.
    ///
    /// ```
    /// let timer = corewheel::Timer::new()?;
    /// use std::{sync::mpsc, time::Duration};
    /// let (sender, receiver) = mpsc::channel();
    /// let minute = Duration::from_secs(60);
    /// timer.schedule_at_fixed_rate(minute, minute, move || sender.send("saved").unwrap())?;
    /// timer.shutdown().for_each(|unfired| unfired.run());
    /// assert_eq!(receiver.iter().collect::<Vec<_>>(), ["saved"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run(self) {
        // Only a value of a queue reads the tick.
        self.callback.run();
    }

    /// Returns the name of the closure's type, by [`std::any::type_name`], which names the function that scheduled the
    /// timer.
    ///
    /// ```
    /// let timer = corewheel::Timer::new()?;
    /// use std::time::Duration;
    /// timer.schedule(Duration::from_secs(60), || println!("saved"))?;
    /// for unfired in timer.shutdown() {
    ///     println!("not run: {}", unfired.callback());
    ///     assert!(unfired.callback().ends_with("{{closure}}"));
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn callback(&self) -> &'static str {
        self.callback.type_name()
    }

    /// Returns whether the callback was to run once, [`Callback`](TimerKind::Callback), or again and again,
    /// [`Repeating`](TimerKind::Repeating).
    ///
    /// ```
    /// use corewheel::{Timer, TimerKind};
    /// use std::time::Duration;
    /// let timer = Timer::new()?;
    /// let minute = Duration::from_secs(60);
    /// timer.schedule(minute, || println!("saved"))?;
    /// timer.schedule_at_fixed_rate(minute, minute, || println!("a report"))?;
    /// // The last save, but no further report.
    /// let once = timer.shutdown().filter(|unfired| unfired.kind() == TimerKind::Callback);
    /// assert_eq!(once.map(|unfired| unfired.run()).count(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn kind(&self) -> TimerKind {
        if self.callback.kind() == CallbackKind::Periodic { TimerKind::Repeating } else { TimerKind::Callback }
    }
}

impl fmt::Debug for UnfiredTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnfiredTimer")
            .field("deadline", &self.deadline)
            .field("kind", &self.kind())
            .field("callback", &self.callback())
            .finish_non_exhaustive()
    }
}

impl Unfired {
    /// Returns `timers`, each a callback with the tick of its deadline, sorted by these ticks.
    pub(super) fn new(mut timers: Vec<(u64, Callback)>, ticks: Ticks) -> Self {
        // Unstable, because a stable sort would need half as much memory again.
        timers.sort_unstable_by_key(|&(tick, _)| tick);
        let latest = timers.iter().rev().find_map(|&(tick, _)| ticks.instant(tick));
        let never = ticks.far_future();
        Self { timers: timers.into_iter(), never: latest.map_or(never, |latest| latest.max(never)), ticks }
    }

    fn timer(&self, (tick, callback): (u64, Callback)) -> UnfiredTimer {
        UnfiredTimer { deadline: self.ticks.instant(tick).unwrap_or(self.never), callback }
    }
}

impl fmt::Debug for Unfired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unfired").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl Iterator for Unfired {
    type Item = UnfiredTimer;

    fn next(&mut self) -> Option<UnfiredTimer> {
        self.timers.next().map(|timer| self.timer(timer))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.timers.size_hint()
    }
}

impl DoubleEndedIterator for Unfired {
    fn next_back(&mut self) -> Option<UnfiredTimer> {
        self.timers.next_back().map(|timer| self.timer(timer))
    }
}

impl ExactSizeIterator for Unfired {}
impl FusedIterator for Unfired {}

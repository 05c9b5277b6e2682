//! Pending timers, as a user sees them: the census of what armed them, and what a shutdown hands back.

use std::any;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use std::iter::FusedIterator;
use std::time::Instant;
use std::vec;

use super::timer::Timer;
use crate::clock::{Ticks, UNKNOWN_NANOS};
use crate::engine::entry::{Callback, CallbackKind, Entry};
use crate::future::Sleep;

/// The pending timers of one origin, in a [census](Timer::census).
///
/// ```
/// use corewheel::{Group, TimerKind, ManualClock, Timer};
/// use std::time::Duration;
/// let timer = Timer::builder().clock(ManualClock::new()).build()?;
/// for seconds in [10, 30, 20] {
///     timer.schedule(Duration::from_secs(seconds), || println!("idle: closing"))?;
/// }
/// let Some(Group { name, kind, pending, earliest, latest, .. }) = timer.census().pop() else { panic!() };
/// assert!(name.ends_with("{{closure}}"), "{name}");
/// assert_eq!((kind, pending, latest - earliest), (TimerKind::Callback, 3, Duration::from_secs(20)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Group {
    /// The name of a type, by [`std::any::type_name`]: that of the closure, which names the function that scheduled the
    /// timers; that of the value, for a [`DelayQueue`](crate::DelayQueue); or that of [`Sleep`], for all futures.
    pub name: &'static str,
    /// What the timers do when they are due.
    pub kind: TimerKind,
    /// How many of them are pending.
    pub pending: u64,
    /// The earliest of their deadlines, each rounded up to the service's tick. During a run of a repeating timer, its
    /// deadline is that of the run. That of a timer that is never due is a hundred years ahead.
    pub earliest: Instant,
    /// The latest of their deadlines, by the same rules.
    pub latest: Instant,
}

/// What a timer does when it is due: of those of a [`Group`], or of an [`UnfiredTimer`].
///
/// ```
/// use corewheel::{DelayQueue, TimerKind, ManualClock, Timer};
/// use std::time::Duration;
/// let timer = Timer::builder().clock(ManualClock::new()).build()?;
/// let queue = DelayQueue::new(&timer);
/// queue.push(Duration::from_secs(1), "a job")?;
/// assert_eq!(timer.census()[0].kind, TimerKind::Value);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum TimerKind {
    /// It runs a callback once.
    Callback,
    /// It runs a callback again and again.
    Repeating,
    /// It completes a future: a [`Sleep`], a [`Timeout`](crate::Timeout) or a tick of an
    /// [`Interval`](crate::Interval).
    Sleep,
    /// It makes a value of a [`DelayQueue`](crate::DelayQueue) due.
    Value,
}

impl TimerKind {
    fn of(kind: CallbackKind) -> Self {
        match kind {
            CallbackKind::Once => Self::Callback,
            CallbackKind::Periodic => Self::Repeating,
            CallbackKind::Waker => Self::Sleep,
            CallbackKind::Value => Self::Value,
        }
    }
}

impl Timer {
    /// Returns what is pending now, by what armed it, most numerous first.
    ///
    /// For diagnosis: when timers pile up, the first group tells which function schedules them. The counts add up to
    /// [`len`](Self::len). They are exact while no other thread uses the timer. Otherwise a timer that begins or ends
    /// during the call may be in the result or not; one that had ended before is not. So may a future that another task
    /// polls during the call: to call the new waker, its timer ends and begins again.
    ///
    /// Visits every entry in memory, pending or not: some 50 ms for a million. No thread waits for it, and it takes no
    /// lock. Allocates for each group. After a [`shutdown`](Self::shutdown), and in the child of a [fork](Self#fork), it
    /// finds nothing.
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer};
    /// use std::time::Duration;
    /// let timer = Timer::builder().clock(ManualClock::new()).build()?;
    /// fn accept(timer: &Timer) -> Result<(), Box<dyn std::error::Error>> {
    ///     timer.schedule(Duration::from_secs(60), || println!("idle: closing"))?;
    ///     Ok(())
    /// }
    /// for _ in 0..1000 {
    ///     accept(&timer)?;
    /// }
    /// timer.schedule_at_fixed_rate(Duration::ZERO, Duration::from_secs(1), || println!("a report"))?;
    /// let census = timer.census();
    /// assert_eq!(census.iter().map(|group| group.pending).collect::<Vec<_>>(), [1000, 1]);
    /// assert!(census[0].name.contains("accept"), "{}", census[0].name);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn census(&self) -> Vec<Group> {
        let mut found = HashMap::new();
        for shard in self.0.shards.iter().filter(|shard| !shard.is_inherited()) {
            let now = self.0.ticks.now_tick();
            for (state, name) in shard.core.slab.in_memory().filter_map(Entry::observe) {
                let kind = TimerKind::of(state.kind());
                let name = if kind == TimerKind::Sleep { any::type_name::<Sleep>() } else { name };
                let due = self.0.ticks.display_deadline(state.deadline(now), UNKNOWN_NANOS);
                let new = Group { name, kind, pending: 0, earliest: due, latest: due };
                let group = found.entry((name, kind)).or_insert(new);
                group.pending += 1;
                group.earliest = group.earliest.min(due);
                group.latest = group.latest.max(due);
            }
        }
        let mut groups: Vec<_> = found.into_values().collect();
        groups.sort_unstable_by_key(|group| (Reverse(group.pending), group.name));
        groups
    }
}

/// The callbacks of the timers that were pending when their [`Timer`] was shut down, in the order of their
/// deadlines.
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

/// The callback of a timer that was pending when its [`Timer`] was shut down. Dropping it drops the closure.
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
        TimerKind::of(self.callback.kind())
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

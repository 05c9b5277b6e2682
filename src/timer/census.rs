//! The census: what is pending, by what armed it.

use std::any;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Instant;

use super::timer::Timer;
use crate::clock::UNKNOWN_NANOS;
use crate::engine::entry::{CallbackKind, Entry};
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

/// What a timer does when it is due: of those of a [`Group`], or of an [`UnfiredTimer`](crate::UnfiredTimer).
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
        let mut found = HashMap::<(&str, CallbackKind), (u64, Instant, Instant)>::new();
        for shard in self.0.shards.iter().filter(|shard| !shard.is_inherited()) {
            let now = self.0.ticks.now_tick();
            for (state, name) in shard.core.slab.in_memory().filter_map(Entry::observe) {
                let due = self.0.ticks.display_deadline(state.deadline(now), UNKNOWN_NANOS);
                let (pending, earliest, latest) = found.entry((name, state.kind())).or_insert((0, due, due));
                (*pending, *earliest, *latest) = (*pending + 1, due.min(*earliest), due.max(*latest));
            }
        }
        let mut groups: Vec<_> = found
            .into_iter()
            .map(|((name, kind), (pending, earliest, latest))| {
                let (name, kind) = match kind {
                    CallbackKind::Once => (name, TimerKind::Callback),
                    CallbackKind::Periodic => (name, TimerKind::Repeating),
                    CallbackKind::Waker => (any::type_name::<Sleep>(), TimerKind::Sleep),
                    CallbackKind::Value => (name, TimerKind::Value),
                };
                Group { name, kind, pending, earliest, latest }
            })
            .collect();
        groups.sort_unstable_by_key(|group| (Reverse(group.pending), group.name));
        groups
    }
}

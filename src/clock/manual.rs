//! Virtual time.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, Weak};
use std::time::{Duration, Instant};

use super::quiescence::{Quiesce, wait_for_all};

/// A clock that stands still until it is told to move: virtual time, for tests.
///
/// Give a clone to [`Builder::clock`](crate::Builder::clock); any number of timers may share one clock. No deadline, no
/// order and no `now` of a timer on it depends on the real clock. Its timers do take locks, unlike others: the one of
/// the clock, which is held for some instructions.
///
/// # Order
/// The clock stops at every tick of every timer at which something is due. Ticks count from a timer's
/// [`build`](crate::Builder::build), so those of two timers need not be the same instants. At each stop all that is due
/// runs, and finishes before the clock moves on. What is due at one tick runs in any order, and at the same time as far
/// as the executors have threads: such callbacks may wait for each other, whatever shard or timer they belong to.
///
/// # What makes an `advance` hang
/// [`advance`](Self::advance) waits for all that is due. So it does not return
/// - while a callback waits for something that the advancing thread does after the `advance`, or for another thread
///   that advances the same clock;
/// - while callbacks wait for each other that have no thread each: [`Inline`](crate::Executor::Inline) gives a shard
///   one thread, and `Pool { threads: 1 }` one to them all, unless the pool may grow;
/// - if a [custom executor](crate::Executor::Custom) keeps a job without running or dropping it, or leaks it; or if it
///   is the advancing thread itself that runs the jobs, after the `advance`;
/// - if something is always due: a [fixed delay](crate::Timer::schedule_with_fixed_delay) of zero, or a
///   [recurring](crate::Timer::schedule_recurring) deadline that never gets past the present. Such a timer runs again
///   and again at one instant.
///
/// Where the clock can tell that it would wait for the calling thread, it panics instead.
///
/// ```
/// use corewheel::{ManualClock, Timer};
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let timer = Timer::builder().clock(clock.clone()).build()?;
/// let hourly = timer.schedule(Duration::from_secs(3600), || println!("an hour has passed"))?;
/// clock.advance(Duration::from_secs(3599));
/// assert!(hourly.is_pending());
/// clock.advance(Duration::from_secs(1));
/// assert!(!hourly.is_pending());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ManualClock(Arc<State>);

struct State {
    start: Instant,
    /// How long after `start` the clock stands. It stays there while any thread has this for reading.
    elapsed: RwLock<Duration>,
    /// Held by the thread that moves the clock.
    moving: Mutex<()>,
    shards: Mutex<Shards>,
}

/// The shards that live by a clock.
#[derive(Default)]
struct Shards {
    next_id: u64,
    /// In the order of their registration, in which they are always asked.
    list: BTreeMap<u64, Weak<OnClock>>,
}

/// A shard as the clock sees it.
pub(crate) type OnClock = dyn Quiesce<Time = Instant>;

/// Keeps a shard on its clock's list.
pub(crate) struct Registration {
    clock: ManualClock,
    id: u64,
}

/// A clock that does not move for as long as this lives. The thread that has it must not read the clock.
pub(crate) struct Pinned<'a> {
    /// By reference: an `Option` of this is passed on where time is real, and costs nothing in registers.
    start: &'a Instant,
    elapsed: RwLockReadGuard<'a, Duration>,
}

impl ManualClock {
    /// Returns a clock that stands at some instant.
    pub fn new() -> ManualClock {
        ManualClock(Arc::new(State {
            start: Instant::now(),
            elapsed: RwLock::new(Duration::ZERO),
            moving: Mutex::new(()),
            shards: Mutex::default(),
        }))
    }

    /// Returns the instant at which the clock stands.
    pub fn now(&self) -> Instant {
        self.pin().now()
    }

    /// Moves the clock forward by `by`, and returns once every callback that was due by then, in every timer on this
    /// clock, has finished, including those that such callbacks scheduled.
    ///
    /// The callbacks run tick by tick in the [order](Self#order) of their deadlines, and see [`now`](Self::now) at their
    /// own tick. Concurrent calls add up. `advance(Duration::ZERO)` waits for what is due already. Wakers are called,
    /// but what the woken tasks do is not waited for. See also [what makes it hang](Self#what-makes-an-advance-hang).
    ///
    /// # Panics
    /// If it would wait for the calling thread: inside a callback of a timer on this clock, on any thread of such a
    /// timer (of its shards, or of its [`Pool`](crate::Executor::Pool)), and on the only thread of a
    /// [`Rayon`](crate::Executor::Rayon) pool that such a timer uses. And if an [`Instant`] cannot hold the sum.
    #[track_caller]
    pub fn advance(&self, by: Duration) {
        let moving = self.begin();
        let target = self.now().checked_add(by);
        self.run_until(target.expect("a clock cannot be advanced past the last `Instant`: advance it by less"), moving);
    }

    /// Moves the clock forward to `to` in the manner of [`advance`](Self::advance). To an earlier instant it does
    /// nothing.
    ///
    /// # Panics
    /// As [`advance`](Self::advance).
    #[track_caller]
    pub fn advance_to(&self, to: Instant) {
        let moving = self.begin();
        if to >= self.now() {
            self.run_until(to, moving);
        }
    }

    #[track_caller]
    fn begin(&self) -> MutexGuard<'_, ()> {
        assert!(
            !self.shards().iter().any(|shard| shard.needs_this_thread()),
            "a callback, or another thread that runs callbacks, cannot advance the clock they run by, as it would wait \
             for itself: advance from another thread"
        );
        lock(&self.0.moving)
    }

    fn run_until(&self, target: Instant, _moving: MutexGuard<'_, ()>) {
        while let Some(next) = self.wait_for_quiescence().filter(|&next| next <= target) {
            self.set(next.max(self.now()));
        }
        self.set(target);
        // What another thread has sent since the last look is due by now, and nobody else asks for it.
        self.wait_for_quiescence();
    }

    /// Has all shards do what is due. Returns when the first wants to be asked again.
    fn wait_for_quiescence(&self) -> Option<Instant> {
        wait_for_all(|| self.shards())
    }

    fn set(&self, now: Instant) {
        let mut elapsed = self.0.elapsed.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        *elapsed = now.duration_since(self.0.start);
    }

    /// Keeps the clock where it stands.
    pub(super) fn pin(&self) -> Pinned<'_> {
        let elapsed = self.0.elapsed.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        Pinned { start: &self.0.start, elapsed }
    }

    /// Lets a shard live by this clock, for as long as the registration lives.
    pub(crate) fn register(&self, shard: Weak<OnClock>) -> Registration {
        let mut shards = lock(&self.0.shards);
        let id = shards.next_id;
        shards.next_id += 1;
        shards.list.insert(id, shard);
        Registration { clock: self.clone(), id }
    }

    fn shards(&self) -> Vec<Arc<OnClock>> {
        lock(&self.0.shards).list.values().filter_map(Weak::upgrade).collect()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // Nothing is kept of the shard: not even its empty allocation, which a `Weak` would keep.
        lock(&self.clock.0.shards).list.remove(&self.id);
    }
}

impl Pinned<'_> {
    pub(super) fn now(&self) -> Instant {
        *self.start + *self.elapsed
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManualClock").field("now", &self.now()).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::super::quiescence::Quiet;
    use super::*;

    /// A shard in which nothing is due, and when the clock has asked it.
    struct Requested {
        clock: ManualClock,
        at: Mutex<Vec<Instant>>,
    }

    impl Quiesce for Requested {
        type Time = Instant;

        fn request(&self) -> Option<u64> {
            lock(&self.at).push(self.clock.now());
            None
        }

        fn wait(&self, _request: Option<u64>) -> Quiet<Instant> {
            Quiet { next: None, worked: false }
        }

        fn needs_this_thread(&self) -> bool {
            false
        }
    }

    /// Another thread may send a timer between the last look at a shard and the move of the clock. Nobody else asks for it.
    #[test]
    fn shards_are_asked_once_more_when_the_clock_has_moved() {
        let clock = ManualClock::new();
        let asked = Arc::new(Requested { clock: clock.clone(), at: Mutex::default() });
        let shard: Arc<OnClock> = asked.clone();
        let _registration = clock.register(Arc::downgrade(&shard));
        let target = clock.now() + Duration::from_secs(1);
        clock.advance_to(target);
        assert_eq!(lock(&asked.at).last(), Some(&target));
    }
}

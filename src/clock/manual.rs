//! Virtual time.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use crossbeam_utils::atomic::AtomicCell;

/// A clock that stands still until it is told to move: virtual time, for tests.
///
/// Give a clone to [`Builder::clock`](crate::Builder::clock); any number of timers may share one clock. A timer on it
/// never reads the real clock.
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
    elapsed: AtomicCell<Duration>,
    /// Held by the thread that moves the clock.
    moving: Mutex<()>,
    shards: Mutex<Vec<Weak<dyn Settle>>>,
}

/// A shard as the clock sees it.
pub(crate) trait Settle: Send + Sync {
    /// Returns when all that is due by now has been run, but for what other shards have sent meanwhile.
    fn settle(&self) -> Settled;
    /// Whether the shard may be waiting for the calling thread.
    fn is_on_this_thread(&self) -> bool;
}

/// What a shard says when it has settled.
pub(crate) struct Settled {
    /// When to settle again: at its next deadline or before.
    pub(crate) next: Option<Instant>,
    /// Whether it has run anything since it last settled.
    pub(crate) worked: bool,
}

impl ManualClock {
    /// A clock that stands at some instant.
    pub fn new() -> ManualClock {
        ManualClock(Arc::new(State {
            start: Instant::now(),
            elapsed: AtomicCell::new(Duration::ZERO),
            moving: Mutex::new(()),
            shards: Mutex::new(Vec::new()),
        }))
    }

    /// The instant at which the clock stands.
    pub fn now(&self) -> Instant {
        self.0.start + self.0.elapsed.load()
    }

    /// Moves the clock forward by `by`, and returns once every callback that was due by then, in every timer on this
    /// clock, has finished, including those that such callbacks scheduled.
    ///
    /// The callbacks run tick by tick in the order of their deadlines, and see [`now`](Self::now) at their own tick.
    /// Concurrent calls add up. `advance(Duration::ZERO)` waits for what is due already.
    ///
    /// # Panics
    /// If called inside a callback of a timer on this clock, which would wait for itself; and if an [`Instant`]
    /// cannot hold the sum.
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
    pub fn advance_to(&self, to: Instant) {
        let moving = self.begin();
        if to >= self.now() {
            self.run_until(to, moving);
        }
    }

    fn begin(&self) -> MutexGuard<'_, ()> {
        assert!(
            !self.shards().iter().any(|shard| shard.is_on_this_thread()),
            "a callback cannot advance the clock it runs by, as it would wait for itself: \
             advance from another thread"
        );
        lock(&self.0.moving)
    }

    fn run_until(&self, target: Instant, _moving: MutexGuard<'_, ()>) {
        while let Some(next) = self.settle().filter(|&next| next <= target) {
            self.set(next.max(self.now()));
        }
        self.set(target);
        self.settle();
    }

    /// Settles all shards until none has work for another, and returns when the first wants to settle again.
    fn settle(&self) -> Option<Instant> {
        loop {
            let mut worked = false;
            let next = self
                .shards()
                .iter()
                .filter_map(|shard| {
                    let settled = shard.settle();
                    worked |= settled.worked;
                    settled.next
                })
                .min();
            if !worked {
                return next;
            }
        }
    }

    fn set(&self, now: Instant) {
        self.0.elapsed.store(now.duration_since(self.0.start));
    }

    /// Lets a shard live by this clock, for as long as it lives.
    pub(crate) fn register(&self, shard: Weak<dyn Settle>) {
        lock(&self.0.shards).push(shard);
    }

    fn shards(&self) -> Vec<Arc<dyn Settle>> {
        let mut shards = lock(&self.0.shards);
        shards.retain(|shard| shard.strong_count() > 0);
        shards.iter().filter_map(Weak::upgrade).collect()
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

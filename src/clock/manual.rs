//! Virtual time.

use std::fmt;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
#[cfg(feature = "wall")]
use std::time::SystemTime;
use std::time::{Duration, Instant};

use crossbeam_utils::atomic::AtomicCell;

#[cfg(feature = "wall")]
use super::jumping::{Jumps, OnJump, Readings, TIME_OF_DAY, nanos_since_epoch};
use super::quiescence::{Quiesce, wait_for_all};
use crate::sync::lock;

/// A clock that stands still until a call advances it: virtual time, for tests.
///
/// Pass a clone to [`Builder::clock`](crate::Builder::clock). Any number of timers may share one clock. No deadline, no
/// order and no `now` of these timers depends on the real clock.
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
///
/// # Order
///
/// The clock stops at each tick at which a timer of any service is due. The ticks of a service count from its
/// [`build`](crate::Builder::build), so those of two services may fall on different instants. At each stop, everything
/// that is due runs and finishes before the clock goes on.
///
/// Callbacks of one tick run in any order, and at the same time as far as the executors have threads. They may
/// therefore wait for each other, even across shards and services.
///
/// # What makes an `advance` hang
///
/// [`advance`](Self::advance) waits for everything that is due. It does not return
///
/// - while a callback waits for an action of the advancing thread after the `advance`, or for another thread that
///   advances the same clock;
/// - while callbacks wait for each other and there are fewer threads than callbacks:
///   [`Inline`](crate::Executor::Inline) gives a shard one thread, and `Pool { threads: 1 }` one to all of them, unless
///   the pool may grow;
/// - if a [custom executor](crate::Executor::Custom) keeps or leaks a job without running or dropping it, or runs its
///   jobs on the advancing thread after the `advance`;
/// - while all threads of an executor advance the clock, as in `rayon::broadcast(|_| clock.advance(by))` beside a timer
///   with [`RayonGlobal`](crate::Executor::RayonGlobal): no thread is left for its callbacks;
/// - if something is always due: a [fixed delay](crate::Timer::schedule_with_fixed_delay) of zero, or a
///   [recurring](crate::Timer::schedule_recurring) deadline that never passes the present. Such a timer runs again and
///   again at one instant.
///
/// If the clock can tell that it would wait for the calling thread, it panics instead.
///
/// # The end of virtual time
///
/// The virtual time of a timer lasts 2^48 of its [ticks](crate::Builder::tick), counted from its `build`: 8.9 years of
/// microseconds, 8,900 years of milliseconds. An advance beyond that panics.
#[derive(Clone)]
pub struct ManualClock(Arc<Inner>);

struct Inner {
    start: Instant,
    /// The time since `start`. Set by the thread that advances the clock.
    elapsed: AtomicCell<Duration>,
    /// Locked by the thread that advances the clock.
    advancing: Mutex<()>,
    /// The shards on the clock, in the order of their registration, which is also the order in which they are woken.
    shards: Mutex<Vec<Weak<dyn Quiesce<Time = Instant>>>>,
    /// The report of the first panic since the last look, if the clock propagates panics.
    panics: OnceLock<Mutex<Option<String>>>,
    #[cfg(feature = "wall")]
    jumps: Jumps,
}

impl ManualClock {
    /// Returns a clock that stands at an arbitrary instant.
    ///
    /// ```
    /// use corewheel::ManualClock;
    /// let clock = ManualClock::new();
    /// assert_eq!(clock.now(), clock.now());
    /// ```
    pub fn new() -> ManualClock {
        ManualClock(Arc::new(Inner {
            start: Instant::now(),
            elapsed: AtomicCell::default(),
            advancing: Mutex::new(()),
            shards: Mutex::default(),
            panics: OnceLock::new(),
            #[cfg(feature = "wall")]
            jumps: Jumps::new(),
        }))
    }

    /// Makes a panic of a timer on this clock the panic of the `advance` in which it occurs: an assertion in a callback that
    /// fails then fails the test. Default: off, as the panic of a callback affects no other timer.
    ///
    /// Covers all that [`on_panic`](crate::Builder::on_panic) reports, and calls that hook as before. The clock stops at the
    /// tick of the first panic, once all that is due by then has run. Then [`advance`](Self::advance),
    /// [`advance_to`](Self::advance_to) or [`advance_to_next`](Self::advance_to_next) panics with the message, and with the
    /// name of the callback. A panic outside of an `advance`, as in the drop of a closure that is cancelled, is that of the
    /// next. So a test that ends without one calls `advance(Duration::ZERO)`. Applies to all clones of the clock, in
    /// constant time.
    ///
    /// ```should_panic
    /// use corewheel::{ManualClock, Timer};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new().propagate_panics();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// timer.schedule(Duration::from_secs(1), || assert_eq!(6 * 7, 43))?;
    /// clock.advance(Duration::from_secs(1)); // panics
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn propagate_panics(self) -> Self {
        self.0.panics.get_or_init(Mutex::default);
        self
    }

    /// Keeps the report of the first panic for the next `advance`, if this clock propagates panics.
    pub(crate) fn note_panic(&self, report: impl FnOnce() -> String) {
        if let Some(panics) = self.0.panics.get() {
            lock(panics).get_or_insert_with(report);
        }
    }

    /// Returns the instant at which the clock stands. While another thread sets the time, this waits for some
    /// instructions.
    ///
    /// ```
    /// use corewheel::ManualClock;
    /// use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let start = clock.now();
    /// clock.advance(Duration::from_secs(5));
    /// assert_eq!(clock.now() - start, Duration::from_secs(5));
    /// ```
    pub fn now(&self) -> Instant {
        self.0.start + self.0.elapsed.load()
    }

    /// Advances the clock by `by`, and returns once every callback due by then has finished, in every timer on this
    /// clock.
    ///
    /// This includes callbacks that such callbacks schedule. Callbacks run tick by tick in the [order](Self#order) of
    /// their deadlines, and see [`now`](Self::now) at their own tick. The clock waits until wakers have been called and
    /// values of delay queues are due, but not for what the woken tasks do. Concurrent calls add up.
    /// `advance(Duration::ZERO)` waits for what is due already. See also [what makes it
    /// hang](Self#what-makes-an-advance-hang).
    ///
    /// # Panics
    /// Panics if it would wait for the calling thread:
    ///
    /// - inside a callback of a timer on this clock;
    /// - on any thread of such a timer: a driver thread, or a thread of its [`Pool`](crate::Executor::Pool) or its
    ///   [`Rayon`](crate::Executor::Rayon) pool, since all of these threads may advance the clock at once.
    ///
    /// Also panics at [the end of virtual time](Self#the-end-of-virtual-time), if an [`Instant`] cannot represent the sum,
    /// and if a callback has panicked on a clock that [propagates panics](Self::propagate_panics).
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer};
    /// use std::{sync::mpsc, time::Duration};
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let (sender, receiver) = mpsc::channel();
    /// for seconds in [30, 10, 20] {
    ///     let sender = sender.clone();
    ///     timer.schedule(Duration::from_secs(seconds), move || sender.send(seconds).unwrap())?;
    /// }
    /// clock.advance(Duration::from_secs(25));
    /// assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [10, 20]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn advance(&self, by: Duration) {
        let _advancing = self.begin();
        let target = self.now().checked_add(by);
        self.run_until(target.expect("a clock cannot be advanced past the last `Instant`: advance it by less"));
    }

    /// Advances the clock to `to`, as [`advance`](Self::advance) does. An earlier instant has no effect.
    ///
    /// # Panics
    /// As [`advance`](Self::advance).
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer};
    /// use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let handle = timer.schedule(Duration::from_secs(90), || println!("expired"))?;
    /// if let Some(deadline) = handle.deadline() {
    ///     clock.advance_to(deadline);
    /// }
    /// assert!(!handle.is_pending());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn advance_to(&self, to: Instant) {
        let _advancing = self.begin();
        if to >= self.now() {
            self.run_until(to);
        }
    }

    /// Returns the earliest deadline that is pending in any timer on this clock, or `None` if there is none.
    ///
    /// The deadline is that of a callback, of a value in a [`DelayQueue`](crate::DelayQueue), or of a
    /// [`Sleep`](crate::Sleep) that has been polled. It is rounded up to the [tick](crate::Builder::tick) of its timer.
    /// It is exact: the clock can be [advanced to](Self::advance_to) it, and nothing expires before. The following have
    /// no deadline here: cancelled timers, timers that never expire, and a repeating timer during its run, until a
    /// `reset` gives it one. A deadline that is not later than [`now`](Self::now) belongs to a timer that is about to
    /// run; `advance(Duration::ZERO)` waits for it.
    ///
    /// Waits for no driver and no callback, so it may be called anywhere, also inside callbacks. What other threads
    /// schedule or cancel meanwhile may be seen or not; so may a future that another task polls. The cost grows with the
    /// greatest number of timers that have been pending at once, until their memory has gone back to the system: it reads
    /// one cache line for each, 10 to 100 ms for a million.
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer};
    /// use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// assert_eq!(clock.next_deadline(), None);
    /// let day = Duration::from_secs(24 * 3600);
    /// timer.schedule(day, || println!("a day has passed"))?;
    /// let cancelled = timer.schedule(day / 2, || ())?;
    /// assert_eq!(clock.next_deadline(), Some(clock.now() + day / 2));
    /// cancelled.cancel();
    /// assert_eq!(clock.next_deadline(), Some(clock.now() + day));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn next_deadline(&self) -> Option<Instant> {
        self.shards().iter().filter_map(|shard| shard.next_deadline()).min()
    }

    /// Advances the clock to its [next deadline](Self::next_deadline), as [`advance_to`](Self::advance_to) does, and
    /// returns the instant at which the clock then stands. Returns `None` if nothing is pending; the clock then stays
    /// where it is.
    ///
    /// Everything that is due already runs first, as in `advance(Duration::ZERO)`, and is not the next deadline. So
    /// each call moves the clock, unless another thread schedules something at the same time. A loop over calls ends
    /// when nothing is pending any more, so not before the last repeating timer has ended. Each call costs
    /// what `next_deadline` and `advance_to` cost: in a simulation with more than 10,000 timers, longer steps by
    /// [`advance`](Self::advance) cost less.
    ///
    /// # Panics
    /// As [`advance`](Self::advance).
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer};
    /// use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let start = clock.now();
    /// for seconds in [7, 3600] {
    ///     timer.schedule(Duration::from_secs(seconds), move || println!("after {seconds} s"))?;
    /// }
    /// let mut stops = Vec::new();
    /// while let Some(now) = clock.advance_to_next() {
    ///     stops.push((now - start).as_secs());
    /// }
    /// assert_eq!(stops, [7, 3600]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn advance_to_next(&self) -> Option<Instant> {
        let _advancing = self.begin();
        self.wait_for_quiescence();
        // Another thread may have scheduled something that is due by now.
        let next = self.next_deadline()?.max(self.now());
        self.run_until(next);
        Some(next)
    }

    /// Sets the time of day by which a [`WallTimer`](crate::wall::WallTimer) on this clock goes, forward or back. Returns
    /// once what is due by it has finished, as [`advance`](Self::advance) does. [`now`](Self::now) does not move.
    ///
    /// The time of day begins at that of [`new`](Self::new), and moves with `advance`. What is due and has not started
    /// when the clock is set back waits anew.
    ///
    /// # Panics
    /// Inside a callback, as [`advance`](Self::advance).
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer, wall::WallTimer};
    /// use std::time::{Duration, UNIX_EPOCH};
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let wall = WallTimer::new(&timer);
    /// let expiry = UNIX_EPOCH + Duration::from_secs(2_000_000_000);
    /// let token = wall.schedule_at(expiry, || println!("the token has expired"))?;
    /// clock.set_time_of_day(expiry - Duration::from_secs(1));
    /// assert!(token.is_pending());
    /// clock.set_time_of_day(expiry); // returns when the callback has run
    /// assert!(!token.is_pending());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "wall")]
    #[track_caller]
    pub fn set_time_of_day(&self, to: SystemTime) {
        self.jump(|ahead, elapsed| ahead[TIME_OF_DAY] = nanos_since_epoch(to) - elapsed);
    }

    /// Lets a suspend of the machine pass: the time of day and time that counts a suspend move by `by`. Returns once what
    /// is due by them has finished. [`now`](Self::now) does not move, nor do timers that go by it.
    ///
    /// # Panics
    /// Inside a callback, as [`advance`](Self::advance).
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer, wall::WallTimer};
    /// use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let hour = Duration::from_secs(3600);
    /// let lease = WallTimer::new(&timer).schedule_after(hour, || println!("the lease has ended"))?;
    /// let timeout = timer.schedule(hour, || println!("an hour awake"))?;
    /// clock.suspend(hour);
    /// assert_eq!((lease.is_pending(), timeout.is_pending()), (false, true));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "wall")]
    #[track_caller]
    pub fn suspend(&self, by: Duration) {
        self.jump(|ahead, _| ahead.iter_mut().for_each(|nanos| *nanos += by.as_nanos() as i128));
    }

    #[cfg(feature = "wall")]
    #[track_caller]
    fn jump(&self, jump: impl FnOnce(&mut Readings, i128)) {
        let _advancing = self.begin();
        jump(&mut lock(&self.0.jumps.ahead), self.0.elapsed.load().as_nanos() as i128);
        let listeners: Vec<_> = lock(&self.0.jumps.listeners).iter().filter_map(Weak::upgrade).collect();
        listeners.iter().for_each(|listener| listener.clock_has_jumped());
        self.wait_for_quiescence();
    }

    #[cfg(feature = "wall")]
    pub(super) fn read_jumping(&self) -> Readings {
        lock(&self.0.jumps.ahead).map(|ahead| ahead + self.0.elapsed.load().as_nanos() as i128)
    }

    /// Calls `listener` at each jump, for as long as it lives.
    #[cfg(feature = "wall")]
    pub(crate) fn listen(&self, listener: Weak<dyn OnJump>) {
        let mut listeners = lock(&self.0.jumps.listeners);
        listeners.retain(|listener| listener.strong_count() > 0);
        listeners.push(listener);
    }

    /// Returns the right to advance the clock.
    #[track_caller]
    fn begin(&self) -> MutexGuard<'_, ()> {
        assert!(
            !self.shards().iter().any(|shard| shard.needs_this_thread()),
            "a callback, or another thread that runs callbacks, cannot advance the clock they run by, as it would wait \
             for itself: advance from another thread"
        );
        lock(&self.0.advancing)
    }

    /// Advances the clock tick by tick. The caller must have the right to advance it.
    #[track_caller]
    fn run_until(&self, target: Instant) {
        assert!(
            self.shards().iter().filter_map(|shard| shard.end()).all(|end| target <= end),
            "the virtual time of a timer lasts 2^48 of its ticks: advance the clock by less, or give the timer a longer `tick`"
        );
        while let Some(next) = self.wait_for_quiescence().filter(|&next| next <= target) {
            self.set(next.max(self.now()));
        }
        self.set(target);
        // Another thread may have armed a timer since the last pass. It is due by now, and no later pass covers it.
        self.wait_for_quiescence();
    }

    /// Waits until no shard has anything due. Returns the earliest instant at which a driver is due. Panics with a report
    /// that was kept.
    #[track_caller]
    fn wait_for_quiescence(&self) -> Option<Instant> {
        let next = wait_for_all(|| self.shards());
        if let Some(report) = self.0.panics.get().and_then(|panics| lock(panics).take()) {
            panic!("{report}");
        }
        next
    }

    fn set(&self, now: Instant) {
        self.0.elapsed.store(now.duration_since(self.0.start));
        // SeqCst: a driver publishes until when it sleeps, and then reads the time. The clock sets the time, and then looks
        // for such sleeps. With a fence in between on both sides, one of the two sees the other. Loom model `quiescence`.
        fence(Ordering::SeqCst);
    }

    /// Registers a shard with the clock, for as long as the shard lives.
    pub(crate) fn register(&self, shard: Arc<dyn Quiesce<Time = Instant>>) {
        self.shards();
        lock(&self.0.shards).push(Arc::downgrade(&shard));
    }

    /// Returns the shards, and forgets those that are gone: a `Weak` would keep their allocations.
    fn shards(&self) -> Vec<Arc<dyn Quiesce<Time = Instant>>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A shard in which nothing is due. It records the instants of the clock's passes.
    struct Passes {
        clock: ManualClock,
        at: Mutex<Vec<Instant>>,
    }

    impl Quiesce for Passes {
        type Time = Instant;

        fn wake(&self) {
            lock(&self.at).push(self.clock.now());
        }

        fn wait(&self) -> bool {
            false
        }

        fn due(&self) -> Option<Instant> {
            None
        }

        fn end(&self) -> Option<Instant> {
            None
        }

        fn next_deadline(&self) -> Option<Instant> {
            None
        }

        fn needs_this_thread(&self) -> bool {
            false
        }
    }

    /// Another thread may arm a timer between the last pass and the advance of the clock. No later pass covers it.
    #[test]
    fn shards_get_one_more_pass_when_the_clock_has_advanced() {
        let clock = ManualClock::new();
        let passes = Arc::new(Passes { clock: clock.clone(), at: Mutex::default() });
        clock.register(passes.clone());
        let target = clock.now() + Duration::from_secs(1);
        clock.advance_to(target);
        assert_eq!(lock(&passes.at).last(), Some(&target));
    }
}

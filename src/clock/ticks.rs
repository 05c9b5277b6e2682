//! Ticks: the unit in which a timer counts time, from the instant at which it was built.
//!
//! **Invariant.** A deadline is rounded up to a tick, and the present is rounded down. So when the present tick has
//! reached the tick of a deadline, the present has reached the deadline: no timer is early.
//!
//! In real time, the present is up to 50 ns late, by the [uncertainty](Origin::uncertainty) of the origin. So a delay
//! is counted from that much later, and whether an instant has passed is decided by `Instant` itself.

use std::time::{Duration, Instant};
#[cfg(feature = "wall")]
use std::time::{SystemTime, UNIX_EPOCH};

use strength_reduce::StrengthReducedU64;

use super::ManualClock;
#[cfg(feature = "wall")]
use super::jumping::{Readings, nanos_since_epoch};
use super::origin::{Origin, STALENESS};

/// Stands for nanoseconds that do not fit in 64 bits: times more than 584 years after a timer was built.
pub(crate) const UNKNOWN_NANOS: u64 = u64::MAX;
/// The tick that never comes, of a deadline that no `Instant` or no tick can represent. The present stops before it.
pub(crate) const NEVER: u64 = u64::MAX;
/// Displayed distance of a deadline that never comes: a hundred years.
const FAR_FUTURE: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// A deadline in ticks, and the present by which it was computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    pub(crate) tick: u64,
    /// The present tick.
    pub(crate) now: u64,
    /// The deadline as requested.
    pub(crate) requested: Requested,
    /// The same in nanoseconds since the origin. Also [`UNKNOWN_NANOS`] for a deadline that has passed, whose tick is
    /// the present one instead.
    pub(crate) exact: u64,
}

/// A deadline as requested, not rounded.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Requested {
    At(Instant),
    /// Nanoseconds since the origin.
    After(u64),
    Never,
}

/// A clock, and the conversion of its time into ticks.
#[derive(Clone, Debug)]
pub(crate) struct Ticks {
    /// The source of virtual time. `None`: the system's clock.
    pub(crate) manual: Option<ManualClock>,
    /// The instant of tick 0.
    pub(super) origin: Origin,
    /// Nanoseconds per tick.
    tick: StrengthReducedU64,
}

impl Ticks {
    /// Creates ticks that count from now on, by the virtual clock `manual` or by the system's. `tick` must not be zero.
    pub(crate) fn new(manual: Option<ManualClock>, tick: Duration) -> Self {
        // A tick of over 584 years is shortened to that: a finer tick than requested does no harm.
        Self { origin: Origin::of(manual.as_ref()), manual, tick: StrengthReducedU64::new(nanos_of(tick)) }
    }

    /// Returns the present.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        self.manual.as_ref().map_or_else(Instant::now, ManualClock::now)
    }

    /// Returns the present tick.
    #[inline]
    pub(crate) fn now_tick(&self) -> u64 {
        match &self.manual {
            Some(clock) => self.floor(clock.now()),
            None => self.origin.elapsed() / self.tick,
        }
    }

    /// Returns the present tick for a comparison with `deadline`. While the deadline is over [`STALENESS`] ahead, the tick
    /// may be by as much too early, as the clock is then the coarse one.
    #[inline]
    pub(crate) fn now_tick_against(&self, deadline: u64) -> u64 {
        let coarse = self.manual.is_none().then(|| self.origin.elapsed_coarse());
        let is_early = |coarse: &u64| coarse.saturating_add(STALENESS) < deadline.saturating_mul(self.tick.get());
        coarse.filter(is_early).map_or_else(|| self.now_tick(), |coarse| coarse / self.tick)
    }

    /// Returns the present tick, for a thread that has just taken an entry to arm. `now` was the present some time ago.
    ///
    /// The driver may have linked the entry at a tick of which it keeps the low half alone. The present must not be so
    /// far before that tick that another has the same low half. Real time does not pass that far while a thread takes
    /// an entry.
    #[inline]
    pub(crate) fn present(&self, now: u64) -> u64 {
        if self.manual.is_some() { self.now_tick() } else { now }
    }

    /// Returns the deadline after `delay`.
    #[inline(always)]
    pub(crate) fn after(&self, delay: Duration) -> Deadline {
        // A timer without a delay waits for no tick.
        if self.manual.is_none() && !delay.is_zero() {
            let elapsed = self.origin.elapsed();
            let exact = nanos_of(delay).saturating_add(elapsed + self.origin.uncertainty);
            if exact != UNKNOWN_NANOS {
                let requested = Requested::After(exact);
                return Deadline { tick: self.div_ceil(exact), now: elapsed / self.tick, requested, exact };
            }
        }
        self.after_by_instant(delay)
    }

    #[cold]
    fn after_by_instant(&self, delay: Duration) -> Deadline {
        let now = self.now();
        self.deadline_at(now, now.checked_add(delay))
    }

    /// Returns the deadline at an instant.
    #[inline]
    pub(crate) fn at(&self, deadline: Instant) -> Deadline {
        self.deadline_at(self.now(), Some(deadline))
    }

    /// Returns the deadline at an instant; `None` stands for never. If it has passed, its tick is the present one, not
    /// the next.
    pub(crate) fn deadline_at(&self, now: Instant, deadline: Option<Instant>) -> Deadline {
        let present = self.floor(now);
        let (tick, exact) = match deadline {
            None => (NEVER, UNKNOWN_NANOS),
            Some(deadline) if deadline <= now => (present, UNKNOWN_NANOS),
            Some(deadline) => self.ceil(deadline),
        };
        Deadline { tick, now: present, requested: deadline.map_or(Requested::Never, Requested::At), exact }
    }

    /// Returns the deadline as an instant, not rounded. A deadline that no instant can represent is in the [far
    /// future](FAR_FUTURE).
    pub(crate) fn display_requested(&self, requested: Requested) -> Instant {
        match requested {
            Requested::At(instant) => instant,
            Requested::After(nanos) => self.after_origin(nanos),
            Requested::Never => self.far_future(),
        }
    }

    /// Returns the instant this long after the origin, or one in the [far future](FAR_FUTURE).
    fn after_origin(&self, nanos: u64) -> Instant {
        self.origin.instant.checked_add(Duration::from_nanos(nanos)).unwrap_or_else(|| self.far_future())
    }

    /// Returns the instant to display for a deadline that never comes.
    pub(crate) fn far_future(&self) -> Instant {
        let now = self.now();
        now.checked_add(FAR_FUTURE).unwrap_or(now)
    }

    /// Returns the deadline of a reset, of which only the tick is known: not before the deadline that the reset gave,
    /// and less than two ticks after it. Called when that deadline has come.
    ///
    /// The reset has rounded a deadline ahead of it up to the beginning of the tick. For one that had come, it has
    /// chosen the tick in which it was made itself. So the present is late enough, and so is the end of the tick.
    pub(crate) fn after_reset(&self, tick: u64) -> Requested {
        let (Some(begin), Some(end)) = (self.instant(tick), self.instant(tick.saturating_add(1))) else {
            return Requested::Never;
        };
        Requested::At(self.now().clamp(begin, end))
    }

    /// Returns the last tick that is not after `now`, but always less than [`NEVER`].
    #[inline(always)]
    fn floor(&self, now: Instant) -> u64 {
        self.count(self.since_origin(now)).min(NEVER - 1)
    }

    /// Returns the first tick that is not before `instant`, and the instant in nanoseconds since the origin.
    #[inline]
    fn ceil(&self, instant: Instant) -> (u64, u64) {
        let time = self.since_origin(instant);
        match nanos_of(time) {
            UNKNOWN_NANOS => (saturate(time.as_nanos().div_ceil(self.tick.get().into())), UNKNOWN_NANOS),
            nanos => (self.div_ceil(nanos), nanos),
        }
    }

    /// Converts nanoseconds into ticks, rounded up.
    #[inline]
    fn div_ceil(&self, nanos: u64) -> u64 {
        nanos.checked_sub(1).map_or(0, |before| before / self.tick + 1)
    }

    #[inline]
    fn since_origin(&self, instant: Instant) -> Duration {
        instant.saturating_duration_since(self.origin.instant)
    }

    /// Returns the instant of a tick; `None` if it never comes or no instant can represent it.
    pub(crate) fn instant(&self, tick: u64) -> Option<Instant> {
        (tick != NEVER).then(|| self.origin.instant.checked_add(self.span(tick))).flatten()
    }

    /// Returns the deadline to display for a timer that expires at `tick`: `exact`, if it was rounded up to that tick;
    /// otherwise the instant of the tick, or one in the [far future](FAR_FUTURE).
    pub(crate) fn display_deadline(&self, tick: u64, exact: u64) -> Instant {
        if exact != UNKNOWN_NANOS && self.div_ceil(exact) == tick {
            return self.after_origin(exact);
        }
        self.instant(tick).unwrap_or_else(|| self.far_future())
    }

    /// Returns the time from the present until `tick`: zero if it has come, `None` if time alone never brings it.
    pub(crate) fn until(&self, tick: u64) -> Option<Duration> {
        let elapsed = match &self.manual {
            Some(clock) => self.since_origin(clock.now()),
            None => Duration::from_nanos(self.origin.elapsed()),
        };
        let left = self.span(tick).saturating_sub(elapsed);
        (tick != NEVER && (self.manual.is_none() || left.is_zero())).then_some(left)
    }

    /// Returns the time from `tick` until the present, in nanoseconds.
    #[inline]
    pub(crate) fn lateness(&self, tick: u64) -> u64 {
        match &self.manual {
            Some(clock) => saturate(self.since_origin(clock.now()).saturating_sub(self.span(tick)).as_nanos()),
            None => self.origin.elapsed().saturating_sub(tick.saturating_mul(self.tick.get())),
        }
    }

    /// Converts a duration into ticks, rounded down.
    #[inline]
    pub(crate) fn count(&self, duration: Duration) -> u64 {
        match nanos_of(duration) {
            UNKNOWN_NANOS => saturate(duration.as_nanos() / u128::from(self.tick.get())),
            nanos => nanos / self.tick,
        }
    }

    /// Returns the time from the origin to `tick`.
    #[inline]
    fn span(&self, tick: u64) -> Duration {
        duration_of(u128::from(tick) * u128::from(self.tick.get()))
    }
}

/// Converts a duration into nanoseconds, or [`UNKNOWN_NANOS`].
#[inline]
fn nanos_of(duration: Duration) -> u64 {
    saturate(duration.as_nanos())
}

/// Converts nanoseconds into a duration, of at most 2^64 seconds.
pub(crate) fn duration_of(nanos: u128) -> Duration {
    Duration::new(saturate(nanos / 1_000_000_000), (nanos % 1_000_000_000) as u32)
}

fn saturate(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// The clocks that jump.
#[cfg(feature = "wall")]
impl Ticks {
    /// Reads both clocks.
    ///
    /// `Instant` on Linux and macOS stands still while the machine is suspended. So time that counts a suspend is another
    /// clock there. On Windows `Instant` counts it. Of the remaining systems that is unknown, and `Instant` is used.
    pub(crate) fn read_jumping(&self) -> Readings {
        if let Some(clock) = &self.manual {
            return clock.read_jumping();
        }
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let counting_suspend = super::origin::read(libc::CLOCK_BOOTTIME).into();
        #[cfg(target_vendor = "apple")]
        let counting_suspend = super::origin::read(libc::CLOCK_MONOTONIC_RAW).into();
        #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
        let counting_suspend = self.origin.instant.elapsed().as_nanos() as i128;
        [nanos_since_epoch(SystemTime::now()), counting_suspend]
    }

    /// Returns the time of day. One of virtual time that no `SystemTime` represents is that of the epoch.
    pub(crate) fn time_of_day(&self) -> SystemTime {
        let [nanos, _] = self.read_jumping();
        let from_epoch = duration_of(nanos.unsigned_abs());
        let time = if nanos < 0 { UNIX_EPOCH.checked_sub(from_epoch) } else { UNIX_EPOCH.checked_add(from_epoch) };
        time.unwrap_or(UNIX_EPOCH)
    }
}

#[cfg(all(test, not(loom)))]
#[path = "ticks_tests.rs"]
mod tests;

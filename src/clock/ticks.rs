//! Ticks: the unit in which a timer counts time, from the instant at which it was built.
//!
//! **Invariant.** A deadline is rounded up to a tick, and the present is rounded down. So when the present tick has
//! reached the tick of a deadline, the present has reached the deadline: no timer is early.
//!
//! In real time, the present is up to 50 ns late, by the [width](Origin::width) of the origin. So a delay is counted from
//! that much later, and whether an instant has passed is decided by `Instant` itself.

use std::time::{Duration, Instant};

use super::ManualClock;
use super::time_source::{Clock, Origin};
use crate::wheel::Divisor;

/// Stands for nanoseconds that do not fit in 64 bits: times more than 584 years after a timer was built.
pub(crate) const UNKNOWN: u64 = u64::MAX;
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
    /// The deadline as requested, if it is known as an instant.
    instant: Option<Instant>,
    /// The requested deadline in nanoseconds since the origin, not rounded. Also [`UNKNOWN`] for one that has passed,
    /// whose tick is the present one instead.
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

impl Deadline {
    /// Returns the deadline as requested.
    #[inline]
    pub(crate) fn requested(&self) -> Requested {
        match self.instant {
            Some(instant) => Requested::At(instant),
            None if self.exact == UNKNOWN => Requested::Never,
            None => Requested::After(self.exact),
        }
    }
}

/// A clock, and the conversion of its time into ticks.
#[derive(Clone, Debug)]
pub(crate) struct Ticks {
    clock: Clock,
    /// The instant of tick 0.
    origin: Origin,
    /// Nanoseconds per tick.
    tick: Divisor,
}

impl Ticks {
    /// Creates ticks that count from now on. `tick` must not be zero.
    pub(crate) fn new(clock: Clock, tick: Duration) -> Self {
        let origin = Origin::of(&clock);
        Self::of(clock, origin, tick)
    }

    /// Creates ticks that count from `origin`, an instant of this clock.
    pub(super) fn of(clock: Clock, origin: Origin, tick: Duration) -> Self {
        // A tick of over 584 years is shortened to that: a finer tick than requested does no harm.
        Self { clock, origin, tick: Divisor::new(u64::try_from(tick.as_nanos()).unwrap_or(u64::MAX)) }
    }

    /// Returns the present.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Returns the present tick.
    #[inline]
    pub(crate) fn now_tick(&self) -> u64 {
        match &self.clock {
            Clock::System => self.tick.quotient(self.origin.elapsed()),
            Clock::Manual(clock) => self.floor(clock.now()),
        }
    }

    /// Returns the present tick, for a thread that has just taken an entry to arm. `now` was the present some time ago.
    ///
    /// The driver may have linked the entry at a tick of which it keeps the low half alone. The present must not be so far
    /// before that tick that another has the same low half. Real time does not pass that far while a thread takes an entry.
    #[inline]
    pub(crate) fn present(&self, now: u64) -> u64 {
        if matches!(self.clock, Clock::Manual(_)) { self.now_tick() } else { now }
    }

    /// Returns the virtual clock, if time is virtual.
    pub(crate) fn manual(&self) -> Option<&ManualClock> {
        match &self.clock {
            Clock::System => None,
            Clock::Manual(clock) => Some(clock),
        }
    }

    /// Returns the deadline after `delay`.
    #[inline(always)]
    pub(crate) fn after(&self, delay: Duration) -> Deadline {
        match self.after_by_nanos(delay) {
            Some(deadline) => deadline,
            None => self.after_by_instant(delay),
        }
    }

    /// Returns the deadline after `delay`, or `None` if it is to be computed with instants.
    #[inline(always)]
    fn after_by_nanos(&self, delay: Duration) -> Option<Deadline> {
        // A timer without a delay waits for no tick.
        if matches!(self.clock, Clock::Manual(_)) || delay.is_zero() {
            return None;
        }
        let elapsed = self.origin.elapsed();
        let exact = nanos_of(delay).checked_add(elapsed + self.origin.width()).filter(|&exact| exact != UNKNOWN)?;
        let (tick, now) = (self.tick.quotient_up(exact), self.tick.quotient(elapsed));
        Some(Deadline { tick, now, instant: None, exact })
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

    /// Returns the deadline `delay` after an instant.
    pub(crate) fn after_instant(&self, instant: Instant, delay: Duration) -> Deadline {
        match instant.checked_add(delay) {
            Some(deadline) => self.at(deadline),
            None => self.deadline_at(self.now(), None),
        }
    }

    /// Returns the deadline at an instant; `None` stands for never. If it has passed, its tick is the present one, not
    /// the next.
    fn deadline_at(&self, now: Instant, deadline: Option<Instant>) -> Deadline {
        let present = self.floor(now);
        let (tick, exact) = match deadline {
            None => (NEVER, UNKNOWN),
            Some(deadline) if deadline <= now => (present, UNKNOWN),
            Some(deadline) => (self.ceil(deadline), self.nanos(deadline)),
        };
        Deadline { tick, now: present, instant: deadline, exact }
    }

    /// Returns the deadline as an instant, not rounded; `None` if no instant can represent it.
    pub(crate) fn deadline(&self, requested: Requested) -> Option<Instant> {
        match requested {
            Requested::At(instant) => Some(instant),
            Requested::After(nanos) => self.origin.instant.checked_add(Duration::from_nanos(nanos)),
            Requested::Never => None,
        }
    }

    /// Like [`deadline`](Self::deadline), but an instant in the [far future](FAR_FUTURE) instead of `None`.
    pub(crate) fn display_requested(&self, requested: Requested) -> Instant {
        self.deadline(requested).unwrap_or_else(|| self.display_deadline(NEVER, UNKNOWN))
    }

    /// Returns the deadline of a reset, of which only the tick is known: not before the deadline that the reset gave, and less
    /// than two ticks after it. Called when that deadline has come.
    ///
    /// The reset has rounded a deadline ahead of it up to the beginning of the tick. For one that had come, it has chosen the
    /// tick in which it was made itself. So the present is late enough, and so is the end of the tick.
    pub(crate) fn after_reset(&self, tick: u64) -> Requested {
        let (Some(begin), Some(end)) = (self.instant(tick), self.instant(tick.saturating_add(1))) else {
            return Requested::Never;
        };
        Requested::At(self.now().clamp(begin, end))
    }

    /// Returns the last tick that is not after `now`, but always less than [`NEVER`].
    #[inline]
    fn floor(&self, now: Instant) -> u64 {
        let nanos = self.nanos(now);
        if nanos != UNKNOWN {
            return self.tick.quotient(nanos);
        }
        saturate(self.wide_nanos(now) / u128::from(self.tick.value())).min(NEVER - 1)
    }

    /// Returns the first tick that is not before `instant`.
    #[inline]
    fn ceil(&self, instant: Instant) -> u64 {
        let nanos = self.nanos(instant);
        if nanos != UNKNOWN {
            return self.tick.quotient_up(nanos);
        }
        saturate(self.wide_nanos(instant).div_ceil(u128::from(self.tick.value())))
    }

    /// Returns the nanoseconds from the origin to `instant`, or [`UNKNOWN`].
    #[inline]
    fn nanos(&self, instant: Instant) -> u64 {
        nanos_of(instant.saturating_duration_since(self.origin.instant))
    }

    fn wide_nanos(&self, instant: Instant) -> u128 {
        instant.saturating_duration_since(self.origin.instant).as_nanos()
    }

    /// Returns the instant of a tick; `None` if it never comes or no instant can represent it.
    pub(crate) fn instant(&self, tick: u64) -> Option<Instant> {
        (tick != NEVER).then(|| self.origin.instant.checked_add(self.span(tick))).flatten()
    }

    /// Returns the deadline to display for a timer that expires at `tick`: `exact`, if it was rounded up to that tick;
    /// otherwise the instant of the tick, or one in the [far future](FAR_FUTURE).
    pub(crate) fn display_deadline(&self, tick: u64, exact: u64) -> Instant {
        if exact != UNKNOWN && self.tick.quotient_up(exact) == tick {
            return self.origin.instant + Duration::from_nanos(exact);
        }
        let now = self.now();
        self.instant(tick).or_else(|| now.checked_add(FAR_FUTURE)).unwrap_or(now)
    }

    /// Returns the time from the present until `tick`.
    pub(crate) fn until(&self, tick: u64) -> Duration {
        self.span(tick).saturating_sub(self.elapsed())
    }

    /// Returns the time from `tick` until the present.
    #[inline]
    pub(crate) fn lateness(&self, tick: u64) -> Duration {
        self.elapsed().saturating_sub(self.span(tick))
    }

    /// Returns the time from the origin until the present.
    #[inline]
    fn elapsed(&self) -> Duration {
        match &self.clock {
            Clock::System => Duration::from_nanos(self.origin.elapsed()),
            Clock::Manual(clock) => clock.now().saturating_duration_since(self.origin.instant),
        }
    }

    /// Converts a duration into ticks, rounded down.
    pub(crate) fn count(&self, duration: Duration) -> u64 {
        saturate(duration.as_nanos() / u128::from(self.tick.value()))
    }

    /// Returns the time from the origin to `tick`.
    #[inline]
    fn span(&self, tick: u64) -> Duration {
        match tick.checked_mul(self.tick.value()) {
            Some(nanos) => Duration::from_nanos(nanos),
            None => {
                let nanos = u128::from(tick) * u128::from(self.tick.value());
                let secs = u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX);
                Duration::new(secs, (nanos % 1_000_000_000) as u32)
            }
        }
    }
}

/// Converts a duration into nanoseconds, or [`UNKNOWN`].
#[inline]
fn nanos_of(duration: Duration) -> u64 {
    let secs = duration.as_secs().checked_mul(1_000_000_000);
    secs.and_then(|nanos| nanos.checked_add(duration.subsec_nanos().into())).unwrap_or(UNKNOWN)
}

fn saturate(ticks: u128) -> u64 {
    u64::try_from(ticks).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Returns ticks of 1 ms on a virtual clock that has advanced by `elapsed`.
    fn at(elapsed: Duration) -> (Ticks, ManualClock) {
        let clock = ManualClock::new();
        let ticks = Ticks::new(Clock::Manual(clock.clone()), MS);
        clock.advance(elapsed);
        (ticks, clock)
    }

    #[test]
    fn deadlines_round_up_and_the_present_rounds_down() {
        let (ticks, _) = at(MS * 3 / 2);
        assert_eq!(ticks.now_tick(), 1);
        assert_eq!(ticks.after(MS / 4).tick, 2);
        assert_eq!(ticks.after(MS / 2).tick, 2);
        assert_eq!(ticks.after(MS * 3 / 4).tick, 3);
    }

    #[test]
    fn a_deadline_that_has_passed_waits_for_no_tick() {
        let (ticks, clock) = at(MS * 3 / 2);
        assert_eq!(ticks.after(Duration::ZERO).tick, 1);
        assert_eq!(ticks.at(clock.now() - MS / 4).tick, 1);
        assert_eq!(ticks.at(clock.now() - MS * 100).tick, 1);
    }

    #[test]
    fn never_is_neither_a_panic_nor_a_wrap() {
        let (ticks, clock) = at(MS);
        let never = ticks.after(Duration::MAX);
        assert_eq!(never.tick, u64::MAX);
        let thirty_years = Duration::from_secs(30 * 366 * 86_400);
        assert!(ticks.display_deadline(never.tick, never.exact) >= clock.now() + thirty_years);
    }

    #[test]
    fn the_tick_never_is_never_reached() {
        let (ticks, clock) = at(Duration::from_millis(NEVER - 1));
        for _ in 0..3 {
            assert_eq!(ticks.now_tick(), NEVER - 1, "the present stops before it");
            clock.advance(MS);
        }
        assert_eq!(ticks.instant(NEVER), None);
        assert!(matches!(ticks.after(Duration::MAX).requested(), Requested::Never));
    }

    #[test]
    fn ticks_are_exact_beyond_64_bits_of_nanoseconds() {
        let (ticks, _) = at(Duration::from_millis(u64::MAX - 10));
        assert_eq!(ticks.now_tick(), u64::MAX - 10);
        assert_eq!(ticks.after(MS * 7).tick, u64::MAX - 3);
        assert_eq!(ticks.until(u64::MAX - 8), MS * 2);
        assert_eq!(ticks.lateness(u64::MAX - 15), MS * 5);
    }

    #[test]
    fn a_deadline_is_displayed_as_requested() {
        let (ticks, clock) = at(MS * 5);
        let deadline = clock.now() + MS * 5 / 2;
        let computed = ticks.at(deadline);
        assert_eq!(ticks.display_deadline(computed.tick, computed.exact), deadline);
        for other in [computed.tick - 1, computed.tick + 1, 100] {
            assert_eq!(Some(ticks.display_deadline(other, computed.exact)), ticks.instant(other));
        }
    }
}

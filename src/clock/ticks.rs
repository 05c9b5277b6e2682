//! Ticks: the unit in which a timer counts time, from the instant at which it was built.
//!
//! **Invariant.** A deadline is rounded up to a tick, and the present is rounded down. So when the present tick has
//! reached the tick of a deadline, the present has reached the deadline: no timer is early.
//!
//! Computing a deadline tolerates an error of microseconds, which allows a cheaper clock: the [`Bounds`] of the
//! present. A delay is added to the latest bound. A deadline has passed if it is not after the earliest bound, and is
//! ahead if it is after the latest. Between the two, and where there are no bounds, the thread reads the clock. Drivers
//! decide what has expired, and always read the clock.

use std::time::{Duration, Instant};

use super::{Bounds, Clock, ManualClock, Pinned};
use crate::wheel::Divisor;

/// Stands for nanoseconds that do not fit in 64 bits: times more than 584 years after a timer was built.
pub(crate) const UNKNOWN: u64 = u64::MAX;
/// The tick that never comes, of a deadline that no `Instant` or no tick can represent. The present stops before it.
pub(crate) const NEVER: u64 = u64::MAX;
/// An unordered read of the counter is early by less than this: a processor that completes no instruction for that long
/// is reset.
const MAX_REORDERING: Duration = Duration::from_secs(1);
/// Displayed distance of a deadline that never comes: a hundred years.
const FAR_FUTURE: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// A deadline in ticks, and the present by which it was computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    pub(crate) tick: u64,
    /// The present tick, or the one of some microseconds ago.
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
    origin: Instant,
    /// The origin in the nanoseconds of [`Clock::bounds`].
    origin_nanos: u64,
    /// Nanoseconds per tick.
    tick: Divisor,
    /// [`MAX_REORDERING`], in ticks.
    max_reordering: u64,
}

impl Ticks {
    /// Creates ticks that count from now on. `tick` must not be zero.
    pub(crate) fn new(clock: Clock, tick: Duration) -> Self {
        let origin = clock.now();
        Self {
            origin,
            origin_nanos: clock.nanos(origin).unwrap_or(0),
            clock,
            // A tick of over 584 years is shortened to that: a finer tick than requested does no harm.
            tick: Divisor::new(u64::try_from(tick.as_nanos()).unwrap_or(u64::MAX)),
            max_reordering: saturate(MAX_REORDERING.as_nanos() / tick.as_nanos()),
        }
    }

    /// Returns the present.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Returns the present tick.
    #[inline]
    pub(crate) fn now_tick(&self) -> u64 {
        self.floor(self.now())
    }

    /// Returns the present tick, or the one of some microseconds ago. If `tick` has come, the result is not before it.
    #[inline]
    pub(crate) fn now_tick_for(&self, tick: u64) -> u64 {
        // If `tick` is farther ahead than a read can be early, the counter need not be read in order.
        if let Some(nanos) = self.clock.now_approx()
            && let now = self.tick.quotient(self.since_origin(nanos))
            && tick.saturating_sub(now) > self.max_reordering
        {
            return now;
        }
        self.bounds().and_then(|bounds| self.tick_in_bounds(bounds, tick)).unwrap_or_else(|| self.now_tick())
    }

    /// Returns the tick of the earliest bound. `None` if `tick` may be between the bounds, so the clock must be read.
    #[inline]
    fn tick_in_bounds(&self, bounds: Bounds, tick: u64) -> Option<u64> {
        let now = self.tick.quotient(bounds.earliest);
        let is_ahead = || tick.saturating_mul(self.tick.value()) > bounds.latest;
        (tick <= now || is_ahead()).then_some(now)
    }

    /// Returns the present tick by which the caller encodes a deadline. In virtual time, also returns a guard that
    /// keeps the clock at that tick. The caller drops it once the driver knows of the deadline. `now` is the present
    /// tick, or was it some time ago.
    ///
    /// The state of an entry has fewer bits than a deadline. To decode it, a thread must know the present at which it
    /// was encoded, within some years of microseconds. Real time does not advance by more than that in between. Virtual
    /// time could, while the thread that encodes is preempted.
    #[inline(always)]
    pub(crate) fn pin(&self, now: u64) -> (Option<Pinned<'_>>, u64) {
        match &self.clock {
            Clock::System(_) => (None, now),
            Clock::Manual(clock) => {
                let pinned = clock.pin();
                let now = self.floor(pinned.now());
                (Some(pinned), now)
            }
        }
    }

    /// Returns the tick at which the clock is pinned, or the present tick if it is not.
    #[inline]
    pub(crate) fn pinned_tick(&self, pinned: Option<&Pinned<'_>>) -> u64 {
        pinned.map_or_else(|| self.now_tick(), |pinned| self.floor(pinned.now()))
    }

    /// Returns the virtual clock, if time is virtual.
    pub(crate) fn manual(&self) -> Option<&ManualClock> {
        match &self.clock {
            Clock::System(_) => None,
            Clock::Manual(clock) => Some(clock),
        }
    }

    /// Returns bounds of the present, in nanoseconds since the origin. `None` if the clock must be read.
    #[inline(always)]
    fn bounds(&self) -> Option<Bounds> {
        let Bounds { earliest, latest } = self.clock.bounds()?;
        Some(Bounds { earliest: self.since_origin(earliest), latest: self.since_origin(latest) })
    }

    /// Converts nanoseconds of [`Clock::bounds`] into nanoseconds since the origin.
    #[inline(always)]
    fn since_origin(&self, nanos: u64) -> u64 {
        // The earliest bound may be before the origin.
        nanos.saturating_sub(self.origin_nanos)
    }

    /// Returns the deadline after `delay`, without the exact instant that [`requested_after`](Self::requested_after)
    /// may add.
    #[inline(always)]
    pub(crate) fn after(&self, delay: Duration) -> Deadline {
        if let Some(deadline) = self.after_by_bounds(delay) {
            return deadline;
        }
        // Rebuilt from its parts, so that the caller has it in registers on both paths.
        let Deadline { tick, now, exact, .. } = self.after_by_clock(delay);
        Deadline { tick, now, instant: None, exact }
    }

    /// Returns the deadline after `delay`, with all that is known of it as requested.
    #[inline(always)]
    pub(crate) fn requested_after(&self, delay: Duration) -> Deadline {
        match self.after_by_bounds(delay) {
            Some(deadline) => deadline,
            None => self.after_by_clock(delay),
        }
    }

    /// Returns the deadline after `delay`, or `None` if the clock must be read.
    #[inline(always)]
    fn after_by_bounds(&self, delay: Duration) -> Option<Deadline> {
        let delay = nanos_of(delay);
        // A timer without a delay must not be late by the distance of the bounds.
        if delay == 0 {
            return None;
        }
        let bounds = self.bounds()?;
        let exact = delay.checked_add(bounds.latest).filter(|&exact| exact != UNKNOWN)?;
        let (tick, now) = (self.tick.quotient_up(exact), self.tick.quotient(bounds.earliest));
        Some(Deadline { tick, now, instant: None, exact })
    }

    #[cold]
    fn after_by_clock(&self, delay: Duration) -> Deadline {
        let now = self.now();
        self.deadline_at(now, now.checked_add(delay))
    }

    /// Returns the deadline at an instant.
    #[inline]
    pub(crate) fn at(&self, deadline: Instant) -> Deadline {
        let exact = self.nanos(deadline);
        match self.bounds() {
            Some(bounds) if exact != UNKNOWN => self.deadline_by_bounds(bounds, deadline, exact),
            _ => self.deadline_at(self.now(), Some(deadline)),
        }
    }

    #[inline]
    fn deadline_by_bounds(&self, bounds: Bounds, deadline: Instant, exact: u64) -> Deadline {
        let now = self.tick.quotient(bounds.earliest);
        if exact <= bounds.earliest {
            Deadline { tick: now, now, instant: Some(deadline), exact: UNKNOWN }
        } else if exact > bounds.latest {
            Deadline { tick: self.tick.quotient_up(exact), now, instant: Some(deadline), exact }
        } else {
            self.deadline_at(self.now(), Some(deadline))
        }
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
            Requested::After(nanos) => self.origin.checked_add(Duration::from_nanos(nanos)),
            Requested::Never => None,
        }
    }

    /// Like [`deadline`](Self::deadline), but an instant in the [far future](FAR_FUTURE) instead of `None`.
    pub(crate) fn display_requested(&self, requested: Requested) -> Instant {
        self.deadline(requested).unwrap_or_else(|| self.display_deadline(NEVER, UNKNOWN))
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
        nanos_of(instant.saturating_duration_since(self.origin))
    }

    fn wide_nanos(&self, instant: Instant) -> u128 {
        instant.saturating_duration_since(self.origin).as_nanos()
    }

    /// Returns the instant of a tick; `None` if it never comes or no instant can represent it.
    pub(crate) fn instant(&self, tick: u64) -> Option<Instant> {
        (tick != NEVER).then(|| self.origin.checked_add(self.span(tick))).flatten()
    }

    /// Returns the deadline to display for a timer that expires at `tick`: `exact`, if it was rounded up to that tick;
    /// otherwise the instant of the tick, or one in the [far future](FAR_FUTURE).
    pub(crate) fn display_deadline(&self, tick: u64, exact: u64) -> Instant {
        if exact != UNKNOWN && self.tick.quotient_up(exact) == tick {
            return self.origin + Duration::from_nanos(exact);
        }
        let now = self.now();
        self.instant(tick).or_else(|| now.checked_add(FAR_FUTURE)).unwrap_or(now)
    }

    /// Returns the time from the present until `tick`.
    pub(crate) fn until(&self, tick: u64) -> Duration {
        let elapsed = self.now().saturating_duration_since(self.origin);
        self.span(tick).saturating_sub(elapsed)
    }

    /// Returns the time from `tick` until the present, within some microseconds.
    #[inline]
    pub(crate) fn lateness(&self, tick: u64) -> Duration {
        if let Some(approx) = self.clock.now_approx()
            && let Some(tick_nanos) = tick.checked_mul(self.tick.value())
        {
            return Duration::from_nanos(self.since_origin(approx).saturating_sub(tick_nanos));
        }
        let elapsed = self.now().saturating_duration_since(self.origin);
        elapsed.saturating_sub(self.span(tick))
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
    fn a_deadline_between_the_bounds_is_decided_by_the_clock() {
        let (ticks, clock) = at(MS * 3 / 2);
        let (now, some) = (1_500_000, 10_000);
        let bounds = Bounds { earliest: now - some, latest: now + some };
        let tick = |exact| ticks.deadline_by_bounds(bounds, ticks.origin + Duration::from_nanos(exact), exact).tick;
        assert_eq!(ticks.nanos(clock.now()), now);
        for passed in [some * 2, some, some / 2, 0] {
            assert_eq!(tick(now - passed), 1);
        }
        for ahead in [1, some / 2, some, some * 2] {
            assert_eq!(tick(now + ahead), 2);
        }
    }

    #[test]
    fn a_tick_between_the_bounds_is_decided_by_the_clock() {
        let (ticks, _) = at(MS * 3 / 2);
        let bounds = |latest| Bounds { earliest: 990_000, latest };
        for (latest, tick, floor) in
            [(1_010_000, 0, Some(0)), (1_010_000, 1, None), (999_999, 1, Some(0)), (1_010_000, 2, Some(0))]
        {
            assert_eq!(ticks.tick_in_bounds(bounds(latest), tick), floor);
        }
        assert_eq!(ticks.tick_in_bounds(bounds(1_010_000), NEVER), Some(0));
        assert_eq!(ticks.now_tick_for(1), 1);
    }

    #[test]
    fn the_present_tick_is_right_for_near_and_far_ticks() {
        let ticks = Ticks::new(Clock::system(), MS);
        for ahead in [0, 1, 999, 1_001, 1_000_000] {
            let before = ticks.now_tick();
            let floor = ticks.now_tick_for(before + ahead);
            let after = ticks.now_tick();
            assert!(floor + 1 >= before && floor <= after + 1, "{floor}, and not {before} to {after}");
            assert!(ahead > 0 || floor >= before, "the tick has come");
        }
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

//! Ticks: time counted from a timer's birth in steps of its own.
//!
//! A deadline is rounded up to a tick, the present is rounded down. So when the present tick has reached the tick of a
//! deadline, the present has reached the deadline: never early.
//!
//! Who asks when something is due need not know the present to the microsecond, and gets it cheaper so: see
//! [`Clock::bounds`]. A deadline is then counted from the latest that the present can be, and has come if it is not after
//! the earliest; in between the clock is asked. Drivers, who decide what is due by now, always ask the clock.

use std::time::{Duration, Instant};

use super::{Bounds, Clock, ManualClock, Pinned};
use crate::wheel::Divisor;

/// Nanoseconds that do not fit 64 bits, that is from the year 584 of a timer's life on.
pub(crate) const UNKNOWN: u64 = u64::MAX;
/// The tick that never comes: of a deadline that no `Instant` or no tick can hold. The present ends before it.
pub(crate) const NEVER: u64 = u64::MAX;
/// Longer than any instruction takes.
const LONG: Duration = Duration::from_secs(1);
/// How far from now such a deadline is said to be: a hundred years.
const FAR_OFF: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// The tick that something is due at, as told by a thread that knew the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    pub(crate) tick: u64,
    /// The present tick, or one that was present some microseconds ago.
    pub(crate) now: u64,
    /// The deadline, not rounded, if it was told as an instant.
    given: Option<Instant>,
    /// The deadline in nanoseconds since the origin, not rounded; or [`UNKNOWN`], as is one that has passed and so is
    /// not what was rounded up to the tick.
    pub(crate) exact: u64,
}

/// A deadline as it was asked for, not rounded.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Requested {
    At(Instant),
    /// So many nanoseconds after the origin.
    After(u64),
    Never,
}

impl Deadline {
    #[inline]
    pub(crate) fn requested(&self) -> Requested {
        match self.given {
            Some(instant) => Requested::At(instant),
            None if self.exact == UNKNOWN => Requested::Never,
            None => Requested::After(self.exact),
        }
    }
}

/// A clock, and how its time is counted.
#[derive(Clone, Debug)]
pub(crate) struct Ticks {
    clock: Clock,
    origin: Instant,
    /// The origin on the scale of [`Clock::bounds`].
    origin_nanos: u64,
    /// Nanoseconds per tick.
    tick: Divisor,
    /// [`LONG`], in ticks.
    long: u64,
}

impl Ticks {
    /// Ticks that count from now on. `tick` is longer than zero.
    pub(crate) fn new(clock: Clock, tick: Duration) -> Self {
        let origin = clock.now();
        Self {
            origin,
            origin_nanos: clock.nanos(origin).unwrap_or(0),
            clock,
            // Longer ticks than 584 years are cut: finer than asked for does no harm.
            tick: Divisor::new(u64::try_from(tick.as_nanos()).unwrap_or(u64::MAX)),
            long: saturate(LONG.as_nanos() / tick.as_nanos()),
        }
    }

    /// The present.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// The present tick.
    #[inline]
    pub(crate) fn now_tick(&self) -> u64 {
        self.present(self.now())
    }

    /// Returns the present tick, or one that was present some microseconds ago. If `tick` has come, the result is not
    /// before it.
    #[inline]
    pub(crate) fn now_tick_for(&self, tick: u64) -> u64 {
        // Long before, the counter need not be read in order: a processor that completes no instruction for that long is
        // reset.
        if let Some(nanos) = self.clock.now_approx()
            && let now = self.tick.quotient(self.since_origin(nanos))
            && tick.saturating_sub(now) > self.long
        {
            return now;
        }
        self.bounds().and_then(|bounds| self.tick_in_bounds(bounds, tick)).unwrap_or_else(|| self.now_tick())
    }

    /// The same, or `None` if only the clock can tell.
    #[inline]
    fn tick_in_bounds(&self, bounds: Bounds, tick: u64) -> Option<u64> {
        let now = self.tick.quotient(bounds.earliest);
        let surely_not = || tick.saturating_mul(self.tick.value()) > bounds.latest;
        (tick <= now || surely_not()).then_some(now)
    }

    /// The present tick by which a deadline is to be written, and in virtual time what keeps it the present until the
    /// driver knows of the deadline. `now` is the present tick, or was some time ago.
    ///
    /// A deadline is written by fewer bits than it has, so who reads it must know the present that it was written at,
    /// within some years of microseconds. Real time does not pass faster than that; virtual time may, while the thread
    /// that writes is held up.
    #[inline(always)]
    pub(crate) fn pin(&self, now: u64) -> (Option<Pinned<'_>>, u64) {
        match &self.clock {
            Clock::System(_) => (None, now),
            Clock::Manual(clock) => {
                let pinned = clock.pin();
                let now = self.present(pinned.now());
                (Some(pinned), now)
            }
        }
    }

    /// The tick that is pinned; without that, the present tick.
    #[inline]
    pub(crate) fn pinned_tick(&self, pinned: Option<&Pinned<'_>>) -> u64 {
        pinned.map_or_else(|| self.now_tick(), |pinned| self.present(pinned.now()))
    }

    /// Whether time is virtual.
    pub(crate) fn manual(&self) -> Option<&ManualClock> {
        match &self.clock {
            Clock::System(_) => None,
            Clock::Manual(clock) => Some(clock),
        }
    }

    /// Between which nanoseconds since the origin the present is; `None` if only the clock can tell.
    #[inline(always)]
    fn bounds(&self) -> Option<Bounds> {
        let Bounds { earliest, latest } = self.clock.bounds()?;
        Some(Bounds { earliest: self.since_origin(earliest), latest: self.since_origin(latest) })
    }

    /// Nanoseconds on the scale of [`Clock::bounds`], counted from the origin.
    #[inline(always)]
    fn since_origin(&self, nanos: u64) -> u64 {
        // The earliest may be what the clock said before the origin.
        nanos.saturating_sub(self.origin_nanos)
    }

    /// When something is due that shall come after `delay`. It is not told whether that was an instant, see
    /// [`requested_after`](Self::requested_after).
    #[inline(always)]
    pub(crate) fn after(&self, delay: Duration) -> Deadline {
        if let Some(due) = self.after_by_bounds(delay) {
            return due;
        }
        // Taken apart, so that a caller has all of it in registers, whichever way it came.
        let Deadline { tick, now, exact, .. } = self.after_exactly(delay);
        Deadline { tick, now, given: None, exact }
    }

    /// As [`after`](Self::after), with all that is known of what was asked for.
    #[inline(always)]
    pub(crate) fn requested_after(&self, delay: Duration) -> Deadline {
        match self.after_by_bounds(delay) {
            Some(due) => due,
            None => self.after_exactly(delay),
        }
    }

    /// The same, or `None` if only the clock can tell.
    #[inline(always)]
    fn after_by_bounds(&self, delay: Duration) -> Option<Deadline> {
        let delay = whole(delay);
        // What shall come at once must not be later than now.
        if delay == 0 {
            return None;
        }
        let bounds = self.bounds()?;
        let exact = delay.checked_add(bounds.latest).filter(|&exact| exact != UNKNOWN)?;
        let (tick, now) = (self.tick.quotient_up(exact), self.tick.quotient(bounds.earliest));
        Some(Deadline { tick, now, given: None, exact })
    }

    #[cold]
    fn after_exactly(&self, delay: Duration) -> Deadline {
        let now = self.now();
        self.deadline_at(now, now.checked_add(delay))
    }

    /// When something is due that shall come at `deadline`.
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
            Deadline { tick: now, now, given: Some(deadline), exact: UNKNOWN }
        } else if exact > bounds.latest {
            Deadline { tick: self.tick.quotient_up(exact), now, given: Some(deadline), exact }
        } else {
            self.deadline_at(self.now(), Some(deadline))
        }
    }

    /// When something is due that shall come `delay` after `instant`.
    pub(crate) fn after_instant(&self, instant: Instant, delay: Duration) -> Deadline {
        match instant.checked_add(delay) {
            Some(deadline) => self.at(deadline),
            None => self.deadline_at(self.now(), None),
        }
    }

    /// What is due by now is due at the present tick, not at the next; `None` is never.
    fn deadline_at(&self, now: Instant, deadline: Option<Instant>) -> Deadline {
        let present = self.present(now);
        let (tick, exact) = match deadline {
            None => (NEVER, UNKNOWN),
            Some(deadline) if deadline <= now => (present, UNKNOWN),
            Some(deadline) => (self.ceil(deadline), self.nanos(deadline)),
        };
        Deadline { tick, now: present, given: deadline, exact }
    }

    /// The deadline, not rounded; `None` if no instant can hold it.
    pub(crate) fn deadline(&self, requested: Requested) -> Option<Instant> {
        match requested {
            Requested::At(instant) => Some(instant),
            Requested::After(nanos) => self.origin.checked_add(Duration::from_nanos(nanos)),
            Requested::Never => None,
        }
    }

    /// The same, with [`FAR_OFF`] where that is never.
    pub(crate) fn display_requested(&self, requested: Requested) -> Instant {
        self.deadline(requested).unwrap_or_else(|| self.display_deadline(NEVER, UNKNOWN))
    }

    /// The present tick at `now`: the last that is not after it, but for [`NEVER`].
    #[inline]
    fn present(&self, now: Instant) -> u64 {
        let nanos = self.nanos(now);
        if nanos != UNKNOWN {
            return self.tick.quotient(nanos);
        }
        saturate(self.wide_nanos(now) / u128::from(self.tick.value())).min(NEVER - 1)
    }

    /// The first tick that is not before `instant`.
    #[inline]
    fn ceil(&self, instant: Instant) -> u64 {
        let nanos = self.nanos(instant);
        if nanos != UNKNOWN {
            return self.tick.quotient_up(nanos);
        }
        saturate(self.wide_nanos(instant).div_ceil(u128::from(self.tick.value())))
    }

    /// Nanoseconds since the origin, or [`UNKNOWN`].
    #[inline]
    fn nanos(&self, instant: Instant) -> u64 {
        whole(instant.saturating_duration_since(self.origin))
    }

    fn wide_nanos(&self, instant: Instant) -> u128 {
        instant.saturating_duration_since(self.origin).as_nanos()
    }

    /// The instant of a tick, unless it never comes or none can hold it.
    pub(crate) fn instant(&self, tick: u64) -> Option<Instant> {
        (tick != NEVER).then(|| self.origin.checked_add(self.span(tick))).flatten()
    }

    /// What is to be shown as the deadline of a timer that is due at `tick`: `exact` where that is what was rounded up
    /// to the tick, and [`FAR_OFF`] where that is never.
    pub(crate) fn display_deadline(&self, tick: u64, exact: u64) -> Instant {
        if exact != UNKNOWN && self.tick.quotient_up(exact) == tick {
            return self.origin + Duration::from_nanos(exact);
        }
        let now = self.now();
        self.instant(tick).or_else(|| now.checked_add(FAR_OFF)).unwrap_or(now)
    }

    /// How long it is from the present until `tick`.
    pub(crate) fn until(&self, tick: u64) -> Duration {
        let elapsed = self.now().saturating_duration_since(self.origin);
        self.span(tick).saturating_sub(elapsed)
    }

    /// How much later than `tick` it is, give or take some microseconds.
    #[inline]
    pub(crate) fn lateness(&self, tick: u64) -> Duration {
        if let Some(approx) = self.clock.now_approx()
            && let Some(due) = tick.checked_mul(self.tick.value())
        {
            return Duration::from_nanos(self.since_origin(approx).saturating_sub(due));
        }
        let elapsed = self.now().saturating_duration_since(self.origin);
        elapsed.saturating_sub(self.span(tick))
    }

    /// The ticks that `duration` lasts, rounded down.
    pub(crate) fn count(&self, duration: Duration) -> u64 {
        saturate(duration.as_nanos() / u128::from(self.tick.value()))
    }

    /// The time from the origin to `tick`.
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

/// The nanoseconds that `duration` lasts, or [`UNKNOWN`].
#[inline]
fn whole(duration: Duration) -> u64 {
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
    fn what_is_due_by_now_waits_for_no_tick() {
        let (ticks, clock) = at(MS * 3 / 2);
        assert_eq!(ticks.after(Duration::ZERO).tick, 1);
        assert_eq!(ticks.at(clock.now() - MS / 4).tick, 1);
        assert_eq!(ticks.at(clock.now() - MS * 100).tick, 1);
    }

    #[test]
    fn in_doubt_the_clock_is_asked() {
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
    fn in_doubt_the_clock_tells_whether_a_tick_has_come() {
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
    fn the_present_that_tells_of_a_tick_is_the_present_however_far_that_is() {
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
    fn what_is_never_due_is_never_reached() {
        let (ticks, clock) = at(Duration::from_millis(NEVER - 1));
        for _ in 0..3 {
            assert_eq!(ticks.now_tick(), NEVER - 1, "the present ends before it");
            clock.advance(MS);
        }
        assert_eq!(ticks.instant(NEVER), None);
        assert!(matches!(ticks.after(Duration::MAX).requested(), Requested::Never));
    }

    #[test]
    fn ticks_are_exact_far_past_what_64_bits_of_nanoseconds_hold() {
        let (ticks, _) = at(Duration::from_millis(u64::MAX - 10));
        assert_eq!(ticks.now_tick(), u64::MAX - 10);
        assert_eq!(ticks.after(MS * 7).tick, u64::MAX - 3);
        assert_eq!(ticks.until(u64::MAX - 8), MS * 2);
        assert_eq!(ticks.lateness(u64::MAX - 15), MS * 5);
    }

    #[test]
    fn a_deadline_is_shown_as_it_was_given() {
        let (ticks, clock) = at(MS * 5);
        let deadline = clock.now() + MS * 5 / 2;
        let due = ticks.at(deadline);
        assert_eq!(ticks.display_deadline(due.tick, due.exact), deadline);
        for other in [due.tick - 1, due.tick + 1, 100] {
            assert_eq!(Some(ticks.display_deadline(other, due.exact)), ticks.instant(other));
        }
    }
}

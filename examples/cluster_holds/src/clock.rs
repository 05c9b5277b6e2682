//! The clock of the database, as an interval of the local one.
//!
//! Only the database's clock decides. A worker measures the offset between the two clocks: a statement's answer was
//! given between the request and its arrival, so half of the round trip bounds the error. The worker's own clock may be
//! wrong by minutes: the offset contains that. It only has to run at nearly the right speed.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::Result;
use crate::database::Session;

/// Two clocks may drift apart by one part in so many: 200 ppm.
const DRIFT: i64 = 5_000;
const NOW: &str = "SELECT micros(clock_timestamp())";

/// The clock of this process: microseconds since 1970, read once from the system, and steady from then on.
#[derive(Clone, Copy)]
pub struct LocalClock {
    origin: Instant,
    micros: i64,
}

impl LocalClock {
    /// Starts a clock that is wrong by `skew` seconds.
    pub fn new(skew: i64) -> Self {
        let micros = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64);
        Self { origin: Instant::now(), micros: micros + skew * 1_000_000 }
    }

    fn now(&self) -> i64 {
        self.micros + self.origin.elapsed().as_micros() as i64
    }

    /// Returns the instant at which this clock shows `micros`; the start, if that is earlier.
    fn instant(&self, micros: i64) -> Instant {
        self.origin + Duration::from_micros((micros - self.micros).max(0) as u64)
    }
}

/// One measurement: the database's clock is `offset` ahead, give or take `bound`, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sample {
    offset: i64,
    bound: i64,
    taken: i64,
}

impl Sample {
    /// Returns the bound at the local time `now`.
    fn bound_at(&self, now: i64) -> i64 {
        self.bound + (now - self.taken).max(0) / DRIFT
    }
}

/// What the worker knows of the database's clock.
pub struct DatabaseClock {
    local: LocalClock,
    best: Sample,
    /// Every instant is so many microseconds too early: the fault of a clock that runs fast.
    early: i64,
}

impl DatabaseClock {
    /// Measures the offset for the first time. `early` makes every instant wrong by so much.
    pub fn measure_first(local: LocalClock, early: Duration, session: &mut Session) -> Result<Self> {
        Ok(Self { local, best: sample(&local, session)?, early: early.as_micros() as i64 })
    }

    /// Returns a clock of a database that has the local clock.
    #[cfg(test)]
    pub fn local_only(local: LocalClock) -> Self {
        Self { local, best: Sample { offset: 0, bound: 0, taken: local.micros }, early: 0 }
    }

    /// Returns the offset of the database's clock in microseconds.
    pub fn offset(&self) -> i64 {
        self.best.offset
    }

    /// Returns the local clock, to measure with while no lock is held.
    pub fn local(&self) -> LocalClock {
        self.local
    }

    /// Takes a measurement into account. Returns whether it contradicts the others: a clock was set.
    pub fn update(&mut self, measured: Measured) -> bool {
        let new = measured.0;
        let known = self.best.bound_at(new.taken);
        let contradicts = (new.offset - self.best.offset).abs() > known + new.bound;
        if contradicts || new.bound <= known {
            self.best = new;
        }
        contradicts
    }

    /// Returns the first instant at which the database's clock surely shows `micros`.
    pub fn instant(&self, micros: i64) -> Instant {
        let local = micros - self.best.offset;
        self.local.instant(local + self.best.bound_at(local) - self.early)
    }
}

/// A measurement that was not taken into account yet.
pub struct Measured(Sample);

/// Measures the offset anew, with one statement.
pub fn measure(local: &LocalClock, session: &mut Session) -> Result<Measured> {
    sample(local, session).map(Measured)
}

fn sample(local: &LocalClock, session: &mut Session) -> Result<Sample> {
    let before = local.now();
    let rows = session.query(NOW, &[])?;
    let after = local.now();
    let database: i64 = rows[0].get(0);
    // Both clocks cut off fractions of a microsecond.
    Ok(Sample { offset: database - (before + after) / 2, bound: (after - before) / 2 + 2, taken: after })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(offset: i64, bound: i64) -> DatabaseClock {
        let local = LocalClock::new(0);
        DatabaseClock { best: Sample { offset, bound, taken: local.micros }, ..DatabaseClock::local_only(local) }
    }

    #[test]
    fn a_deadline_waits_for_the_latest_time_that_the_bound_allows() {
        let clock = clock(180_000_000, 400);
        let local = clock.local.micros;
        let at = clock.instant(local + 180_000_000 + 10_000_000);
        // 10 s, the bound, and a drift of 200 ppm over the wait.
        assert_eq!(at - clock.local.origin, Duration::from_micros(10_000_000 + 400 + 2_000));
    }

    #[test]
    fn a_past_deadline_is_due_at_once() {
        let clock = clock(-300_000_000, 400);
        assert_eq!(clock.instant(clock.local.micros - 400_000_000), clock.local.origin);
    }

    #[test]
    fn a_tighter_measurement_replaces_a_looser_one() {
        let mut clock = clock(1_000, 400);
        let taken = clock.local.micros;
        assert!(!clock.update(Measured(Sample { offset: 1_300, bound: 100, taken })));
        assert_eq!(clock.best.offset, 1_300);
        assert!(!clock.update(Measured(Sample { offset: 1_200, bound: 300, taken })));
        assert_eq!(clock.best.offset, 1_300);
        // 10 s later the drift alone makes the first one as loose as this.
        assert!(!clock.update(Measured(Sample { offset: 1_200, bound: 300, taken: taken + 10_000_000 })));
        assert_eq!(clock.best.offset, 1_200);
    }

    #[test]
    fn a_clock_that_was_set_replaces_what_was_known() {
        let mut clock = clock(1_000, 100);
        let taken = clock.local.micros;
        assert!(clock.update(Measured(Sample { offset: 60_000_000, bound: 5_000, taken })));
        assert_eq!(clock.best.offset, 60_000_000);
    }
}

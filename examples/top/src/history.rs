//! The readings of the last seconds, and their differences.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use corewheel::Stats;

/// Number of values that the curve of pending timers has at most.
const CURVE: usize = 500;

/// What a timer and its load have done by an instant.
pub struct Reading {
    pub at: Instant,
    /// Requests that the load saw answered.
    pub answers: u64,
    pub stats: Stats,
}

/// What has happened between two readings.
pub struct Difference {
    pub time: Duration,
    pub answers: u64,
    pub stats: Stats,
}

impl Difference {
    fn between(earlier: &Reading, later: &Reading) -> Self {
        Self {
            time: later.at - earlier.at,
            answers: later.answers - earlier.answers,
            stats: later.stats.since(&earlier.stats),
        }
    }

    /// Returns how often a second something happened that happened `count` times.
    pub fn rate(&self, count: u64) -> f64 {
        if self.time.is_zero() { 0.0 } else { count as f64 / self.time.as_secs_f64() }
    }
}

/// The readings of the last seconds. It has at least one.
pub struct History {
    start: Instant,
    window: Duration,
    readings: VecDeque<Reading>,
    /// The number of pending timers by each reading, also by those that are forgotten.
    pending: VecDeque<u64>,
}

impl History {
    pub fn new(first: Reading, window: Duration) -> Self {
        let pending = VecDeque::from([first.stats.pending]);
        Self { start: first.at, window, readings: VecDeque::from([first]), pending }
    }

    /// Adds a reading, and forgets those that the window no longer needs.
    pub fn push(&mut self, reading: Reading) {
        self.pending.push_back(reading.stats.pending);
        if self.pending.len() > CURVE {
            self.pending.pop_front();
        }
        // The window begins with the last reading that is old enough.
        while self.readings.get(1).is_some_and(|next| reading.at - next.at >= self.window) {
            self.readings.pop_front();
        }
        self.readings.push_back(reading);
    }

    pub fn last(&self) -> &Reading {
        self.readings.back().expect("there is at least one reading")
    }

    pub fn uptime(&self) -> Duration {
        self.last().at - self.start
    }

    /// Returns the number of pending timers by each reading.
    pub fn pending(&self) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator {
        self.pending.iter().copied()
    }

    /// Returns what has happened since the reading before the last.
    pub fn recent(&self) -> Difference {
        let before = self.readings.len().saturating_sub(2);
        Difference::between(&self.readings[before], self.last())
    }

    /// Returns what has happened within the window.
    pub fn windowed(&self) -> Difference {
        Difference::between(&self.readings[0], self.last())
    }
}

#[cfg(test)]
mod tests {
    use corewheel::{ManualClock, Timer};

    use super::*;

    #[test]
    fn a_history_covers_its_window() {
        let clock = ManualClock::new();
        let timer = Timer::builder().clock(clock.clone()).build().unwrap();
        let read = || Reading { at: timer.now(), answers: 0, stats: timer.stats() };
        let mut history = History::new(read(), Duration::from_secs(3));
        assert_eq!((history.windowed().time, history.recent().rate(5)), (Duration::ZERO, 0.0));
        for second in 1..=10 {
            (0..second).for_each(|_| drop(timer.schedule(Duration::from_secs(3600), || ()).unwrap()));
            clock.advance(Duration::from_secs(1));
            history.push(read());
        }
        let (recent, windowed) = (history.recent(), history.windowed());
        assert_eq!((recent.time, recent.stats.scheduled), (Duration::from_secs(1), 10));
        assert_eq!((windowed.time, windowed.stats.scheduled), (Duration::from_secs(3), 8 + 9 + 10));
        assert_eq!(windowed.rate(windowed.stats.scheduled), 9.0);
        assert_eq!((history.uptime(), history.pending().next_back()), (Duration::from_secs(10), Some(55)));
        assert_eq!(history.pending().len(), 11);
    }
}

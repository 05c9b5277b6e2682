//! The objects that timers wake.

use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::Wake;
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::contender::Contender;
use crate::measured::{Measured, histogram};

const NOT_YET: i64 = i64::MIN;
/// Pause between two checks whether all timers have fired.
const POLL_EVERY: Duration = Duration::from_millis(5);
/// Percentiles of lateness in the tables, besides the maximum.
pub const PERCENTILES: [f64; 3] = [50.0, 99.0, 99.9];
/// Percentiles of lateness in the curves of the plots.
const CURVE: [f64; 13] = [1.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99, 100.0];

/// A target that records its lateness.
pub struct Alarm {
    due: Instant,
    late: AtomicI64,
}

impl Alarm {
    pub fn new(due: Instant) -> Arc<Self> {
        Arc::new(Self { due, late: AtomicI64::new(NOT_YET) })
    }

    pub fn due(&self) -> Instant {
        self.due
    }

    /// Returns the lateness in nanoseconds, negative if the timer was early; `None` if it has not fired.
    pub fn late(&self) -> Option<i64> {
        Some(self.late.load(Ordering::Acquire)).filter(|late| *late != NOT_YET)
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        let now = Instant::now();
        let late = now
            .checked_duration_since(self.due)
            .map_or_else(|| -((self.due - now).as_nanos() as i64), |late| late.as_nanos() as i64);
        self.late.store(late, Ordering::Release);
    }
}

/// A target that keeps the thread that wakes it busy for a while, and then wakes an alarm.
pub struct Slow {
    pub alarm: Arc<Alarm>,
    pub block: fn(Duration),
    pub time: Duration,
}

impl Wake for Slow {
    fn wake(self: Arc<Self>) {
        (self.block)(self.time);
        self.alarm.clone().wake();
    }
}

/// Keeps a core busy for `time`.
pub fn spin(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        hint::spin_loop();
    }
}

/// Waits until all timers have fired, or until `until`.
pub fn wait_for_all(alarms: &[Arc<Alarm>], until: Instant) {
    let mut waiting = alarms;
    while let Some(first) = waiting.iter().position(|alarm| alarm.late().is_none()) {
        waiting = &waiting[first..];
        if Instant::now() >= until {
            return;
        }
        thread::sleep(POLL_EVERY);
    }
}

/// Schedules a timer of a millisecond, and waits until it has fired. A contender that handles requests in order has
/// then handled all earlier ones.
pub fn settle<C: Contender>(timer: &C) {
    const NOW: Duration = Duration::from_millis(1);
    let alarm = Alarm::new(Instant::now() + NOW);
    let _handle = timer.schedule(NOW, alarm.clone());
    timer.wait(|| {
        while alarm.late().is_none() {
            thread::sleep(Duration::from_micros(100));
        }
    });
}

/// Lateness of alarms, and the number that were early or lost.
pub struct Lateness {
    recorded: Histogram<u64>,
    early: usize,
    lost: usize,
}

impl Lateness {
    pub fn of<'a>(alarms: impl IntoIterator<Item = &'a Arc<Alarm>>) -> Self {
        let mut lateness = Self { recorded: histogram(), early: 0, lost: 0 };
        for alarm in alarms {
            match alarm.late() {
                Some(late) => {
                    lateness.early += usize::from(late < 0);
                    lateness.recorded += late.max(1) as u64;
                }
                None => lateness.lost += 1,
            }
        }
        lateness
    }

    /// Returns the number of timers that have not fired.
    pub fn lost(&self) -> usize {
        self.lost
    }

    /// Adds these percentiles of lateness, and the maximum, with this name.
    pub fn add_as(&self, of: &str, measured: Measured, percentiles: &[f64]) -> Measured {
        if self.recorded.is_empty() {
            return measured;
        }
        measured.with_percentiles(of, &self.recorded, 1e6, percentiles)
    }

    /// Adds these percentiles of lateness, the maximum, the curve, and how many timers were early or lost.
    pub fn add_to(&self, measured: Measured, percentiles: &[f64]) -> Measured {
        if self.recorded.is_empty() {
            return measured;
        }
        let curve = |percentile| (percentile, self.recorded.value_at_percentile(percentile) as f64 / 1e6);
        let mut measured = self
            .add_as("ms late", measured, percentiles)
            .with("early", self.early as f64)
            .with("lost", self.lost as f64);
        measured.curve = CURVE.map(curve).to_vec();
        measured
    }
}

//! A repeating callback of the storm.

use std::time::{Duration, Instant};

use corewheel::{ScheduleError, Timer, TimerHandle};

use crate::fault;
use crate::record::{Probe, earliest, mark, now};

/// A callback that runs some times, and then ends itself.
pub struct Repeating {
    probe: Probe,
    step: Duration,
    /// Time before which the next run would be early.
    earliest: u64,
    left: u32,
}

impl Repeating {
    pub fn new(probe: Probe, delay: Duration, step: Duration, runs: u32) -> Self {
        probe.record().mark(mark::REPEATS);
        Self { probe, step, earliest: earliest(delay), left: runs }
    }

    /// Schedules the callback with one of the three methods for repeating timers.
    pub fn schedule(mut self, timer: &Timer, delay: Duration, method: u8) -> Result<TimerHandle, ScheduleError<()>> {
        let step = self.step;
        match (method, Instant::now().checked_add(delay)) {
            (0, Some(first)) => {
                let recurs = move |deadline: Instant| {
                    let early = deadline.saturating_duration_since(Instant::now());
                    if !early.is_zero() && !self.probe.record().has(mark::UNFIRED) {
                        fault::note(|| {
                            format!("a recurring callback was run {early:?} before the deadline it was given")
                        });
                    }
                    self.run().then(|| deadline + self.step)
                };
                timer.schedule_recurring(first, recurs).map_err(ScheduleError::without_closure)
            }
            (1, _) => {
                let runs = move || {
                    let next = self.earliest.saturating_add(self.step.as_nanos() as u64);
                    self.run_or_panic();
                    self.earliest = next;
                };
                timer.schedule_at_fixed_rate(delay, step, runs).map_err(ScheduleError::without_closure)
            }
            _ => {
                let runs = move || {
                    self.run_or_panic();
                    self.earliest = earliest(self.step);
                };
                timer.schedule_with_fixed_delay(delay, step, runs).map_err(ScheduleError::without_closure)
            }
        }
    }

    /// Records a run. Returns whether another follows.
    fn run(&mut self) -> bool {
        let early = Duration::from_nanos(self.earliest.saturating_sub(now()));
        if !early.is_zero() && !self.probe.record().has(mark::RESET | mark::UNFIRED) {
            fault::note(|| format!("a run of a repeating timer was {early:?} early"));
        }
        self.probe.run();
        // A reset during the last run wins over its end, so another run follows.
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.probe.record().mark(mark::ENDED);
        }
        self.left > 0
    }

    /// Records a run. The last one panics, because such a callback cannot end itself in another way.
    fn run_or_panic(&mut self) {
        if !self.run() {
            self.probe.panic();
        }
    }
}

//! A repeating callback of the storm.

use std::time::{Duration, Instant};

use corewheel::{ScheduleError, Timer, TimerHandle};

use crate::fault;
use crate::life::{Soul, floor, mark, now};

/// Runs some times, and ends itself.
pub struct Course {
    soul: Soul,
    step: Duration,
    /// When the next run may be, at the earliest.
    floor: u64,
    left: u32,
}

impl Course {
    pub fn new(soul: Soul, delay: Duration, step: Duration, runs: u32) -> Self {
        soul.life().mark(mark::REPEATS);
        Self { soul, step, floor: floor(delay), left: runs }
    }

    /// Schedules it in one of three ways.
    pub fn schedule(mut self, timer: &Timer, delay: Duration, way: u8) -> Result<TimerHandle, ScheduleError<()>> {
        let step = self.step;
        match (way, Instant::now().checked_add(delay)) {
            (0, Some(first)) => {
                let recurs = move |deadline: Instant| {
                    let early = deadline.saturating_duration_since(Instant::now());
                    if !early.is_zero() && !self.soul.life().has(mark::UNFIRED) {
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
                    let next = self.floor.saturating_add(self.step.as_nanos() as u64);
                    self.run_or_panic();
                    self.floor = next;
                };
                timer.schedule_at_fixed_rate(delay, step, runs).map_err(ScheduleError::without_closure)
            }
            _ => {
                let runs = move || {
                    self.run_or_panic();
                    self.floor = floor(self.step);
                };
                timer.schedule_with_fixed_delay(delay, step, runs).map_err(ScheduleError::without_closure)
            }
        }
    }

    /// Makes a run; returns whether there is another.
    fn run(&mut self) -> bool {
        let early = Duration::from_nanos(self.floor.saturating_sub(now()));
        if !early.is_zero() && !self.soul.life().has(mark::MOVED | mark::UNFIRED) {
            fault::note(|| format!("a run of a repeating timer was {early:?} early"));
        }
        self.soul.run();
        self.left -= 1;
        if self.left == 0 {
            self.soul.life().mark(mark::ENDED);
        }
        self.left > 0
    }

    /// The same; the last run ends in a panic, as there is no other way.
    fn run_or_panic(&mut self) {
        if !self.run() {
            self.soul.panic();
        }
    }
}

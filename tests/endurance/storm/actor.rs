//! The random steps of a thread in a round.

use std::panic;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use corewheel::{CancelOnDrop, ScheduleError, Timer, TimerHandle};
use fastrand::Rng;

use crate::fault;
use crate::polled_sleep::{self, PolledSleep};
use crate::rayon_work::RayonWork;
use crate::record::{Probe, TimerRecord, earliest, mark};
use crate::repeating::Repeating;
use crate::round::Round;
use crate::slow_run::SlowRun;

/// Maximum number of handles, of guards, and of sleeps that a thread keeps.
const KEPT: usize = 50;
/// Number of steps that a thread makes after the round is over.
const STEPS_AFTER_END: usize = 30;
/// Number of records that a thread takes at a time.
const RECORD_BATCH: usize = 32;
/// One call of `schedule` in `SLOW_ONE_IN`, on average, schedules slow callbacks.
const SLOW_ONE_IN: u32 = 1 << 18;
/// Maximum number of slow callbacks that expire together. The small pools have fewer threads, so all of them block.
const MAX_SLOW: u8 = 6;

pub struct Actor {
    round: Arc<Round>,
    timer: Timer,
    random: Rng,
    records: slice::Iter<'static, TimerRecord>,
    own: Vec<(TimerHandle, &'static TimerRecord)>,
    guards: Vec<CancelOnDrop>,
    sleeps: Vec<PolledSleep>,
    resets: u64,
    sleep_resets: u64,
    /// The round is over: the thread schedules nothing more.
    over: bool,
}

impl Actor {
    pub fn new(round: &Arc<Round>, timer: &Timer, random: Rng) -> Self {
        Self {
            round: round.clone(),
            timer: timer.clone(),
            random,
            records: [].iter(),
            own: Vec::new(),
            guards: Vec::new(),
            sleeps: Vec::new(),
            resets: 0,
            sleep_resets: 0,
            over: false,
        }
    }

    /// Makes `steps` steps, or fewer if the round ends before. Returns whether it is over.
    pub fn act(&mut self, steps: usize) -> bool {
        for _ in 0..steps {
            if self.over {
                break;
            }
            match self.random.u8(..16) {
                0..=6 => self.schedule(),
                7 => self.sleep(),
                _ => self.use_one(),
            }
        }
        if self.over {
            (0..STEPS_AFTER_END).for_each(|_| self.use_one());
        }
        self.over
    }

    /// Uses a random timer or sleep of this thread.
    fn use_one(&mut self) {
        match self.random.u8(..8) {
            0..=2 => self.cancel(),
            3..=4 => self.reset(),
            5 => self.share(),
            6 => self.use_sleep(),
            _ => {
                self.own.truncate(KEPT);
                self.guards.truncate(KEPT);
                self.sleeps.truncate(KEPT);
            }
        }
    }

    fn random_delay(&mut self) -> Duration {
        match self.random.u8(..16) {
            0..=1 => Duration::ZERO,
            2 if self.round.drains => Duration::ZERO,
            2 => [Duration::from_secs(10), Duration::from_secs(3600), Duration::MAX][self.random.usize(..3)],
            3..=5 => self.round.tick * self.random.u32(..4),
            _ => Duration::from_micros(self.random.u64(..3000)),
        }
    }

    /// Takes the record of a new timer; `None` if the round is over.
    fn take_record(&mut self) -> Option<&'static TimerRecord> {
        if self.records.len() == 0 {
            let Some((before, records)) = self.round.records.take(RECORD_BATCH) else {
                self.over = true;
                return None;
            };
            self.records = records.iter();
            if (before..before + records.len()).contains(&self.round.shutdown_at) {
                self.round.collect(polled_sleep::close(&self.timer));
            }
        }
        self.records.next()
    }

    fn schedule(&mut self) {
        if self.random.u32(..SLOW_ONE_IN) == 0 {
            return self.schedule_slow();
        }
        let Some(record) = self.take_record() else { return };
        let delay = self.random_delay();
        let probe = Probe::new(record);
        let timer = &self.timer;
        record.set_earliest(earliest(delay));
        let scheduled = match self.random.u8(..64) {
            0 => {
                let step = Duration::from_micros(self.random.u64(1..3000));
                Repeating::new(probe, delay, step, self.random.u32(1..8)).schedule(timer, delay, self.random.u8(..3))
            }
            1 => {
                let panics = move || {
                    probe.run();
                    probe.panic();
                };
                timer.schedule(delay, panics).map_err(ScheduleError::without_closure)
            }
            2..=3 => {
                let round = self.round.clone();
                let continues = move || {
                    probe.run();
                    round.continue_inside();
                };
                timer.schedule(delay, continues).map_err(ScheduleError::without_closure)
            }
            4 => {
                let work = RayonWork::random(&mut self.random);
                let works = move || {
                    probe.run();
                    work.run();
                };
                timer.schedule(delay, works).map_err(ScheduleError::without_closure)
            }
            5..=19 => {
                let ballast = [7_u8; 64];
                let large = move || {
                    assert_eq!(ballast, [7; 64]);
                    probe.run();
                };
                timer.schedule(delay, large).map_err(ScheduleError::without_closure)
            }
            kind => {
                let small = move || probe.run();
                match Instant::now().checked_add(delay) {
                    Some(deadline) if kind < 36 => timer.schedule_at(deadline, small),
                    _ => timer.schedule(delay, small),
                }
                .map_err(ScheduleError::without_closure)
            }
        };
        self.scheduled(scheduled, record);
    }

    /// Schedules some slow callbacks for the same deadline.
    fn schedule_slow(&mut self) {
        let delay = self.random_delay();
        for _ in 0..self.random.u8(1..=MAX_SLOW) {
            let Some(record) = self.take_record() else { return };
            let probe = Probe::new(record);
            let slow_run = SlowRun::random(&mut self.random);
            record.mark(mark::SLOW);
            record.set_earliest(earliest(delay));
            let slow = move || probe.record().run_while(|| slow_run.run());
            let scheduled = self.timer.schedule(delay, slow).map_err(ScheduleError::without_closure);
            self.scheduled(scheduled, record);
        }
    }

    fn scheduled(&mut self, scheduled: Result<TimerHandle, ScheduleError<()>>, record: &'static TimerRecord) {
        match scheduled {
            Ok(handle) => {
                record.mark(mark::ACCEPTED);
                self.keep(handle, record);
            }
            Err(error) => {
                self.over |= error.is_shutdown();
                self.round.refused(&error, record);
            }
        }
    }

    fn keep(&mut self, handle: TimerHandle, record: &'static TimerRecord) {
        match self.random.u8(..8) {
            0..=1 => drop(handle),
            2 => self.round.shared().push((Arc::new(handle), record)),
            // Most slow callbacks run, so that several of them block the pool at the same time.
            3..=5 if record.has(mark::SLOW) => drop(handle),
            3 if !record.has(mark::REPEATS) => {
                record.mark(mark::GUARDED);
                self.guards.push(handle.cancel_on_drop());
            }
            _ => self.own.push((handle, record)),
        }
    }

    fn cancel(&mut self) {
        if self.own.is_empty() {
            return;
        }
        let (handle, record) = self.own.swap_remove(self.random.usize(..self.own.len()));
        self.cancel_one(&handle, record, true);
    }

    /// Cancels a timer and checks its state. `alone`: no other thread uses the handle.
    fn cancel_one(&mut self, handle: &TimerHandle, record: &TimerRecord, alone: bool) {
        let waits = self.random.u8(..4) == 0;
        let won = if waits { handle.cancel_and_wait() } else { handle.cancel() };
        record.cancels.fetch_add(u32::from(won), Relaxed);
        if won && !record.has(mark::REPEATS) && !record.was_dropped() {
            fault::note(|| "a cancel left the closure alive".to_owned());
        }
        if waits && record.has(mark::RUNNING) {
            fault::note(|| "a callback ran after `cancel_and_wait`".to_owned());
        }
        if waits && alone && !record.was_dropped() && !self.timer.is_shutdown() {
            fault::note(|| "a closure was alive after `cancel_and_wait`".to_owned());
        }
        if handle.cancel() || handle.is_pending() || handle.reset(Duration::ZERO) || handle.deadline().is_some() {
            fault::note(|| "a timer was pending after its cancel".to_owned());
        }
    }

    fn reset(&mut self) {
        if self.own.is_empty() {
            return;
        }
        let delay = self.random_delay();
        let (handle, record) = &self.own[self.random.usize(..self.own.len())];
        if record.has(mark::REPEATS) {
            record.mark(mark::RESET);
        }
        let earliest = earliest(delay);
        let was_reset = match Instant::now().checked_add(delay) {
            Some(deadline) if self.random.bool() => handle.reset_at(deadline),
            _ => handle.reset(delay),
        };
        if was_reset {
            if !record.has(mark::REPEATS) {
                record.set_earliest(earliest);
            }
            self.resets += 1;
        }
    }

    /// Uses a handle that other threads may use at the same time.
    fn share(&mut self) {
        let taken = {
            let mut shared = self.round.shared();
            if shared.is_empty() {
                return;
            }
            let index = self.random.usize(..shared.len());
            if self.random.u8(..4) == 0 { shared.swap_remove(index) } else { shared[index].clone() }
        };
        let (handle, record) = taken;
        match self.random.u8(..3) {
            0 => self.cancel_one(&handle, record, false),
            1 => {
                let delay = self.random_delay();
                record.mark(mark::RESET);
                record.lower_earliest(earliest(delay));
                self.resets += u64::from(handle.reset(delay));
            }
            _ => {
                let _ = (handle.deadline(), handle.is_pending());
            }
        }
    }

    fn sleep(&mut self) {
        let Some(record) = self.take_record() else { return };
        let delay = self.random_delay();
        self.sleeps.extend(PolledSleep::start(&self.timer, delay, record));
        self.over |= self.timer.is_shutdown();
    }

    fn use_sleep(&mut self) {
        if self.sleeps.is_empty() {
            return;
        }
        let index = self.random.usize(..self.sleeps.len());
        let pending = match self.random.u8(..3) {
            0 if self.round.resets_sleeps => {
                self.sleep_resets += 1;
                let delay = self.random_delay();
                self.sleeps[index].reset(delay)
            }
            0 => false,
            _ => self.sleeps[index].poll(),
        };
        if !pending {
            self.sleeps.swap_remove(index);
        }
    }

    /// Panics, and drops all handles, guards and sleeps of this thread.
    pub fn panic(self) -> ! {
        panic::resume_unwind(Box::new("a thread of the storm panics on purpose"))
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let mut tally = self.round.tally();
        tally.resets += self.resets;
        tally.sleep_resets += self.sleep_resets;
    }
}

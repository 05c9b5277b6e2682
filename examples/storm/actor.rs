//! What a thread does in a round.

use std::panic;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use corewheel::{CancelOnDrop, ScheduleError, Timer, TimerHandle};
use fastrand::Rng;

use crate::course::Course;
use crate::fault;
use crate::life::{Life, Soul, floor, mark};
use crate::nap::{self, Nap};
use crate::round::Round;
use crate::stay::Stay;

/// A thread keeps as many handles, guards and sleeps of each kind at the most.
const KEPT: usize = 50;
/// How many steps a thread goes on after it was refused.
const AFTERWARDS: usize = 30;
/// How many lives it takes at once.
const HANDFUL: usize = 32;
/// One callback in so many is slow, and so are some that are due with it.
const SELDOM: u32 = 1 << 18;
/// At the most so many: more than the small pools have threads, so that all of them are blocked.
const SLOW: u8 = 6;

pub struct Actor {
    round: Arc<Round>,
    timer: Timer,
    random: Rng,
    lives: slice::Iter<'static, Life>,
    own: Vec<(TimerHandle, &'static Life)>,
    guards: Vec<CancelOnDrop>,
    naps: Vec<Nap>,
    moved: u64,
    naps_moved: u64,
    /// Nothing more is to be scheduled.
    over: bool,
}

impl Actor {
    pub fn new(round: &Arc<Round>, timer: &Timer, random: Rng) -> Self {
        Self {
            round: round.clone(),
            timer: timer.clone(),
            random,
            lives: [].iter(),
            own: Vec::new(),
            guards: Vec::new(),
            naps: Vec::new(),
            moved: 0,
            naps_moved: 0,
            over: false,
        }
    }

    /// Takes so many steps, unless the round is over before. Returns whether it is.
    pub fn act(&mut self, steps: usize) -> bool {
        for _ in 0..steps {
            if self.over {
                break;
            }
            match self.random.u8(..16) {
                0..=6 => self.schedule(),
                7 => self.sleep(),
                _ => self.handle(),
            }
        }
        if self.over {
            (0..AFTERWARDS).for_each(|_| self.handle());
        }
        self.over
    }

    /// Does something with what there is.
    fn handle(&mut self) {
        match self.random.u8(..8) {
            0..=2 => self.cancel(),
            3..=4 => self.reset(),
            5 => self.share(),
            6 => self.nap(),
            _ => {
                self.own.truncate(KEPT);
                self.guards.truncate(KEPT);
                self.naps.truncate(KEPT);
            }
        }
    }

    fn random_delay(&mut self) -> Duration {
        match self.random.u8(..16) {
            0..=1 => Duration::ZERO,
            2 if self.round.patient => Duration::ZERO,
            2 => [Duration::from_secs(10), Duration::from_secs(3600), Duration::MAX][self.random.usize(..3)],
            3..=5 => self.round.tick * self.random.u32(..4),
            _ => Duration::from_micros(self.random.u64(..3000)),
        }
    }

    /// A life to begin, unless the round is over.
    fn life(&mut self) -> Option<&'static Life> {
        if self.lives.len() == 0 {
            let Some((before, lives)) = self.round.lives.take(HANDFUL) else {
                self.over = true;
                return None;
            };
            self.lives = lives.iter();
            if (before..before + lives.len()).contains(&self.round.shutdown_at) {
                self.round.collect(nap::close(&self.timer));
            }
        }
        self.lives.next()
    }

    fn schedule(&mut self) {
        if self.random.u32(..SELDOM) == 0 {
            return self.schedule_slow();
        }
        let Some(life) = self.life() else { return };
        let (delay, soul, timer) = (self.random_delay(), Soul::new(life), &self.timer);
        life.aim(floor(delay));
        let scheduled = match self.random.u8(..64) {
            0 => {
                let step = Duration::from_micros(self.random.u64(1..3000));
                Course::new(soul, delay, step, self.random.u32(1..8)).schedule(timer, delay, self.random.u8(..3))
            }
            1 => {
                let panics = move || {
                    soul.run();
                    soul.panic();
                };
                timer.schedule(delay, panics).map_err(ScheduleError::without_closure)
            }
            2..=3 => {
                let round = self.round.clone();
                let continues = move || {
                    soul.run();
                    round.continue_inside();
                };
                timer.schedule(delay, continues).map_err(ScheduleError::without_closure)
            }
            4..=19 => {
                let ballast = [7_u8; 64];
                let large = move || {
                    assert_eq!(ballast, [7; 64]);
                    soul.run();
                };
                timer.schedule(delay, large).map_err(ScheduleError::without_closure)
            }
            kind => {
                let small = move || soul.run();
                match Instant::now().checked_add(delay) {
                    Some(deadline) if kind < 36 => timer.schedule_at(deadline, small),
                    _ => timer.schedule(delay, small),
                }
                .map_err(ScheduleError::without_closure)
            }
        };
        self.scheduled(scheduled, life);
    }

    /// Schedules some slow callbacks for the same time.
    fn schedule_slow(&mut self) {
        let delay = self.random_delay();
        for _ in 0..self.random.u8(1..=SLOW) {
            let Some(life) = self.life() else { return };
            let (soul, stay) = (Soul::new(life), Stay::random(&mut self.random));
            life.mark(mark::SLOW);
            life.aim(floor(delay));
            let slow = move || soul.life().run_while(|| stay.keep());
            let scheduled = self.timer.schedule(delay, slow).map_err(ScheduleError::without_closure);
            self.scheduled(scheduled, life);
        }
    }

    fn scheduled(&mut self, scheduled: Result<TimerHandle, ScheduleError<()>>, life: &'static Life) {
        match scheduled {
            Ok(handle) => {
                life.mark(mark::ACCEPTED);
                self.keep(handle, life);
            }
            Err(error) => {
                self.over |= error.is_shutdown();
                self.round.refused(&error, life);
            }
        }
    }

    fn keep(&mut self, handle: TimerHandle, life: &'static Life) {
        match self.random.u8(..8) {
            0..=1 => drop(handle),
            2 => self.round.shared().push((Arc::new(handle), life)),
            // Most slow ones are left to run, so that they meet.
            3..=5 if life.has(mark::SLOW) => drop(handle),
            3 if !life.has(mark::REPEATS) => {
                life.mark(mark::GUARDED);
                self.guards.push(handle.cancel_on_drop());
            }
            _ => self.own.push((handle, life)),
        }
    }

    fn cancel(&mut self) {
        if self.own.is_empty() {
            return;
        }
        let (handle, life) = self.own.swap_remove(self.random.usize(..self.own.len()));
        self.cancel_one(&handle, life, true);
    }

    /// `alone` tells that nobody else has the handle.
    fn cancel_one(&mut self, handle: &TimerHandle, life: &Life, alone: bool) {
        let waits = self.random.u8(..4) == 0;
        let won = if waits { handle.cancel_and_wait() } else { handle.cancel() };
        life.cancels.fetch_add(u32::from(won), Relaxed);
        if won && !life.has(mark::REPEATS) && !life.was_dropped() {
            fault::note(|| "a cancel left the closure alive".to_owned());
        }
        if waits && life.has(mark::RUNNING) {
            fault::note(|| "a callback ran after `cancel_and_wait`".to_owned());
        }
        if waits && alone && !life.was_dropped() && !self.timer.is_shutdown() {
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
        let (handle, life) = &self.own[self.random.usize(..self.own.len())];
        if life.has(mark::REPEATS) {
            life.mark(mark::MOVED);
        }
        let floor = floor(delay);
        let moved = match Instant::now().checked_add(delay) {
            Some(deadline) if self.random.bool() => handle.reset_at(deadline),
            _ => handle.reset(delay),
        };
        if moved {
            if !life.has(mark::REPEATS) {
                life.aim(floor);
            }
            self.moved += 1;
        }
    }

    /// Does something with a handle that others use at the same time.
    fn share(&mut self) {
        let taken = {
            let mut shared = self.round.shared();
            if shared.is_empty() {
                return;
            }
            let place = self.random.usize(..shared.len());
            if self.random.u8(..4) == 0 { shared.swap_remove(place) } else { shared[place].clone() }
        };
        let (handle, life) = taken;
        match self.random.u8(..3) {
            0 => self.cancel_one(&handle, life, false),
            1 => {
                let delay = self.random_delay();
                life.mark(mark::MOVED);
                life.may_run(floor(delay));
                self.moved += u64::from(handle.reset(delay));
            }
            _ => {
                let _ = (handle.deadline(), handle.is_pending());
            }
        }
    }

    fn sleep(&mut self) {
        let Some(life) = self.life() else { return };
        let delay = self.random_delay();
        self.naps.extend(Nap::begin(&self.timer, delay, life));
        self.over |= self.timer.is_shutdown();
    }

    fn nap(&mut self) {
        if self.naps.is_empty() {
            return;
        }
        let place = self.random.usize(..self.naps.len());
        let pending = match self.random.u8(..3) {
            0 if self.round.moves_naps => {
                self.naps_moved += 1;
                let delay = self.random_delay();
                self.naps[place].reset(delay)
            }
            0 => false,
            _ => self.naps[place].poll(),
        };
        if !pending {
            self.naps.swap_remove(place);
        }
    }

    /// Dies with all that it has.
    pub fn die(self) -> ! {
        panic::resume_unwind(Box::new("a thread of the storm has died"))
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let mut tally = self.round.tally();
        tally.moved += self.moved;
        tally.naps_moved += self.naps_moved;
    }
}

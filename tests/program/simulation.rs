//! Plays a program: takes its steps, and moves the clock.

use std::panic::resume_unwind;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use corewheel::ManualClock;

use super::language::{Action, Program, Step, ticks};
use super::shortage::{Lack, Shortage};
use super::stage::{Stage, Stages};

/// How far the clock is moved in all: an `Instant` has room for some times as much.
const MOST_UPTIME: Duration = Duration::from_secs(1 << 60);
/// How far it is moved at once, in ticks of each timer: on the way to what is due never, it stops every 2^48.
const MOST_TICKS: u64 = 1 << 50;

struct Simulation<'a> {
    program: &'a Program,
    clock: ManualClock,
    start: Instant,
    shortage: Arc<Shortage>,
    /// Where each stage finds the others.
    stages: Stages,
    built: Vec<Arc<Stage>>,
}

/// Plays a program.
///
/// # Panics
/// If a timer does anything but what it should.
pub fn play(program: &Program) {
    play_short(program, Shortage::default());
}

/// The same, while the process runs short of something.
pub fn play_short(program: &Program, shortage: Shortage) {
    let clock = ManualClock::new();
    let mut simulation = Simulation {
        program,
        start: clock.now(),
        clock,
        shortage: Arc::new(shortage),
        stages: program.timers.iter().map(|_| OnceLock::new()).collect(),
        built: Vec::new(),
    };
    for step in &program.steps {
        simulation.take(step);
        simulation.built.iter().for_each(|stage| stage.look_around());
    }
    simulation.built.iter().for_each(|stage| stage.end());
    simulation.built.iter().for_each(|stage| stage.clear());
    simulation.built.iter().for_each(|stage| stage.account());
}

impl Drop for Simulation<'_> {
    fn drop(&mut self) {
        self.built.iter().for_each(|stage| stage.clear());
    }
}

impl Simulation<'_> {
    /// Takes a step, and lets all that is due have its turn.
    fn take(&mut self, step: &Step) {
        let target = match *step {
            Step::Do { timer, action, elsewhere } => {
                let is_anything_due = self.stage(timer).is_some_and(|stage| self.act(&stage, action, elsewhere));
                is_anything_due.then(|| self.clock.now())
            }
            Step::Advance { timer, span } => {
                let tick = self.program.timers[self.number(timer)].tick.length();
                span.length(tick).and_then(|length| self.clock.now().checked_add(length))
            }
            Step::AdvanceToNext { short } => self.next_due().map(|next| next - Duration::from_nanos(short.into())),
        };
        if let Some(target) = target.filter(|&target| self.reaches(target)) {
            self.shortage.during(Lack::OfMemory, || self.clock.advance_to(target));
            assert_eq!(self.clock.now(), target);
        }
    }

    fn number(&self, timer: u8) -> usize {
        usize::from(timer) % self.program.timers.len()
    }

    /// The stage of this timer, if it can be built.
    fn stage(&mut self, timer: u8) -> Option<Arc<Stage>> {
        let number = self.number(timer);
        if let Some(stage) = self.stages[number].get() {
            return stage.upgrade();
        }
        let stage = Stage::build(self.program, number, &self.clock, &self.shortage, &self.stages)?;
        self.built.push(stage.clone());
        Some(stage)
    }

    /// Returns whether something is due then.
    fn act(&self, stage: &Arc<Stage>, action: Action, elsewhere: bool) -> bool {
        let act = || self.shortage.during(Lack::OfMemory, || stage.act_outside(action));
        if elsewhere {
            let acted = thread::scope(|scope| scope.spawn(act).join());
            acted.unwrap_or_else(|panic| resume_unwind(panic))
        } else {
            act()
        }
    }

    /// When something is due next, in any timer.
    fn next_due(&self) -> Option<Instant> {
        self.built.iter().filter_map(|stage| stage.next_due()).min()
    }

    fn reaches(&self, target: Instant) -> bool {
        let Some(by) = target.checked_duration_since(self.clock.now()) else { return false };
        target - self.start <= MOST_UPTIME && self.built.iter().all(|stage| by <= ticks(stage.tick, MOST_TICKS))
    }
}

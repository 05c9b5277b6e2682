//! Runs the steps of a program, and moves the clock.

use std::panic::resume_unwind;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use corewheel::ManualClock;

use super::grammar::{Action, Program, Step};
use super::harness::{Harness, Harnesses};
use super::shortage::{Resource, Shortage};

struct Simulation<'a> {
    program: &'a Program,
    clock: ManualClock,
    shortage: Arc<Shortage>,
    /// The harnesses by index, through which they find each other.
    harnesses: Harnesses,
    built: Vec<Arc<Harness>>,
}

/// Runs a program.
///
/// # Panics
/// If a timer deviates from its oracle.
pub fn run(program: &Program) {
    run_with_shortage(program, Shortage::default());
}

/// Runs a program, during which the process runs short of threads and memory.
pub fn run_with_shortage(program: &Program, shortage: Shortage) {
    let clock = ManualClock::new();
    let mut simulation = Simulation {
        program,
        clock,
        shortage: Arc::new(shortage),
        harnesses: program.timers.iter().map(|_| OnceLock::new()).collect(),
        built: Vec::new(),
    };
    for step in &program.steps {
        simulation.step(step);
        simulation.built.iter().for_each(|harness| harness.check_quiescent());
    }
    simulation.built.iter().for_each(|harness| harness.finish());
    simulation.built.iter().for_each(|harness| harness.tear_down());
    simulation.built.iter().for_each(|harness| harness.check_totals());
}

impl Drop for Simulation<'_> {
    fn drop(&mut self) {
        self.built.iter().for_each(|harness| harness.tear_down());
    }
}

impl Simulation<'_> {
    /// Runs a step and every timer that it makes due.
    fn step(&mut self, step: &Step) {
        let target = match *step {
            Step::Do { timer, action, on_new_thread } => {
                let is_anything_due =
                    self.harness(timer).is_some_and(|harness| self.act(&harness, action, on_new_thread));
                is_anything_due.then(|| self.clock.now())
            }
            Step::Advance { timer, span } => {
                let tick = self.program.timers[self.index(timer)].tick.length();
                span.length(tick).and_then(|length| self.clock.now().checked_add(length))
            }
            Step::AdvanceToNext { just_before } => {
                self.next_due().map(|next| next - Duration::from_nanos(just_before.into()))
            }
        };
        if let Some(target) = target.filter(|&target| self.can_advance_to(target)) {
            self.shortage.during(Resource::Memory, || self.clock.advance_to(target));
            assert_eq!(self.clock.now(), target);
        }
    }

    fn index(&self, timer: u8) -> usize {
        usize::from(timer) % self.program.timers.len()
    }

    /// Returns the harness of this timer, and builds it if need be. `None` if `build` fails.
    fn harness(&mut self, timer: u8) -> Option<Arc<Harness>> {
        let index = self.index(timer);
        if let Some(harness) = self.harnesses[index].get() {
            return harness.upgrade();
        }
        let harness = Harness::build(self.program, index, &self.clock, &self.shortage, &self.harnesses)?;
        self.built.push(harness.clone());
        Some(harness)
    }

    /// Performs an action. Returns whether a timer is due afterwards.
    fn act(&self, harness: &Arc<Harness>, action: Action, on_new_thread: bool) -> bool {
        let act = || self.shortage.during(Resource::Memory, || harness.act_from_program(action));
        if on_new_thread {
            let acted = thread::scope(|scope| scope.spawn(act).join());
            acted.unwrap_or_else(|panic| resume_unwind(panic))
        } else {
            act()
        }
    }

    /// Returns when the next timer is due.
    fn next_due(&self) -> Option<Instant> {
        self.built.iter().filter_map(|harness| harness.next_due()).min()
    }

    fn can_advance_to(&self, target: Instant) -> bool {
        target >= self.clock.now() && self.built.iter().all(|harness| target <= harness.end())
    }
}

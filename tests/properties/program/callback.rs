//! The closure of every timer. It holds the id of its timer, and reports its own drop.

use std::sync::Arc;
use std::time::Instant;

use super::grammar::{Schedule, Script};
use super::harness::{Harness, planned_panic};
use super::oracle::Id;

pub struct Callback {
    harness: Arc<Harness>,
    id: u32,
    script: Script,
}

impl Callback {
    pub fn new(harness: &Arc<Harness>, id: Id, script: Script) -> Self {
        Self { harness: harness.clone(), id: id as u32, script }
    }

    fn id(&self) -> Id {
        self.id as Id
    }

    /// Runs a one-shot.
    pub fn once(self) {
        self.harness.run_callback(self.id(), self.script, None);
    }

    /// Runs a repeating timer once. `given` is the deadline that a recurring callback was passed. After `left` runs, or
    /// if the next deadline is never, a recurring callback returns `None`; the others panic. If a reset wins over the
    /// last `None`, another run follows. A reset during that is lost by a panic.
    pub fn again(&self, schedule: Schedule, left: &mut u8, given: Option<Instant>) -> Option<Instant> {
        let deadline = self.harness.run_callback(self.id(), self.script, given)?;
        let (from, span) = match schedule {
            Schedule::FixedRate(period) => (deadline, period),
            Schedule::FixedDelay(delay) => (self.harness.now(), delay),
            Schedule::Recurring(step) => (deadline, step),
        };
        let next = span.length(self.harness.tick).map(|length| from + length);
        let mut state = self.harness.lock();
        let is_lost = *left == 0 && state.oracle.was_reset(self.id());
        *left = left.saturating_sub(1);
        match schedule {
            Schedule::Recurring(_) if !is_lost && (*left == 0 || next.is_none()) => {
                state.oracle.finish_unless_reset(self.id());
                None
            }
            _ if *left == 0 => {
                state.oracle.finish(self.id());
                planned_panic(state)
            }
            _ => {
                state.oracle.run_again(self.id(), next);
                next.map(|next| self.harness.instant(next))
            }
        }
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        self.harness.note_drop(self.id());
    }
}

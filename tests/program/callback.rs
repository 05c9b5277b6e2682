//! The closure of every timer. It knows which timer it is of, and tells when it is dropped.

use std::sync::Arc;
use std::time::Instant;

use super::language::{Rule, Script};
use super::oracle::Id;
use super::stage::{Stage, planned_panic};

pub struct Callback {
    stage: Arc<Stage>,
    id: u32,
    script: Script,
}

impl Callback {
    pub fn new(stage: &Arc<Stage>, id: Id, script: Script) -> Self {
        Self { stage: stage.clone(), id: id as u32, script }
    }

    fn id(&self) -> Id {
        self.id as Id
    }

    /// The run of a one-shot.
    pub fn once(self) {
        self.stage.perform(self.id(), self.script, None);
    }

    /// One of the runs of a repeating timer, and what it was told to be the deadline, if anything. When `left` come to an
    /// end, or the next is due never, one that says itself when it is due says so; others panic.
    pub fn again(&self, rule: Rule, left: &mut u8, told: Option<Instant>) -> Option<Instant> {
        let deadline = self.stage.perform(self.id(), self.script, told)?;
        let (from, span) = match rule {
            Rule::FixedRate(period) => (deadline, period),
            Rule::FixedDelay(delay) => (self.stage.now(), delay),
            Rule::Recurring(step) => (deadline, step),
        };
        let next = span.length(self.stage.tick).map(|length| from + length);
        *left -= 1;
        let mut world = self.stage.lock();
        match rule {
            Rule::Recurring(_) if *left == 0 || next.is_none() => {
                world.oracle.finish(self.id());
                None
            }
            _ if *left == 0 => {
                world.oracle.finish(self.id());
                planned_panic(world)
            }
            _ => {
                world.oracle.run_again(self.id(), next);
                next.map(|next| self.stage.instant(next))
            }
        }
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        self.stage.note_drop(self.id());
    }
}

//! The driver's own half of a shard: the wheel, and what it does with it in a turn.
//!
//! A turn is bounded, whatever has piled up: some entries are collected from the intake, some steps of time are made,
//! a batch of what is due is filled. Then the driver hands the batch over and looks at the clock again. What is left of
//! the intake stays in order, and due timers come out tick by tick.

use super::cache::Cache;
use super::core::Core;
use super::entry::{Collect, Expire};
use super::pool::{NIL, chain};
use super::slab::Slab;
use crate::wheel::{Levels, Links, Nodes, Step};

/// The most entries collected from the intake in a turn: some 20 µs.
const COLLECT: usize = 512;
/// The most steps of the wheel in a turn: some 50 µs.
const STEPS: usize = 1024;
/// The most timers in a batch.
const DUE: usize = 256;

pub(crate) struct Rounds {
    levels: Levels,
    /// The first of a chain of entries taken from the intake and not looked at yet.
    backlog: u32,
    spare: Cache,
}

impl Rounds {
    pub(crate) fn new(levels: Levels) -> Self {
        Self { levels, backlog: NIL, spare: Cache::new() }
    }

    /// One bounded turn, at tick `now`. Fills `due`, which comes empty, and returns whether there is more to do now.
    pub(crate) fn turn(&mut self, core: &Core, now: u64, due: &mut Vec<u32>) -> bool {
        self.collect(core);
        let up_to_date = self.step(core, now, due);
        !(up_to_date && self.backlog == NIL && due.is_empty())
    }

    /// The tick at which to look again: that of the first deadline, or an earlier one. `u64::MAX` without any.
    pub(crate) fn next_deadline(&self) -> u64 {
        self.levels.next_deadline().unwrap_or(u64::MAX)
    }

    /// Gives the free entries that the driver has to the threads. To be called before it sleeps.
    pub(crate) fn rest(&mut self, core: &Core) {
        core.give_back(&mut self.spare);
    }

    fn collect(&mut self, core: &Core) {
        if self.backlog == NIL {
            self.backlog = core.intake.take_all(&core.slab);
        }
        let mut entries = chain(&core.slab, self.backlog);
        let mut nodes = Entries::at(self.levels.now(), &core.slab);
        for _ in 0..COLLECT {
            let Some(index) = entries.next() else { break };
            match core.slab.get(index).collect() {
                Collect::Place { linked } => {
                    if linked {
                        self.levels.remove(&mut nodes, index);
                    }
                    self.levels.insert(&mut nodes, index);
                }
                Collect::Over { linked, free } => {
                    if linked {
                        self.levels.remove(&mut nodes, index);
                    }
                    if free {
                        core.recycle(&mut self.spare, index);
                    }
                }
            }
        }
        self.backlog = entries.next().unwrap_or(NIL);
    }

    /// Steps towards `now`, and returns whether it got there.
    fn step(&mut self, core: &Core, now: u64, due: &mut Vec<u32>) -> bool {
        let mut nodes = Entries::at(now, &core.slab);
        for _ in 0..STEPS {
            if due.len() == DUE {
                return false;
            }
            match self.levels.step(&mut nodes, now) {
                Step::Done => return true,
                Step::Moved => {}
                Step::Expired(index) => match core.slab.get(index).expire(self.levels.now()) {
                    Expire::Due => due.push(index),
                    Expire::Later => self.levels.insert(&mut nodes, index),
                    Expire::Over { free: true } => core.recycle(&mut self.spare, index),
                    Expire::Mailed | Expire::Over { free: false } => {}
                },
            }
        }
        false
    }
}

/// The wheel's view of the entries.
struct Entries<'a> {
    slab: &'a Slab,
    now: u64,
}

impl<'a> Entries<'a> {
    fn at(now: u64, slab: &'a Slab) -> Self {
        Self { slab, now }
    }
}

impl Nodes for Entries<'_> {
    #[inline]
    fn deadline(&self, id: u32) -> u64 {
        self.slab.get(id).word().deadline(self.now)
    }

    #[inline]
    fn links(&self, id: u32) -> Links {
        self.slab.get(id).links()
    }

    #[inline]
    fn set_links(&mut self, id: u32, links: Links) {
        self.slab.get(id).set_links(links);
    }
}

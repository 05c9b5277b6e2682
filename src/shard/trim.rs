//! Giving memory back: blocks whose entries are all free return to the system.
//!
//! When most of a shard's entries lie in the pool, its driver takes them all out, counts how many of each block there
//! are, puts those of incomplete blocks back, unlinks the others where cancelled timers are still in the wheel, and
//! retires them: the slab hands them out again when they are needed. It does so when it has nothing else to do, in
//! turns of some 50 µs. Meanwhile threads that find the pool empty carve new entries.

use std::mem;

use super::core::Core;
use super::memory::{BATCH, NIL, members, next_batch};
use crate::sync::BLOCK;

/// How many batches are counted, or put back, in a turn.
const BATCHES: usize = 16;
/// How many blocks are looked at in a turn, and given back together where they are neighbours.
const BLOCKS: usize = 16;

pub(crate) struct Trim {
    stage: Stage,
    /// How many entries of each block were in the pool.
    counts: Vec<u8>,
    /// How many entries were not in the pool the last time, and how many were still there afterwards. If those that are
    /// in use lie scattered, hardly a block is complete: it is no use to look again before there are half as many, or
    /// twice as many free.
    used: usize,
    kept: usize,
}

#[derive(Default)]
enum Stage {
    #[default]
    Idle,
    /// Batches from `next` on are to be counted; all begin with `first`.
    Count { first: u32, next: u32 },
    /// Batches from `next` on are to be put back, but for their entries in complete blocks.
    Sort { next: u32, spare: Vec<u32> },
    /// Blocks from `block` on are to be retired where they are complete.
    Retire { block: usize },
}

impl Trim {
    pub(crate) fn new() -> Self {
        Self { stage: Stage::Idle, counts: Vec::new(), used: 0, kept: 0 }
    }

    /// Makes a bounded turn, if there is reason to, and returns whether more is left to do. `reclaim` makes an entry that
    /// was in the pool free, and returns false if it cannot now.
    pub(crate) fn turn(&mut self, core: &Core, reclaim: impl FnMut(u32) -> bool) -> bool {
        self.stage = match mem::take(&mut self.stage) {
            Stage::Idle => self.begin(core),
            Stage::Count { first, next } => self.count(core, first, next),
            Stage::Sort { next, spare } => self.sort(core, next, spare),
            Stage::Retire { block } => self.retire(core, block, reclaim),
        };
        !matches!(self.stage, Stage::Idle)
    }

    /// Whether there is reason to begin.
    pub(crate) fn is_due(&self, core: &Core) -> bool {
        core.is_mostly_free() && (core.pool.len() / 2 >= self.kept || used(core) < self.used.div_ceil(2))
    }

    fn begin(&mut self, core: &Core) -> Stage {
        if !self.is_due(core) {
            return Stage::Idle;
        }
        self.used = used(core);
        let first = core.pool.take_all();
        self.counts = vec![0; core.slab.blocks()];
        Stage::Count { first, next: first }
    }

    fn count(&mut self, core: &Core, first: u32, mut next: u32) -> Stage {
        let mut taken = 0;
        for _ in 0..BATCHES {
            if next == NIL {
                break;
            }
            // SAFETY: they were all taken out of the pool.
            for index in unsafe { members(&core.slab, next) } {
                self.counts[(index / BLOCK) as usize] += 1;
                taken += 1;
            }
            next = next_batch(&core.slab, next);
        }
        core.pool.forget(taken);
        if next == NIL { Stage::Sort { next: first, spare: Vec::new() } } else { Stage::Count { first, next } }
    }

    fn sort(&mut self, core: &Core, mut next: u32, mut spare: Vec<u32>) -> Stage {
        for _ in 0..BATCHES {
            if next == NIL {
                put_back(core, &mut spare);
                return Stage::Retire { block: 0 };
            }
            // Read before the batch is taken apart.
            let after = next_batch(&core.slab, next);
            // SAFETY: as above; and a carrier has been read when it is put back.
            for index in unsafe { members(&core.slab, next) } {
                if !self.is_complete((index / BLOCK) as usize) {
                    spare.push(index);
                }
                if spare.len() == BATCH {
                    put_back(core, &mut spare);
                }
            }
            next = after;
        }
        Stage::Sort { next, spare }
    }

    fn retire(&mut self, core: &Core, block: usize, mut reclaim: impl FnMut(u32) -> bool) -> Stage {
        let end = self.counts.len().min(block + BLOCKS);
        let mut from = block;
        for block in block..=end {
            let goes = block < end && self.is_complete(block) && reclaim_all(core, block as u32, &mut reclaim);
            if !goes {
                // SAFETY: all entries of these blocks were taken out of the pool, not put back, and made free.
                unsafe { core.slab.retire(from as u32..block as u32) };
                from = block + 1;
            }
        }
        if end < self.counts.len() {
            return Stage::Retire { block: end };
        }
        self.counts = Vec::new();
        self.kept = core.pool.len();
        // More may have become free meanwhile.
        self.begin(core)
    }

    fn is_complete(&self, block: usize) -> bool {
        u32::from(self.counts[block]) == BLOCK
    }
}

/// How many entries are not in the pool.
fn used(core: &Core) -> usize {
    core.slab.len().saturating_sub(core.pool.len())
}

/// Puts back entries that were taken out of the pool.
fn put_back(core: &Core, entries: &mut Vec<u32>) {
    // SAFETY: so they are ours.
    unsafe { core.pool.push(&core.slab, entries) };
    entries.clear();
}

/// Whether all entries of a block could be made free; otherwise it is put back.
fn reclaim_all(core: &Core, block: u32, reclaim: &mut impl FnMut(u32) -> bool) -> bool {
    let entries = block * BLOCK..(block + 1) * BLOCK;
    let free = entries.clone().all(reclaim);
    if !free {
        let mut entries: Vec<_> = entries.collect();
        while !entries.is_empty() {
            put_back(core, &mut entries.split_off(entries.len().saturating_sub(BATCH)));
        }
    }
    free
}

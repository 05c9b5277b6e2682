//! Gives memory back: frames whose entries are all free return to the system, and sparse frames are kept out of use until
//! they are free.
//!
//! When most entries of dense blocks lie in the pool, the driver takes them all out, and sets each aside in its block. Then
//! it looks at one frame after the other:
//!
//! | of its entries are set aside | the driver                                                                       |
//! |------------------------------|----------------------------------------------------------------------------------|
//! | all                          | unlinks cancelled timers that are in the wheel still, and retires the frame       |
//! | half of them, or more        | marks it [sparse](super::memory): its free entries stay aside                     |
//! | fewer                        | puts them back into the pool                                                      |
//!
//! An entry that a thread frees between the two steps goes to the pool, as its block is not marked yet. Too few of them to
//! begin again would keep all of these blocks. So where the driver has marked a block, it takes the pool apart once more,
//! and sets aside what belongs to sparse blocks.
//!
//! Afterwards the pool has less than half of the entries of dense blocks, so the driver does not begin again before many
//! more have become free. It also looks at the frames when a number of sparse blocks have become all free: so many that
//! the look costs little for each.
//!
//! The driver does this when it has nothing else to do, in turns of some 50 µs. Meanwhile threads that find the pool empty
//! carve new entries.

use std::mem;

use super::core::Core;
use super::memory::{BATCH, NIL, members, next_batch};
use crate::sync::{BLOCK, limit};

/// How many batches are taken apart in a turn.
const BATCHES: usize = limit(16);
/// How many frames are looked at in a turn.
const LOOKS: usize = limit(1024);
/// How many entries are made free in a turn, and given back together where they are neighbours.
const ENTRIES: u32 = limit(1024) as u32;

pub(crate) struct Trim {
    phase: Phase,
    /// Entries that are to be put back into the pool.
    back: Vec<u32>,
    /// Some free entries could not be given back, as they are in the intake. Until the driver has collected from there,
    /// another look would find the same.
    waits: bool,
    /// Some blocks have been marked since the pool was last taken apart.
    has_marked: bool,
    /// Something has been given back or marked since the driver began.
    has_gained: bool,
    /// How many entries the pool had when the driver had last looked for nothing: while there are no more, another look
    /// would find the same. Threads that stop in the middle of a pop make the pool seem larger than it is.
    in_vain: usize,
}

#[derive(Default)]
enum Phase {
    #[default]
    Idle,
    /// Batches of what was in the pool, from this one on, are to be set aside.
    Gather { next: u32 },
    /// Frames are to be looked at, from this block on.
    Sift { first: u32 },
    /// Of the batches of what came into the pool meanwhile, from this one on, entries of sparse blocks are to be set aside.
    Sort { next: u32 },
}

impl Trim {
    pub(crate) fn new() -> Self {
        Self {
            phase: Phase::Idle,
            back: Vec::with_capacity(BATCH),
            waits: false,
            has_marked: false,
            has_gained: false,
            in_vain: 0,
        }
    }

    /// Makes a bounded turn, if there is reason to, and returns whether more is left to do. `reclaim` makes an entry that
    /// was in the pool free, and returns false if it cannot now.
    pub(crate) fn turn(&mut self, core: &Core, reclaim: impl FnMut(u32) -> bool) -> bool {
        self.phase = match mem::take(&mut self.phase) {
            Phase::Idle => self.begin(core),
            Phase::Gather { next } => self.gather(core, next),
            Phase::Sift { first } => self.sift(core, first, reclaim),
            Phase::Sort { next } => self.sort(core, next),
        };
        !matches!(self.phase, Phase::Idle)
    }

    /// The driver has collected from the intake.
    pub(crate) fn collected(&mut self) {
        self.waits = false;
        self.in_vain = 0;
    }

    /// Whether there is reason to begin, or to go on.
    pub(crate) fn is_due(&self, core: &Core) -> bool {
        !matches!(self.phase, Phase::Idle) || !self.waits && (core.have_completed() || self.has_many_free(core))
    }

    /// Whether most of the entries that may be used are in the pool, and more than at the last look in vain.
    fn has_many_free(&self, core: &Core) -> bool {
        core.is_mostly_free() && core.pool.len() > self.in_vain
    }

    fn begin(&mut self, core: &Core) -> Phase {
        if !core.is_mostly_free() {
            self.in_vain = 0;
        }
        if !self.is_due(core) {
            return Phase::Idle;
        }
        self.has_gained = false;
        let next = if self.has_many_free(core) { core.pool.take_all() } else { NIL };
        Phase::Gather { next }
    }

    /// All frames have been looked at. More may have become free meanwhile.
    fn end(&mut self, core: &Core) -> Phase {
        self.in_vain = if self.has_gained { 0 } else { core.pool.len() };
        self.begin(core)
    }

    fn gather(&mut self, core: &Core, next: u32) -> Phase {
        // SAFETY: they were all taken out of the pool by this thread, the driver, which owns what it is given.
        let next = unsafe { take_apart(core, next, |index| core.slab.gather(index)) };
        if next != NIL {
            return Phase::Gather { next };
        }
        // Before the look, so that what is completed meanwhile is counted for the next.
        core.slab.reset_completed();
        Phase::Sift { first: 0 }
    }

    fn sift(&mut self, core: &Core, first: u32, mut reclaim: impl FnMut(u32) -> bool) -> Phase {
        let (slab, blocks) = (&core.slab, core.slab.blocks());
        let entries = slab.frame() * BLOCK;
        let mut made_free = 0;
        // Complete neighbours.
        let mut run = first..first;
        let mut next = first;
        for first in slab.frames(first..blocks).take(LOOKS) {
            if made_free >= ENTRIES {
                break;
            }
            next = first + slab.frame();
            let aside = slab.count_aside(first);
            if aside == entries {
                made_free += entries;
                if self.make_free(core, first, &mut reclaim) {
                    self.has_gained = true;
                    run.end = next;
                    continue;
                }
            } else if aside == 0 || slab.is_frame_sparse(first) {
                // All in use, or retired, or left to become free.
            } else if aside >= entries / 2 {
                slab.mark_sparse(first);
                (self.has_marked, self.has_gained) = (true, true);
            } else {
                slab.adopt_frame(first, |index| put_back(core, &mut self.back, index));
            }
            // SAFETY: all entries of these frames were set aside, claimed, and made free.
            unsafe { slab.retire(run) };
            run = next..next;
        }
        // SAFETY: as above.
        unsafe { slab.retire(run) };
        if next < blocks {
            return Phase::Sift { first: next };
        }
        flush(core, &mut self.back);
        if mem::take(&mut self.has_marked) {
            return Phase::Sort { next: core.pool.take_all() };
        }
        self.end(core)
    }

    fn sort(&mut self, core: &Core, next: u32) -> Phase {
        let sort = |index| {
            if core.slab.is_sparse(index) {
                // SAFETY: see below.
                unsafe { core.slab.set_aside(index, |back| put_back(core, &mut self.back, back)) };
            } else {
                put_back(core, &mut self.back, index);
            }
        };
        // SAFETY: they were all taken out of the pool by this thread, the driver, which owns what it is given.
        let next = unsafe { take_apart(core, next, sort) };
        if next != NIL {
            return Phase::Sort { next };
        }
        flush(core, &mut self.back);
        self.end(core)
    }

    /// Whether all entries of a frame are the driver's, and could be made free; otherwise they are put back.
    fn make_free(&mut self, core: &Core, first: u32, reclaim: &mut impl FnMut(u32) -> bool) -> bool {
        let back = |index| put_back(core, &mut self.back, index);
        if !core.slab.claim_frame(first, back) {
            return false;
        }
        let mut entries = first * BLOCK..(first + core.slab.frame()) * BLOCK;
        let free = entries.clone().all(reclaim);
        if !free {
            self.waits = true;
            entries.by_ref().for_each(|index| put_back(core, &mut self.back, index));
        }
        free
    }
}

/// Gives each entry of some batches, from this one on, to `receive`. Returns the batch that comes next.
///
/// # Safety
/// The batches must have been taken out of the pool by the calling thread, and not been taken apart.
unsafe fn take_apart(core: &Core, mut next: u32, mut receive: impl FnMut(u32)) -> u32 {
    let mut taken = 0;
    for _ in 0..BATCHES {
        if next == NIL {
            break;
        }
        // Read before the batch is taken apart: what is set aside, or put back, may be used again at once.
        let after = next_batch(&core.slab, next);
        // SAFETY: by this function's contract.
        for index in unsafe { members(&core.slab, next) } {
            receive(index);
            taken += 1;
        }
        next = after;
    }
    core.pool.subtract_len(taken);
    next
}

/// Puts back an entry that was taken out of the pool, with the next ones.
fn put_back(core: &Core, back: &mut Vec<u32>, index: u32) {
    back.push(index);
    if back.len() == BATCH {
        flush(core, back);
    }
}

fn flush(core: &Core, back: &mut Vec<u32>) {
    // SAFETY: nobody else has them: see `put_back`.
    unsafe { core.pool.push(&core.slab, back) };
    back.clear();
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::core::{Armed, Core};
    use super::super::entry::{Callback, Release};
    use super::super::memory::{Cache, Slab};
    use super::super::turn::DriverCore;
    use crate::wheel::Levels;

    const TIMERS: u32 = 200_000;

    /// A core on a system with pages of so many blocks, its driver's half, and a thread's cache.
    struct Fixture {
        core: Core,
        driver: DriverCore,
        cache: Cache,
    }

    impl Fixture {
        fn new(frame: u32) -> Self {
            let mut core = Core::new(None, 1 << 10);
            core.slab = Slab::with_frame(frame);
            Self { core, driver: DriverCore::new(Levels::new_ahead(0, &[64]).unwrap()), cache: Cache::new() }
        }

        fn schedule(&mut self) -> u32 {
            let armed = self.core.arm(&mut self.cache, Callback::once(|| ()), 1000, 0);
            let Armed { index, notice, .. } = armed.ok().unwrap();
            self.core.notify_driver(index, notice, 1000, || 0);
            index
        }

        fn cancel(&mut self, index: u32) {
            let entry = self.core.slab.get(index);
            entry.cancel().unwrap();
            // SAFETY: the timer was ended above, and does not run.
            unsafe { entry.drop_callback() };
            assert!(entry.release() == Release::Owned);
            self.core.recycle(&mut self.cache, index);
        }

        /// The driver does what it has to, until it sleeps.
        fn drive(&mut self) {
            let mut due = Vec::new();
            loop {
                self.driver.begin(&self.core, 0);
                while !self.driver.turn(&self.core, &mut due) {}
                while self.driver.cascade_ahead(&self.core) {}
                if !self.driver.reclaim(&self.core) {
                    break;
                }
            }
            assert!(self.driver.is_idle(&self.core) && due.is_empty());
        }
    }

    /// Whatever the size of a page, what nobody needs goes back, and what few survivors keep goes back when they end.
    #[test]
    fn frames_of_every_size_go_back() {
        for frame in [1, 4, 16] {
            let mut fixture = Fixture::new(frame);
            // Less than the least that is looked for, the caches, and the frames that are about to be used.
            let least = 4096 + 8 * frame as usize * 64;
            let mut timers: Vec<_> = (0..TIMERS).map(|_| fixture.schedule()).collect();
            fixture.drive();
            assert!(fixture.core.slab.len() >= TIMERS as usize);
            // One of 128 survives.
            let mut survivors = Vec::new();
            for (number, index) in timers.drain(..).enumerate() {
                if number % 128 == 77 { survivors.push(index) } else { fixture.cancel(index) }
            }
            fixture.drive();
            // Its frame stays with each: half of the blocks have one, and all larger frames.
            let pinned = TIMERS as usize / if frame == 1 { 2 } else { 1 };
            let kept = fixture.core.slab.len();
            assert!(kept <= pinned + least, "{kept} entries for {pinned} in frames of {frame}");
            // The others are replaced, each before it ends.
            for survivor in &mut survivors {
                let next = fixture.schedule();
                fixture.cancel(std::mem::replace(survivor, next));
                let brief = fixture.schedule();
                fixture.cancel(brief);
            }
            fixture.drive();
            let kept = fixture.core.slab.len();
            assert!(kept <= 2 * survivors.len() + least, "{kept} entries, {} survivors", survivors.len());
            survivors.drain(..).for_each(|index| fixture.cancel(index));
            let Fixture { core, cache, .. } = &mut fixture;
            core.give_back(cache);
            fixture.drive();
            let kept = fixture.core.slab.len();
            assert!(kept <= least, "{kept} entries, no survivor");
        }
    }

    /// What threads free while the driver takes the pool apart, and so before a block is marked, goes back as well.
    #[test]
    fn what_is_freed_in_the_middle_of_a_trim_goes_back() {
        let mut fixture = Fixture::new(1);
        let timers: Vec<_> = (0..TIMERS).map(|_| fixture.schedule()).collect();
        fixture.drive();
        // Too few to begin again for them.
        let (late, early): (Vec<_>, Vec<_>) = (0..timers.len()).partition(|number| number % 256 == 0);
        early.iter().for_each(|&number| fixture.cancel(timers[number]));
        for numbers in late.chunks(2) {
            numbers.iter().for_each(|&number| fixture.cancel(timers[number]));
            fixture.driver.reclaim(&fixture.core);
        }
        let Fixture { core, cache, .. } = &mut fixture;
        core.give_back(cache);
        fixture.drive();
        let kept = fixture.core.slab.len();
        assert!(kept <= 8192, "{kept} entries are kept for no timer");
    }

    /// A thread that stops in the middle of a pop makes the pool seem larger than it is, for as long as it stops.
    #[test]
    fn what_is_popped_and_not_counted_yet_is_looked_for_once() {
        let mut fixture = Fixture::new(1);
        fixture.core = Core::new(None, 1);
        let timers: Vec<_> = (0..64).map(|_| fixture.schedule()).collect();
        fixture.drive();
        timers.into_iter().for_each(|index| fixture.cancel(index));
        let Fixture { core, driver, cache } = &mut fixture;
        core.give_back(cache);
        let mut turns = Vec::new();
        core.pool.pop(&core.slab, |_| turns.push((0..1000).take_while(|_| driver.reclaim(core)).count()));
        assert!(turns.iter().all(|&turns| turns < 1000), "{turns:?}");
    }

    /// A driver that has found all there is to find does not look again.
    #[test]
    fn what_is_in_use_everywhere_is_looked_at_once() {
        let mut fixture = Fixture::new(1);
        let timers: Vec<_> = (0..TIMERS).map(|_| fixture.schedule()).collect();
        fixture.drive();
        for (number, &index) in timers.iter().enumerate() {
            if number % 8 != 0 {
                fixture.cancel(index);
            }
        }
        fixture.drive();
        assert_eq!(fixture.core.slab.len(), TIMERS.next_multiple_of(64) as usize, "no block is free");
        assert!(fixture.core.slab.dense_len() < 4096, "all are sparse");
        assert!(!fixture.driver.reclaim(&fixture.core));
    }
}

//! Trim: the driver gives the memory of free pages back to the system.
//!
//! # The algorithm
//!
//! The driver begins when the depot has most entries outside of sparse blocks, or when enough sparse blocks have become
//! completely free. It works in three phases:
//!
//! 1. **Set aside**: it takes all magazines out of the depot, and sets each entry aside in its block.
//! 2. **Scan**: it visits every page, and decides by how many of its entries are set aside:
//!
//!    | entries set aside | the driver                                                                    |
//!    |-------------------|-------------------------------------------------------------------------------|
//!    | all               | unlinks the cancelled ones that are still in the wheel, and retires the page |
//!    | half or more      | marks the page [sparse](super::memory): its free entries stay set aside      |
//!    | fewer             | puts its entries back into the depot                                          |
//!    | none              | leaves the page as it is                                                     |
//!
//!    A page that is sparse already stays so until all of its entries are set aside.
//!
//! 3. **Set aside again**: if it has marked pages, it takes the depot out once more, and sets aside the entries of
//!    sparse blocks.
//!
//! The third phase is for entries that a thread freed between the first two. They went to the depot, because their
//! block was not marked yet. Without it they would keep all of these pages, and be too few to start another trim.
//!
//! # Which thread owns what
//!
//! The driver owns an entry from the moment it takes the entry out of the depot. When it sets the entry aside, it gives
//! this up. Until it claims the page, a thread that needs entries may adopt them, if the block is sparse. The head of
//! `memory/sparse_blocks.rs` has the protocol. Threads that find the depot empty meanwhile allocate new blocks.
//!
//! # Cost
//!
//! The driver trims when it has nothing else to do, in turns of some 50 µs. After a scan, the depot has less than half
//! of the entries outside of sparse blocks. So the next trim starts only after many more have become free. For sparse
//! blocks, it starts when so many are completely free that the scan costs little for each.
//!
//! Loom models `recycle`, `sparse` and `sleep`, and a scenario of `shuttle-tests`.

use std::mem;

use super::core::Core;
use super::memory::{BLOCK, Cache, magazines, members};
use super::stack::NIL;
use crate::sync::limit;

/// Maximum number of magazines that a turn unpacks.
const MAX_MAGAZINES: usize = limit(16);
/// Maximum number of pages that a turn scans.
const MAX_PAGES: usize = limit(1024);
/// Number of entries after which a turn frees no further page. Adjacent pages of a turn are retired together.
const MAX_FREED: u32 = limit(1024) as u32;

/// The state of the trim. The driver owns it.
#[derive(Default)]
pub(crate) struct Trim {
    phase: TrimPhase,
    /// Pages have been marked since the driver last took the depot out.
    has_marked: bool,
    /// Pages have been retired or marked since the trim began.
    has_gained: bool,
    /// Length of the depot after the last scan that gained nothing, else zero. Another scan is useless while the depot
    /// is not longer, and the driver has not taken the intake: entries there keep their pages from being retired. A
    /// thread that stops in the middle of a pop makes the depot seem longer than it is.
    fruitless_len: usize,
}

#[derive(Default)]
enum TrimPhase {
    #[default]
    Idle,
    /// The entries of the magazines from `next` on are to be set aside: all, or `again` those of sparse blocks.
    SetAside { next: u32, again: bool },
    /// The pages from the block `first` on are to be scanned.
    Scan { first: u32 },
}

impl Trim {
    /// Makes a bounded turn, if there is work. Returns whether more is left. `cache` is the driver's. `reclaim` frees a
    /// cached entry, and returns false if that is impossible now.
    pub(crate) fn turn(&mut self, core: &Core, cache: &mut Cache, reclaim: impl FnMut(u32) -> bool) -> bool {
        self.phase = match mem::take(&mut self.phase) {
            TrimPhase::Idle => self.begin(core),
            TrimPhase::SetAside { next, again } => self.set_aside(core, cache, next, again),
            TrimPhase::Scan { first } => self.scan(core, cache, first, reclaim),
        };
        self.is_active()
    }

    /// Returns whether a trim has begun and not ended.
    pub(crate) fn is_active(&self) -> bool {
        !matches!(self.phase, TrimPhase::Idle)
    }

    /// Notes that the driver has taken entries from the intake.
    pub(crate) fn intake_collected(&mut self) {
        self.fruitless_len = 0;
    }

    /// Returns whether a trim should begin or continue.
    pub(crate) fn has_chores(&self, core: &Core) -> bool {
        self.is_active() || core.has_free_blocks() || self.has_many_free(core)
    }

    /// Returns whether the depot has most entries outside of sparse blocks, and more than after the last scan that
    /// gained nothing.
    fn has_many_free(&self, core: &Core) -> bool {
        core.is_mostly_free() && core.depot.len() > self.fruitless_len
    }

    /// Begins a trim, if there is work.
    fn begin(&mut self, core: &Core) -> TrimPhase {
        if !core.is_mostly_free() {
            self.fruitless_len = 0;
        }
        if !self.has_chores(core) {
            return TrimPhase::Idle;
        }
        self.has_gained = false;
        let next = if self.has_many_free(core) { core.depot.take_all() } else { NIL };
        TrimPhase::SetAside { next, again: false }
    }

    /// Ends a trim. Begins another if enough entries have become free meanwhile.
    fn end(&mut self, core: &Core) -> TrimPhase {
        self.fruitless_len = if self.has_gained { 0 } else { core.depot.len() };
        self.begin(core)
    }

    /// Phase 1: sets aside the entries of some magazines. `again`, phase 3: only those in sparse blocks. The others go
    /// back to the depot, by way of `cache`.
    fn set_aside(&mut self, core: &Core, cache: &mut Cache, next: u32, again: bool) -> TrimPhase {
        let mut magazines = magazines(&core.slab, next);
        let some = magazines.by_ref().take(MAX_MAGAZINES);
        // SAFETY: we own the magazines, because this thread, the driver, took them out of the depot.
        let entries = some.flat_map(|magazine| unsafe { members(&core.slab, magazine) });
        // SAFETY: this thread is the driver, and owns the entries as above.
        let visit = |index| if again { core.receive(cache, index) } else { unsafe { core.slab.set_aside_any(index) } };
        core.depot.subtract_len(entries.map(visit).count());
        if let Some(next) = magazines.next() {
            return TrimPhase::SetAside { next, again };
        }
        if again {
            core.drain_cache(cache);
            return self.end(core);
        }
        // Reset before the scan, so that a block that becomes free during the scan counts for the next trim.
        core.slab.reset_free_blocks();
        TrimPhase::Scan { first: 0 }
    }

    /// Phase 2: decides about some pages.
    fn scan(&mut self, core: &Core, cache: &mut Cache, first: u32, mut reclaim: impl FnMut(u32) -> bool) -> TrimPhase {
        let slab = &core.slab;
        let blocks = slab.blocks();
        let entries = slab.page * BLOCK;
        let mut visited = 0;
        let mut free = Vec::new();
        let mut next = first;
        for first in slab.pages(first..blocks).take(MAX_PAGES) {
            if visited >= MAX_FREED {
                break;
            }
            next = first + slab.page;
            let aside = slab.count_aside(first);
            if aside == entries {
                visited += entries;
                if free_page(core, cache, first, &mut reclaim) {
                    free.push(first);
                }
            } else if aside == 0 || slab.is_page_sparse(first) {
                // All entries are in use, or the page is retired, or it is sparse already.
            } else if aside >= entries / 2 {
                slab.mark_sparse(first);
                self.has_marked = true;
                self.has_gained = true;
            } else {
                slab.adopt_page(first, |index| core.keep(cache, index));
            }
        }
        self.has_gained |= !free.is_empty();
        // SAFETY: we own all entries of these pages, because `free_page` has claimed them. They are free.
        unsafe { slab.retire(free) };
        if next < blocks {
            return TrimPhase::Scan { first: next };
        }
        core.drain_cache(cache);
        if mem::take(&mut self.has_marked) {
            return TrimPhase::SetAside { next: core.depot.take_all(), again: true };
        }
        self.end(core)
    }
}

/// Claims all entries of a page and frees them. Returns whether it could; if not, they go back to the depot, by way of
/// `cache`.
fn free_page(core: &Core, cache: &mut Cache, first: u32, reclaim: &mut impl FnMut(u32) -> bool) -> bool {
    if !core.slab.claim_page(first, |index| core.keep(cache, index)) {
        return false;
    }
    let entries = first * BLOCK..(first + core.slab.page) * BLOCK;
    let free = entries.clone().all(reclaim);
    if !free {
        entries.for_each(|index| core.keep(cache, index));
    }
    free
}

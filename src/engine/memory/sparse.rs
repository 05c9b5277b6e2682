//! Sparse blocks: blocks in which few timers are left after a burst. Their free entries are kept out of use, so that the
//! blocks become empty in time and can be retired.
//!
//! A few timers that outlive a burst lie scattered, and each keeps its page. If the free entries around them were used
//! like any others, new timers would go there, and the block would never be empty. So the driver marks such a block, and
//! keeps its free entries out of the pool: they are *set aside*, as bits in a word of the block. A thread that frees an
//! entry of a marked block sets it aside, too, instead of keeping it for its next timer. So new timers fill dense blocks,
//! and timers that end empty the sparse ones. The driver retires a block when all of its entries are set aside.
//!
//! # Which memory is used first
//!
//! 1. The pool, which has entries of dense blocks.
//! 2. A retired block, or a new one, which the next timers fill from one end to the other.
//! 3. A sparse block: it comes before 2 once the dense blocks are half as many as the sparse ones, and last of all when
//!    the system refuses new memory.
//!
//! So a shard may grow by half of what the burst left it. In return all of that goes back when the old timers end. If
//! sparse blocks always came before new ones, a shard of which a tenth outlived the burst would spread its new timers
//! over all of its old pages, and keep them. If they always came last, two bursts would take the memory of two.
//!
//! # Who owns what is set aside
//!
//! The thread that takes the bit away. The driver, and a thread that adopts a sparse block, take all bits of a block by
//! one read-modify-write, so no entry is taken twice. An adopter may come between a thread's look at the mark and its
//! bit. So that thread looks at the mark again after it has set the bit. The adopter first takes the mark away, then the
//! bits: either it takes this bit as well, or the thread sees no mark, and takes the bits back. Loom model `sparse`.

use super::slab::{AllocError, Slab};
use crate::sync::{BLOCK, Ordering};

/// All the entries of a block.
const ALL: u64 = u64::MAX >> (u64::BITS - BLOCK);
/// The most blocks that a call looks at for a sparse one. Where sparse blocks are worth the search, most blocks are sparse.
const MAX_SEARCHED: u32 = 64;

impl Slab {
    /// Gives `receive` free entries, one at the least, in falling order. Lock-free; may allocate.
    pub(crate) fn alloc(&self, mut receive: impl FnMut(u32)) -> Result<(), AllocError> {
        if self.should_adopt() && self.adopt(MAX_SEARCHED, &mut receive) {
            return Ok(());
        }
        let frame = match self.alloc_retired_frame() {
            Ok(None) => self.alloc_new_frame(),
            Ok(Some(first)) => Ok(first),
            Err(error) => Err(error),
        };
        match frame {
            Ok(first) => self.frame_entries(first).rev().for_each(receive),
            // Before a timer is refused, all are looked at.
            Err(AllocError::NoMemory) if self.adopt(u32::MAX, &mut receive) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Whether the entry is in a sparse block, and should be [set aside](Self::set_aside) when it is free. A hint.
    #[inline]
    pub(crate) fn is_sparse(&self, index: u32) -> bool {
        // Relaxed, both: a late answer does no harm. Where nothing is sparse, this is one load of a line that is not written.
        self.sparse.load(Ordering::Relaxed) > 0 && self.block(index / BLOCK).1.load(Ordering::Relaxed)
    }

    /// Sets an entry of a sparse block aside. If that is not sparse any more, gives `back` what is set aside there.
    ///
    /// # Safety
    /// The caller must own the entry, which must be free or cached.
    pub(crate) unsafe fn set_aside(&self, index: u32, back: impl FnMut(u32)) {
        let (block, sparse) = self.block(index / BLOCK);
        let bit = 1 << (index % BLOCK);
        // Release: hands the entry to the thread that takes the bit. Acquire: pairs with an adopter's swap before this,
        // so that the load below sees that the mark is gone; see the file's head.
        let aside = block.aside.fetch_or(bit, Ordering::AcqRel) | bit;
        if !sparse.load(Ordering::Relaxed) {
            self.take_aside(index / BLOCK, back);
        } else if aside == ALL {
            // Release: publishes the bits to the driver; pairs with `reset_completed`.
            self.counts.completed.fetch_add(1, Ordering::Release);
        }
    }

    /// Sets a free entry aside until the driver has looked at its block, which need not be sparse.
    ///
    /// # Safety
    /// The caller must be the driver, and own the entry, which must be free or cached.
    pub(crate) unsafe fn gather(&self, index: u32) {
        self.block(index / BLOCK).0.aside.fetch_or(1 << (index % BLOCK), Ordering::AcqRel);
    }

    /// How many entries of a frame are set aside.
    pub(crate) fn count_aside(&self, first: u32) -> u32 {
        // Relaxed: an estimate. `claim` and `take_aside` decide.
        self.blocks_of(first).map(|block| self.block(block).0.aside.load(Ordering::Relaxed).count_ones()).sum()
    }

    /// Takes a frame of which all entries are set aside; the caller owns them then. If another thread was faster, gives
    /// `back` what was taken.
    pub(crate) fn claim_frame(&self, first: u32, mut back: impl FnMut(u32)) -> bool {
        // Acquire: pairs with the release of each thread that set an entry aside. Release: as in `take_aside`.
        let claim = |&block: &u32| {
            let aside = &self.block(block).0.aside;
            aside.compare_exchange(ALL, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let claimed = self.blocks_of(first).take_while(claim).count() as u32;
        if claimed == self.frame() {
            self.blocks_of(first).for_each(|block| _ = self.unmark(block));
            return true;
        }
        (first * BLOCK..(first + claimed) * BLOCK).for_each(&mut back);
        false
    }

    /// Marks the blocks of a frame.
    pub(crate) fn mark_sparse(&self, first: u32) {
        for block in self.blocks_of(first) {
            // Relaxed: a hint, and counted before it can be counted down.
            self.sparse.fetch_add(1, Ordering::Relaxed);
            if self.block(block).1.swap(true, Ordering::Relaxed) {
                self.sparse.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Whether the first block of a frame is sparse.
    pub(crate) fn is_frame_sparse(&self, first: u32) -> bool {
        self.block(first).1.load(Ordering::Relaxed)
    }

    /// Takes the marks and all that is set aside in a frame away.
    pub(crate) fn adopt_frame(&self, first: u32, mut receive: impl FnMut(u32)) {
        for block in self.blocks_of(first) {
            self.unmark(block);
            self.take_aside(block, &mut receive);
        }
    }

    /// How many entries there are in blocks that are not sparse, more or less.
    pub(crate) fn dense_len(&self) -> usize {
        let sparse = usize::try_from(self.sparse.load(Ordering::Relaxed)).unwrap_or(0);
        self.len().saturating_sub(sparse * BLOCK as usize)
    }

    /// How many sparse blocks have become all free since [`reset_completed`](Self::reset_completed).
    pub(crate) fn completed(&self) -> u32 {
        self.counts.completed.load(Ordering::Relaxed)
    }

    pub(crate) fn reset_completed(&self) {
        // Acquire: pairs with `set_aside`, so that the driver, which looks next, finds all that it has counted.
        self.counts.completed.swap(0, Ordering::Acquire);
    }

    /// Gives `receive` what is set aside in a sparse block, if there is one among so many.
    pub(crate) fn adopt(&self, looks: u32, mut receive: impl FnMut(u32)) -> bool {
        if self.sparse.load(Ordering::Relaxed) <= 0 {
            return false;
        }
        let blocks = self.blocks();
        let from = self.counts.cursor.load(Ordering::Relaxed);
        for step in 0..looks.min(blocks) {
            let block = ((u64::from(from) + u64::from(step)) % u64::from(blocks)) as u32;
            if self.unmark(block) {
                // Relaxed: two threads that go on from the same place do not find the same block.
                self.counts.cursor.store(block + 1, Ordering::Relaxed);
                let mut found = false;
                self.take_aside(block, |index| {
                    found = true;
                    receive(index);
                });
                if found {
                    return true;
                }
            }
        }
        self.counts.cursor.store(from.wrapping_add(looks), Ordering::Relaxed);
        false
    }

    /// Takes the mark of a block away, and returns whether it had one.
    fn unmark(&self, block: u32) -> bool {
        let sparse = self.block(block).1;
        // Relaxed: published by the read-modify-write of the bits that follows.
        let marked = sparse.load(Ordering::Relaxed) && sparse.swap(false, Ordering::Relaxed);
        if marked {
            self.sparse.fetch_sub(1, Ordering::Relaxed);
        }
        marked
    }

    /// Takes all that is set aside in a block, and gives it to `receive`, in falling order.
    fn take_aside(&self, block: u32, receive: impl FnMut(u32)) {
        // Acquire: pairs with the release of each thread that set an entry aside. Release: publishes that the mark is
        // gone; see the file's head.
        let aside = self.block(block).0.aside.swap(0, Ordering::AcqRel);
        (0..BLOCK).rev().filter(|&bit| aside >> bit & 1 == 1).map(|bit| block * BLOCK + bit).for_each(receive);
    }

    fn should_adopt(&self) -> bool {
        let sparse = self.sparse.load(Ordering::Relaxed);
        sparse > 0 && (self.dense_len() / BLOCK as usize) as i64 >= sparse / 2
    }

    fn blocks_of(&self, first: u32) -> std::ops::Range<u32> {
        first..first + self.frame()
    }
}

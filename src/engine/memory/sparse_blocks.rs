//! Sparse blocks: blocks in which few timers are left after a burst. Their free entries are kept out of use, so that
//! the blocks become all free in time, and can be retired.
//!
//! The few timers that outlive a burst are scattered, and each keeps its page in memory. If the free entries around
//! them were used like any others, new timers would go there, and the blocks would never become free. So the driver
//! marks such a block as *sparse* and *sets its free entries aside*: they stay out of the depot, as bits in the header
//! of the block. A thread that frees an entry of a sparse block sets it aside, too, and does not cache it. New timers
//! fill other blocks, and timers that end empty the sparse ones. When all entries of a block are set aside, the block
//! is free. The driver retires a page of free blocks.
//!
//! # Which memory is used first
//!
//! 1. The depot, which has no entries of sparse blocks.
//! 2. A page from the slab, retired or new, which the next timers fill from one end to the other.
//! 3. A sparse block. It comes before 2 if there are at least half as many other blocks as sparse ones. A thread
//!    *adopts* the block: it takes all entries that are set aside there, and the block is no longer sparse. If the
//!    system refuses new memory, all blocks are searched for a sparse one.
//!
//! So a shard may grow by half of what the burst has left. In return all of that goes back to the system when the old
//! timers end. Two other orders were rejected:
//!
//! - Sparse blocks always before new ones: a shard with a tenth of the burst's timers left would spread its new timers
//!   over all of its old pages, and keep them.
//! - Sparse blocks always last: two bursts would take the memory of two.
//!
//! # Who owns an entry that is set aside
//!
//! The thread that clears its bit. The driver and an adopter clear all bits of a block by one read-modify-write, so no
//! entry is taken twice.
//!
//! A thread that sets an entry aside first reads the mark of the block, then sets the bit. An adopter may come between
//! the two. So the thread reads the mark again after it has set the bit. The adopter first clears the mark, then the
//! bits. Either the adopter takes this bit with the others, or the thread finds no mark, and takes the bits back. Loom
//! model `sparse`.

use super::slab::{BLOCK, Slab};
use crate::sync::Ordering;

/// The bits of all entries of a block.
const ALL: u64 = u64::MAX >> (u64::BITS - BLOCK);

impl Slab {
    /// Returns whether the entry is in a sparse block, and should be [set aside](Self::set_aside) when it is free. A
    /// hint.
    #[inline]
    pub(crate) fn is_sparse(&self, index: u32) -> bool {
        // Relaxed, both: an outdated answer does no harm. If no block is sparse, this is one load of a cache line that
        // is hardly ever written.
        self.sparse.load(Ordering::Relaxed) > 0 && self.block(index / BLOCK).1.load(Ordering::Relaxed)
    }

    /// Sets an entry of a sparse block aside. If the block is no longer sparse, passes all entries that are set aside
    /// there to `back`.
    ///
    /// # Safety
    /// The caller must own the entry, which must be unused.
    pub(crate) unsafe fn set_aside(&self, index: u32, back: impl FnMut(u32)) {
        let (block, sparse) = self.block(index / BLOCK);
        let bit = 1 << (index % BLOCK);
        // Release: publishes the entry to the thread that clears the bit; pairs with `take_aside` and `claim_page`.
        // Acquire: if an adopter has swapped the bits before, the load below sees that the mark is cleared; see the
        // file's head. Loom model `sparse`.
        let aside = block.aside.fetch_or(bit, Ordering::AcqRel) | bit;
        if !sparse.load(Ordering::Relaxed) {
            self.take_aside(index / BLOCK, back);
        } else if aside == ALL {
            // Release: publishes the bits to the driver; pairs with `reset_free_blocks`. Loom model `sparse`.
            self.counts.free_blocks.fetch_add(1, Ordering::Release);
        }
    }

    /// Sets an entry aside whose block need not be sparse, until the scan of a trim decides about the block.
    ///
    /// # Safety
    /// The caller must be the driver, and own the entry, which must be unused.
    pub(crate) unsafe fn set_aside_any(&self, index: u32) {
        // Release: publishes the entry to the thread that clears the bit; pairs with `take_aside`. Loom model `sparse`.
        self.block(index / BLOCK).0.aside.fetch_or(1 << (index % BLOCK), Ordering::AcqRel);
    }

    /// Returns the number of entries that are set aside in the page that begins with block `first`.
    pub(crate) fn count_aside(&self, first: u32) -> u32 {
        // Relaxed: an estimate. `claim_page` and `take_aside` decide.
        self.blocks_of(first).map(|block| self.block(block).0.aside.load(Ordering::Relaxed).count_ones()).sum()
    }

    /// Claims all entries of a page, if all of them are set aside, and returns true: the caller owns them. Returns
    /// false if another thread has taken some. Then it passes the entries that were claimed to `back`.
    pub(crate) fn claim_page(&self, first: u32, mut back: impl FnMut(u32)) -> bool {
        // Acquire: we see the entries as each thread has set them aside; pairs with `set_aside` and `set_aside_any`.
        // Release: as in `take_aside`. Loom model `sparse`.
        let claim = |&block: &u32| {
            let aside = &self.block(block).0.aside;
            aside.compare_exchange(ALL, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let claimed = self.blocks_of(first).take_while(claim).count() as u32;
        if claimed == self.page {
            self.blocks_of(first).for_each(|block| _ = self.unmark(block));
            return true;
        }
        (first * BLOCK..(first + claimed) * BLOCK).for_each(&mut back);
        false
    }

    /// Marks the blocks of a page as sparse.
    pub(crate) fn mark_sparse(&self, first: u32) {
        for block in self.blocks_of(first) {
            // Relaxed: a hint. The block is counted before another thread can subtract it.
            self.sparse.fetch_add(1, Ordering::Relaxed);
            if self.block(block).1.swap(true, Ordering::Relaxed) {
                self.sparse.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Returns whether the first block of a page is sparse.
    pub(crate) fn is_page_sparse(&self, first: u32) -> bool {
        self.block(first).1.load(Ordering::Relaxed)
    }

    /// Adopts all blocks of a page: clears their marks, and passes all entries that are set aside there to `receive`.
    pub(crate) fn adopt_page(&self, first: u32, mut receive: impl FnMut(u32)) {
        for block in self.blocks_of(first) {
            self.unmark(block);
            self.take_aside(block, &mut receive);
        }
    }

    /// Returns the approximate number of entries outside of sparse blocks.
    pub(crate) fn len_outside_sparse(&self) -> usize {
        let sparse = usize::try_from(self.sparse.load(Ordering::Relaxed)).unwrap_or(0);
        self.len().saturating_sub(sparse * BLOCK as usize)
    }

    /// Returns the number of sparse blocks that have become free since [`reset_free_blocks`](Self::reset_free_blocks).
    pub(crate) fn free_blocks(&self) -> u32 {
        self.counts.free_blocks.load(Ordering::Relaxed)
    }

    /// Resets the number of free blocks, at the beginning of the driver's pass over all blocks.
    pub(crate) fn reset_free_blocks(&self) {
        // Acquire: the driver's pass, which follows, finds all blocks that were counted; pairs with `set_aside`. Loom
        // model `sparse`.
        self.counts.free_blocks.swap(0, Ordering::Acquire);
    }

    /// Searches up to `most` blocks for a sparse one, and adopts it: passes the entries that are set aside there to
    /// `receive`. Returns whether there were any.
    pub(crate) fn adopt(&self, most: u32, mut receive: impl FnMut(u32)) -> bool {
        if self.sparse.load(Ordering::Relaxed) <= 0 {
            return false;
        }
        let blocks = self.blocks();
        let first = self.counts.cursor.load(Ordering::Relaxed);
        let mut next = first;
        let searched = (first..blocks).chain(0..first.min(blocks)).take(most as usize);
        let found = searched
            .inspect(|&block| next = block + 1)
            .any(|block| self.unmark(block) && self.take_aside(block, &mut receive));
        // Relaxed: a hint. Two threads that search from the same block do not adopt the same one, because only one of
        // them clears its mark.
        self.counts.cursor.store(next, Ordering::Relaxed);
        found
    }

    /// Clears the mark of a block, and returns whether it had one.
    fn unmark(&self, block: u32) -> bool {
        let sparse = self.block(block).1;
        // Relaxed: published by the read-modify-write of the bits, which follows.
        let marked = sparse.load(Ordering::Relaxed) && sparse.swap(false, Ordering::Relaxed);
        if marked {
            self.sparse.fetch_sub(1, Ordering::Relaxed);
        }
        marked
    }

    /// Clears all bits of a block, and passes the entries that were set aside to `receive`, in descending order.
    /// Returns whether there were any.
    fn take_aside(&self, block: u32, receive: impl FnMut(u32)) -> bool {
        // Acquire: we see the entries as each thread has set them aside; pairs with `set_aside` and `set_aside_any`.
        // Release: publishes that the mark is cleared; pairs with `set_aside`; see the file's head. Loom model `sparse`.
        let aside = self.block(block).0.aside.swap(0, Ordering::AcqRel);
        (0..BLOCK).rev().filter(|&bit| aside >> bit & 1 == 1).map(|bit| block * BLOCK + bit).for_each(receive);
        aside != 0
    }

    /// Returns whether there are so many other blocks that a sparse one is adopted before a page is allocated.
    pub(super) fn should_adopt(&self) -> bool {
        let sparse = self.sparse.load(Ordering::Relaxed);
        sparse > 0 && (self.len_outside_sparse() / BLOCK as usize) as i64 >= sparse / 2
    }
}

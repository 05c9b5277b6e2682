//! The slab: allocates, retires and closes pages of entries.
//!
//! An entry is named by its index in the slab. With 32 bits, a link is half as long as a pointer, and one word has room
//! for a link and a tag against ABA.
//!
//! The index leads to a *segment*, which is allocated when its first entry is needed. It is never moved, and never freed
//! before the slab. Segments double in size from 64 KiB to 4 MiB; all further ones have 4 MiB. So a small shard takes
//! little memory, and a process that is short of address space can use all but 4 MiB of it. 64 KiB are whole pages on
//! every system. The sizes of models are small, because a model explores every entry that exists.
//!
//! Entries are allocated in *pages*. A page is the least that the system takes back: one block if that is 4 KiB, 4
//! or 16 blocks if it is more.
//!
//! - A *new* page is allocated by one compare-exchange of the number of blocks. The thread allocates a missing segment
//!   first. If several threads allocate the same segment, one publishes it, and the others free theirs. No thread
//!   waits.
//! - A *retired* page, whose memory the system has taken back, is allocated again by a pop from the stack of retired
//!   pages.
//!
//! # Retiring, allocating again, and closing
//!
//! Each page has a word with the flags `RETIRED` and `PAGE_CLOSED`. The word lies outside of the page, so
//! that a thread can read it without touching a retired page. It is changed by read-modify-writes only, so of two
//! threads that change it, one comes first:
//!
//! | at the same time    | the first                       | the second                                         |
//! |---------------------|---------------------------------|----------------------------------------------------|
//! | `retire`, `close`   | `retire` sets `RETIRED`         | `close` leaves out the page, which is not in use   |
//! |                     | `close` sets `PAGE_CLOSED`      | `retire` leaves the page as it is                  |
//! | allocation, `close` | the allocation clears `RETIRED` | `close` returns the entries, to be marked `CLOSED` |
//! |                     | `close` sets `PAGE_CLOSED`      | the allocation is refused                          |
//!
//! `PAGE_CLOSED` is never cleared. So no thread gets an entry that `close` has left out, or whose mark was lost with
//! its page.
//!
//! The changes are `AcqRel`, because three threads may retire a page, allocate it and close the slab, and the
//! discard of the page must come before the marks. Loom models `shutdown_memory` and `recycle`.

use std::ops::Range;
use std::{io, ptr};

use crate::engine::entry::Entry;
use crate::engine::stack::Stack;
use crate::sync::{AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, Ordering, limit};
use crate::system::{Pages, page_size};

/// Number of entries in a block: a page of 4 KiB.
pub(crate) const BLOCK: u32 = limit(64) as u32;
/// Number of entries in the smallest segment of a slab: 64 KiB. A power of two.
const SMALLEST_SEGMENT: u32 = limit(1 << 10) as u32;
/// Number of entries in the largest segment of a slab: 4 MiB. A power of two.
const LARGEST_SEGMENT: u32 = 2 * limit(1 << 15) as u32;
/// Maximum number of segments of a slab. Together they have 2^32 entries, less one smallest segment.
const SEGMENTS: usize = match (cfg!(loom), cfg!(shuttle)) {
    (false, _) => (1 << 16) + 5,
    (true, false) => 6,
    (true, true) => 100,
};

/// Flag of the number of blocks: the slab is closed, and allocates no more blocks.
const SLAB_CLOSED: u32 = 1 << 31;

/// Flag of a page: the system has taken back its memory.
const RETIRED: u32 = 1 << 0;
/// Flag of a page: the slab is closed. A retired page is not allocated again, and no other is retired.
const PAGE_CLOSED: u32 = 1 << 1;

/// Maximum number of blocks that an allocation searches for a sparse one. Where a search is worth its cost, most blocks
/// are sparse.
const MAX_SEARCHED: u32 = 64;

/// Why no entry could be allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AllocError {
    /// The shard has been shut down.
    Closed,
    /// The system has no more memory, or the shard has as many entries as 32 bits can name.
    NoMemory,
}

/// The allocator of a shard's entries.
///
/// The fields that each call reads come first, on a cache line that is hardly ever written.
pub(crate) struct Slab {
    /// The segments, by their number; null if not allocated yet.
    segments: Pages<AtomicPtr<[Segment; 1]>>,
    /// Number of blocks in a page: a power of two.
    pub(crate) page: u32,
    /// Approximate number of [sparse](super::sparse_blocks) blocks.
    pub(super) sparse: AtomicI64,
    /// The fields that are written more often, on another cache line.
    pub(super) counts: PageCounts,
}

/// The fields that are written when blocks are allocated or retired, or become free.
#[derive(Default)]
#[repr(align(64))]
pub(super) struct PageCounts {
    /// Number of blocks that have ever been allocated as new, and [`SLAB_CLOSED`].
    blocks: AtomicU32,
    /// The retired pages, each by its first block.
    retired: Stack,
    /// Approximate number of blocks in retired pages.
    decommitted: AtomicU32,
    /// Number of sparse blocks that have become all free since the driver's last pass.
    pub(super) free_blocks: AtomicU32,
    /// Block at which the next search for a sparse block begins.
    pub(super) cursor: AtomicU32,
}

impl Slab {
    /// Returns an empty slab, with the pages of this system.
    pub(crate) fn new() -> io::Result<Self> {
        let blocks = page_size() / (BLOCK as usize * size_of::<Entry>());
        Self::with_page(blocks.clamp(1, (SMALLEST_SEGMENT / BLOCK) as usize) as u32)
    }

    /// Returns an empty slab with this number of blocks in a page, as on a system with pages of that size.
    pub(crate) fn with_page(page: u32) -> io::Result<Self> {
        // SAFETY: all zero bytes are a null pointer, which needs no dropping.
        let segments = unsafe { Pages::new(SEGMENTS, || AtomicPtr::new(ptr::null_mut())) }?;
        Ok(Self { segments, page, sparse: AtomicI64::new(0), counts: PageCounts::default() })
    }

    /// Returns the entry of this index. Wait-free.
    ///
    /// # Panics
    /// If the segment of this index was never allocated.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> &Entry {
        let (segment, offset) = self.find(index);
        // SAFETY: the offset is in bounds, because `locate` returns an offset in the segment.
        unsafe { segment.entries.get_unchecked(offset) }
    }

    /// Allocates at least one entry, and passes each to `receive`, in descending order. Lock-free; may allocate a
    /// segment.
    pub(crate) fn alloc(&self, mut receive: impl FnMut(u32)) -> Result<(), AllocError> {
        if self.should_adopt() && self.adopt(MAX_SEARCHED, &mut receive) {
            return Ok(());
        }
        let page = self.alloc_retired_page().and_then(|page| page.map_or_else(|| self.alloc_new_page(), Ok));
        match page {
            // Before a timer is refused, all blocks are searched. A search that finds nothing has cleared all marks, so the
            // next search ends at once, until the driver has marked blocks again.
            Err(AllocError::NoMemory) if self.adopt(u32::MAX, &mut receive) => {}
            page => self.entries(self.blocks_of(page?)).rev().for_each(receive),
        }
        Ok(())
    }

    /// Allocates a retired page again, if there is one, and returns its first block. Lock-free.
    fn alloc_retired_page(&self) -> Result<Option<u32>, AllocError> {
        let Some(first) = self.counts.retired.pop(|block| &self.block(block).0.link) else { return Ok(None) };
        self.counts.decommitted.fetch_sub(self.page, Ordering::Relaxed);
        // AcqRel: orders the discard of the page, and our use of the entries, against `close`; see the file's head.
        // Loom model `shutdown_memory`.
        let flags = &self.block(first).0.flags;
        flags.compare_exchange(RETIRED, 0, Ordering::AcqRel, Ordering::Acquire).map_err(|_| AllocError::Closed)?;
        let (memory, range) = self.memory_of(self.blocks_of(first));
        // SAFETY: we own the page, because this thread has popped it. Its memory was discarded.
        unsafe { memory.reuse(range) };
        Ok(Some(first))
    }

    /// Allocates a new page, and returns its first block. Lock-free; may allocate a segment.
    fn alloc_new_page(&self) -> Result<u32, AllocError> {
        let count = &self.counts.blocks;
        let mut blocks = count.load(Ordering::Acquire);
        loop {
            if blocks & SLAB_CLOSED != 0 {
                return Err(AllocError::Closed);
            }
            // The segment comes first: if the system refuses it, nothing has changed.
            self.ensure_segment(locate(blocks * BLOCK).0)?;
            // Release: publishes the segment of the block to `close`; pairs with its `fetch_or`. Relaxed would do for
            // the number alone. Loom model `shutdown`.
            match count.compare_exchange_weak(blocks, blocks + self.page, Ordering::AcqRel, Ordering::Acquire) {
                Ok(first) => return Ok(first),
                Err(seen) => blocks = seen,
            }
        }
    }

    /// Retires these pages, each named by its first block, in ascending order: gives their memory back to the system
    /// until they are allocated again. Leaves the pages of a closed slab as they are.
    ///
    /// # Safety
    /// The caller must own all entries of the pages, which must be free.
    pub(crate) unsafe fn retire(&self, mut pages: Vec<u32>) {
        let retire = |&first: &u32| {
            let flags = &self.block(first).0.flags;
            // AcqRel: orders the discard against `close`; see the file's head. Loom model `shutdown_memory`.
            flags.compare_exchange(0, RETIRED, Ordering::AcqRel, Ordering::Acquire).is_ok()
        };
        pages.retain(retire);
        // Neighbours in a segment are discarded at once.
        for run in pages.chunk_by(|&page, &next| next == page + self.page && locate(next * BLOCK).1 > 0) {
            let blocks = run[0]..run[0] + run.len() as u32 * self.page;
            let (memory, range) = self.memory_of(blocks.clone());
            // SAFETY: we own the entries, which are free, by this function's contract. All zero bytes are a free entry.
            // Another thread may still read a `next_magazine` link, which is atomic, in the middle of a pop that will
            // fail.
            unsafe { memory.discard(range) };
            self.counts.decommitted.fetch_add(blocks.len() as u32, Ordering::Relaxed);
            run.iter().for_each(|&first| self.counts.retired.push(first, &self.block(first).0.link));
        }
    }

    /// Returns the number of blocks that have ever been allocated.
    pub(crate) fn blocks(&self) -> u32 {
        // Acquire: we see the segments of these blocks; pairs with the release in `alloc_new_page`.
        self.counts.blocks.load(Ordering::Acquire) & !SLAB_CLOSED
    }

    /// Returns the approximate number of entries in memory.
    pub(crate) fn len(&self) -> usize {
        self.blocks().saturating_sub(self.counts.decommitted.load(Ordering::Relaxed)) as usize * BLOCK as usize
    }

    /// Returns the first block of each page in a range of blocks.
    pub(crate) fn pages(&self, blocks: Range<u32>) -> impl Iterator<Item = u32> + use<> {
        blocks.step_by(self.page as usize)
    }

    /// Returns the blocks of the page that begins with block `first`.
    pub(super) fn blocks_of(&self, first: u32) -> Range<u32> {
        first..first + self.page
    }

    /// Closes the slab: no entry is allocated from now on. Returns every entry in memory that was ever allocated, and
    /// touches no retired page. Another call returns the same entries.
    pub(crate) fn close(&self) -> impl Iterator<Item = &Entry> {
        // Acquire: we see all blocks that were allocated, and their segments; pairs with `alloc_new_page`. Loom model
        // `shutdown`.
        let blocks = self.counts.blocks.fetch_or(SLAB_CLOSED, Ordering::AcqRel) & !SLAB_CLOSED;
        // AcqRel: orders the marks of the caller after the discard of the page; see the file's head. Loom model
        // `shutdown_memory`.
        self.unless_retired(blocks, |flags| flags.fetch_or(PAGE_CLOSED, Ordering::AcqRel))
    }

    /// Returns every entry in memory. Leaves retired pages out, which it need not touch.
    ///
    /// An entry that another thread allocates or retires meanwhile may be in the result or not. Its state can be read
    /// either way: a retired entry is free.
    pub(crate) fn in_memory(&self) -> impl Iterator<Item = &Entry> {
        // Acquire: pairs with the changes by `retire` and `alloc_retired_page`. A page that this thread has allocated,
        // or one whose allocation it knows of, is not left out.
        self.unless_retired(self.blocks(), |flags| flags.load(Ordering::Acquire))
    }

    /// Returns the entries of the first `blocks` blocks, without the pages that are retired. `read` reads the flags of
    /// a page.
    fn unless_retired(&self, blocks: u32, read: impl Fn(&AtomicU32) -> u32) -> impl Iterator<Item = &Entry> {
        self.pages(0..blocks)
            .filter(move |&first| read(&self.block(first).0.flags) & RETIRED == 0)
            .flat_map(|first| self.entries(self.blocks_of(first)))
            .map(|index| self.get(index))
    }

    /// Returns the indices of the entries of a range of blocks.
    fn entries(&self, blocks: Range<u32>) -> Range<u32> {
        blocks.start * BLOCK..blocks.end * BLOCK
    }

    /// Returns the header of an allocated block, and its flag for sparse.
    #[inline]
    pub(super) fn block(&self, block: u32) -> (&Block, &AtomicBool) {
        let (segment, offset) = self.find(block * BLOCK);
        let block = offset / BLOCK as usize;
        (&segment.blocks[block], &segment.sparse[block])
    }

    /// Returns the memory of the segment that contains a range of blocks, and the range of their entries in it.
    fn memory_of(&self, blocks: Range<u32>) -> (&Pages<Entry>, Range<usize>) {
        let (segment, offset) = self.find(blocks.start * BLOCK);
        (&segment.entries, offset..offset + blocks.len() * BLOCK as usize)
    }

    /// Returns the segment that contains the entry `index`, and the offset of the entry in it.
    ///
    /// # Panics
    /// If the segment was never allocated.
    #[inline]
    fn find(&self, index: u32) -> (&Segment, usize) {
        let (number, offset) = locate(index);
        // Acquire: we see the segment as its thread has built it; pairs with the release in `ensure_segment`.
        let segment = self.segments[number].load(Ordering::Acquire);
        // SAFETY: the pointer is null or valid, because a published segment is never freed before the slab.
        let [segment] = unsafe { segment.as_ref() }.expect("an index of this slab");
        (segment, offset)
    }

    /// Allocates the segment of this number, unless it is there already.
    fn ensure_segment(&self, number: usize) -> Result<(), AllocError> {
        let slot = self.segments.get(number).ok_or(AllocError::NoMemory)?;
        if slot.load(Ordering::Acquire).is_null() {
            let fresh = Segment::allocate(number).ok_or(AllocError::NoMemory);
            // The system may refuse because another thread has just allocated this very segment.
            let fresh = match fresh {
                Err(_) if !slot.load(Ordering::Acquire).is_null() => return Ok(()),
                fresh => Box::into_raw(fresh?),
            };
            // Release: publishes the segment; pairs with `find`. Loom model `recycle`.
            if slot.compare_exchange(ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // SAFETY: we own the box, because it was not published.
                drop(unsafe { Box::from_raw(fresh) });
            }
        }
        Ok(())
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // Segments are allocated in order, so no other follows the first that is missing.
        let segments = self.segments.iter().map(|slot| slot.load(Ordering::Acquire)).take_while(|slot| !slot.is_null());
        for segment in segments {
            // SAFETY: we own the segments, because the slab is being dropped and no other thread can reach them.
            drop(unsafe { Box::from_raw(segment) });
        }
    }
}

/// A mapping of entries, and what is stored beside them.
struct Segment {
    entries: Pages<Entry>,
    blocks: Pages<Block>,
    /// Whether each block is [sparse](super::sparse_blocks). Not in `blocks`, because many threads read this and few
    /// write it.
    sparse: Pages<AtomicBool>,
}

/// The header of a block, outside of its entries. All zero bytes are a block in use.
#[derive(Default)]
pub(super) struct Block {
    /// The entries that are [set aside](super::sparse_blocks), one bit each.
    pub(super) aside: AtomicU64,
    /// First block of the next retired page. Used in the first block of a page only.
    link: AtomicU32,
    /// The flags [`RETIRED`] and [`PAGE_CLOSED`] of a page. Used in the first block of the page only.
    flags: AtomicU32,
}

impl Segment {
    /// Allocates the segment of this number. Returns `None` if the system has no memory for it.
    ///
    /// An array of one, because a `Vec` can report that there is no memory, and a box of a single value cannot.
    fn allocate(number: usize) -> Option<Box<[Self; 1]>> {
        let entries = size(number) as usize;
        let blocks = entries / BLOCK as usize;
        let mut one = Vec::new();
        one.try_reserve_exact(1).ok()?;
        // SAFETY: all zero bytes are a free entry, a block in use, and `false`; a segment is not empty. None of the
        // three needs dropping, because a callback is taken out of its entry before its timer ends.
        one.push(unsafe {
            Self {
                entries: Pages::new(entries, Entry::new).ok()?,
                blocks: Pages::new(blocks, Block::default).ok()?,
                sparse: Pages::new(blocks, || AtomicBool::new(false)).ok()?,
            }
        });
        one.into_boxed_slice().try_into().ok()
    }
}

/// Returns the number of the segment that contains the entry `index`, and the offset of the entry in it.
#[inline]
fn locate(index: u32) -> (usize, usize) {
    let shifted = index.wrapping_add(SMALLEST_SEGMENT);
    // The lowest bit does not change the logarithm. It shows the compiler that the number is not zero.
    let log = (shifted | 1).ilog2().min(LARGEST_SEGMENT.ilog2());
    let number = (shifted >> log).wrapping_add(log).wrapping_sub(SMALLEST_SEGMENT.ilog2() + 1);
    (number as usize, (shifted & ((1 << log) - 1)) as usize)
}

/// Returns the number of entries of a segment.
fn size(number: usize) -> u32 {
    SMALLEST_SEGMENT << number.min((LARGEST_SEGMENT / SMALLEST_SEGMENT).ilog2() as usize)
}

#[cfg(all(test, not(loom)))]
#[path = "slab_tests.rs"]
mod tests;

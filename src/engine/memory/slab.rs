//! The slab: allocates, retires and closes frames of entries.
//!
//! An entry is named by its index in the slab's [segments](super::segment). With 32 bits, a link is half as long as a
//! pointer, and one word has room for a link and a tag against ABA.
//!
//! Entries are allocated in *frames*. A frame is the least that the system takes back: one block if a page has 4 KiB, 4
//! or 16 blocks if a page is larger.
//!
//! - A *new* frame is allocated by one compare-exchange of the number of blocks. The thread allocates a missing segment
//!   first. If several threads allocate the same segment, one publishes it, and the others free theirs. No thread
//!   waits.
//! - A *retired* frame, whose memory the system has taken back, is allocated again by a pop from the stack of retired
//!   frames.
//!
//! # Retiring, allocating again, and closing
//!
//! Each frame has a word with the flags `RETIRED` and `FRAME_CLOSED`. The word lies outside of the frame's pages, so
//! that a thread can read it without touching a retired page. It is changed by read-modify-writes only, so of two
//! threads that change it, one comes first:
//!
//! | at the same time    | the first                       | the second                                         |
//! |---------------------|---------------------------------|----------------------------------------------------|
//! | `retire`, `close`   | `retire` sets `RETIRED`         | `close` leaves out the frame, which is not in use  |
//! |                     | `close` sets `FRAME_CLOSED`     | `retire` leaves the frame as it is                 |
//! | allocation, `close` | the allocation clears `RETIRED` | `close` returns the entries, to be marked `CLOSED` |
//! |                     | `close` sets `FRAME_CLOSED`     | the allocation is refused                          |
//!
//! `FRAME_CLOSED` is never cleared. So no thread gets an entry that `close` has left out, or whose mark was lost with
//! its page.
//!
//! The transitions are `AcqRel`, because three threads may retire a frame, allocate it and close the slab, and the
//! discard of the page must come before the marks. Loom models `shutdown_memory` and `recycle`.

use std::alloc::{Layout, handle_alloc_error};
use std::ops::Range;
use std::ptr;

use super::segment::{Block, Segment, locate};
use crate::engine::entry::Entry;
use crate::engine::stack::Stack;
use crate::sync::{AtomicBool, AtomicI64, AtomicPtr, AtomicU32, BLOCK, Ordering, SEGMENTS, SMALLEST_SEGMENT};
use crate::system::{Pages, page_size, try_box};

/// Flag of the number of blocks: the slab is closed, and allocates no more blocks.
const CLOSED: u32 = 1 << 31;

/// Flag of a frame: the system has taken back its memory.
pub(super) const RETIRED: u32 = 1 << 0;
/// Flag of a frame: the slab is closed. A retired frame is not allocated again, and no other is retired.
const FRAME_CLOSED: u32 = 1 << 1;

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
    segments: Pages<AtomicPtr<Segment>>,
    /// Number of blocks in a frame: a power of two.
    frame: u32,
    /// Approximate number of [sparse](super::sparse) blocks.
    pub(super) sparse: AtomicI64,
    /// The fields that are written more often, on another cache line.
    pub(super) counts: Counts,
}

/// The fields that are written when blocks are allocated, retired or completed.
#[repr(align(64))]
pub(super) struct Counts {
    /// Number of blocks that have ever been allocated as new, and [`CLOSED`].
    blocks: AtomicU32,
    /// The retired frames, each by its first block.
    retired: Stack,
    /// Approximate number of blocks in retired frames.
    decommitted: AtomicU32,
    /// Number of sparse blocks that have become all free since the driver's last pass.
    pub(super) completed: AtomicU32,
    /// Block at which the next search for a sparse block begins.
    pub(super) cursor: AtomicU32,
}

impl Slab {
    /// Returns an empty slab, whose frames are pages of this system.
    pub(crate) fn new() -> Self {
        let blocks = page_size() / (BLOCK as usize * size_of::<Entry>());
        Self::with_frame(blocks.clamp(1, (SMALLEST_SEGMENT / BLOCK) as usize) as u32)
    }

    /// Returns an empty slab with this number of blocks in a frame, as on a system with pages of that size.
    pub(in super::super) fn with_frame(frame: u32) -> Self {
        // SAFETY: all zero bytes are a null pointer, which needs no dropping.
        let segments = unsafe { Pages::new(SEGMENTS, || AtomicPtr::new(ptr::null_mut())) };
        Self {
            segments: segments.unwrap_or_else(|| handle_alloc_error(Layout::new::<[AtomicPtr<Segment>; SEGMENTS]>())),
            frame,
            sparse: AtomicI64::new(0),
            counts: Counts {
                blocks: AtomicU32::new(0),
                retired: Stack::new(),
                decommitted: AtomicU32::new(0),
                completed: AtomicU32::new(0),
                cursor: AtomicU32::new(0),
            },
        }
    }

    /// Returns the entry of this index. Wait-free.
    ///
    /// # Panics
    /// If the segment of this index was never allocated.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> &Entry {
        let (number, offset) = locate(index);
        let segment = self.segment(number).expect("an index of this slab");
        // SAFETY: the offset is in bounds, because `locate` returns an offset in the segment.
        unsafe { segment.entries.get_unchecked(offset) }
    }

    /// Allocates a retired frame again, if there is one, and returns its first index. Lock-free.
    pub(super) fn alloc_retired_frame(&self) -> Result<Option<u32>, AllocError> {
        let Some(first) = self.counts.retired.pop(|block| &self.block(block).0.link) else { return Ok(None) };
        self.counts.decommitted.fetch_sub(self.frame, Ordering::Relaxed);
        // AcqRel: orders the discard of the page, and our use of the entries, against `close`; see the file's head.
        // Loom model `shutdown_memory`.
        let state = &self.block(first).0.state;
        state.compare_exchange(RETIRED, 0, Ordering::AcqRel, Ordering::Acquire).map_err(|_| AllocError::Closed)?;
        self.with_pages(first, |pages, range| {
            // SAFETY: we own the frame, because this thread has popped it. Its pages were discarded.
            unsafe { pages.reuse(range) };
        });
        Ok(Some(first * BLOCK))
    }

    /// Allocates a new frame, and returns its first index. Lock-free; may allocate a segment.
    pub(super) fn alloc_new_frame(&self) -> Result<u32, AllocError> {
        let count = &self.counts.blocks;
        let mut blocks = count.load(Ordering::Acquire);
        loop {
            if blocks & CLOSED != 0 {
                return Err(AllocError::Closed);
            }
            // The segment comes first: if the system refuses it, nothing has changed.
            self.ensure_segment(locate(blocks * BLOCK).0)?;
            // Release: publishes the segment of the block to `close`; pairs with its `fetch_or`. Relaxed would do for
            // the number alone. Loom model `shutdown`.
            match count.compare_exchange_weak(blocks, blocks + self.frame, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(blocks * BLOCK),
                Err(seen) => blocks = seen,
            }
        }
    }

    /// Retires the frames of a range of blocks: gives their memory back to the system until they are allocated again.
    /// Leaves the frames of a closed slab as they are.
    ///
    /// # Safety
    /// The caller must own all entries of the frames, which must be free.
    pub(crate) unsafe fn retire(&self, blocks: Range<u32>) {
        // Frames that are neighbours in a segment, to be discarded at once.
        let mut run = blocks.start..blocks.start;
        for first in self.frames(blocks.clone()) {
            let state = &self.block(first).0.state;
            // AcqRel: orders the discard against `close`; see the file's head. Loom model `shutdown_memory`.
            let retired = state.compare_exchange(0, RETIRED, Ordering::AcqRel, Ordering::Acquire).is_ok();
            let next_segment = locate(first * BLOCK).1 == 0;
            if !retired || next_segment {
                // SAFETY: we own the entries, by this function's contract. This thread has set `RETIRED`, and the run
                // lies in one segment.
                unsafe { self.discard(run) };
                run = first..first;
            }
            run = if retired { run.start..first + self.frame } else { first + self.frame..first + self.frame };
        }
        // SAFETY: as above.
        unsafe { self.discard(run) };
    }

    /// Discards the pages of retired frames, and pushes the frames to the stack.
    ///
    /// # Safety
    /// The caller must own all entries of the frames, which must be free. It must have set `RETIRED` of each frame, and
    /// the frames must lie in one segment.
    unsafe fn discard(&self, blocks: Range<u32>) {
        if blocks.is_empty() {
            return;
        }
        let (number, offset) = locate(blocks.start * BLOCK);
        if let Some(segment) = self.segment(number) {
            // SAFETY: we own the entries, which are free, by this function's contract. All zero bytes are a free entry.
            // Another thread may still read a `next_batch` link, which is atomic, in the middle of a pop that will
            // fail.
            unsafe { segment.entries.discard(offset..offset + blocks.len() * BLOCK as usize) };
        }
        self.counts.decommitted.fetch_add(blocks.len() as u32, Ordering::Relaxed);
        for first in self.frames(blocks) {
            self.counts.retired.push(first, &self.block(first).0.link);
        }
    }

    /// Returns the number of blocks that have ever been allocated.
    pub(crate) fn blocks(&self) -> u32 {
        // Acquire: we see the segments of these blocks; pairs with the release in `alloc_new_frame`.
        self.counts.blocks.load(Ordering::Acquire) & !CLOSED
    }

    /// Returns the approximate number of entries in memory.
    pub(crate) fn len(&self) -> usize {
        self.blocks().saturating_sub(self.counts.decommitted.load(Ordering::Relaxed)) as usize * BLOCK as usize
    }

    /// Returns the number of blocks in a frame.
    pub(crate) fn frame(&self) -> u32 {
        self.frame
    }

    /// Returns the first block of each frame in a range of blocks.
    pub(in super::super) fn frames(&self, blocks: Range<u32>) -> impl DoubleEndedIterator<Item = u32> + use<> {
        blocks.step_by(self.frame as usize)
    }

    /// Returns the indices of a frame that begins with the entry `first`.
    pub(super) fn frame_entries(&self, first: u32) -> Range<u32> {
        first..first + self.frame * BLOCK
    }

    /// Closes the slab: no entry is allocated from now on. Returns every entry in memory that was ever allocated, and
    /// touches no retired frame. Another call returns the same entries.
    pub(crate) fn close(&self) -> impl Iterator<Item = &Entry> {
        // Acquire: we see all blocks that were allocated, and their segments; pairs with `alloc_new_frame`. Loom model
        // `shutdown`.
        let blocks = self.counts.blocks.fetch_or(CLOSED, Ordering::AcqRel) & !CLOSED;
        // AcqRel: orders the marks of the caller after the discard of the page; see the file's head. Loom model
        // `shutdown_memory`.
        let resident = |&first: &u32| self.block(first).0.state.fetch_or(FRAME_CLOSED, Ordering::AcqRel) & RETIRED == 0;
        self.frames(0..blocks)
            .filter(resident)
            .flat_map(|first| self.frame_entries(first * BLOCK))
            .map(|index| self.get(index))
    }

    /// Returns the header of an allocated block, and its flag for sparse.
    #[inline]
    pub(super) fn block(&self, block: u32) -> (&Block, &AtomicBool) {
        let (number, offset) = locate(block * BLOCK);
        let segment = self.segment(number).expect("a block of this slab");
        let block = offset / BLOCK as usize;
        (&segment.blocks[block], &segment.sparse[block])
    }

    /// Passes the pages of the segment with the frame that begins with block `first`, and the frame's range in them, to
    /// `f`.
    fn with_pages(&self, first: u32, f: impl FnOnce(&Pages<Entry>, Range<usize>)) {
        let (number, offset) = locate(first * BLOCK);
        if let Some(segment) = self.segment(number) {
            f(&segment.entries, offset..offset + (self.frame * BLOCK) as usize);
        }
    }

    /// Returns the segment of this number, if it was allocated.
    #[inline]
    fn segment(&self, number: usize) -> Option<&Segment> {
        // Acquire: we see the segment as its thread has built it; pairs with the release in `ensure_segment`.
        let segment = self.segments[number].load(Ordering::Acquire);
        // SAFETY: the pointer is null or valid, because a published segment is never freed before the slab.
        unsafe { segment.as_ref() }
    }

    /// Allocates the segment of this number, unless it is there already.
    fn ensure_segment(&self, number: usize) -> Result<(), AllocError> {
        let slot = self.segments.get(number).ok_or(AllocError::NoMemory)?;
        if slot.load(Ordering::Acquire).is_null() {
            let fresh = Segment::allocate(number).and_then(try_box).ok_or(AllocError::NoMemory);
            // The system may refuse because another thread has just allocated this very segment.
            let fresh = match fresh {
                Err(_) if !slot.load(Ordering::Acquire).is_null() => return Ok(()),
                fresh => Box::into_raw(fresh?),
            };
            // Release: publishes the segment; pairs with `segment`. Loom model `recycle`.
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

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn an_entry_is_one_cache_line() {
        assert_eq!(size_of::<Entry>(), 64);
    }

    #[test]
    fn every_index_has_an_entry_of_its_own() {
        for frame in [1, 4, 16] {
            let slab = Slab::with_frame(frame);
            let (mut next, mut entries) = (0, HashSet::new());
            for _ in 0..50 {
                assert_eq!(slab.alloc_new_frame(), Ok(next));
                for index in slab.frame_entries(next) {
                    assert!(entries.insert(ptr::from_ref(slab.get(index))));
                }
                next += frame * BLOCK;
            }
            assert_eq!(slab.close().count(), next as usize);
            assert!(slab.close().all(|entry| entries.remove(&ptr::from_ref(entry))));
            assert_eq!(slab.alloc_new_frame(), Err(AllocError::Closed));
        }
    }

    #[test]
    fn a_closed_slab_has_no_entry_of_a_retired_frame() {
        for frame in [1, 4, 16] {
            let slab = Slab::with_frame(frame);
            (0..40).for_each(|_| _ = slab.alloc_new_frame().unwrap());
            let (first, last) = (7 * frame, 33 * frame);
            // SAFETY: we own the entries, because this thread has allocated their frames. They are free.
            unsafe { slab.retire(first..last) };
            assert_eq!(slab.len(), 14 * (frame * BLOCK) as usize);
            let again = slab.alloc_retired_frame().unwrap().unwrap();
            assert!((first..last).contains(&(again / BLOCK)));
            assert_eq!(slab.close().count(), slab.len());
            assert_eq!(slab.alloc_retired_frame(), Err(AllocError::Closed));
            // SAFETY: as above.
            unsafe { slab.retire(0..frame) };
            assert_eq!(slab.len(), 16 * (frame * BLOCK) as usize, "the frame that was refused is not retired either");
        }
    }

    /// The driver claims a frame block by block. A thread may have adopted a later block meanwhile.
    #[test]
    fn a_frame_that_is_claimed_in_part_is_given_back() {
        let slab = Slab::with_frame(4);
        slab.alloc_new_frame().unwrap();
        for index in (0..4 * BLOCK).filter(|&index| index != 2 * BLOCK) {
            // SAFETY: we own the entries, because this thread has allocated their frame. They are free, and no driver runs.
            unsafe { slab.gather(index) };
        }
        let mut back = Vec::new();
        assert!(!slab.claim_frame(0, |index| back.push(index)));
        assert_eq!(back, (0..2 * BLOCK).collect::<Vec<_>>());
        assert_eq!(slab.count_aside(0), 2 * BLOCK - 1);
    }

    #[test]
    fn no_more_entries_are_allocated_than_an_index_can_name() {
        let slab = Slab::new();
        slab.counts.blocks.store((1 << 26) - (SMALLEST_SEGMENT / BLOCK), Ordering::Relaxed);
        assert_eq!(slab.alloc_new_frame(), Err(AllocError::NoMemory));
    }
}

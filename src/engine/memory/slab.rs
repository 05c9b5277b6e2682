//! Where entries live: in [segments](super::segment).
//!
//! An entry is named by its index, 32 bits, so that links take half a pointer and a link can be tagged against reuse.
//! New entries are carved off in frames, each by one compare-exchange. The thread that carves allocates the segment first.
//! If several threads allocate the same segment, one of them publishes it, and the others free theirs. No thread waits.
//!
//! A frame is the least that the system takes back: one block where a page has 4 KiB, 4 or 16 blocks where it has more. A
//! frame can be retired: the system has its memory back until it is carved off again.
//!
//! # A frame that is retired, carved off again, and closed
//!
//! The state of a frame lies outside of its pages, so that a retired frame need not be touched to tell that it is retired.
//! The state is one word, changed by read-modify-writes only. Of two threads that change it, one comes first:
//!
//! | at the same time     | the first                      | the other                                                |
//! |----------------------|--------------------------------|----------------------------------------------------------|
//! | `retire` and `close` | `retire`: sets `RETIRED`       | `close` leaves the frame out: none of its entries is in use |
//! |                      | `close`: sets `FRAME_CLOSED`           | `retire` leaves the frame as it is                       |
//! | `carve` and `close`  | `carve`: takes `RETIRED` away  | `close` marks the entries                                |
//! |                      | `close`: sets `FRAME_CLOSED`           | `carve` is refused                                       |
//!
//! `FRAME_CLOSED` stays for good. So no entry is handed out whose mark was lost with its page, or that was left out. The moves are
//! `AcqRel`: the thread that retires a frame, the one that carves it, and the one that closes the slab may be three, and the
//! discard comes before the mark. Checked by loom models `shutdown_memory` and `recycle`.

use std::alloc::{Layout, handle_alloc_error};
use std::ops::Range;
use std::ptr;

use super::segment::{Block, Segment, locate};
use super::stack::Stack;
use crate::engine::entry::Entry;
use crate::sync::{AtomicBool, AtomicI64, AtomicPtr, AtomicU32, BLOCK, Ordering, SEGMENTS, SMALLEST_SEGMENT};
use crate::system::{Pages, page_size, try_box};

/// The count of blocks in a slab from which none is carved any more.
const CLOSED: u32 = 1 << 31;

/// The system has the memory of the frame.
pub(super) const RETIRED: u32 = 1 << 0;
/// The slab was closed: a retired frame is not carved off any more, and no other is retired.
const FRAME_CLOSED: u32 = 1 << 1;

/// Why no entry is to be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AllocError {
    /// The shard has been shut down.
    Closed,
    /// The system gives no more memory, or the shard has as many entries as it can tell apart.
    NoMemory,
}

/// What each call reads comes first, on a cache line that is hardly ever written.
pub(crate) struct Slab {
    segments: Pages<AtomicPtr<Segment>>,
    /// How many blocks a frame has: a power of two.
    frame: u32,
    /// How many blocks are [sparse](super::sparse), more or less.
    pub(super) sparse: AtomicI64,
    pub(super) counts: Counts,
}

#[repr(align(64))]
pub(super) struct Counts {
    /// How many blocks have been carved off.
    blocks: AtomicU32,
    /// Frames whose memory the system has back, by their first block.
    retired: Stack,
    /// How many blocks they have, more or less.
    decommitted: AtomicU32,
    /// How many sparse blocks have come to be all free since the driver looked.
    pub(super) completed: AtomicU32,
    /// The block at which the search for a sparse one goes on.
    pub(super) cursor: AtomicU32,
}

impl Slab {
    pub(crate) fn new() -> Self {
        let blocks = page_size() / (BLOCK as usize * size_of::<Entry>());
        Self::with_frame(blocks.clamp(1, (SMALLEST_SEGMENT / BLOCK) as usize) as u32)
    }

    /// A slab that is retired and carved off in so many blocks at once, as on a system with pages of that size.
    pub(crate) fn with_frame(frame: u32) -> Self {
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

    /// The entry of this index. Wait-free.
    ///
    /// # Panics
    /// If no entry of this index was ever carved off.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> &Entry {
        let (number, offset) = locate(index);
        let segment = self.segment(number).expect("an index of this slab");
        // SAFETY: `locate` gives an offset in the segment.
        unsafe { segment.entries.get_unchecked(offset) }
    }

    /// Carves off a retired frame, if there is any, and returns its first index. Lock-free.
    pub(super) fn alloc_retired_frame(&self) -> Result<Option<u32>, AllocError> {
        let Some(first) = self.counts.retired.pop(|block| &self.block(block).0.link) else { return Ok(None) };
        self.counts.decommitted.fetch_sub(self.frame, Ordering::Relaxed);
        // See the file's head. AcqRel: orders this thread's use of the entries against `close`.
        let state = &self.block(first).0.state;
        state.compare_exchange(RETIRED, 0, Ordering::AcqRel, Ordering::Acquire).map_err(|_| AllocError::Closed)?;
        self.pages(first, |pages, range| {
            // SAFETY: they were discarded, and this thread alone has popped the frame.
            unsafe { pages.reuse(range) };
        });
        Ok(Some(first * BLOCK))
    }

    /// Carves off a frame that was never used, and returns its first index. Lock-free; may allocate.
    pub(super) fn alloc_new_frame(&self) -> Result<u32, AllocError> {
        let count = &self.counts.blocks;
        let mut blocks = count.load(Ordering::Acquire);
        loop {
            if blocks & CLOSED != 0 {
                return Err(AllocError::Closed);
            }
            // The segment comes first: if it is refused, nothing has been done.
            self.ensure_segment(locate(blocks * BLOCK).0)?;
            // Relaxed would do for the count alone; AcqRel orders it with `close`, which then sees every block carved, and
            // their segment.
            match count.compare_exchange_weak(blocks, blocks + self.frame, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(blocks * BLOCK),
                Err(seen) => blocks = seen,
            }
        }
    }

    /// Gives the memory of frames, from that of the first of these blocks to before that of the last, back to the system,
    /// until they are carved off again; unless the slab is closed.
    ///
    /// # Safety
    /// The caller must own all their entries, which must be free.
    pub(crate) unsafe fn retire(&self, blocks: Range<u32>) {
        // As many at once as follow each other in a segment.
        let mut run = blocks.start..blocks.start;
        for first in self.frames(blocks.clone()) {
            let state = &self.block(first).0.state;
            // AcqRel: orders the discard against `close`; see the file's head.
            let goes = state.compare_exchange(0, RETIRED, Ordering::AcqRel, Ordering::Acquire).is_ok();
            let next_segment = locate(first * BLOCK).1 == 0;
            if !goes || next_segment {
                // SAFETY: this thread has set `RETIRED`, and the rest is by this function's contract.
                unsafe { self.discard(run) };
                run = first..first;
            }
            run = if goes { run.start..first + self.frame } else { first + self.frame..first + self.frame };
        }
        // SAFETY: as above.
        unsafe { self.discard(run) };
    }

    /// # Safety
    /// As for [`retire`](Self::retire); the frames must be `RETIRED`, by the caller, and lie in one segment.
    unsafe fn discard(&self, blocks: Range<u32>) {
        if blocks.is_empty() {
            return;
        }
        let (number, offset) = locate(blocks.start * BLOCK);
        if let Some(segment) = self.segment(number) {
            // SAFETY: a free entry is as good with all bytes zero. Others may still read the `batch` link of one, in the
            // middle of a pop that will fail.
            unsafe { segment.entries.discard(offset..offset + blocks.len() * BLOCK as usize) };
        }
        self.counts.decommitted.fetch_add(blocks.len() as u32, Ordering::Relaxed);
        for first in self.frames(blocks) {
            self.counts.retired.push(first, &self.block(first).0.link);
        }
    }

    /// How many blocks have ever been carved off.
    pub(crate) fn blocks(&self) -> u32 {
        // Acquire: pairs with `alloc_new_frame`, so that the segments of these blocks are seen.
        self.counts.blocks.load(Ordering::Acquire) & !CLOSED
    }

    /// How many entries are in memory, more or less.
    pub(crate) fn len(&self) -> usize {
        self.blocks().saturating_sub(self.counts.decommitted.load(Ordering::Relaxed)) as usize * BLOCK as usize
    }

    /// How many blocks a frame has.
    pub(crate) fn frame(&self) -> u32 {
        self.frame
    }

    /// The first block of each frame of a range.
    pub(crate) fn frames(&self, blocks: Range<u32>) -> impl DoubleEndedIterator<Item = u32> + use<> {
        blocks.step_by(self.frame as usize)
    }

    /// The entries of the frame that begins with this one.
    pub(super) fn frame_entries(&self, first: u32) -> Range<u32> {
        first..first + self.frame * BLOCK
    }

    /// Refuses further carving, and returns every entry in memory that was ever carved off. Touches no retired frame.
    /// Another call returns the same entries.
    pub(crate) fn close(&self) -> impl Iterator<Item = &Entry> {
        let blocks = self.counts.blocks.fetch_or(CLOSED, Ordering::AcqRel) & !CLOSED;
        // See the file's head.
        let stays = |&first: &u32| self.block(first).0.state.fetch_or(FRAME_CLOSED, Ordering::AcqRel) & RETIRED == 0;
        self.frames(0..blocks)
            .filter(stays)
            .flat_map(|first| self.frame_entries(first * BLOCK))
            .map(|index| self.get(index))
    }

    /// What is kept of a block that was carved off, and whether it is sparse.
    #[inline]
    pub(super) fn block(&self, block: u32) -> (&Block, &AtomicBool) {
        let (number, offset) = locate(block * BLOCK);
        let segment = self.segment(number).expect("a block of this slab");
        let block = offset / BLOCK as usize;
        (&segment.blocks[block], &segment.sparse[block])
    }

    /// Gives `f` the pages and the place in them of a frame.
    fn pages(&self, first: u32, f: impl FnOnce(&Pages<Entry>, Range<usize>)) {
        let (number, offset) = locate(first * BLOCK);
        if let Some(segment) = self.segment(number) {
            f(&segment.entries, offset..offset + (self.frame * BLOCK) as usize);
        }
    }

    /// The segment, if it was allocated.
    #[inline]
    fn segment(&self, number: usize) -> Option<&Segment> {
        // Acquire: pairs with the release in `ensure_segment`, which published it whole.
        let segment = self.segments[number].load(Ordering::Acquire);
        // SAFETY: a segment is never freed before the slab, once it is there.
        unsafe { segment.as_ref() }
    }

    /// Allocates the segment if need be.
    fn ensure_segment(&self, number: usize) -> Result<(), AllocError> {
        let slot = self.segments.get(number).ok_or(AllocError::NoMemory)?;
        if slot.load(Ordering::Acquire).is_null() {
            let fresh = Segment::allocate(number).and_then(try_box).ok_or(AllocError::NoMemory);
            // The system may refuse because another thread has just taken the memory for this very segment.
            let fresh = match fresh {
                Err(_) if !slot.load(Ordering::Acquire).is_null() => return Ok(()),
                fresh => Box::into_raw(fresh?),
            };
            // Release: publishes the segment to all.
            if slot.compare_exchange(ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // SAFETY: it was not published, so it is still ours alone.
                drop(unsafe { Box::from_raw(fresh) });
            }
        }
        Ok(())
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // None comes after one that is missing, as they are carved in order.
        let segments = self.segments.iter().map(|slot| slot.load(Ordering::Acquire)).take_while(|slot| !slot.is_null());
        for segment in segments {
            // SAFETY: the slab owns its segments, and nobody else can reach them any more.
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
    fn every_index_has_a_place_of_its_own() {
        for frame in [1, 4, 16] {
            let slab = Slab::with_frame(frame);
            let (mut next, mut places) = (0, HashSet::new());
            for _ in 0..50 {
                assert_eq!(slab.alloc_new_frame(), Ok(next));
                for index in slab.frame_entries(next) {
                    assert!(places.insert(ptr::from_ref(slab.get(index))));
                }
                next += frame * BLOCK;
            }
            assert_eq!(slab.close().count(), next as usize);
            assert!(slab.close().all(|entry| places.remove(&ptr::from_ref(entry))));
            assert_eq!(slab.alloc_new_frame(), Err(AllocError::Closed));
        }
    }

    #[test]
    fn a_closed_slab_has_no_entry_of_a_retired_frame() {
        for frame in [1, 4, 16] {
            let slab = Slab::with_frame(frame);
            (0..40).for_each(|_| _ = slab.alloc_new_frame().unwrap());
            let (first, last) = (7 * frame, 33 * frame);
            // SAFETY: it is this thread that carved the frames.
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

    #[test]
    fn no_more_entries_are_carved_off_than_an_index_can_tell_apart() {
        let slab = Slab::new();
        slab.counts.blocks.store((1 << 26) - (SMALLEST_SEGMENT / BLOCK), Ordering::Relaxed);
        assert_eq!(slab.alloc_new_frame(), Err(AllocError::NoMemory));
    }
}

//! Where entries live: segments of doubling size, never moved and never freed while the shard lives.
//!
//! An entry is named by its index, 32 bits, so that links take half a pointer and a link can be tagged against reuse.
//! Segment k holds `BLOCK << k` entries, so an index tells its segment by its highest bit, and 26 segments cover
//! 2^32 entries (256 GiB). New entries are carved off in blocks, each by one compare-exchange; a segment is
//! allocated by the first thread that needs it, or by several, of whom one wins. Nobody waits for anybody.
//!
//! A block is a page, and can be retired: the system has its memory back until it is carved off again.

use std::ops::Range;
use std::ptr;

use super::stack::Stack;
use crate::shard::entry::Entry;
use crate::sync::{AtomicPtr, AtomicU32, BLOCK, Ordering, fence};
use crate::system::Pages;

const SEGMENTS: usize = 26;
/// The count of blocks in a slab from which none is carved any more.
const CLOSED: u32 = 1 << 31;

pub(crate) struct Slab {
    segments: [AtomicPtr<Segment>; SEGMENTS],
    /// How many blocks have been carved off.
    blocks: AtomicU32,
    /// Blocks whose memory the system has back.
    retired: Stack,
    /// How many they are, more or less.
    away: AtomicU32,
}

struct Segment {
    entries: Pages<Entry>,
    /// For each block, the next retired one.
    links: Box<[AtomicU32]>,
}

impl Slab {
    pub(crate) fn new() -> Self {
        Self {
            segments: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            blocks: AtomicU32::new(0),
            retired: Stack::new(),
            away: AtomicU32::new(0),
        }
    }

    /// The entry of this index. Wait-free.
    ///
    /// # Panics
    /// If no entry of this index was ever carved off.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> &Entry {
        let (segment, offset) = place(index);
        // Acquire: pairs with the release in `segment`, which published the allocated entries.
        let segment = self.segments[segment].load(Ordering::Acquire);
        // SAFETY: a segment is never freed before the slab, once it is there.
        let segment = unsafe { segment.as_ref() }.expect("an index of this slab");
        &segment.entries[offset]
    }

    /// Carves off a block of free entries, a retired one if there is any, and returns its first index; or `None` if the
    /// slab is closed. Lock-free.
    ///
    /// # Panics
    /// If 2^32 entries exist already.
    pub(crate) fn carve(&self) -> Option<u32> {
        let block = match self.retired.pop(|block| self.link(block)) {
            Some(block) => {
                self.away.fetch_sub(1, Ordering::Relaxed);
                // Between the pop and the look, as in `close` between the flag and the marks on the entries: if this
                // does not see the flag, the marks come after the block was retired, and are not lost with its pages.
                fence(Ordering::SeqCst);
                (self.blocks.load(Ordering::Acquire) & CLOSED == 0).then_some(block)?
            }
            None => self.carve_new()?,
        };
        Some(block * BLOCK)
    }

    fn carve_new(&self) -> Option<u32> {
        // Relaxed would do for the count alone; AcqRel orders it with `close`, which then sees every block carved.
        let block = self
            .blocks
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |blocks| (blocks & CLOSED == 0).then_some(blocks + 1))
            .ok()?;
        assert!(block < (1 << SEGMENTS) - 1, "a shard holds at most 2^32 timers");
        self.segment(place(block * BLOCK).0);
        Some(block)
    }

    /// Gives the memory of blocks back to the system, until they are carved again.
    ///
    /// # Safety
    /// The caller must own all their entries, which must be free.
    pub(crate) unsafe fn retire(&self, blocks: Range<u32>) {
        let mut first = blocks.start;
        while first < blocks.end {
            let (number, offset) = place(first * BLOCK);
            let segment = self.segment(number);
            let count = (blocks.end - first).min((1 << number) - offset as u32 / BLOCK);
            // SAFETY: a free entry is as good with all bytes zero. Others may still read the `batch` link of one, in the
            // middle of a pop that will fail.
            unsafe { segment.entries.discard(offset..offset + (count * BLOCK) as usize) };
            self.away.fetch_add(count, Ordering::Relaxed);
            for block in first..first + count {
                self.retired.push(block, self.link(block));
            }
            first += count;
        }
    }

    /// How many blocks have ever been carved off.
    pub(crate) fn blocks(&self) -> usize {
        (self.blocks.load(Ordering::Relaxed) & !CLOSED) as usize
    }

    /// How many entries there are in memory, more or less.
    pub(crate) fn len(&self) -> usize {
        self.blocks().saturating_sub(self.away.load(Ordering::Relaxed) as usize) * BLOCK as usize
    }

    /// Refuses further carving, and returns every entry that was ever carved off.
    pub(crate) fn close(&self) -> impl Iterator<Item = &Entry> {
        let blocks = self.blocks.fetch_or(CLOSED, Ordering::AcqRel) & !CLOSED;
        // See `carve`.
        fence(Ordering::SeqCst);
        (0..blocks).flat_map(|block| {
            let (segment, offset) = place(block * BLOCK);
            &self.segment(segment).entries[offset..][..BLOCK as usize]
        })
    }

    fn link(&self, block: u32) -> &AtomicU32 {
        let (segment, offset) = place(block * BLOCK);
        &self.segment(segment).links[offset / BLOCK as usize]
    }

    /// The segment, allocated if need be.
    fn segment(&self, number: usize) -> &Segment {
        let slot = &self.segments[number];
        let mut segment = slot.load(Ordering::Acquire);
        if segment.is_null() {
            let blocks = 1 << number;
            let fresh = Box::into_raw(Box::new(Segment {
                // SAFETY: all zero bytes are a free entry, and an entry needs no dropping: its callback is taken out
                // before it ends.
                entries: unsafe { Pages::new(BLOCK as usize * blocks, Entry::new) },
                links: (0..blocks).map(|_| AtomicU32::new(0)).collect(),
            }));
            // Release: publishes the entries to `get`. Acquire: ours to read if another thread was first.
            match slot.compare_exchange(segment, fresh, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => segment = fresh,
                Err(first) => {
                    // SAFETY: it was not published, so it is still ours alone.
                    drop(unsafe { Box::from_raw(fresh) });
                    segment = first;
                }
            }
        }
        // SAFETY: not null, published whole, and not freed before the slab.
        unsafe { &*segment }
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        for segment in &self.segments {
            let segment = segment.load(Ordering::Acquire);
            if !segment.is_null() {
                // SAFETY: the slab owns its segments, and nobody else can reach them any more.
                drop(unsafe { Box::from_raw(segment) });
            }
        }
    }
}

/// The segment of an index, and the place in it.
#[inline]
fn place(index: u32) -> (usize, usize) {
    let block = index / BLOCK + 1;
    let segment = block.ilog2();
    let first = ((1 << segment) - 1) * BLOCK;
    (segment as usize, (index - first) as usize)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_one_cache_line() {
        assert_eq!(size_of::<Entry>(), 64);
    }

    #[test]
    fn every_index_has_a_place_of_its_own() {
        let slab = Slab::new();
        let mut next = 0;
        let mut places = std::collections::HashSet::new();
        for _ in 0..100 {
            assert_eq!(slab.carve(), Some(next));
            for index in next..next + BLOCK {
                assert!(places.insert(ptr::from_ref(slab.get(index))));
            }
            next += BLOCK;
        }
        assert_eq!(slab.close().count(), next as usize);
        assert!(slab.close().all(|entry| places.remove(&ptr::from_ref(entry))));
        assert_eq!(slab.carve(), None);
    }

    #[test]
    fn the_last_index_has_a_place() {
        assert_eq!(place(u32::MAX - BLOCK).0, SEGMENTS - 1);
    }
}

//! Where entries live: segments of doubling size, never moved and never freed while the shard lives.
//!
//! An entry is named by its index, 32 bits, so that links take half a pointer and a link can be tagged against reuse.
//! Segment k holds `BLOCK << k` entries, so an index tells its segment by its highest bit, and 26 segments cover
//! 2^32 entries (256 GiB). New entries are carved off in blocks, each by one compare-exchange; a segment is
//! allocated by the first thread that needs it, or by several, of whom one wins. Nobody waits for anybody.

use std::ptr;

use super::entry::Entry;
use crate::sync::{AtomicPtr, AtomicU32, BLOCK, Ordering, Zeroed};

const SEGMENTS: usize = 26;
/// The count of blocks in a slab from which none is carved any more.
const CLOSED: u32 = 1 << 31;

pub(crate) struct Slab {
    segments: [AtomicPtr<Zeroed<Entry>>; SEGMENTS],
    /// How many blocks have been carved off.
    blocks: AtomicU32,
}

impl Slab {
    pub(crate) fn new() -> Self {
        Self { segments: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())), blocks: AtomicU32::new(0) }
    }

    /// The entry of this index. Wait-free.
    ///
    /// # Panics
    /// If no entry of this index was ever carved off.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> &Entry {
        let (segment, offset) = place(index);
        // Acquire: pairs with the release in `segment`, which published the allocated entries.
        let entries = self.segments[segment].load(Ordering::Acquire);
        // SAFETY: a segment is never freed before the slab, once it is there.
        let entries = unsafe { entries.as_ref() }.expect("an index of this slab");
        &entries[offset]
    }

    /// Carves off a block of fresh entries and returns its first index, or `None` if the slab is closed. Lock-free.
    ///
    /// # Panics
    /// If 2^32 entries exist already.
    pub(crate) fn carve(&self) -> Option<u32> {
        // Relaxed would do for the count alone; AcqRel orders it with `close`, which then sees every block carved.
        let block = self
            .blocks
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |blocks| (blocks & CLOSED == 0).then_some(blocks + 1))
            .ok()?;
        assert!(block < (1 << SEGMENTS) - 1, "a shard holds at most 2^32 timers");
        let first = block * BLOCK;
        self.segment(place(first).0);
        Some(first)
    }

    /// Refuses further carving, and returns every entry that was ever carved off.
    pub(crate) fn close(&self) -> impl Iterator<Item = &Entry> {
        let blocks = self.blocks.fetch_or(CLOSED, Ordering::AcqRel) & !CLOSED;
        (0..blocks).flat_map(|block| {
            let (segment, offset) = place(block * BLOCK);
            &self.segment(segment)[offset..][..BLOCK as usize]
        })
    }

    /// The segment, allocated if need be.
    fn segment(&self, segment: usize) -> &[Entry] {
        let slot = &self.segments[segment];
        let mut entries = slot.load(Ordering::Acquire);
        if entries.is_null() {
            // SAFETY: all zero bytes are a free entry, and an entry needs no dropping: its callback is taken out
            // before it ends.
            let fresh = Box::new(unsafe { Zeroed::new((BLOCK as usize) << segment, Entry::new) });
            let fresh = Box::into_raw(fresh);
            // Release: publishes the entries to `get`. Acquire: ours to read if another thread was first.
            match slot.compare_exchange(entries, fresh, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => entries = fresh,
                Err(first) => {
                    // SAFETY: it was not published, so it is still ours alone.
                    drop(unsafe { Box::from_raw(fresh) });
                    entries = first;
                }
            }
        }
        // SAFETY: not null, published whole, and not freed before the slab.
        unsafe { &*entries }
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        for segment in &self.segments {
            let entries = segment.load(Ordering::Acquire);
            if !entries.is_null() {
                // SAFETY: the slab owns its segments, and nobody else can reach them any more.
                drop(unsafe { Box::from_raw(entries) });
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

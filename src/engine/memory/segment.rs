//! The layout of a slab in segments.
//!
//! A segment is allocated when its first entry is needed. It is never moved, and never freed before the slab.
//!
//! Segments double in size from 64 KiB to 4 MiB; all further ones have 4 MiB. So a small shard takes little memory, and
//! a process that is short of address space can use all but 4 MiB of it. 64 KiB are whole pages on every system.
//!
//! The sizes of models are small, because a model explores every entry that exists.

use crate::engine::entry::Entry;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, limit};
use crate::system::Pages;

/// Number of entries in a block: a page of 4 KiB.
pub(crate) const BLOCK: u32 = limit(64) as u32;
/// Number of entries in the smallest segment of a slab: 64 KiB. A power of two.
pub(super) const SMALLEST_SEGMENT: u32 = limit(1 << 10) as u32;
/// Number of entries in the largest segment of a slab: 4 MiB. A power of two.
pub(super) const LARGEST_SEGMENT: u32 = 2 * limit(1 << 15) as u32;
/// Maximum number of segments of a slab. Together they have 2^32 entries, less one smallest segment.
pub(super) const SEGMENTS: usize = match (cfg!(loom), cfg!(shuttle)) {
    (false, _) => (1 << 16) + 5,
    (true, false) => 6,
    (true, true) => 100,
};

/// A mapping of entries, and what is stored beside them.
pub(super) struct Segment {
    pub(super) entries: Pages<Entry>,
    pub(super) blocks: Pages<Block>,
    /// Whether each block is [sparse](super::sparse_blocks). Not in `blocks`, because many threads read this and few
    /// write it.
    pub(super) sparse: Pages<AtomicBool>,
}

/// The header of a block, outside of its entries. All zero bytes are a block in use.
#[derive(Default)]
pub(super) struct Block {
    /// The entries that are [set aside](super::sparse_blocks), one bit each.
    pub(super) aside: AtomicU64,
    /// First block of the next retired page. Used in the first block of a page only.
    pub(super) link: AtomicU32,
    /// The flags `RETIRED` and `PAGE_CLOSED` of a page: see [`slab`](super::slab). Used in the first block of the
    /// page only.
    pub(super) flags: AtomicU32,
}

impl Segment {
    /// Allocates the segment of this number. Returns `None` if the system has no memory for it.
    ///
    /// An array of one, because a `Vec` can report that there is no memory, and a box of a single value cannot.
    pub(super) fn allocate(number: usize) -> Option<Box<[Self; 1]>> {
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
pub(super) fn locate(index: u32) -> (usize, usize) {
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
mod tests {
    use super::*;

    #[test]
    fn segments_follow_each_other_without_a_gap() {
        let mut first = 0;
        for number in 0..SEGMENTS {
            let last = first + size(number) - 1;
            assert_eq!(locate(first), (number, 0));
            assert_eq!(locate(last), (number, size(number) as usize - 1));
            first = last.wrapping_add(1);
        }
        assert_eq!(first, u32::MAX - SMALLEST_SEGMENT + 1, "all that 32 bits can name");
    }
}

//! The sizes of a slab's parts. Those of models are small, because a model explores every entry that exists.

use crate::sync::limit;

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

//! A thread's own few free entries of one shard.

use super::pool::BATCH;

/// A stack of free entries that one thread owns: the entry used last is used first, while it is still in the
/// processor's cache. It holds indices, not links, so that it may outlive the entries.
pub(crate) struct Cache {
    entries: [u32; 2 * BATCH],
    len: usize,
    filled: bool,
}

impl Cache {
    pub(crate) const fn new() -> Self {
        Self { entries: [0; 2 * BATCH], len: 0, filled: false }
    }

    /// Notes that the cache was filled, and tells whether it was not for the first time.
    pub(crate) fn was_filled_before(&mut self) -> bool {
        std::mem::replace(&mut self.filled, true)
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<u32> {
        self.len = self.len.checked_sub(1)?;
        Some(self.entries[self.len])
    }

    /// Adds a free entry. If there is no room, gives away the batch that was not used for longest, and fills the gap.
    #[inline]
    pub(crate) fn push(&mut self, index: u32, overflow: impl FnOnce(&[u32])) {
        debug_assert!(!self.entries[..self.len].contains(&index), "an entry is free once");
        if self.len >= self.entries.len() {
            self.make_room(overflow);
        }
        self.entries[self.len] = index;
        self.len += 1;
    }

    #[cold]
    fn make_room(&mut self, overflow: impl FnOnce(&[u32])) {
        overflow(&self.entries[..BATCH]);
        self.entries.copy_within(BATCH.., 0);
        self.len -= BATCH;
    }

    /// Gives away everything, in batches.
    pub(crate) fn drain(&mut self, give: impl FnMut(&[u32])) {
        self.entries[..self.len].chunks(BATCH).for_each(give);
        self.len = 0;
    }
}

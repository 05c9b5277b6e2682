//! The per-thread cache of free entries.

use super::depot::MAGAZINE;

/// A stack of free entries of one shard, which one thread owns.
///
/// The entry that was freed last is used first, while it is still in the processor's cache. The stack contains indices,
/// not references, so that it may outlive the entries.
pub(crate) struct Cache {
    /// Indices of entries that are unused.
    entries: [u32; 2 * MAGAZINE],
    len: usize,
    /// Whether the cache was ever filled from the depot or the slab.
    filled: bool,
}

impl Cache {
    pub(crate) const fn new() -> Self {
        Self { entries: [0; 2 * MAGAZINE], len: 0, filled: false }
    }

    /// Notes that the cache is filled, and returns whether it was filled before.
    pub(crate) fn was_filled_before(&mut self) -> bool {
        std::mem::replace(&mut self.filled, true)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Takes the entry that was added last.
    pub(crate) fn pop(&mut self) -> Option<u32> {
        self.len = self.len.checked_sub(1)?;
        Some(self.entries[self.len])
    }

    /// Adds an entry that is unused. If the cache is full, first passes the least recently used magazine to
    /// `overflow`.
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
        overflow(&self.entries[..MAGAZINE]);
        self.entries.copy_within(MAGAZINE.., 0);
        self.len -= MAGAZINE;
    }

    /// Removes all entries, and passes them to `give` in magazines.
    pub(crate) fn drain(&mut self, give: impl FnMut(&[u32])) {
        self.entries[..self.len].chunks(MAGAZINE).for_each(give);
        self.len = 0;
    }
}

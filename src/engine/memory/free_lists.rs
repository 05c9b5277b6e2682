//! The free entries: those of one thread in its cache, and those of a shard in its depot, by which they go from the threads
//! that have too many to those that have none.
//!
//! The depot is a [stack](crate::engine::stack) of magazines. A magazine is an unrolled linked list, of chunks of
//! [`CHUNK`] entries. The first entry of a chunk contains the indices of the others, and of the next chunk. They lie in
//! the cell of the callback's data, which a free entry does not need. Push and pop touch these first entries only.
//!
//! ```text
//! head ──► chunk ───next_magazine──► chunk ───next_magazine──► ..
//!            │                         │
//!            ▼                         ▼
//!          chunk                     chunk
//!            │                         │
//!            ▼                         ▼
//!            ..                        ..
//! ```

use std::{iter, mem};

use super::slab::Slab;
use crate::engine::entry::CHUNK;
use crate::engine::stack::{NIL, Stack, chain};
use crate::sync::{AtomicI64, Ordering, limit};

/// Maximum number of entries in a magazine: half of a [`Cache`].
pub(crate) const MAGAZINE: usize = limit(32);

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
        mem::replace(&mut self.filled, true)
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

/// The free list of a shard.
#[derive(Default)]
pub(crate) struct Depot {
    magazines: Stack,
    /// Number of entries. It is below zero for a moment when a thread pops entries that are not counted yet.
    len: AtomicI64,
}

impl Depot {
    /// Pushes a magazine of entries. Lock-free.
    ///
    /// # Safety
    /// The caller must own the entries, which must be unused.
    pub(crate) unsafe fn push(&self, slab: &Slab, magazine: &[u32]) {
        let Some(&first) = magazine.first() else { return };
        let mut next = NIL;
        for entries in magazine.chunks(CHUNK).rev() {
            let mut list = [NIL; CHUNK];
            list[..entries.len() - 1].copy_from_slice(&entries[1..]);
            list[CHUNK - 1] = next;
            next = entries[0];
            // SAFETY: we own the entry, which is unused, by this function's contract.
            unsafe { slab.get(next).write_indices(list) };
        }
        self.magazines.push(first, &slab.get(first).next_magazine);
        // Release: publishes the push to a thread that reads this length; pairs with `len`. Loom model `sleep`.
        self.len.fetch_add(magazine.len() as i64, Ordering::Release);
    }

    /// Pops a magazine, if there is one, and passes each of its entries to `receive`. Returns whether there was one.
    /// Lock-free.
    pub(crate) fn pop(&self, slab: &Slab, receive: impl FnMut(u32)) -> bool {
        let Some(first) = self.magazines.pop(|first| &slab.get(first).next_magazine) else { return false };
        // SAFETY: we own the entries of the magazine, because this thread has popped it.
        let taken = unsafe { members(slab, first) }.map(receive).count();
        self.subtract_len(taken);
        true
    }

    /// Returns the number of entries, which may be outdated.
    pub(crate) fn len(&self) -> usize {
        // Acquire: a thread that reads this length finds the entries; pairs with `push`. Loom model `sleep`.
        self.len.load(Ordering::Acquire).max(0) as usize
    }

    /// Takes all magazines, and returns the first entry of the first of the [`magazines`], or [`NIL`]. The caller must
    /// [subtract](Self::subtract_len) their entries from the length.
    pub(crate) fn take_all(&self) -> u32 {
        self.magazines.take_all()
    }

    /// Subtracts the number of entries that were taken from the length.
    pub(crate) fn subtract_len(&self, taken: usize) {
        // Relaxed: publishes nothing.
        self.len.fetch_sub(taken as i64, Ordering::Relaxed);
    }
}

/// Returns the magazines from `first` on, which must come from one [`Depot::take_all`]. Each is named by its first
/// entry.
pub(crate) fn magazines(slab: &Slab, first: u32) -> impl Iterator<Item = u32> {
    chain(first, |first| &slab.get(first).next_magazine)
}

/// Returns the entries of the magazine that begins with `first`. The indices are read before the entry is returned, so
/// the receiver may use it at once.
///
/// # Safety
/// The magazine must come from the depot. The caller must own each of its entries until the iterator returns that
/// entry.
pub(crate) unsafe fn members(slab: &Slab, first: u32) -> impl Iterator<Item = u32> {
    // SAFETY: we own the entry, in which `push` has written, both by this function's contract.
    let read = |first: u32| (first != NIL).then(|| (first, unsafe { slab.get(first).read_indices() }));
    let chunks = iter::successors(read(first), move |(_, list)| read(list[CHUNK - 1]));
    chunks.flat_map(|(first, list)| {
        let others = list.into_iter().take(CHUNK - 1).take_while(|&other| other != NIL);
        iter::once(first).chain(others)
    })
}

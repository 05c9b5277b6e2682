//! Entries on their way from the threads that have too many to those that have none.
//!
//! A [stack](super::stack) of batches. The entries of a batch are not touched, but for every eighth of them: these are
//! *carriers*, which keep the indices of the others, and of the next carrier, where they have no callback now.
//!
//! ```text
//! head ──► carrier ──batch──► carrier ──batch──► ..
//!            │ 7 others         │
//!            ▼                  ▼
//!          carrier            carrier
//!            │ 7 others
//!            ▼
//!           ..
//! ```

use super::slab::Slab;
use super::stack::{NIL, Stack};
use crate::engine::entry::FreeList;
use crate::sync::{AtomicI64, Ordering, limit};

/// The most entries in a batch: half a [cache](super::cache).
pub(crate) const BATCH: usize = limit(32);
/// A carrier and those that it keeps.
const NODE_LEN: usize = size_of::<FreeList>() / size_of::<u32>();

pub(crate) struct Pool {
    batches: Stack,
    /// How many entries there are; for a moment below zero, when some are taken before they are counted.
    len: AtomicI64,
}

impl Pool {
    pub(crate) fn new() -> Self {
        Self { batches: Stack::new(), len: AtomicI64::new(0) }
    }

    /// Adds a batch of free or cached entries. Lock-free.
    ///
    /// # Safety
    /// The caller must own them.
    pub(crate) unsafe fn push(&self, slab: &Slab, batch: &[u32]) {
        let Some(&first) = batch.first() else {
            return;
        };
        let mut next = NIL;
        for carried in batch.chunks(NODE_LEN).rev() {
            let mut list = [NIL; NODE_LEN];
            list[..carried.len() - 1].copy_from_slice(&carried[1..]);
            list[NODE_LEN - 1] = next;
            next = carried[0];
            // SAFETY: the caller owns it.
            unsafe { slab.get(next).write_links(list) };
        }
        self.batches.push(first, &slab.get(first).next_batch);
        // Release: who sees so many finds so many.
        self.len.fetch_add(batch.len() as i64, Ordering::Release);
    }

    /// Takes a batch, if there is one, and gives each of its entries to `receive`. Lock-free.
    pub(crate) fn pop(&self, slab: &Slab, receive: impl FnMut(u32)) -> bool {
        let Some(first) = self.batches.pop(|first| &slab.get(first).next_batch) else {
            return false;
        };
        // SAFETY: it was pushed, and is ours now.
        let taken = unsafe { members(slab, first) }.map(receive).count();
        self.subtract_len(taken);
        true
    }

    /// How many entries there are, or were a moment ago.
    pub(crate) fn len(&self) -> usize {
        // Acquire: as above.
        self.len.load(Ordering::Acquire).max(0) as usize
    }

    /// Takes all batches, and returns the first entry of the first; see [`next_batch`].
    pub(crate) fn take_all(&self) -> u32 {
        self.batches.take_all().unwrap_or(NIL)
    }

    /// What was taken is in the pool no more.
    pub(crate) fn subtract_len(&self, taken: usize) {
        // Relaxed: a number for itself.
        self.len.fetch_sub(taken as i64, Ordering::Relaxed);
    }
}

/// The batch after the one that begins with `first`, of those taken at once.
pub(crate) fn next_batch(slab: &Slab, first: u32) -> u32 {
    slab.get(first).next_batch.load(Ordering::Relaxed)
}

/// The entries of the batch that begins with `first`. A carrier is read before it is handed out, so that the receiver
/// may use it anew.
///
/// # Safety
/// It must come from the pool, and its entries must still be the caller's as they come.
pub(crate) unsafe fn members(slab: &Slab, first: u32) -> impl Iterator<Item = u32> {
    // SAFETY: by this function's contract.
    let open = |carrier: u32| (carrier != NIL).then(|| (carrier, unsafe { slab.get(carrier).read_links() }));
    let carriers = std::iter::successors(open(first), move |(_, list)| open(list[NODE_LEN - 1]));
    carriers.flat_map(|(carrier, list)| {
        let (others, _) = list.split_at(NODE_LEN - 1);
        let others: [u32; NODE_LEN - 1] = others.try_into().expect("all but one");
        std::iter::once(carrier).chain(others.into_iter().take_while(|&other| other != NIL))
    })
}

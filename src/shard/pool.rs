//! Free entries on their way from the threads that have too many to those that have none.
//!
//! A [stack](super::stack) of batches, linked through the `batch` links of their first entries. A batch is a chain of
//! free entries through their `mail` links.

use super::slab::Slab;
use super::stack::{NIL, Stack};
use crate::sync::{AtomicU32, Ordering};

/// The most entries in a batch: half a [cache](super::cache).
pub(crate) const BATCH: usize = 32;

pub(crate) struct Pool {
    batches: Stack,
    /// How many entries there are, more or less.
    len: AtomicU32,
}

impl Pool {
    pub(crate) fn new() -> Self {
        Self { batches: Stack::new(), len: AtomicU32::new(0) }
    }

    /// Adds a batch of free entries, which the caller owns. Lock-free.
    pub(crate) fn push(&self, slab: &Slab, batch: &[u32]) {
        let Some((&first, rest)) = batch.split_first() else {
            return;
        };
        let mut last = first;
        // Relaxed, here and below: published by the push.
        for &index in rest {
            slab.get(last).mail.store(index, Ordering::Relaxed);
            last = index;
        }
        slab.get(last).mail.store(NIL, Ordering::Relaxed);
        // Relaxed: a number for itself. First, so that it is not below what is there.
        self.len.fetch_add(batch.len() as u32, Ordering::Relaxed);
        self.batches.push(first, &slab.get(first).batch);
    }

    /// Takes a batch, if there is one, and gives each of its entries to `receive`. Lock-free.
    pub(crate) fn pop(&self, slab: &Slab, receive: impl FnMut(u32)) -> bool {
        let Some(first) = self.batches.pop(|first| &slab.get(first).batch) else {
            return false;
        };
        let taken = chain(slab, first).map(receive).count();
        self.forget(taken);
        true
    }

    /// How many free entries there are, or were a moment ago.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed) as usize
    }

    /// Takes all batches, and returns the first entry of the first; see [`next_batch`].
    pub(crate) fn take_all(&self) -> u32 {
        self.batches.take_all().unwrap_or(NIL)
    }

    /// What was taken is in the pool no more.
    pub(crate) fn forget(&self, taken: usize) {
        self.len.fetch_sub(taken as u32, Ordering::Relaxed);
    }
}

/// The batch after the one that begins with `first`, of those taken at once.
pub(crate) fn next_batch(slab: &Slab, first: u32) -> u32 {
    slab.get(first).batch.load(Ordering::Relaxed)
}

/// The entries of a chain through the `mail` links. A link is read before its entry is handed out, so that the receiver
/// may use it anew.
pub(crate) fn chain(slab: &Slab, first: u32) -> impl Iterator<Item = u32> {
    let after = |index: u32| {
        let entry = (index != NIL).then(|| slab.get(index))?;
        // Relaxed: acquired with the head of the chain.
        Some((index, entry.mail.load(Ordering::Relaxed)))
    };
    std::iter::successors(after(first), move |&(_, next)| after(next)).map(|(index, _)| index)
}

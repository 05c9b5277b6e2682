//! Free entries on their way from the threads that have too many to those that have none.
//!
//! A Treiber stack of batches. A batch is a chain of free entries through their `mail` links; the stack links the
//! first entries of its batches through their `batch` links. A pop reads the link of an entry that another thread may
//! have popped in the meantime, pushed again, and so on: entries are never freed while the shard lives, so the read is
//! harmless, and the tag in the head, counted up by every pop, makes the compare-exchange fail. (The tag has 32 bits: a
//! thread would have to stop in the middle of a pop while others make exactly a multiple of 2^32 more.)
//!
//! Push and pop are lock-free: an attempt fails only where another succeeded. Checked by loom model `recycle`.

use super::slab::Slab;
use crate::sync::{AtomicU64, Ordering};

/// The end of a chain.
pub(crate) const NIL: u32 = u32::MAX;
/// The most entries in a batch: half a [cache](super::cache).
pub(crate) const BATCH: usize = 32;

pub(crate) struct Pool {
    /// The first batch in the low half, the tag in the high half.
    head: AtomicU64,
}

impl Pool {
    pub(crate) fn new() -> Self {
        Self { head: AtomicU64::new(NIL.into()) }
    }

    /// Adds a batch of free entries, which the caller owns.
    pub(crate) fn push(&self, slab: &Slab, batch: &[u32]) {
        let Some((&first, rest)) = batch.split_first() else {
            return;
        };
        let mut last = first;
        // Relaxed, here and below: published by the compare-exchange on the head.
        for &index in rest {
            slab.get(last).mail.store(index, Ordering::Relaxed);
            last = index;
        }
        slab.get(last).mail.store(NIL, Ordering::Relaxed);
        // Release: hands the links, and all that was done to the entries, to whoever pops.
        let _ = self.head.fetch_update(Ordering::Release, Ordering::Relaxed, |head| {
            slab.get(first).batch.store(head as u32, Ordering::Relaxed);
            Some(head & TAG | u64::from(first))
        });
    }

    /// Takes a batch, if there is one, and gives each of its entries to `receive`.
    pub(crate) fn pop(&self, slab: &Slab, receive: impl FnMut(u32)) -> bool {
        // Acquire: pairs with the push, for the links and the entries. It reaches back through other pops and pushes,
        // as these are read-modify-writes of the same word.
        let popped = self.head.fetch_update(Ordering::Acquire, Ordering::Acquire, |head| {
            let first = head as u32;
            (first != NIL).then(|| {
                let next = slab.get(first).batch.load(Ordering::Relaxed);
                (head & TAG).wrapping_add(TAG_STEP) | u64::from(next)
            })
        });
        popped.is_ok_and(|head| {
            chain(slab, head as u32).for_each(receive);
            true
        })
    }
}

const TAG: u64 = !(u32::MAX as u64);
const TAG_STEP: u64 = 1 << 32;

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

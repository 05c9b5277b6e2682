//! A stack of numbered things, for any number of threads.
//!
//! A Treiber stack: each thing has a link, which its owner keeps, to the one below. A pop reads the link of a thing that
//! another thread may have popped in the meantime, pushed again, and so on: links are never freed while the shard lives,
//! so the read is harmless, and the tag in the head, counted up by every pop, makes the compare-exchange fail. (The tag
//! has 32 bits: a thread would have to stop in the middle of a pop while others make exactly a multiple of 2^32 more.)
//!
//! Push and pop are lock-free: an attempt fails only where another succeeded. Checked by loom model `recycle`.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// No thing: the end of a chain.
pub(crate) const NIL: u32 = u32::MAX;

pub(crate) struct Stack {
    /// The thing on top in the low half, the tag in the high half.
    head: AtomicU64,
}

impl Stack {
    pub(crate) fn new() -> Self {
        Self { head: AtomicU64::new(NIL.into()) }
    }

    /// Puts a thing, which the caller owns and whose link this is, on top.
    pub(crate) fn push(&self, thing: u32, link: &AtomicU32) {
        // Release: hands the link, and all that was done to the thing, to whoever pops. Relaxed for the link itself:
        // published by this.
        let _ = self.head.fetch_update(Ordering::Release, Ordering::Relaxed, |head| {
            link.store(head as u32, Ordering::Relaxed);
            Some(head & TAG | u64::from(thing))
        });
    }

    /// Takes the thing on top.
    pub(crate) fn pop<'a>(&self, link: impl Fn(u32) -> &'a AtomicU32) -> Option<u32> {
        self.take(|top| link(top).load(Ordering::Relaxed))
    }

    /// Takes all. The things below the one returned follow through the links.
    pub(crate) fn take_all(&self) -> Option<u32> {
        self.take(|_| NIL)
    }

    fn take(&self, leave: impl Fn(u32) -> u32) -> Option<u32> {
        // Acquire: pairs with the push, for the links and the things. It reaches back through other pops and pushes, as
        // these are read-modify-writes of the same word.
        let taken = self.head.fetch_update(Ordering::Acquire, Ordering::Acquire, |head| {
            let top = head as u32;
            (top != NIL).then(|| (head & TAG).wrapping_add(TAG_STEP) | u64::from(leave(top)))
        });
        taken.ok().map(|head| head as u32)
    }
}

const TAG: u64 = !(u32::MAX as u64);
const TAG_STEP: u64 = 1 << 32;

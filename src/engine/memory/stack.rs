//! A lock-free stack of indices: a Treiber stack with a tag.
//!
//! Each element has a link to the element below. The user of the stack stores the links. A pop reads the link of the
//! top element. Meanwhile other threads may pop this element and push it again (ABA).
//!
//! - The read itself is harmless, because links are never unmapped while the shard lives. A link in a retired page
//!   reads as zero.
//! - The compare-exchange of the pop then fails, because every pop increments the tag in the head.
//!
//! The tag has 32 bits. It would fail only for a thread that stops in the middle of a pop while others make exactly a
//! multiple of 2^32 pops.
//!
//! Push and pop are lock-free: an attempt fails only if another thread's push or pop succeeded. Loom model `recycle`.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// No element: the end of a list.
pub(in super::super) const NIL: u32 = u32::MAX;

/// A stack of indices, which are below [`NIL`].
pub(super) struct Stack {
    /// The top element in the low half, the tag in the high half.
    head: AtomicU64,
}

impl Stack {
    pub(super) fn new() -> Self {
        Self { head: AtomicU64::new(NIL.into()) }
    }

    /// Pushes `element`, which the caller owns. `link` is its link.
    pub(super) fn push(&self, element: u32, link: &AtomicU32) {
        // Release: publishes the link, and all that was done to the element, to the thread that pops it; pairs with the
        // acquire in `take`. Relaxed for the link itself: published by this. Loom model `recycle`.
        let _ = self.head.fetch_update(Ordering::Release, Ordering::Relaxed, |head| {
            link.store(head as u32, Ordering::Relaxed);
            Some(head & TAG | u64::from(element))
        });
    }

    /// Pops the top element. `link` returns the link of an element.
    pub(super) fn pop<'a>(&self, link: impl Fn(u32) -> &'a AtomicU32) -> Option<u32> {
        self.take(|top| link(top).load(Ordering::Relaxed))
    }

    /// Pops all elements, and returns the one that was on top. The others follow through the links.
    pub(super) fn take_all(&self) -> Option<u32> {
        self.take(|_| NIL)
    }

    /// Pops the top element, and all below it down to the one that `leave` returns, which becomes the top.
    fn take(&self, leave: impl Fn(u32) -> u32) -> Option<u32> {
        // Acquire: we see the links and the elements as the pushes published them; pairs with `push`. It reaches back
        // over other pops and pushes, because read-modify-writes of one word continue a release sequence. Loom model
        // `recycle`.
        let taken = self.head.fetch_update(Ordering::Acquire, Ordering::Acquire, |head| {
            let top = head as u32;
            (top != NIL).then(|| (head & TAG).wrapping_add(TAG_STEP) | u64::from(leave(top)))
        });
        taken.ok().map(|head| head as u32)
    }
}

const TAG: u64 = !(u32::MAX as u64);
const TAG_STEP: u64 = 1 << 32;

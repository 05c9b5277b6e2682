//! The intake: a lock-free queue through which callers hand entries to the driver. Many producers, one consumer.
//!
//! It is a Treiber stack, linked by the `next_in_intake` field of the entries:
//!
//! - **Push**: one compare-exchange of the head. A retry means that another push succeeded: lock-free.
//! - **Take**: one swap of the head, by which the driver takes all entries: wait-free. The driver then reverses the
//!   chain into the order of the pushes.
//!
//! There is no ABA problem, because no entry is popped alone. The flag `ENQUEUED` in an entry's state word admits each
//! entry at most once at a time. Loom models `sleep` and `drain` check the intake.
//!
//! # Rejected: a queue of the Vyukov kind
//!
//! Its push is one swap, which is faster. But a producer that stops between its swap and its link hides all later
//! entries from the consumer. Here an entry is pushed whole or not at all, so the driver never waits for a stopped
//! caller.

use super::memory::{NIL, Slab};
use crate::sync::{AtomicU32, Ordering};

/// The entries that callers have pushed and the driver has not taken.
pub(super) struct Intake {
    /// Index of the entry that was pushed last, or `NIL`.
    head: AtomicU32,
}

impl Intake {
    pub(super) fn new() -> Self {
        Self { head: AtomicU32::new(NIL) }
    }

    /// Pushes an entry. The caller must have set its `ENQUEUED` flag.
    #[inline]
    pub(super) fn push(&self, slab: &Slab, index: u32) {
        let next_in_intake = &slab.get(index).next_in_intake;
        // Release: publishes the link to the driver; pairs with `take_all`. SeqCst: comes before what the caller loads
        // next; see the head of `wakeup`. Relaxed, the link: published by the release.
        let _ = self.head.fetch_update(Ordering::SeqCst, Ordering::Relaxed, |head| {
            next_in_intake.store(head, Ordering::Relaxed);
            Some(index)
        });
    }

    /// Takes all entries, and returns the first of a [`chain`] in the order of the pushes.
    pub(super) fn take_all(&self, slab: &Slab) -> u32 {
        // Acquire: pairs with every push, as later pushes continue the release sequence of earlier ones. Release:
        // publishes the request that the driver has read to the clock; pairs with `is_empty`. Loom model `quiescence`.
        let mut next = self.head.swap(NIL, Ordering::AcqRel);
        let mut first = NIL;
        while next != NIL {
            let next_in_intake = &slab.get(next).next_in_intake;
            let pushed_before = next_in_intake.load(Ordering::Relaxed);
            next_in_intake.store(first, Ordering::Relaxed);
            first = next;
            next = pushed_before;
        }
        first
    }

    /// Whether the intake is empty.
    pub(super) fn is_empty(&self) -> bool {
        // Acquire: a manual clock that finds the intake empty sees the request of the driver that emptied it; pairs
        // with `take_all`. Loom model `quiescence`. Pushes are ordered by the fences that the head of `wakeup`
        // describes.
        self.head.load(Ordering::Acquire) == NIL
    }
}

/// Iterates over a chain of `next_in_intake` links, from the entry `first` on. Reads the link of an entry before it
/// yields the entry, so the receiver may enqueue it again.
pub(super) fn chain(slab: &Slab, first: u32) -> impl Iterator<Item = u32> {
    let after = |index: u32| {
        let entry = (index != NIL).then(|| slab.get(index))?;
        // Relaxed: `take_all` has acquired the links.
        Some((index, entry.next_in_intake.load(Ordering::Relaxed)))
    };
    std::iter::successors(after(first), move |&(_, next)| after(next)).map(|(index, _)| index)
}

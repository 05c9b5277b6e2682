//! The way into a shard: a lock-free queue of many producers and one consumer.
//!
//! A Treiber stack through the entries' own `next_in_intake` links, of which the driver takes everything at once and turns it
//! around. A push is one compare-exchange, retried only when another push came first: lock-free. A take is one swap:
//! wait-free. No thread waits for a stalled one: an entry is either not pushed at all or pushed whole, which is why
//! this is not a queue of the Vyukov kind, faster though its swap is: there a producer that stops between its swap and
//! its link hides all that came after it from the consumer. And as nothing is popped one by one, there is no ABA.
//!
//! The flag `ENQUEUED` in an entry's word lets each be in here once at most. Checked by loom models `sleep` and `drain`.

use super::memory::{NIL, Slab};
use crate::sync::{AtomicU32, Ordering};

pub(crate) struct Intake {
    /// The entry pushed last.
    head: AtomicU32,
}

impl Intake {
    pub(crate) fn new() -> Self {
        Self { head: AtomicU32::new(NIL) }
    }

    /// Adds an entry, whose `ENQUEUED` flag the caller has set.
    #[inline]
    pub(crate) fn push(&self, slab: &Slab, index: u32) {
        let next_in_intake = &slab.get(index).next_in_intake;
        // Release: hands the link to `take_all`. SeqCst: comes before what the caller loads next; see the head of `wakeup`.
        // Relaxed for the link itself: published by this.
        let _ = self.head.fetch_update(Ordering::SeqCst, Ordering::Relaxed, |head| {
            next_in_intake.store(head, Ordering::Relaxed);
            Some(index)
        });
    }

    /// Takes all entries, and returns the first of a chain in the order in which they were pushed.
    pub(crate) fn take_all(&self, slab: &Slab) -> u32 {
        // Acquire: pairs with every push; later ones continue the release sequence of earlier ones. Release: publishes the
        // request that the driver answers; pairs with `is_empty`. Loom model `quiescence`.
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

    /// Whether there is nothing to take.
    pub(crate) fn is_empty(&self) -> bool {
        // Acquire: a manual clock that finds this empty sees the request of the driver that has emptied it; pairs with
        // `take_all`. What has been pushed is ordered by the fences of the sleep protocol. Loom model `quiescence`.
        self.head.load(Ordering::Acquire) == NIL
    }
}

/// The entries of a chain through the `next_in_intake` links. A link is read before its entry is handed out, so that the receiver
/// may use it anew.
pub(crate) fn chain(slab: &Slab, first: u32) -> impl Iterator<Item = u32> {
    let after = |index: u32| {
        let entry = (index != NIL).then(|| slab.get(index))?;
        // Relaxed: acquired with the head of the chain.
        Some((index, entry.next_in_intake.load(Ordering::Relaxed)))
    };
    std::iter::successors(after(first), move |&(_, next)| after(next)).map(|(index, _)| index)
}

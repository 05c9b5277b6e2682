//! A lock-free stack of indices, linked by the elements themselves.
//!
//! | stack                        | of                                            | popped by                   |
//! |------------------------------|-----------------------------------------------|-----------------------------|
//! | the intake                   | entries on their way to the driver            | the driver: all at once     |
//! | the [depot](super::memory)   | magazines, by their first entries             | any thread; the driver: all |
//! | the retired pages of a slab | pages, by their first block                  | any thread                  |
//!
//! Each element has a link to the element below. The user of the stack stores the links. An element is on one stack at
//! most once at a time: the flag `ENQUEUED` in the state of an entry admits it to the intake.
//!
//! # Progress
//!
//! - [`push`](Stack::push) and [`pop`](Stack::pop) are lock-free. Each is a compare-exchange of the head. A retry means
//!   that another thread has changed the stack.
//! - [`take_all`](Stack::take_all) is one read-modify-write: wait-free where the processor has that instruction. x86-64
//!   has none that returns the old value. There it is lock-free, as a pop is.
//! - [`is_empty`](Stack::is_empty) is one load.
//!
//! # ABA
//!
//! A pop reads the link of the top element. Meanwhile other threads may take this element and push it again.
//!
//! - The read itself is harmless, because links are never unmapped while the shard lives. A link in a retired page
//!   reads as zero.
//! - The compare-exchange then fails, because every push increments the tag in the head. While the tag stays, nothing is
//!   pushed: if the head is the same as before, its element never left the stack, and its link is the one that was read.
//!
//! The tag has 32 bits. It would fail only for a thread that stops in the middle of a pop while others make exactly a
//! multiple of 2^32 pushes. `take_all` reads no link, so it needs no tag.
//!
//! # Rejected: a queue of the Vyukov kind for the intake
//!
//! Its push is one swap, which is faster. But a producer that stops between its swap and its link hides all later
//! entries from the consumer. Here an entry is pushed whole or not at all, so the driver never waits for a stopped
//! caller.
//!
//! Loom models `recycle`, `sleep` and `drain`. The stack of `sync` links nodes by pointers: a pointer leaves no room for a
//! tag, and an entry none for a pointer.

use std::iter;

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// No element: the end of a list.
pub(crate) const NIL: u32 = u32::MAX;

/// A stack of indices, which are below [`NIL`].
pub(crate) struct Stack {
    /// The top element, or `NIL`, in the high half; the tag in the low half.
    head: AtomicU64,
}

impl Default for Stack {
    fn default() -> Self {
        Self { head: AtomicU64::new(head(NIL, 0)) }
    }
}

impl Stack {
    /// Pushes `element`, which the caller owns. `link` is its link.
    #[inline]
    pub(super) fn push(&self, element: u32, link: &AtomicU32) {
        // Release: publishes the link, and all that was done to the element, to the thread that takes it; pairs with
        // `pop` and `take_all`. Loom model `recycle`. SeqCst: a push to the intake comes before what the caller loads
        // next; see the head of `wakeup`. Relaxed, the link: published by the release.
        let _ = self.head.fetch_update(Ordering::SeqCst, Ordering::Relaxed, |old| {
            link.store(top(old), Ordering::Relaxed);
            Some(head(element, (old as u32).wrapping_add(1)))
        });
    }

    /// Pops the top element. `link` returns the link of an element.
    pub(super) fn pop<'a>(&self, link: impl Fn(u32) -> &'a AtomicU32) -> Option<u32> {
        // Acquire: we see the link and the element as the push published them; pairs with `push`. It reaches back over
        // other pops and pushes, because read-modify-writes of one word continue a release sequence. Loom model
        // `recycle`.
        let popped = self.head.fetch_update(Ordering::Acquire, Ordering::Acquire, |old| {
            let below = |top| link(top).load(Ordering::Relaxed);
            (top(old) != NIL).then(|| head(below(top(old)), old as u32))
        });
        popped.ok().map(top)
    }

    /// Takes all elements, and returns the one that was on top, or [`NIL`]. The others follow through the links.
    pub(crate) fn take_all(&self) -> u32 {
        // Acquire: as in `pop`.
        top(self.head.fetch_or(head(NIL, 0), Ordering::Acquire))
    }

    /// Returns whether the stack is empty.
    pub(crate) fn is_empty(&self) -> bool {
        // Relaxed: pushes are ordered by the fences that the head of `wakeup` describes.
        top(self.head.load(Ordering::Relaxed)) == NIL
    }
}

fn head(top: u32, tag: u32) -> u64 {
    u64::from(top) << 32 | u64::from(tag)
}

fn top(head: u64) -> u32 {
    (head >> 32) as u32
}

/// Reverses the elements from `first` on into the order of their pushes, and returns the new first one. The caller must
/// have taken them.
pub(crate) fn reverse<'a>(first: u32, link: impl Fn(u32) -> &'a AtomicU32) -> u32 {
    // Relaxed: `take_all` has acquired the links.
    chain(first, &link).fold(NIL, |before, element| {
        link(element).store(before, Ordering::Relaxed);
        element
    })
}

/// Iterates over the elements from `first` on, which the caller must have taken. Reads the link of an element before it
/// yields the element, so the receiver may push it again.
pub(crate) fn chain<'a>(first: u32, link: impl Fn(u32) -> &'a AtomicU32) -> impl Iterator<Item = u32> {
    // Relaxed: as above.
    let read = move |element: u32| (element != NIL).then(|| (element, link(element).load(Ordering::Relaxed)));
    iter::successors(read(first), move |&(_, next)| read(next)).map(|(element, _)| element)
}

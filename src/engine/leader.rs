//! The leader: the own thread that drives the folded shards.
//!
//! One thread at a time leads. It alone says so by one word, which has its number and its *phase*: how often it has begun or
//! ended to call foreign code. While the phase is odd, it is inside. Only then another thread may succeed it, and only by
//! a change of the very word that it has seen. So exactly one thread leads whenever none is inside: a leader that comes
//! back changes the word first, too, and finds out whether it was succeeded.
//!
//! Loom model `deputy` checks this.

use crate::sync::{AtomicU64, Ordering};

/// The unit of the phase. The lower half of the word is the number of the thread.
const PHASE: u64 = 1 << 32;

/// Which own thread leads, by its number, and whether it is inside foreign code. At first, that is the first one.
pub(crate) struct Leader(AtomicU64);

/// The word, as a thread has seen it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Leads(u64);

impl Leader {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    pub(super) fn load(&self) -> Leads {
        // Relaxed, as all accesses here: the callers' fences order them. Loom models `deputy` and `roles`.
        Leads(self.0.load(Ordering::Relaxed))
    }

    /// Returns the number of the thread that leads.
    pub(crate) fn number(&self) -> u32 {
        self.load().0 as u32
    }

    /// The leader, which calls this, begins to call foreign code. Returns the word.
    pub(crate) fn enter(&self) -> Leads {
        Leads(self.0.fetch_add(PHASE, Ordering::Relaxed).wrapping_add(PHASE))
    }

    /// The thread that was the leader has called foreign code. Returns whether it leads still.
    pub(crate) fn leave(&self, inside: Leads) -> bool {
        self.change(inside, inside.0.wrapping_add(PHASE))
    }

    /// The thread of this number leads from now on, if the word is still as it was seen, while the leader was inside.
    /// Returns whether it does.
    pub(crate) fn succeed(&self, inside: Leads, number: u32) -> bool {
        self.change(inside, (inside.0.wrapping_add(PHASE) & !(PHASE - 1)) | u64::from(number))
    }

    fn change(&self, seen: Leads, new: u64) -> bool {
        self.0.compare_exchange(seen.0, new, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl Leads {
    pub(super) fn is_inside(self) -> bool {
        self.0 & PHASE != 0
    }
}

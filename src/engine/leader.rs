//! `Leader`: the word that says which thread leads, and which one is its [deputy](super::deputy).
//!
//! Each step changes the word at once, so no order of two accesses matters.

use crate::sync::{AtomicU64, Ordering};

/// Bits of the number of a thread in the word. The leader has the lowest ones, then comes the deputy, then the phase.
const BITS: u32 = 22;
/// In place of a thread's number.
pub(super) const NONE: u32 = (1 << BITS) - 1;

/// Who leads, who is the deputy, and whether the leader is inside foreign code. At first, the first own thread leads.
pub(crate) struct Leader(AtomicU64);

/// The word, as a thread has seen it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offices {
    /// How often a leader has begun or ended to call foreign code: odd while it is inside. Wraps, but not between two looks
    /// of a deputy.
    pub(super) phase: u32,
    /// The number of the deputy, or `NONE`.
    pub(super) deputy: u32,
    /// The number of the leader.
    pub(super) leader: u32,
}

impl Leader {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(Offices { phase: 0, deputy: NONE, leader: 0 }.pack()))
    }

    pub(super) fn load(&self) -> Offices {
        // Relaxed, as all accesses here: the word publishes nothing else, and the alarms' fences order it. Loom models
        // `deputy` and `roles`.
        Offices::unpack(self.0.load(Ordering::Relaxed))
    }

    /// Changes the word if it is still as it was seen. Returns whether it was.
    pub(super) fn change(&self, seen: Offices, new: Offices) -> bool {
        self.0.compare_exchange(seen.pack(), new.pack(), Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Changes the word to what `new` makes of it, and returns both. Lock-free.
    pub(super) fn update(&self, new: impl Fn(Offices) -> Offices) -> (Offices, Offices) {
        loop {
            let seen = self.load();
            let new = new(seen);
            if new == seen || self.change(seen, new) {
                return (seen, new);
            }
        }
    }
}

impl Offices {
    fn pack(self) -> u64 {
        u64::from(self.phase) << (2 * BITS) | u64::from(self.deputy) << BITS | u64::from(self.leader)
    }

    fn unpack(word: u64) -> Self {
        let number = |word| word as u32 & NONE;
        Self { phase: (word >> (2 * BITS)) as u32, deputy: number(word >> BITS), leader: number(word) }
    }

    pub(super) fn is_inside(self) -> bool {
        self.phase % 2 != 0
    }

    pub(super) fn next_phase(self) -> Self {
        Self { phase: (self.phase + 1) % (1 << (64 - 2 * BITS)), ..self }
    }
}

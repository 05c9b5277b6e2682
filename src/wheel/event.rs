//! Events: the slots that expire as time advances.

/// An occupied slot, which expires at its first tick.
#[derive(Clone, Copy)]
pub(super) struct Event {
    pub(super) first: u64,
    pub(super) level: u32,
    pub(super) slot: u32,
}

impl Event {
    pub(super) const UNKNOWN: Event = Event { first: 0, level: u32::MAX, slot: 0 };

    #[inline]
    pub(super) fn is_known(self) -> bool {
        self.level != u32::MAX
    }

    /// Returns whether this event comes before another one. At one tick, the higher level comes first.
    #[inline]
    pub(super) fn is_before(self, other: Self) -> bool {
        self.first < other.first || self.first == other.first && self.level > other.level
    }
}

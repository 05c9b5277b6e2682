//! Cascades ahead of time.
//!
//! When a slot of a coarse level expires, all its nodes must cascade before the first of them can expire. With 10^6
//! timers a second and a tick of 1 ms, those are 64,000 at once. A caller with time to spare may cascade earlier
//! ([`Levels::cascade_ahead`]), as soon as the slot is the next one of its level. Its deadlines then lie less than twice
//! the slots of the level below ahead, so for this purpose a window has twice as many slots ([`Levels::new`]). A driver
//! that sleeps wakes in time for that ([`Levels::next_visit`]).

use super::level::Level;
use super::levels::{Levels, Step};
use super::links::Nodes;

impl Levels {
    /// Cascades a node ahead of time, from the next slot of a level above 0. Returns [`Done`](Step::Done) if there is
    /// none. O(levels).
    pub(crate) fn cascade_ahead(&mut self, nodes: &mut impl Nodes) -> Step {
        let Some(id) = self.upcoming() else { return Step::Done };
        self.expire_or_cascade(nodes, id)
    }

    /// Returns when to step or to cascade ahead: by the least deadline, but earlier if slots are so full that their nodes
    /// would then cascade too late. O(levels).
    pub(crate) fn next_visit(&self) -> Option<u64> {
        self.earliest(Level::next_visit)
    }

    /// Returns the node to cascade ahead of time next, if there is one: the first of a slot above level 0 that is the next
    /// one of its level. O(levels).
    pub(crate) fn upcoming(&self) -> Option<u32> {
        self.levels.iter().skip(1).find_map(|ring| ring.first(ring.slot_of(self.now / ring.span + 1)))
    }
}

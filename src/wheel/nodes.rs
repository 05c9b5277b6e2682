//! Where the nodes of a wheel wait, and the interface to the caller's store of nodes.

use alloc::collections::VecDeque;

/// No node.
const NIL: u32 = u32::MAX;

/// Where a node waits: its list, and its place there.
#[derive(Clone, Copy, Default, PartialEq)]
pub(crate) struct Place {
    /// The list: `level << 26 | slot`, or [`EXPIRED`](Self::EXPIRED). A slot is below 2^26 - 1, so that constant is a
    /// slot of no level.
    pub(super) list: u32,
    pub(super) index: u32,
}

impl Place {
    const SLOT_BITS: u32 = 26;
    const EXPIRED: u32 = u32::MAX;

    /// Returns what `list` is for this slot.
    #[inline]
    pub(super) fn list(level: usize, slot: usize) -> u32 {
        ((level as u32) << Self::SLOT_BITS) | slot as u32
    }

    /// Returns level and slot, or `None` for the expired list.
    #[inline]
    pub(super) fn slot(self) -> Option<(usize, usize)> {
        let slot = self.list & ((1 << Self::SLOT_BITS) - 1);
        (self.list < Self::EXPIRED).then_some(((self.list >> Self::SLOT_BITS) as usize, slot as usize))
    }
}

/// The expired list: the nodes whose deadline had come when they were inserted, first in, first out. `NIL` stands for one
/// that was removed; the first is a node.
#[derive(Default)]
pub(super) struct ExpiredList {
    ids: VecDeque<u32>,
    /// The index of the first node, as its [`Place`] has it.
    first: u32,
}

impl ExpiredList {
    #[inline]
    pub(super) fn first(&self) -> Option<u32> {
        self.ids.front().copied()
    }

    pub(super) fn push(&mut self, nodes: &mut impl Nodes, id: u32) {
        let index = self.first.wrapping_add(self.ids.len() as u32);
        nodes.set_place(id, Place { list: Place::EXPIRED, index });
        self.ids.push_back(id);
    }

    pub(super) fn remove(&mut self, index: u32) {
        self.ids[index.wrapping_sub(self.first) as usize] = NIL;
        while self.ids.front() == Some(&NIL) {
            self.ids.pop_front();
            self.first = self.first.wrapping_add(1);
        }
        if self.ids.is_empty() {
            self.ids = VecDeque::new();
        }
    }
}

/// The caller's store of the nodes. Their ids are below `u32::MAX`.
pub(crate) trait Nodes {
    /// Returns the deadline of a node.
    ///
    /// The wheel reads it when it inserts the node and when the node's slot expires or cascades ahead of time. It may
    /// have changed in between: if it is later, the node is linked again.
    fn deadline(&self, id: u32) -> u64;

    /// Returns the place as last written. The wheel writes the place of a node when it links the node.
    fn place(&self, id: u32) -> Place;

    fn set_place(&mut self, id: u32, place: Place);

    /// Fetches a node that is needed soon.
    #[inline]
    fn fetch(&self, _id: u32) {}

    /// Returns whether the node will not fire, so that it expires where it would cascade.
    #[inline]
    fn is_disarmed(&self, _id: u32) -> bool {
        false
    }
}

//! The links of a wheel's nodes, and the interface to the caller's store of nodes.

/// No node: the end of a list.
pub(super) const NIL: u32 = u32::MAX;

/// The links of a node: its neighbours, and the list that they are in.
#[derive(Clone, Copy)]
pub(crate) struct Links {
    pub(super) next: u32,
    pub(super) prev: u32,
    pub(super) list: ListId,
}

impl Links {
    /// The links of a node that is in no list.
    pub(super) const UNLINKED: Links = Links { next: NIL, prev: NIL, list: ListId::NONE };

    #[inline]
    pub(super) fn is_linked(self) -> bool {
        self.list != ListId::NONE
    }
}

impl Default for Links {
    fn default() -> Links {
        Links::UNLINKED
    }
}

/// The list that a node is in: `level << 26 | slot`, or one of the constants.
///
/// A slot is below 2^25, so neither constant is a slot of any level.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ListId(u32);

impl ListId {
    const SLOT_BITS: u32 = 26;
    const NONE: ListId = ListId(u32::MAX);
    pub(super) const EXPIRED: ListId = ListId(u32::MAX - 1);

    #[inline]
    pub(super) fn of(level: usize, slot: usize) -> ListId {
        ListId(((level as u32) << Self::SLOT_BITS) | slot as u32)
    }

    /// Returns level and slot, or `None` for the constants.
    #[inline]
    pub(super) fn slot(self) -> Option<(usize, usize)> {
        let slot = self.0 & ((1 << Self::SLOT_BITS) - 1);
        (self.0 < Self::EXPIRED.0).then_some(((self.0 >> Self::SLOT_BITS) as usize, slot as usize))
    }
}

/// The caller's store of the nodes. Their ids are below `u32::MAX`.
pub(crate) trait Nodes {
    /// Returns the deadline of a node.
    ///
    /// The wheel reads it when it inserts the node and when the node's slot expires or cascades ahead of time. It may
    /// have changed in between: if it is later, the node is linked again.
    fn deadline(&self, id: u32) -> u64;

    /// Returns the links as last written; [`Links::UNLINKED`] at first.
    fn links(&self, id: u32) -> Links;

    fn set_links(&mut self, id: u32, links: Links);

    /// Changes the links of a node in place.
    fn change_links(&mut self, id: u32, change: impl FnOnce(&mut Links));

    /// Returns whether the node will not fire, so that it expires where it would cascade.
    #[inline]
    fn is_disarmed(&self, _id: u32) -> bool {
        false
    }
}

//! The nodes of a wheel, and how they are linked into lists.

/// No node: the end of a list.
pub(super) const NIL: u32 = u32::MAX;

/// Where a node is linked: its neighbours, and the list they are in.
#[derive(Clone, Copy)]
pub(crate) struct Links {
    pub(super) next: u32,
    pub(super) prev: u32,
    pub(super) list: ListId,
}

impl Links {
    /// The links of a node that is in no list.
    pub(crate) const UNLINKED: Links = Links { next: NIL, prev: NIL, list: ListId::NONE };

    #[inline]
    pub(crate) fn is_linked(self) -> bool {
        self.list != ListId::NONE
    }
}

impl Default for Links {
    fn default() -> Links {
        Links::UNLINKED
    }
}

/// A list that a node can be in: `level << 26 | slot`, or one of the constants.
///
/// A slot is less than 2^25, so that the constants are no slot of any level.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ListId(u32);

impl ListId {
    pub(super) const SLOT_BITS: u32 = 26;
    pub(super) const NONE: ListId = ListId(u32::MAX);
    pub(super) const EXPIRED: ListId = ListId(u32::MAX - 1);

    #[inline]
    pub(super) fn of(level: usize, slot: usize) -> ListId {
        ListId(((level as u32) << Self::SLOT_BITS) | slot as u32)
    }

    /// Level and slot, unless it is one of the constants.
    #[inline]
    pub(super) fn slot(self) -> Option<(usize, usize)> {
        let slot = self.0 & ((1 << Self::SLOT_BITS) - 1);
        (self.0 < Self::EXPIRED.0).then_some(((self.0 >> Self::SLOT_BITS) as usize, slot as usize))
    }
}

/// The store of the nodes. Their ids are below `u32::MAX`.
pub(crate) trait Nodes {
    /// The tick a node is due. It is read when the node is inserted, when its slot is handed down and
    /// when it expires, and may have changed since it was last read: a later one moves the node then.
    fn deadline(&self, id: u32) -> u64;

    /// What [`set_links`](Nodes::set_links) last wrote, at first [`Links::UNLINKED`].
    fn links(&self, id: u32) -> Links;

    fn set_links(&mut self, id: u32, links: Links);

    /// Changes the links in place.
    fn change_links(&mut self, id: u32, change: impl FnOnce(&mut Links));

    /// Whether nobody waits for the node any more: it comes out where it would be handed down.
    #[inline]
    fn is_over(&self, _id: u32) -> bool {
        false
    }
}

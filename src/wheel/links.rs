//! The lists of a wheel's nodes, and the interface to the caller's store of nodes.

/// No node: the end of a list.
pub(super) const NIL: u32 = u32::MAX;

/// The links of a node: its neighbours, and the list that they are in.
#[derive(Clone, Copy, Default)]
pub(crate) struct Links {
    pub(super) next: u32,
    pub(super) prev: u32,
    /// The list: `level << 26 | slot`, or [`EXPIRED`](Self::EXPIRED). A slot is below 2^26 - 1, so that constant is a
    /// slot of no level.
    pub(super) list: u32,
}

impl Links {
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

/// The expired list: the nodes whose deadline had come when they were inserted, first in, first out.
pub(super) struct ExpiredList {
    pub(super) head: u32,
    tail: u32,
}

impl ExpiredList {
    pub(super) const EMPTY: ExpiredList = ExpiredList { head: NIL, tail: NIL };

    pub(super) fn push(&mut self, nodes: &mut impl Nodes, id: u32) {
        nodes.change_links(id, |links| *links = Links { next: NIL, prev: self.tail, list: Links::EXPIRED });
        if self.tail == NIL {
            self.head = id;
        } else {
            nodes.change_links(self.tail, |tail| tail.next = id);
        }
        self.tail = id;
    }

    /// Updates head and tail for the removal of a node that had these links.
    pub(super) fn unlink_ends(&mut self, links: Links) {
        if links.prev == NIL {
            self.head = links.next;
        }
        if links.next == NIL {
            self.tail = links.prev;
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

    /// Returns the links as last written. The wheel writes the links of a node when it links the node.
    fn links(&self, id: u32) -> Links;

    /// Changes the links of a node in place.
    fn change_links(&mut self, id: u32, change: impl FnOnce(&mut Links));

    /// Returns whether the node will not fire, so that it expires where it would cascade.
    #[inline]
    fn is_disarmed(&self, _id: u32) -> bool {
        false
    }
}

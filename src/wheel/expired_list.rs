//! The list of nodes that had expired when they were inserted.

use super::links::{Links, ListId, NIL, Nodes};

/// The nodes whose deadline had been reached when they were inserted, first in first out.
pub(super) struct ExpiredList {
    pub(super) head: u32,
    pub(super) tail: u32,
}

impl ExpiredList {
    pub(super) const EMPTY: ExpiredList = ExpiredList { head: NIL, tail: NIL };

    pub(super) fn push(&mut self, nodes: &mut impl Nodes, id: u32) {
        let links = Links { next: NIL, prev: self.tail, list: ListId::EXPIRED };
        nodes.set_links(id, links);
        if self.tail == NIL {
            self.head = id;
        } else {
            nodes.change_links(self.tail, |tail| tail.next = id);
        }
        self.tail = id;
    }

    /// Moves the ends off a node that had these links.
    pub(super) fn forget(&mut self, links: Links) {
        if links.prev == NIL {
            self.head = links.next;
        }
        if links.next == NIL {
            self.tail = links.prev;
        }
    }
}

//! The expired list: nodes that needed no slot.

use super::links::{Links, ListId, NIL, Nodes};

/// The nodes whose deadline had come when they were inserted, first in, first out.
pub(super) struct ExpiredList {
    pub(super) head: u32,
    tail: u32,
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

//! The store of a [`Wheel`](super::Wheel)'s nodes: one vector.

use alloc::vec::Vec;

use super::{Links, Nodes};

/// The name of one entry of a [`Wheel`](crate::Wheel): valid from its insertion until it expires or is removed.
///
/// A wheel never returns the same key twice. A key whose entry is gone finds nothing, even if a new entry uses its
/// memory.
///
/// A key has no meaning in another wheel, and a wheel cannot tell whose key it is. There it finds nothing, or it finds
/// an entry that has nothing to do with it: [`remove`](crate::Wheel::remove) may then take out a live entry. Use a key
/// only with the wheel that returned it.
///
/// ```
/// let mut wheel = corewheel::Wheel::new(0);
/// let old = wheel.insert(10, "old");
/// wheel.remove(old);
/// let new = wheel.insert(10, "new");
/// assert_eq!((wheel.get(old), wheel.get(new)), (None, Some(&"new")));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub(super) index: u32,
    seq: u64,
}

/// The nodes of a wheel. A key names a node by its index, and by a sequence number that no other entry has.
pub(super) struct Arena<T> {
    nodes: Vec<Node<T>>,
    /// The vacant nodes; the last one was vacated last.
    vacant: Vec<u32>,
    /// Number of insertions so far: the next sequence number.
    inserted: u64,
}

struct Node<T> {
    seq: u64,
    deadline: u64,
    links: Links,
    /// `None` in a vacant node.
    value: Option<T>,
}

impl<T> Arena<T> {
    pub(super) const fn new() -> Arena<T> {
        Arena { nodes: Vec::new(), vacant: Vec::new(), inserted: 0 }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.nodes.len() - self.vacant.len()
    }

    #[inline]
    pub(super) fn insert(&mut self, deadline: u64, value: T) -> Key {
        let node = Node { seq: self.inserted, deadline, links: Links::UNLINKED, value: Some(value) };
        self.inserted += 1;
        let seq = node.seq;
        let index = match self.vacant.pop() {
            Some(index) => {
                self.nodes[index as usize] = node;
                index
            }
            None => {
                let index = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
                assert!(index < u32::MAX, "a wheel holds at most 2^32 - 1 entries");
                self.nodes.push(node);
                index
            }
        };
        Key { index, seq }
    }

    /// Returns the number of nodes that there is memory for.
    pub(super) fn capacity(&self) -> usize {
        self.nodes.capacity()
    }

    /// Makes memory for `additional` more nodes, and for their removal.
    pub(super) fn reserve(&mut self, additional: usize) {
        self.nodes.reserve(additional.saturating_sub(self.vacant.len()));
        self.vacant.reserve(self.nodes.capacity() - self.vacant.len());
    }

    /// Frees the memory of vacant nodes behind the last one in use, as no node may change its index.
    pub(super) fn shrink_to_fit(&mut self) {
        let used = self.nodes.iter().rposition(|node| node.value.is_some()).map_or(0, |last| last + 1);
        self.nodes.truncate(used);
        self.nodes.shrink_to_fit();
        self.vacant.retain(|&index| (index as usize) < used);
        self.vacant.shrink_to_fit();
    }

    /// Vacates a node. Returns its deadline and its value.
    #[inline]
    pub(super) fn take(&mut self, id: u32) -> (u64, T) {
        let node = &mut self.nodes[id as usize];
        let value = node.value.take().expect("the node is not vacant");
        self.vacant.push(id);
        (node.deadline, value)
    }

    #[inline]
    pub(super) fn contains(&self, key: Key) -> bool {
        self.get(key).is_some()
    }

    #[inline]
    pub(super) fn get(&self, key: Key) -> Option<&T> {
        let node = self.nodes.get(key.index as usize)?;
        node.value.as_ref().filter(|_| node.seq == key.seq)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let node = self.nodes.get_mut(key.index as usize)?;
        node.value.as_mut().filter(|_| node.seq == key.seq)
    }

    #[inline]
    pub(super) fn set_deadline(&mut self, id: u32, deadline: u64) {
        self.nodes[id as usize].deadline = deadline;
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Key, u64, &T)> {
        (0..).zip(&self.nodes).filter_map(|(index, node)| {
            let key = Key { index, seq: node.seq };
            Some((key, node.deadline, node.value.as_ref()?))
        })
    }

    pub(super) fn clear(&mut self) {
        self.vacant.clear();
        self.nodes.clear();
    }
}

impl<T> Nodes for Arena<T> {
    #[inline]
    fn deadline(&self, id: u32) -> u64 {
        self.nodes[id as usize].deadline
    }

    #[inline]
    fn links(&self, id: u32) -> Links {
        self.nodes[id as usize].links
    }

    #[inline]
    fn set_links(&mut self, id: u32, links: Links) {
        self.nodes[id as usize].links = links;
    }

    #[inline]
    fn change_links(&mut self, id: u32, change: impl FnOnce(&mut Links)) {
        change(&mut self.nodes[id as usize].links);
    }
}

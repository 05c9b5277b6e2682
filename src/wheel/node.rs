//! An entry of a [`Wheel`](super::Wheel), and the key that names it.

use slab::Slab;

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
    pub(super) seq: u64,
}

/// An entry of a wheel.
pub(super) struct Node<T> {
    /// Number of insertions before this one: no other entry has it.
    pub(super) seq: u64,
    pub(super) deadline: u64,
    pub(super) links: Links,
    pub(super) value: T,
}

impl<T> Nodes for Slab<Node<T>> {
    #[inline]
    fn deadline(&self, id: u32) -> u64 {
        self[id as usize].deadline
    }

    #[inline]
    fn links(&self, id: u32) -> Links {
        self[id as usize].links
    }

    #[inline]
    fn change_links(&mut self, id: u32, change: impl FnOnce(&mut Links)) {
        change(&mut self[id as usize].links);
    }
}

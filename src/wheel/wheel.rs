//! `Wheel`, as its users see it.

use core::fmt;

use slab::Slab;

use super::levels::{Levels, Step};
use super::nodes::{Nodes, Place};
use crate::BuildError;

/// A single-threaded hierarchical timing wheel, for event loops, game loops and simulations that drive time themselves.
///
/// The wheel counts *ticks*: `u64` numbers that begin where [`new`](Wheel::new) says. The caller decides how long a
/// tick is, and moves time with [`advance`](Wheel::advance). The wheel reads no clock, starts no thread and uses no
/// atomics. It is [`Send`] if `T` is.
///
/// Inserting, removing and resetting an entry take constant time, however many are pending, except when memory grows. A
/// removed entry leaves nothing behind. The wheel reuses the memory of entries that are gone, and frees it when it is
/// dropped or [shrunk](Wheel::shrink_to_fit).
///
/// ```
/// use corewheel::Wheel;
///
/// let mut wheel = Wheel::new(0);
/// wheel.insert(30, "retry");
/// let timeout = wheel.insert(1_000, "timeout");
/// wheel.insert(5, "flush");
///
/// let mut expired = Vec::new();
/// wheel.advance(40, |deadline, name| expired.push((deadline, name)));
/// assert_eq!(expired, [(5, "flush"), (30, "retry")]);
///
/// assert_eq!(wheel.remove(timeout), Some("timeout"));
/// assert!(wheel.is_empty());
/// ```
///
/// # Levels
///
/// Level 0 is a ring of slots of one tick each. Each slot of a further level spans the whole ring below it: `span(0) =
/// 1`, `span(i + 1) = span(i) * slots(i)`. [tuning.md] has a table of what each level reaches.
///
/// An entry inserted at tick `now` waits at the lowest level `i` with `deadline / span(i) - now / span(i) < slots(i)`.
/// It leaves its slot when `now` reaches the first tick of that slot. It then expires, or cascades to a finer level by
/// the same rule. So a coarse slot makes no entry late. [`position`](Wheel::position) returns the slot of an entry.
///
/// Every `u64` is a valid deadline. Beyond the last level that the caller gave, the wheel adds levels of that size
/// where a deadline needs them.
///
/// [tuning.md]: crate::guide::tuning
pub struct Wheel<T> {
    pub(super) levels: Levels,
    pub(super) nodes: Slab<Node<T>>,
    /// Number of insertions so far.
    inserted: u64,
}

impl<T> Wheel<T> {
    /// Creates a wheel with 64 slots a level, whose present tick is `start_tick`.
    ///
    /// ```
    /// let wheel = corewheel::Wheel::<&str>::new(1_000);
    /// assert_eq!(wheel.now(), 1_000);
    /// ```
    pub fn new(start_tick: u64) -> Wheel<T> {
        Wheel::with_levels(start_tick, &[64]).expect("64 slots are a valid level")
    }

    /// Creates a wheel with these numbers of slots, the finest level first.
    ///
    /// Small levels take little memory, but entries cascade more often: at most once a level. Powers of two make the
    /// arithmetic cheaper. When an entry first waits in a level, the level allocates some 24 bytes a slot at the
    /// finest level, and 32 above, for a number of slots that is rounded up to a power of two. A slot with more
    /// than four entries has a list of them, with 4 to 8 bytes for each, which is freed when the slot is empty.
    ///
    /// # Errors
    /// Fails if the list is empty, or if a level has fewer than 2 or more than 2^24 slots.
    ///
    /// ```
    /// use corewheel::Wheel;
    ///
    /// // Ticks of one second, and levels of a minute, an hour and half a day.
    /// let mut wheel = Wheel::with_levels(0, &[60, 60, 12])?;
    /// let key = wheel.insert(2 * 60 + 4, "tea");
    /// assert_eq!(wheel.position(key), Some((1, 120, 179)));
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn with_levels(start_tick: u64, slots_per_level: &[usize]) -> Result<Wheel<T>, BuildError> {
        Ok(Wheel { levels: Levels::new(start_tick, slots_per_level, 1)?, nodes: Slab::new(), inserted: 0 })
    }

    /// Adds an entry that expires when [`advance`](Self::advance) reaches `deadline_tick`, and returns its key. O(1).
    ///
    /// An entry with `deadline_tick <= now` expires at the next `advance`, even at one to the present tick. Such
    /// entries expire first, in the order of their insertion.
    ///
    /// # Panics
    /// Panics if the wheel holds 2^32 - 1 entries.
    ///
    /// ```
    /// let mut wheel = corewheel::Wheel::new(100);
    /// wheel.insert(160, "in 60 ticks");
    /// wheel.insert(90, "overdue");
    ///
    /// let mut expired = Vec::new();
    /// wheel.advance(100, |_, name| expired.push(name));
    /// assert_eq!(expired, ["overdue"]);
    /// ```
    #[inline]
    pub fn insert(&mut self, deadline_tick: u64, value: T) -> Key {
        let seq = self.inserted;
        self.inserted += 1;
        let node = Node { seq, deadline: deadline_tick, place: Place::default(), value };
        assert!(self.nodes.vacant_key() < u32::MAX as usize, "a wheel holds at most 2^32 - 1 entries");
        let index = self.nodes.insert(node) as u32;
        self.levels.insert(&mut self.nodes, index, deadline_tick);
        Key { index, seq }
    }

    /// Removes an entry and returns its value, or `None` if it has expired or been removed. O(1).
    ///
    /// ```
    /// let mut wheel = corewheel::Wheel::new(0);
    /// let key = wheel.insert(10, "once");
    /// assert_eq!(wheel.remove(key), Some("once"));
    /// assert_eq!(wheel.remove(key), None);
    /// ```
    #[inline]
    pub fn remove(&mut self, key: Key) -> Option<T> {
        self.get(key)?;
        self.levels.remove(&mut self.nodes, key.index);
        Some(self.nodes.remove(key.index as usize).value)
    }

    /// Sets a new deadline for an entry, earlier or later; its key stays valid. O(1).
    ///
    /// Returns false if the entry is gone.
    ///
    /// ```
    /// let mut wheel = corewheel::Wheel::new(0);
    /// let key = wheel.insert(10, "keep-alive");
    /// assert!(wheel.reset(key, 70));
    ///
    /// wheel.advance(69, |_, _| unreachable!());
    /// wheel.advance(70, |deadline, _| assert_eq!(deadline, 70));
    /// assert!(!wheel.reset(key, 130));
    /// ```
    #[inline]
    pub fn reset(&mut self, key: Key, deadline_tick: u64) -> bool {
        if self.get(key).is_none() {
            return false;
        }
        self.levels.remove(&mut self.nodes, key.index);
        self.nodes[key.index as usize].deadline = deadline_tick;
        self.levels.insert(&mut self.nodes, key.index, deadline_tick);
        true
    }

    /// Returns a reference to the value of an entry, or `None` if the entry is gone. O(1).
    ///
    /// ```
    /// let mut wheel = corewheel::Wheel::new(0);
    /// let key = wheel.insert(10, "ping");
    /// assert_eq!(wheel.get(key), Some(&"ping"));
    /// ```
    #[inline]
    pub fn get(&self, key: Key) -> Option<&T> {
        let node = self.nodes.get(key.index as usize)?;
        (node.seq == key.seq).then_some(&node.value)
    }

    /// Returns a mutable reference to the value of an entry, or `None` if the entry is gone. O(1).
    ///
    /// ```
    /// let mut wheel = corewheel::Wheel::new(0);
    /// let key = wheel.insert(10, vec!["first waiter"]);
    /// if let Some(waiters) = wheel.get_mut(key) {
    ///     waiters.push("second waiter");
    /// }
    /// wheel.advance(10, |_, waiters| assert_eq!(waiters.len(), 2));
    /// ```
    #[inline]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let node = self.nodes.get_mut(key.index as usize)?;
        (node.seq == key.seq).then_some(&mut node.value)
    }

    /// Returns the tick at which to call [`advance`](Self::advance) next, or `None` if the wheel is empty. O(levels).
    ///
    /// The tick is the earliest deadline. It is earlier only after a removal or a reset, until the slot of that entry has
    /// expired. It is `now` only if an entry is due, or if the callback of the last `advance` has panicked.
    ///
    /// ```
    /// let mut wheel = corewheel::Wheel::new(0);
    /// let first = wheel.insert(100, ());
    /// wheel.insert(110, ());
    /// assert_eq!(wheel.next_deadline(), Some(100));
    /// wheel.remove(first);
    /// assert_eq!(wheel.next_deadline(), Some(100)); // both were in one slot
    /// wheel.advance(100, |_, _| unreachable!());
    /// assert_eq!(wheel.next_deadline(), Some(110));
    /// ```
    #[inline]
    pub fn next_deadline(&self) -> Option<u64> {
        self.levels.next_deadline()
    }

    /// Moves time to `now_tick`, and calls `expired` with the deadline and the value of each entry that is due by then.
    ///
    /// Entries that were due when they were inserted or reset expire first, in that order. The others expire in the
    /// order of their deadlines; the order among equal deadlines is unspecified. An `advance` to an earlier tick does
    /// nothing.
    ///
    /// The cost is amortised O(levels) for each entry that expires or cascades, and nothing for the ticks in between.
    ///
    /// If `expired` panics, every other entry stays in place and the wheel stays usable. Time has then reached the
    /// deadline of the entry that was passed to `expired`, and the next `advance` continues from there.
    ///
    /// ```
    /// let mut wheel = corewheel::Wheel::new(1_000);
    /// wheel.insert(u64::MAX, "the end");
    /// wheel.insert(900, "overdue");
    ///
    /// let mut expired = Vec::new();
    /// wheel.advance(1_000, |deadline, name| expired.push((deadline, name)));
    /// wheel.advance(u64::MAX, |deadline, name| expired.push((deadline, name)));
    /// assert_eq!(expired, [(900, "overdue"), (u64::MAX, "the end")]);
    /// ```
    #[inline]
    pub fn advance(&mut self, now_tick: u64, mut expired: impl FnMut(u64, T)) {
        if now_tick < self.now() {
            return;
        }
        loop {
            match self.levels.step(&mut self.nodes, now_tick) {
                Step::Unlinked(id) => {
                    let node = self.nodes.remove(id as usize);
                    expired(node.deadline, node.value);
                }
                Step::Cascaded => {}
                Step::Done => break,
            }
        }
    }

    /// Returns the present tick.
    ///
    /// ```
    /// let mut wheel = corewheel::Wheel::<()>::new(0);
    /// wheel.advance(1_000_000, |_, _| ());
    /// assert_eq!(wheel.now(), 1_000_000);
    /// ```
    #[inline]
    pub fn now(&self) -> u64 {
        self.levels.now()
    }

    /// Returns the number of entries, including those that are due.
    ///
    /// ```
    /// let mut wheel = corewheel::Wheel::new(100);
    /// wheel.insert(90, "overdue");
    /// wheel.insert(160, "later");
    /// assert_eq!(wheel.len(), 2);
    /// ```
    #[inline]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns whether the wheel has no entry.
    ///
    /// ```
    /// let mut wheel = corewheel::Wheel::new(0);
    /// wheel.insert(5, ());
    /// wheel.advance(5, |_, _| ());
    /// assert!(wheel.is_empty());
    /// ```
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the key, the deadline and the value of each entry, in no particular order.
    ///
    /// The cost grows with the greatest number of entries that the wheel has had at once since it was last cleared or
    /// shrunk.
    ///
    /// ```
    /// let mut wheel = corewheel::Wheel::new(0);
    /// wheel.insert(10, "near");
    /// wheel.insert(1_000, "far");
    /// let (_, deadline, _) = wheel.iter().find(|&(_, _, name)| *name == "far").unwrap();
    /// assert_eq!(deadline, 1_000);
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (Key, u64, &T)> {
        self.nodes.iter().map(|(index, node)| (Key { index: index as u32, seq: node.seq }, node.deadline, &node.value))
    }

    /// Drops every entry. The wheel keeps the present tick, and its memory for new entries.
    ///
    /// ```
    /// let mut wheel = corewheel::Wheel::new(0);
    /// let key = wheel.insert(10, "stale");
    /// wheel.clear();
    /// assert_eq!((wheel.len(), wheel.get(key)), (0, None));
    /// ```
    pub fn clear(&mut self) {
        self.levels.clear();
        self.nodes.clear();
    }

    /// Returns where an entry waits: its level, and the first and the last tick of its slot. O(1).
    ///
    /// Returns `None` if the entry is gone, or if it was due when it was inserted or reset: it then waits in no slot.
    ///
    /// ```
    /// let mut wheel = corewheel::Wheel::new(0);
    /// let key = wheel.insert(100, ());
    /// assert_eq!(wheel.position(key), Some((1, 64, 127)));
    /// wheel.advance(64, |_, _| unreachable!());
    /// assert_eq!(wheel.position(key), Some((0, 100, 100)));
    /// ```
    pub fn position(&self, key: Key) -> Option<(usize, u64, u64)> {
        self.get(key)?;
        self.levels.position(self.nodes[key.index as usize].place)
    }
}

/// A wheel with 64 slots a level, whose present tick is 0.
///
/// ```
/// let wheel = corewheel::Wheel::<u8>::default();
/// assert_eq!((wheel.now(), wheel.len()), (0, 0));
/// ```
impl<T> Default for Wheel<T> {
    fn default() -> Wheel<T> {
        Wheel::new(0)
    }
}

impl<T> fmt::Debug for Wheel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wheel")
            .field("now", &self.now())
            .field("len", &self.len())
            .field("next_deadline", &self.next_deadline())
            .finish_non_exhaustive()
    }
}

/// The memory for entries.
impl<T> Wheel<T> {
    /// Creates a wheel as [`new`](Self::new) does, with memory for `capacity` entries. Until it holds more, it
    /// allocates only the slots of a level, when the first entry waits there.
    ///
    /// # Panics
    /// Panics if the memory exceeds `isize::MAX` bytes.
    ///
    /// ```
    /// let mut wheel = corewheel::Wheel::with_capacity(0, 1_000);
    /// let capacity = wheel.capacity();
    /// assert!(capacity >= 1_000);
    /// for deadline in 0..1_000 {
    ///     wheel.insert(deadline, ());
    /// }
    /// assert_eq!(wheel.capacity(), capacity);
    /// ```
    pub fn with_capacity(start_tick: u64, capacity: usize) -> Wheel<T> {
        let mut wheel = Wheel::new(start_tick);
        wheel.nodes.reserve(capacity);
        wheel
    }

    /// Returns the number of entries that the wheel can hold without more memory for entries. O(1).
    ///
    /// A level takes memory of its own for its slots: see [`with_levels`](Self::with_levels).
    ///
    /// ```
    /// let wheel = corewheel::Wheel::<u8>::new(0);
    /// assert_eq!(wheel.capacity(), 0);
    /// ```
    #[inline]
    pub fn capacity(&self) -> usize {
        self.nodes.capacity()
    }

    /// Makes memory for `additional` more entries, if there is not enough.
    ///
    /// # Panics
    /// Panics if the memory exceeds `isize::MAX` bytes.
    ///
    /// ```
    /// let mut wheel = corewheel::Wheel::new(0);
    /// wheel.insert(10, "first");
    /// wheel.reserve(99);
    /// assert!(wheel.capacity() >= 100);
    /// ```
    pub fn reserve(&mut self, additional: usize) {
        self.nodes.reserve(additional);
    }

    /// Frees memory that no entry needs: after a burst, for example. Every key stays valid.
    ///
    /// An entry does not move, so the memory that stays depends on the entry with the greatest place in memory. New
    /// entries take the place that was vacated last. The slots of a level without entries are freed, too. The cost
    /// grows with the [capacity](Self::capacity).
    ///
    /// ```
    /// let mut wheel = corewheel::Wheel::new(0);
    /// let first = wheel.insert(10, 0);
    /// for number in 1..1_000 {
    ///     wheel.insert(5, number);
    /// }
    /// wheel.advance(5, |_, _| ());
    /// wheel.shrink_to_fit();
    /// assert!(wheel.capacity() < 1_000);
    /// assert_eq!(wheel.remove(first), Some(0));
    /// ```
    pub fn shrink_to_fit(&mut self) {
        self.nodes.shrink_to_fit();
        self.levels.shrink();
    }
}

/// The name of one entry of a [`Wheel`]: valid from its insertion until it expires or is removed.
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
    pub(super) place: Place,
    pub(super) value: T,
}

impl<T> Nodes for Slab<Node<T>> {
    #[inline]
    fn deadline(&self, id: u32) -> u64 {
        self[id as usize].deadline
    }

    #[inline]
    fn place(&self, id: u32) -> Place {
        self[id as usize].place
    }

    #[inline]
    fn set_place(&mut self, id: u32, place: Place) {
        self[id as usize].place = place;
    }
}

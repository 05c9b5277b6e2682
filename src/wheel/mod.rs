//! The pure, single-threaded hierarchical timing wheel.

mod arena;
mod divisor;
mod event;
mod expired_list;
mod level;
mod levels;
mod links;
mod occupancy;

use std::fmt;

pub use arena::Key;
pub(crate) use divisor::Divisor;
pub(crate) use levels::{Levels, Step};
pub(crate) use links::{Links, Nodes};

use crate::BuildError;
use arena::Arena;

/// A single-threaded hierarchical timing wheel, for event loops, game loops and simulations that drive
/// time themselves.
///
/// The wheel knows only *ticks*: a `u64` that starts where [`new`](Wheel::new) says and moves when
/// [`advance`](Wheel::advance) is called. How long a tick is, is up to the caller. It reads no clock,
/// starts no thread and uses no atomics; it is [`Send`] if `T` is.
///
/// Inserting, removing and resetting an entry take constant time, however many are pending, and an entry
/// that has been removed leaves nothing behind. The memory of entries that are gone is reused, and goes
/// back to the allocator with the wheel.
///
/// ```
/// use corewheel::Wheel;
///
/// let mut wheel = Wheel::new(0);
/// wheel.insert(30, "retry");
/// let timeout = wheel.insert(1_000, "timeout");
/// wheel.insert(5, "flush");
///
/// let mut fired = Vec::new();
/// wheel.advance(40, |deadline, name| fired.push((deadline, name)));
/// assert_eq!(fired, [(5, "flush"), (30, "retry")]);
///
/// assert_eq!(wheel.remove(timeout), Some("timeout"));
/// assert!(wheel.is_empty());
/// ```
///
/// # Levels
///
/// Level 0 is a ring of slots of one tick each. A slot of every further level spans the whole ring below
/// it: `span(0) = 1`, `span(i + 1) = span(i) * slots(i)`. An entry inserted at tick `now` waits at the lowest
/// level `i` with `deadline / span(i) - now / span(i) < slots(i)`, and leaves its slot when `now` reaches the
/// slot's first tick: it expires then or is handed down, by the same rule, to a finer level.
/// [`position`](Wheel::position) tells where an entry waits. Past the last level given, as many more of
/// its size are added as a deadline needs, so that every `u64` is a valid deadline.
pub struct Wheel<T> {
    levels: Levels,
    arena: Arena<T>,
}

impl<T> Wheel<T> {
    /// A wheel with 64 slots a level, for which it is now `start_tick`.
    pub fn new(start_tick: u64) -> Wheel<T> {
        Wheel::with_levels(start_tick, &[64]).expect("64 slots are a valid level")
    }

    /// A wheel with these numbers of slots, the finest level first.
    ///
    /// Small levels take little memory and hand entries down more often; an entry is handed down at most
    /// once a level. Powers of two make the arithmetic cheaper. A level takes memory, 4 bytes a slot,
    /// from the first time an entry waits there.
    ///
    /// ```
    /// use corewheel::Wheel;
    ///
    /// // Ticks of one second: a minute, an hour, half a day.
    /// let mut wheel = Wheel::with_levels(0, &[60, 60, 12])?;
    /// let key = wheel.insert(2 * 60 + 4, "tea");
    /// assert_eq!(wheel.position(key), Some((1, 120, 179)));
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the list is empty, or a level has fewer than 2 or more than 2^24 slots.
    pub fn with_levels(start_tick: u64, slots_per_level: &[usize]) -> Result<Wheel<T>, BuildError> {
        Ok(Wheel { levels: Levels::new(start_tick, slots_per_level)?, arena: Arena::new() })
    }

    /// Adds an entry that expires when `advance` reaches `deadline_tick`. O(1).
    ///
    /// An entry that is due already (`deadline_tick <= now`) expires first at the next `advance`, also at one
    /// to the present tick; several of them in the order they were inserted.
    ///
    /// # Panics
    ///
    /// If the wheel holds 2^32 - 1 entries.
    #[inline]
    pub fn insert(&mut self, deadline_tick: u64, value: T) -> Key {
        let key = self.arena.insert(deadline_tick, value);
        self.levels.insert(&mut self.arena, key.index);
        key
    }

    /// Takes an entry out. `None` once it has expired or been removed. O(1).
    ///
    /// ```
    /// let mut wheel = corewheel::Wheel::new(0);
    /// let key = wheel.insert(10, "once");
    /// assert_eq!(wheel.remove(key), Some("once"));
    /// assert_eq!(wheel.remove(key), None);
    /// ```
    #[inline]
    pub fn remove(&mut self, key: Key) -> Option<T> {
        if !self.arena.contains(key) {
            return None;
        }
        self.levels.remove(&mut self.arena, key.index);
        let (_, value) = self.arena.take(key.index);
        Some(value)
    }

    /// Moves an entry to another deadline, earlier or later, under the same key. `false` if the entry is
    /// gone. O(1).
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
        if !self.arena.contains(key) {
            return false;
        }
        self.levels.remove(&mut self.arena, key.index);
        self.arena.set_deadline(key.index, deadline_tick);
        self.levels.insert(&mut self.arena, key.index);
        true
    }

    /// The value of an entry, while it waits. O(1).
    #[inline]
    pub fn get(&self, key: Key) -> Option<&T> {
        self.arena.get(key)
    }

    /// The value of an entry, while it waits. O(1).
    #[inline]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.arena.get_mut(key)
    }

    /// When to look again: a tick no later than the earliest deadline. `None` if the wheel is empty.
    /// O(levels).
    ///
    /// It is `now` or earlier only if an entry is due. Otherwise it is the first tick of the next occupied
    /// slot: the deadline itself for an entry at level 0, and for one farther off the time at which it
    /// is handed down.
    ///
    /// ```
    /// let mut wheel = corewheel::Wheel::new(0);
    /// wheel.insert(100, ());
    /// assert_eq!(wheel.next_deadline(), Some(64));
    /// wheel.advance(64, |_, _| unreachable!());
    /// assert_eq!(wheel.next_deadline(), Some(100));
    /// ```
    #[inline]
    pub fn next_deadline(&self) -> Option<u64> {
        self.levels.next_deadline()
    }

    /// Moves time to `now_tick` and calls `expired` with the deadline and the value of every entry due by
    /// then.
    ///
    /// The entries that were due when they were inserted come first, in that order; then the others by
    /// deadline. Order among equal deadlines is not promised. A call costs amortised O(levels) for each entry that expires or is handed down, and nothing
    /// for the ticks it passes. An earlier tick than now does nothing.
    ///
    /// A panic in `expired` leaves every entry not yet handed over in place, and the wheel usable: time
    /// has come to the deadline of the entry it was called with, and the next `advance` goes on from there.
    ///
    /// ```
    /// let mut wheel = corewheel::Wheel::new(1_000);
    /// wheel.insert(u64::MAX, "the end");
    /// wheel.insert(900, "overdue");
    ///
    /// let mut fired = Vec::new();
    /// wheel.advance(1_000, |deadline, name| fired.push((deadline, name)));
    /// wheel.advance(u64::MAX, |deadline, name| fired.push((deadline, name)));
    /// assert_eq!(fired, [(900, "overdue"), (u64::MAX, "the end")]);
    /// ```
    #[inline]
    pub fn advance(&mut self, now_tick: u64, mut expired: impl FnMut(u64, T)) {
        if now_tick < self.now() {
            return;
        }
        loop {
            match self.levels.step(&mut self.arena, now_tick) {
                Step::Expired(id) => {
                    let (deadline, value) = self.arena.take(id);
                    expired(deadline, value);
                }
                Step::Cascaded => {}
                Step::Done => break,
            }
        }
    }

    /// The present tick.
    #[inline]
    pub fn now(&self) -> u64 {
        self.levels.now()
    }

    /// How many entries wait, those that are due included.
    #[inline]
    pub fn len(&self) -> usize {
        self.arena.len()
    }

    /// Whether no entry waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The key, the deadline and the value of every entry, in no particular order. O(the most entries
    /// there have been at once).
    pub fn iter(&self) -> impl Iterator<Item = (Key, u64, &T)> {
        self.arena.iter()
    }

    /// Drops every entry. The present tick stays, and so does the memory, for reuse.
    pub fn clear(&mut self) {
        self.levels.clear();
        self.arena.clear();
    }

    /// Where an entry waits: the level, and the first and the last tick of its slot. `None` if the entry
    /// is gone, or was due when it was inserted and waits in no slot. O(1).
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
        self.levels.position(self.arena.links(key.index))
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

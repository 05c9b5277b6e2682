//! The memory of a [`Wheel`] for its entries: made in advance, and freed.

use super::wheel::Wheel;

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

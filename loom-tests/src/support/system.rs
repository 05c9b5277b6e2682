//! Replaces the crate's `system`: values that loom must construct one by one.

use std::io;
use std::ops::{Deref, Range};

use crate::engine::entry::Entry;
use crate::race_detector::RaceDetector;

pub(crate) struct Pages<T> {
    values: Box<[T]>,
    memory: RaceDetector,
}

impl<T> Pages<T> {
    /// # Safety
    /// As for the crate's own function. This one is always safe.
    pub(crate) unsafe fn new(len: usize, zero: fn() -> T) -> io::Result<Self> {
        Ok(Self { values: (0..len).map(|_| zero()).collect(), memory: RaceDetector::default() })
    }

    /// # Safety
    /// As above.
    pub(crate) unsafe fn reuse(&self, _range: Range<usize>) {}
}

impl Pages<Entry> {
    /// # Safety
    /// As above. The range is zero afterwards, as on Linux, so a model detects that a thread still needs what was there.
    pub(crate) unsafe fn discard(&self, range: Range<usize>) {
        self[range].iter().for_each(Entry::wipe);
    }
}

impl<T> Deref for Pages<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.memory.read();
        &self.values
    }
}

/// Small enough that each block can be retired alone.
pub(crate) fn page_size() -> usize {
    1
}

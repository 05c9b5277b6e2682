//! The crate's `system`, without one: values that loom has to construct one by one.

use std::cell::UnsafeCell;
use std::ops::{Deref, Range};

pub(crate) struct Pages<T> {
    values: UnsafeCell<Box<[T]>>,
    zero: fn() -> T,
}

impl<T> Pages<T> {
    /// # Safety
    /// That of the crate's own: here it is safe.
    pub(crate) unsafe fn new(len: usize, zero: fn() -> T) -> Option<Self> {
        Some(Self { values: UnsafeCell::new((0..len).map(|_| zero()).collect()), zero })
    }

    /// # Safety
    /// As above. The values are as new afterwards, as on Linux: what was written there and is needed still is found to be
    /// lost.
    pub(crate) unsafe fn discard(&self, range: Range<usize>) {
        for offset in range {
            // SAFETY: all threads of a model take turns on one, so nobody is in the middle of an access; and a value that
            // is replaced has nothing that others point to.
            unsafe { (*self.values.get())[offset] = (self.zero)() };
        }
    }

    /// # Safety
    /// As above.
    pub(crate) unsafe fn reuse(&self, _range: Range<usize>) {}
}

impl<T> Deref for Pages<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the slice itself is never replaced; of its values, see `discard`.
        unsafe { &*self.values.get() }
    }
}

// SAFETY: as for the crate's own; of `discard`, see there.
unsafe impl<T: Send> Send for Pages<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Pages<T> {}

/// So small that a block is given back by itself.
pub(crate) fn page_size() -> usize {
    1
}

pub(crate) fn try_box<T>(value: T) -> Option<Box<T>> {
    Some(Box::new(value))
}

//! The crate's `system`, without one: values that loom has to construct one by one.

use std::ops::{Deref, Range};

pub(crate) struct Pages<T>(Box<[T]>);

impl<T> Pages<T> {
    /// # Safety
    /// That of the crate's own: here it is safe.
    pub(crate) unsafe fn new(len: usize, zero: fn() -> T) -> Self {
        Self((0..len).map(|_| zero()).collect())
    }

    /// # Safety
    /// As above. The values stay as they are, as some systems leave them.
    pub(crate) unsafe fn discard(&self, _range: Range<usize>) {}
}

impl<T> Deref for Pages<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

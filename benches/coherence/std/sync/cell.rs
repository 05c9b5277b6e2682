//! The cell that replaces the crate's `UnsafeCell` here.

use crate::count::record;
use crate::mesi::Access::{Read, Write};

/// A [`std::cell::UnsafeCell`] that records its accesses, as reads or writes of the whole value.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct RecordedCell<T>(std::cell::UnsafeCell<T>);

impl<T> RecordedCell<T> {
    pub const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }

    #[track_caller]
    pub fn with<R>(&self, access: impl FnOnce(*const T) -> R) -> R {
        record(self.0.get().addr(), size_of::<T>(), Read);
        access(self.0.get())
    }

    #[track_caller]
    pub fn with_mut<R>(&self, access: impl FnOnce(*mut T) -> R) -> R {
        record(self.0.get().addr(), size_of::<T>(), Write);
        access(self.0.get())
    }
}

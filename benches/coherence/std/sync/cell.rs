//! What the crate's `UnsafeCell` is made of here.

use crate::count::record;
use crate::mesi::Access::{Read, Write};

/// [`std::cell::UnsafeCell`] whose accesses say whether they write. Each is one to all of it.
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

//! Replaces `std::sync::Arc` by a wrapper that records accesses to the counts.
//!
//! The allocation has the strong count, the weak count and the value, in this order. A test checks that.

use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync;

use crate::count::record;
use crate::mesi::Access::{self, Read, Write};

/// The size of a count.
const COUNT: usize = size_of::<usize>();

#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Arc<T: ?Sized>(sync::Arc<T>);

/// For sized values only: the alignment of an unsized value, which the address of the counts depends on, is unknown
/// after its drop.
#[derive(Debug)]
#[repr(transparent)]
pub struct Weak<T>(sync::Weak<T>);

impl<T: ?Sized + RefUnwindSafe> UnwindSafe for Arc<T> {}

/// Returns the address of the strong count of a value at address `value`. The weak count follows it.
fn counts(value: usize, align: usize) -> usize {
    value - (2 * COUNT).next_multiple_of(align)
}

impl<T> Arc<T> {
    pub fn new(value: T) -> Self {
        Self(sync::Arc::new(value))
    }

    pub fn new_cyclic(make: impl FnOnce(&Weak<T>) -> T) -> Self {
        // SAFETY: the wrapper is a transparent newtype of the standard library's `Weak`.
        Self(sync::Arc::new_cyclic(|this| make(unsafe { &*std::ptr::from_ref(this).cast() })))
    }

    pub fn into_raw(this: Self) -> *const T {
        let pointer = Self::as_ptr(&this);
        std::mem::forget(this);
        pointer
    }

    /// # Safety
    /// The same as in the standard library.
    pub unsafe fn from_raw(pointer: *const T) -> Self {
        // SAFETY: by this function's contract.
        Self(unsafe { sync::Arc::from_raw(pointer) })
    }

    /// # Safety
    /// The same as in the standard library.
    #[track_caller]
    pub unsafe fn increment_strong_count(pointer: *const T) {
        record(counts(pointer.addr(), align_of::<T>()), COUNT, Write);
        // SAFETY: by this function's contract.
        unsafe { sync::Arc::increment_strong_count(pointer) };
    }

    #[track_caller]
    pub fn downgrade(this: &Self) -> Weak<T> {
        record(this.counts() + COUNT, COUNT, Write);
        Weak(sync::Arc::downgrade(&this.0))
    }
}

impl<T: ?Sized> Arc<T> {
    pub(crate) fn counts(&self) -> usize {
        counts(Self::as_ptr(self).addr(), align_of_val(&*self.0))
    }

    pub fn as_ptr(this: &Self) -> *const T {
        sync::Arc::as_ptr(&this.0)
    }

    pub fn ptr_eq(this: &Self, other: &Self) -> bool {
        sync::Arc::ptr_eq(&this.0, &other.0)
    }

    #[track_caller]
    pub fn strong_count(this: &Self) -> usize {
        record(this.counts(), COUNT, Read);
        sync::Arc::strong_count(&this.0)
    }
}

impl<T> Arc<T> {
    /// Converts to an unsized type, which the standard library's `Arc` does implicitly.
    pub fn unsize<U: ?Sized>(this: Self, unsize: impl FnOnce(sync::Arc<T>) -> sync::Arc<U>) -> Arc<U> {
        // SAFETY: the pointer comes from `into_raw`, which has consumed the `Arc`.
        Arc(unsize(unsafe { sync::Arc::from_raw(Self::into_raw(this)) }))
    }
}

impl<T: ?Sized> Clone for Arc<T> {
    #[track_caller]
    fn clone(&self) -> Self {
        record(self.counts(), COUNT, Write);
        Self(self.0.clone())
    }
}

impl<T: ?Sized> Deref for Arc<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> From<Box<T>> for Arc<T> {
    fn from(value: Box<T>) -> Self {
        Self(value.into())
    }
}

impl<T: ?Sized> Drop for Arc<T> {
    fn drop(&mut self) {
        record(self.counts(), COUNT, Write);
    }
}

impl<T> Weak<T> {
    pub const fn new() -> Self {
        Self(sync::Weak::new())
    }

    pub fn as_ptr(&self) -> *const T {
        self.0.as_ptr()
    }

    #[track_caller]
    pub fn upgrade(&self) -> Option<Arc<T>> {
        self.record(0, Write);
        self.0.upgrade().map(Arc)
    }

    #[track_caller]
    pub fn strong_count(&self) -> usize {
        self.record(0, Read);
        self.0.strong_count()
    }

    #[track_caller]
    fn record(&self, count: usize, access: Access) {
        // A `Weak` from `new` points to no allocation.
        if !self.0.ptr_eq(&sync::Weak::new()) {
            record(counts(self.as_ptr().addr(), align_of::<T>()) + count, COUNT, access);
        }
    }
}

impl<T> Clone for Weak<T> {
    #[track_caller]
    fn clone(&self) -> Self {
        self.record(COUNT, Write);
        Self(self.0.clone())
    }
}

impl<T> Default for Weak<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for Weak<T> {
    fn drop(&mut self) {
        self.record(COUNT, Write);
    }
}

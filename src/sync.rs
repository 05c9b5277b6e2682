//! The one place where the standard library and loom are swapped.
//!
//! Every file that takes part in a protocol between threads imports its primitives from `crate::sync`, and nothing
//! else. Here they are the standard library's. The crate `loom-tests` compiles the same files against a `sync` of its
//! own, of the same names, made of loom's types.

use std::alloc::{self, Layout};
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::thread::{self, Thread};
use std::time::Duration;

pub(crate) use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use std::thread_local as thread_static;

/// Entries that are taken from a slab at once: a page of 4 KiB.
pub(crate) const BLOCK: u32 = 64;

/// [`std::cell::UnsafeCell`] with loom's way of access, in which every access has a beginning and an end.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    #[inline]
    pub(crate) fn with<R>(&self, access: impl FnOnce(*const T) -> R) -> R {
        access(self.0.get())
    }

    #[inline]
    pub(crate) fn with_mut<R>(&self, access: impl FnOnce(*mut T) -> R) -> R {
        access(self.0.get())
    }
}

/// Where one thread sleeps and any other wakes it. A `wake` that comes before the `sleep` ends it at once.
#[derive(Debug, Default)]
pub(crate) struct Sleeper(OnceLock<Thread>);

impl Sleeper {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Makes the calling thread the one that sleeps here. Nobody may call `wake` before.
    pub(crate) fn attach(&self) {
        self.0.get_or_init(thread::current);
    }

    /// Whether the calling thread is the one that sleeps here.
    pub(crate) fn is_attached_here(&self) -> bool {
        self.0.get().is_some_and(|thread| thread.id() == thread::current().id())
    }

    /// Sleeps until woken, for `timeout` at the most, or shorter for no reason at all.
    pub(crate) fn sleep(&self, timeout: Option<Duration>) {
        match timeout {
            Some(timeout) => thread::park_timeout(timeout),
            None => thread::park(),
        }
    }

    /// Wakes the sleeper. Wait-free: a swap, and a system call if it is asleep.
    pub(crate) fn wake(&self) {
        if let Some(thread) = self.0.get() {
            thread.unpark();
        }
    }
}

/// A slice of values all of whose bytes are zero, straight from the system: what is never used is never resident.
pub(crate) struct Zeroed<T> {
    memory: NonNull<u8>,
    layout: Layout,
    values: NonNull<[T]>,
}

impl<T> Zeroed<T> {
    /// A slice of `len` values as `zero` makes them: here it is not called, as the system has them ready.
    ///
    /// # Safety
    /// What `zero` makes must be as good with all its bytes zero; `T` must not need dropping; and the slice must have a
    /// size.
    pub(crate) unsafe fn new(len: usize, _zero: fn() -> T) -> Self {
        // The standard library zeroes by hand, touching every page, where more than 16 bytes of alignment are asked
        // of it. So ask for no more, and align by hand.
        let slice = Layout::array::<T>(len).expect("a slab fits the address space");
        let layout = Layout::from_size_align(slice.size() + slice.align(), 16).expect("a slab fits the address space");
        // SAFETY: the size is not zero, by this function's contract.
        let Some(memory) = NonNull::new(unsafe { alloc::alloc_zeroed(layout) }) else {
            alloc::handle_alloc_error(layout)
        };
        // SAFETY: the offset is less than the alignment, which the layout has to spare.
        let first = unsafe { memory.add(memory.align_offset(slice.align())) };
        Self { memory, layout, values: NonNull::slice_from_raw_parts(first.cast(), len) }
    }
}

impl<T> Deref for Zeroed<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the memory is zeroed, which is a valid `T` by `new`'s contract, aligned, and ours until the drop.
        unsafe { self.values.as_ref() }
    }
}

impl<T> Drop for Zeroed<T> {
    fn drop(&mut self) {
        // SAFETY: `new` allocated it with this layout, and nobody can borrow it any more.
        unsafe { alloc::dealloc(self.memory.as_ptr(), self.layout) }
    }
}

// SAFETY: a `Zeroed` owns its values as a `Box<[T]>` does.
unsafe impl<T: Send> Send for Zeroed<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Zeroed<T> {}

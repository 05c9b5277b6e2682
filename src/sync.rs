//! The one place where the standard library and loom are swapped.
//!
//! Every file that takes part in a protocol between threads imports its primitives from `crate::sync`, and nothing
//! else. Here they are the standard library's. The crate `loom-tests` compiles the same files against a `sync` of its
//! own, of the same names, made of loom's types.

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

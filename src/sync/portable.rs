//! What is built from the primitives, of the standard library or of a tool that explores the threads.

use std::cell;
use std::sync::{LockResult, OnceLock, PoisonError};
use std::time::Duration;

use crate::sync::thread::{self, Thread};
use crate::sync::{Mutex, MutexGuard};

/// [`std::cell::UnsafeCell`], accessed through closures as loom's is: so loom knows when an access begins and ends.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct UnsafeCell<T>(cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(cell::UnsafeCell::new(value))
    }

    /// Calls `access` with a pointer for reading.
    #[inline]
    pub(crate) fn with<R>(&self, access: impl FnOnce(*const T) -> R) -> R {
        access(self.0.get())
    }

    /// Calls `access` with a pointer for writing.
    #[inline]
    pub(crate) fn with_mut<R>(&self, access: impl FnOnce(*mut T) -> R) -> R {
        access(self.0.get())
    }
}

/// Locks a mutex that a panic does not poison: no lock is held while foreign code runs, so what it guards is whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    unpoisoned(mutex.lock())
}

/// Returns what a lock guards, or a wait on its condition has returned, whether or not a thread has panicked meanwhile.
pub(crate) fn unpoisoned<G>(result: LockResult<G>) -> G {
    result.unwrap_or_else(PoisonError::into_inner)
}

/// Parks one thread, which is known only once it runs: it [attaches](Parker::attach) itself first. Any other thread may
/// unpark it. An `unpark` that comes before the `park` ends it at once.
#[cfg(any(not(loom), shuttle))]
pub(crate) struct Parker(OnceLock<Thread>);

#[cfg(any(not(loom), shuttle))]
impl Parker {
    pub(crate) fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Makes the calling thread the one that parks here. No other thread may have attached itself.
    pub(crate) fn attach(&self) {
        self.0.get_or_init(thread::current);
    }

    /// Returns whether the calling thread is the one that is attached.
    pub(crate) fn is_attached_here(&self) -> bool {
        self.0.get().is_some_and(|thread| thread.id() == thread::current().id())
    }

    /// Parks the calling thread, which must be attached, until an `unpark` or the timeout. May return spuriously.
    pub(crate) fn park(&self, timeout: Option<Duration>) {
        timeout.map_or_else(thread::park, thread::park_timeout);
    }

    /// Unparks the attached thread. Wait-free: a swap, and a system call if the thread is asleep.
    pub(crate) fn unpark(&self) {
        if let Some(thread) = self.0.get() {
            thread.unpark();
        }
    }
}

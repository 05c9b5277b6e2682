//! Replaces `std::sync::Mutex`, with the algorithm that it has on Linux, except that a thread waits without spinning.

use std::cell::UnsafeCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};

use super::atomic::{AtomicBool, AtomicU32};
use super::futex;
use crate::count::record;
use crate::mesi::Access::{Read, Write};

const UNLOCKED: u32 = 0;
const LOCKED: u32 = 1;
/// Locked, and a thread waits.
const CONTENDED: u32 = 2;

#[derive(Default)]
pub struct Mutex<T: ?Sized> {
    word: AtomicU32,
    poisoned: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: one thread at a time has access to the value, as in the standard library.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

/// A guard. Each access through it counts as one to the whole value in the mutex, but not to memory that the value
/// points to.
#[must_use = "if unused, the mutex is unlocked at once"]
pub struct MutexGuard<'a, T: ?Sized> {
    pub(super) mutex: &'a Mutex<T>,
    was_panicking: bool,
    /// A guard must stay on its thread.
    _not_send: std::marker::PhantomData<*const ()>,
}

// SAFETY: a shared guard gives only shared access to the value, which is `Sync`.
unsafe impl<T: ?Sized + Sync> Sync for MutexGuard<'_, T> {}

impl<T> Mutex<T> {
    pub const fn new(value: T) -> Self {
        Self { word: AtomicU32::new(UNLOCKED), poisoned: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    pub fn into_inner(self) -> LockResult<T> {
        let poisoned = self.poisoned.into_inner();
        let value = self.value.into_inner();
        if poisoned { Err(PoisonError::new(value)) } else { Ok(value) }
    }
}

impl<T: ?Sized> Mutex<T> {
    #[track_caller]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        self.lock_word();
        let guard = self.guard();
        if self.poisoned.load(Ordering::Relaxed) { Err(PoisonError::new(guard)) } else { Ok(guard) }
    }

    #[track_caller]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        if self.word.compare_exchange(UNLOCKED, LOCKED, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return Err(TryLockError::WouldBlock);
        }
        Ok(self.guard())
    }

    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        Ok(self.value.get_mut())
    }

    fn guard(&self) -> MutexGuard<'_, T> {
        MutexGuard { mutex: self, was_panicking: std::thread::panicking(), _not_send: std::marker::PhantomData }
    }

    #[track_caller]
    pub(super) fn lock_word(&self) {
        if self.word.compare_exchange(UNLOCKED, LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return;
        }
        while self.word.swap(CONTENDED, Ordering::Acquire) != UNLOCKED {
            futex::wait(&self.word, CONTENDED, None);
        }
    }

    #[track_caller]
    pub(super) fn unlock_word(&self) {
        if self.word.swap(UNLOCKED, Ordering::Release) == CONTENDED {
            futex::wake(&self.word, false);
        }
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[track_caller]
    fn deref(&self) -> &T {
        // SAFETY: we own the value, because the guard has the lock.
        let value = unsafe { &*self.mutex.value.get() };
        record(std::ptr::from_ref(value).addr(), size_of_val(value), Read);
        value
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[track_caller]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        let value = unsafe { &mut *self.mutex.value.get() };
        record(std::ptr::from_ref(value).addr(), size_of_val(value), Write);
        value
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        if !self.was_panicking && std::thread::panicking() {
            self.mutex.poisoned.store(true, Ordering::Relaxed);
        }
        self.mutex.unlock_word();
    }
}

impl<T: ?Sized> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").finish_non_exhaustive()
    }
}

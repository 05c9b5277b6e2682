//! Replaces `std::sync::OnceLock`.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;

use super::atomic::AtomicU32;
use super::futex;
use crate::count::record;
use crate::mesi::Access::{Read, Write};

const EMPTY: u32 = 0;
const RUNNING: u32 = 1;
const FULL: u32 = 2;

pub struct OnceLock<T> {
    word: AtomicU32,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the value is written once, before other threads can read `FULL`.
unsafe impl<T: Send> Send for OnceLock<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}

impl<T> OnceLock<T> {
    pub const fn new() -> Self {
        Self { word: AtomicU32::new(EMPTY), value: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    #[track_caller]
    pub fn get(&self) -> Option<&T> {
        (self.word.load(Ordering::Acquire) == FULL).then(|| self.read())
    }

    /// Unlike in the standard library, a panic of `f` leaves the lock unfinished for ever.
    #[track_caller]
    pub fn get_or_init(&self, f: impl FnOnce() -> T) -> &T {
        loop {
            match self.word.load(Ordering::Acquire) {
                FULL => return self.read(),
                EMPTY => {
                    if self.word.compare_exchange(EMPTY, RUNNING, Ordering::Acquire, Ordering::Acquire).is_ok() {
                        break;
                    }
                }
                _ => futex::wait(&self.word, RUNNING, None),
            }
        }
        let value = f();
        record(self.value.get().addr(), size_of::<T>(), Write);
        // SAFETY: we own the value, because this thread has set `RUNNING`, and no other thread can.
        unsafe { (*self.value.get()).write(value) };
        self.word.store(FULL, Ordering::Release);
        futex::wake(&self.word, true);
        self.read()
    }

    #[track_caller]
    fn read(&self) -> &T {
        record(self.value.get().addr(), size_of::<T>(), Read);
        // SAFETY: the value is initialised, because the word is `FULL` and stays so.
        unsafe { (*self.value.get()).assume_init_ref() }
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for OnceLock<T> {
    fn drop(&mut self) {
        if *self.word.get_mut() == FULL {
            // SAFETY: the value is initialised, because the word is `FULL`.
            unsafe { self.value.get_mut().assume_init_drop() };
        }
    }
}

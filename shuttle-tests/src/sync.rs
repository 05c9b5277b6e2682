//! The crate's `sync`, built from shuttle's primitives.

pub(crate) use crate::source::sync::cell::UnsafeCell;
pub(crate) use crate::source::sync::lock::{lock, unpoisoned};
pub(crate) use crate::source::sync::parker::Parker;
pub(crate) use crate::source::sync::stack;
pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
pub(crate) use shuttle::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
pub(crate) use shuttle::thread;
pub(crate) use shuttle::thread_local as thread_static;

/// Does nothing, because shuttle models only sequential consistency.
pub(crate) fn access_plainly(_atomic: &AtomicU64) {}

/// A fence, as in the models.
pub(crate) fn fence_between_seq_cst() {
    fence(Ordering::SeqCst);
}

/// Replaces each limit by one that a scenario exceeds.
pub(crate) const fn limit(_most: usize) -> usize {
    2
}

//! The primitives of the crate's `sync`, made of shuttle's.

pub(crate) use crate::source::sync::cell::UnsafeCell;
pub(crate) use crate::source::sync::parker::Parker;
pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
pub(crate) use shuttle::sync::{Arc, Condvar, Mutex, MutexGuard};
pub(crate) use shuttle::thread;
pub(crate) use shuttle::thread_local as thread_static;

/// shuttle knows no order but one.
pub(crate) fn access_plainly(_atomic: &AtomicU64) {}

/// A fence, as sequentially consistent accesses are taken for `AcqRel` here.
pub(crate) fn fence_between_seq_cst() {
    fence(Ordering::SeqCst);
}

/// So few that a scenario goes beyond them.
pub(crate) const fn limit(_most: usize) -> usize {
    2
}

/// Few, so that threads contend for them.
pub(crate) const BLOCK: u32 = 2;

/// Of each kind, and as few as will do.
pub(crate) const SMALLEST_SEGMENT: u32 = 2;
pub(crate) const LARGEST_SEGMENT: u32 = 4;
pub(crate) const SEGMENTS: usize = 100;

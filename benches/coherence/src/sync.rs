//! The crate's `sync`, with a cell whose accesses are recorded.

#[path = "../../../src/sync/lock.rs"]
mod lock;
#[path = "../../../src/sync/parker.rs"]
mod parker;
#[path = "../../../src/sync/thread_id.rs"]
mod thread_id;

pub(crate) use lock::{lock, unpoisoned};
pub(crate) use parker::Parker;
pub(crate) use std::sync::RecordedCell as UnsafeCell;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard};
pub(crate) use std::thread;
pub(crate) use std::thread_local as thread_static;
pub(crate) use thread_id::thread_id;

#[inline(always)]
pub(crate) fn fence_between_seq_cst() {}

pub(crate) const fn limit(most: usize) -> usize {
    most
}

//! The standard library's primitives, and the limits that models replace by smaller ones.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard};
pub(crate) use std::{thread, thread_local as thread_static};

pub(crate) use super::cell::UnsafeCell;
pub(crate) use super::lock::{lock, unpoisoned};
pub(crate) use super::parker::Parker;
pub(crate) use super::thread_id::thread_id;

/// Does nothing here. Stands between a read-modify-write and a load that are both sequentially consistent. loom and
/// shuttle treat such accesses as `AcqRel`, so in their `sync` this is a fence. The head of `engine/wakeup.rs` argues
/// that both are equivalent.
#[inline(always)]
pub(crate) fn fence_between_seq_cst() {}

/// Returns a limit of work that is done, or of things that are kept, at once. Models use a limit so small that they
/// exceed it.
pub(crate) const fn limit(max: usize) -> usize {
    max
}

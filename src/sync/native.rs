//! The standard library's primitives, and the limits that models replace by smaller ones.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
pub(crate) use std::{thread, thread_local as thread_static};

pub(crate) use super::cell::UnsafeCell;
pub(crate) use super::lock::{lock, unpoisoned};
pub(crate) use super::parker::Parker;

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

/// Number of entries in a block: a page of 4 KiB.
pub(crate) const BLOCK: u32 = 64;

/// Number of entries in the smallest segment of a slab: 64 KiB. A power of two.
pub(crate) const SMALLEST_SEGMENT: u32 = 1 << 10;
/// Number of entries in the largest segment of a slab: 4 MiB. A power of two.
pub(crate) const LARGEST_SEGMENT: u32 = 1 << 16;
/// Maximum number of segments of a slab. Together they have 2^32 entries, less one smallest segment.
pub(crate) const SEGMENTS: usize = (1 << 16) + 5;

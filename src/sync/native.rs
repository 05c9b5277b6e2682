//! The standard library's primitives, and the limits that hold outside of models.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard};
pub(crate) use std::{thread, thread_local as thread_static};

pub(crate) use super::cell::UnsafeCell;
pub(crate) use super::parker::Parker;

/// The fence between a read-modify-write and a load that are both sequentially consistent: none. loom and shuttle take such
/// accesses for `AcqRel`, so their `sync` has a fence here.
#[inline(always)]
pub(crate) fn fence_between_seq_cst() {}

/// A limit of work done or kept at once. Under loom it is so small that a model goes beyond it.
pub(crate) const fn limit(most: usize) -> usize {
    most
}

/// Entries that are taken from a slab at once: a page of 4 KiB.
pub(crate) const BLOCK: u32 = 64;

/// How many entries the smallest and the largest segment of a slab have: 64 KiB and 4 MiB of them. Powers of two.
pub(crate) const SMALLEST_SEGMENT: u32 = 1 << 10;
pub(crate) const LARGEST_SEGMENT: u32 = 1 << 16;
/// So many segments hold 2^32 entries, but for as many as the smallest has.
pub(crate) const SEGMENTS: usize = (1 << 16) + 5;

//! The standard library's primitives, the limits that models replace by smaller ones, and the ids of threads.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard};
pub(crate) use std::{thread, thread_local as thread_static};

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

/// Returns the id of the calling thread, by which an atomic word can say which thread it means. No other thread of the
/// process ever has the same. Never zero.
pub(crate) fn thread_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_static! {
        // Relaxed: the number orders no other memory.
        static ID: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    ID.with(|id| *id)
}

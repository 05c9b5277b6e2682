//! Which callbacks the calling thread is in the middle of.
//!
//! A worker that waits for stolen work may run another callback on top of one that it has not finished, so this is a
//! stack. Whoever would wait for a callback asks here first whether that callback is waiting for him.

use std::cell::Cell;
use std::ptr;

use super::entry::Entry;
use crate::sync::thread_static;

struct Frame {
    entry: *const Entry,
    /// An address that tells shards apart.
    shard: *const (),
    below: *const Frame,
}

thread_static! {
    static TOP: Cell<*const Frame> = const { Cell::new(ptr::null()) };
}

/// Runs `f` as the callback of `entry`. `f` must not unwind.
pub(crate) fn enter<S>(shard: &S, entry: &Entry, f: impl FnOnce()) {
    let frame = Frame { entry, shard: ptr::from_ref(shard).cast(), below: TOP.with(Cell::get) };
    TOP.with(|top| top.set(&frame));
    f();
    TOP.with(|top| top.set(frame.below));
}

/// Whether the calling thread is inside the callback of `entry`.
pub(crate) fn inside_entry(entry: &Entry) -> bool {
    any(|frame| ptr::eq(frame.entry, entry))
}

/// Whether the calling thread is inside a callback of this shard.
pub(crate) fn inside_shard<S>(shard: &S) -> bool {
    any(|frame| ptr::eq(frame.shard, ptr::from_ref(shard).cast()))
}

fn any(matches: impl Fn(&Frame) -> bool) -> bool {
    // A thread whose locals are gone runs no callback.
    let mut next = TOP.try_with(Cell::get).unwrap_or(ptr::null());
    // SAFETY: frames are on this thread's stack, in calls of `enter` that have not returned.
    while let Some(frame) = unsafe { next.as_ref() } {
        if matches(frame) {
            return true;
        }
        next = frame.below;
    }
    false
}

//! The callbacks that the calling thread is inside of.
//!
//! A worker that waits inside a callback for stolen work may run another callback on top of it, so this is a stack.
//! Before a thread waits for a callback, it checks that the callback is not on its own stack: such a wait would never
//! end.
//!
//! The frames are a linked list, and each lies in the stack frame of [`enter`]. A thread-local points to the topmost.

use std::cell::Cell;
use std::ptr;

use super::entry::Entry;
use crate::sync::thread_static;

/// One callback that the thread is inside of.
struct Frame {
    entry: *const Entry,
    /// The address of the shard, only compared.
    shard: *const (),
    below: *const Frame,
}

thread_static! {
    static TOP: Cell<*const Frame> = const { Cell::new(ptr::null()) };
}

/// Pops the topmost frame, also when the callback unwinds. So no frame outlives the call of [`enter`] that it lies in.
struct Guard {
    below: *const Frame,
}

impl Drop for Guard {
    fn drop(&mut self) {
        TOP.with(|top| top.set(self.below));
    }
}

/// Runs `f` as the callback of `entry`.
pub(super) fn enter<S>(shard: &S, entry: &Entry, f: impl FnOnce()) {
    let below = TOP.with(Cell::get);
    let frame = Frame { entry, shard: ptr::from_ref(shard).cast(), below };
    // The guard is declared after the frame, so it is dropped first.
    let _guard = Guard { below };
    TOP.with(|top| top.set(&frame));
    f();
}

/// Whether the calling thread is inside the callback of `entry`.
pub(super) fn inside_entry(entry: &Entry) -> bool {
    any_frame(|frame| ptr::eq(frame.entry, entry))
}

/// Whether the calling thread is inside a callback of `shard`.
pub(super) fn inside_shard<S>(shard: &S) -> bool {
    any_frame(|frame| ptr::eq(frame.shard, ptr::from_ref(shard).cast()))
}

/// Whether a frame of the calling thread matches.
fn any_frame(matches: impl Fn(&Frame) -> bool) -> bool {
    // A thread whose thread-locals are destroyed is inside no callback.
    let mut next = TOP.try_with(Cell::get).unwrap_or(ptr::null());
    // SAFETY: each frame is valid, because it lies on this thread's stack in a call of `enter` that has neither
    // returned nor unwound.
    while let Some(frame) = unsafe { next.as_ref() } {
        if matches(frame) {
            return true;
        }
        next = frame.below;
    }
    false
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::panic::{self, AssertUnwindSafe};

    use super::*;

    #[test]
    fn callbacks_nest() {
        let (outer, inner) = (Entry::new(), Entry::new());
        let shards = [1_u8, 2];
        enter(&shards[0], &outer, || {
            enter(&shards[1], &inner, || {
                assert!(inside_entry(&outer) && inside_entry(&inner) && inside_shard(&shards[0]));
            });
            assert!(inside_entry(&outer) && !inside_entry(&inner) && !inside_shard(&shards[1]));
        });
        assert!(!inside_entry(&outer) && !inside_shard(&shards[0]));
    }

    #[test]
    fn a_callback_that_unwinds_is_popped() {
        let (outer, inner) = (Entry::new(), Entry::new());
        enter(&0_u8, &outer, || {
            let unwinds = || enter(&0_u8, &inner, || panic::resume_unwind(Box::new("unwinds")));
            assert!(panic::catch_unwind(AssertUnwindSafe(unwinds)).is_err());
            assert!(inside_entry(&outer) && !inside_entry(&inner));
        });
        assert!(!inside_entry(&outer));
    }
}

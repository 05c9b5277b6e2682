//! Which callbacks the calling thread is inside of.
//!
//! A worker that waits for stolen work may run another callback on top of one that it has not finished, so this is a
//! stack. Before a thread waits for a callback, it asks here whether that callback is on its own stack.

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

/// Takes the topmost frame off, also where its callback unwinds: no frame outlives the call that it lies in.
struct Guard {
    below: *const Frame,
}

impl Drop for Guard {
    fn drop(&mut self) {
        TOP.with(|top| top.set(self.below));
    }
}

/// Runs `f` as the callback of `entry`.
pub(crate) fn enter<S>(shard: &S, entry: &Entry, f: impl FnOnce()) {
    let below = TOP.with(Cell::get);
    let frame = Frame { entry, shard: ptr::from_ref(shard).cast(), below };
    // Declared after the frame, so dropped before it.
    let _guard = Guard { below };
    TOP.with(|top| top.set(&frame));
    f();
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
    // SAFETY: frames lie on this thread's stack, in calls of `enter` that have neither returned nor unwound.
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
    fn frames_lie_on_top_of_each_other() {
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
    fn a_callback_that_unwinds_is_left() {
        let (outer, inner) = (Entry::new(), Entry::new());
        enter(&0_u8, &outer, || {
            let unwinds = || enter(&0_u8, &inner, || panic::resume_unwind(Box::new("unwinds")));
            assert!(panic::catch_unwind(AssertUnwindSafe(unwinds)).is_err());
            assert!(inside_entry(&outer) && !inside_entry(&inner));
        });
        assert!(!inside_entry(&outer));
    }
}

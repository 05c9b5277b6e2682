//! The callbacks that the calling thread is inside of.
//!
//! A worker that waits inside a callback for stolen work may run another callback on top of it, so this is a stack.
//! Before a thread waits for a callback, it checks that the callback is not on its own stack: such a wait would never
//! end.
//!
//! The *call frames* are a linked list, and each lies on the stack in a call of [`enter`]. A thread-local points to the
//! topmost.

use std::cell::Cell;
use std::{iter, ptr};

use super::core::Core;
use super::entry::Entry;
use crate::sync::thread_static;

thread_static! {
    static TOP: Cell<*const CallFrame> = const { Cell::new(ptr::null()) };
}

/// One callback that the thread is inside of.
struct CallFrame {
    entry: *const Entry,
    core: *const Core,
    below: *const CallFrame,
}

impl Drop for CallFrame {
    /// Pops the call frame, also when the callback unwinds. So none outlives the call of [`enter`] that it lies in.
    fn drop(&mut self) {
        TOP.with(|top| top.set(self.below));
    }
}

/// Runs `f` as the callback of `entry`.
#[inline(always)]
pub(crate) fn enter(core: &Core, entry: &Entry, f: impl FnOnce()) {
    let frame = CallFrame { entry, core, below: TOP.with(Cell::get) };
    TOP.with(|top| top.set(&frame));
    f();
}

/// Returns whether the calling thread is inside the callback of `entry`.
pub(super) fn inside_entry(entry: &Entry) -> bool {
    any_frame(|frame| ptr::eq(frame.entry, entry))
}

/// Returns whether the calling thread is inside a callback of the shard of `core`.
pub(crate) fn inside_shard(core: &Core) -> bool {
    any_frame(|frame| ptr::eq(frame.core, core))
}

/// Returns whether the calling thread is inside any callback.
pub(crate) fn inside_any() -> bool {
    any_frame(|_| true)
}

/// Returns whether a call frame of the calling thread matches.
fn any_frame(matches: impl Fn(&CallFrame) -> bool) -> bool {
    // A thread whose thread-locals are destroyed is inside no callback.
    let top = TOP.try_with(Cell::get).unwrap_or(ptr::null());
    // SAFETY: each call frame is valid, because it lies on this thread's stack in a call of `enter` that has neither
    // returned nor unwound.
    let mut frames = iter::successors(unsafe { top.as_ref() }, |frame| unsafe { frame.below.as_ref() });
    frames.any(matches)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::panic::{self, AssertUnwindSafe};

    use super::*;
    use crate::engine::memory::Slab;
    use crate::engine::wakeup::DriverWakeup;

    fn core() -> Core {
        Core::new(Slab::new().unwrap(), u64::MAX, 0, DriverWakeup::alone())
    }

    #[test]
    fn callbacks_nest() {
        let (outer, inner) = (Entry::new(), Entry::new());
        let shards = [core(), core()];
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
        let core = core();
        let outer = Entry::new();
        let inner = Entry::new();
        enter(&core, &outer, || {
            let unwinds = || enter(&core, &inner, || panic::resume_unwind(Box::new("unwinds")));
            assert!(panic::catch_unwind(AssertUnwindSafe(unwinds)).is_err());
            assert!(inside_entry(&outer) && !inside_entry(&inner));
        });
        assert!(!inside_entry(&outer));
    }
}

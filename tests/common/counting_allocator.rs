//! The system's allocator, which counts bytes. The tests of a binary with this module run one at a time, in [`alone`].

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicIsize, Ordering};

struct Counting;

/// Number of allocated bytes.
pub static ALLOCATED: AtomicIsize = AtomicIsize::new(0);
/// Maximum number of allocated bytes since a test has set it.
pub static PEAK: AtomicIsize = AtomicIsize::new(0);

thread_local! {
    /// Number of bytes ever allocated by the calling thread. It has no destructor, so it can be read until the thread
    /// has ended.
    pub static ALLOCATED_HERE: Cell<usize> = const { Cell::new(0) };
}

fn count(layout: Layout) {
    let size = layout.size() as isize;
    PEAK.fetch_max(ALLOCATED.fetch_add(size, Ordering::Relaxed) + size, Ordering::Relaxed);
    ALLOCATED_HERE.set(ALLOCATED_HERE.get() + layout.size());
}

// SAFETY: every call is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout);
        // SAFETY: the caller upholds the contract of this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout);
        // SAFETY: the caller upholds the contract of this function.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of this function.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs a test while no other runs.
pub fn alone<R>(test: impl FnOnce() -> R) -> R {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    test()
}

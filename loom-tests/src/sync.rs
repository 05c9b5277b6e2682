//! The primitives of the crate's `sync`, made of loom's.

use std::time::Duration;

use loom::sync::Notify;

pub(crate) use loom::cell::UnsafeCell;
pub(crate) use loom::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub(crate) use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
pub(crate) use loom::thread;

/// loom's own does not know the form with a constant.
macro_rules! thread_static {
    (static $name:ident: $type:ty = const { $init:expr };) => {
        loom::thread_local! { static $name: $type = $init; }
    };
}
pub(crate) use thread_static;

/// Has loom report each change of an atomic that is not ordered before or after this call.
pub(crate) fn access_plainly(atomic: &AtomicU64) {
    // SAFETY: that nobody changes it meanwhile is what loom checks.
    unsafe { atomic.unsync_load() };
}

/// A fence, as sequentially consistent accesses are taken for `AcqRel` here.
pub(crate) fn fence_between_seq_cst() {
    fence(Ordering::SeqCst);
}

/// So few that a model goes beyond them.
pub(crate) const fn limit(_most: usize) -> usize {
    2
}

/// Few, as every entry that exists is explored.
pub(crate) const BLOCK: u32 = 2;

/// Of each kind, and as few as will do.
pub(crate) const SMALLEST_SEGMENT: u32 = 2;
pub(crate) const LARGEST_SEGMENT: u32 = 4;
pub(crate) const SEGMENTS: usize = 6;

/// A sleep here has no end but a wake: a wake-up that is lost is a deadlock, which loom reports. Each thread that is attached
/// sleeps in a notify_of_attached of its own, and to read which one it is takes no order with it.
pub(crate) struct Parker {
    attached: AtomicUsize,
    notifies: [Notify; 4],
}

impl Parker {
    pub(crate) fn new() -> Self {
        Self { attached: AtomicUsize::new(0), notifies: [(); 4].map(|()| Notify::new()) }
    }

    pub(crate) fn attach(&self) {
        self.attached.store(self.attached.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn notify_of_attached(&self) -> &Notify {
        &self.notifies[self.attached.load(Ordering::Relaxed)]
    }

    pub(crate) fn is_attached_here(&self) -> bool {
        false
    }

    pub(crate) fn park(&self, _timeout: Option<Duration>) {
        self.notify_of_attached().wait();
    }

    pub(crate) fn unpark(&self) {
        self.notify_of_attached().notify();
    }
}

//! The crate's `sync`, built from loom's primitives.

use std::time::Duration;

use loom::sync::Notify;

pub(crate) use crate::source::sync::portable::{lock, unpoisoned};
pub(crate) use loom::cell::UnsafeCell;
pub(crate) use loom::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub(crate) use loom::sync::{Arc, Condvar, Mutex, MutexGuard};

pub(crate) mod thread {
    use loom::sync::{Arc, Notify};
    pub(crate) use loom::thread::*;

    /// A thread that sleeps on a `Notify`: loom's own `unpark` is lost on a thread that blocks on a lock before it parks.
    #[derive(Clone)]
    pub(crate) struct Thread(pub(crate) Arc<Notify>);

    impl Thread {
        pub(crate) fn unpark(&self) {
            self.0.notify();
        }
    }
}

/// loom's own macro does not support `const` initializers.
macro_rules! thread_static {
    (static $name:ident: $type:ty = const { $init:expr };) => {
        loom::thread_local! { static $name: $type = $init; }
    };
}
pub(crate) use thread_static;

/// Makes loom report each change of `atomic` that is not ordered before or after this call.
pub(crate) fn access_plainly(atomic: &AtomicU64) {
    // SAFETY: loom checks that no other thread changes it at the same time.
    unsafe { atomic.unsync_load() };
}

/// A fence, because loom treats sequentially consistent accesses as `AcqRel`.
pub(crate) fn fence_between_seq_cst() {
    fence(Ordering::SeqCst);
}

/// Replaces each limit by one that a model exceeds.
pub(crate) const fn limit(_most: usize) -> usize {
    2
}

/// Parks a thread without a timeout, so a lost wake-up is a deadlock, which loom reports.
///
/// Each attached thread parks on a `Notify` of its own. The number of the attached thread orders nothing.
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

/// Returns a number of the calling thread.
pub(crate) fn thread_id() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    thread_static! {
        static NUMBER: u64 = const { NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed) };
    }
    NUMBER.with(|number| *number)
}

//! A parker whose thread may change.
//!
//! [`std::thread::park`] parks the calling thread, and its handle unparks it. A driver may change threads, so a caller
//! cannot keep that handle. The thread that is about to park [attaches](Parker::attach) itself, and a caller unparks
//! the thread that is attached.
//!
//! A handle is kept until the parker is dropped. So a caller may still use the pointer that it has loaded when another
//! thread attaches. The handles are at most as many as the threads that ever parked here.

use std::ptr;
use std::time::Duration;

use crate::sync::thread::{self, Thread};
use crate::sync::{Arc, AtomicPtr, Mutex, Ordering, lock};

/// Parks one thread at a time. Any other thread may unpark it. An `unpark` that comes before the `park` ends it at
/// once.
#[derive(Debug)]
pub(crate) struct Parker {
    /// The attached thread, or null. Points into `threads`.
    attached: AtomicPtr<Thread>,
    /// All threads that were ever attached. None is removed before the drop.
    threads: Mutex<Vec<Arc<Thread>>>,
}

impl Parker {
    pub(crate) fn new() -> Self {
        Self { attached: AtomicPtr::new(ptr::null_mut()), threads: Mutex::new(Vec::new()) }
    }

    /// Makes the calling thread the one that parks here. An `unpark` that is not ordered after this call may unpark the
    /// thread that was attached before.
    pub(crate) fn attach(&self) {
        if self.is_attached_here() {
            return;
        }
        let this = thread::current();
        let mut threads = lock(&self.threads);
        let known = threads.iter().position(|thread| thread.id() == this.id());
        let index = known.unwrap_or_else(|| {
            threads.push(Arc::new(this));
            threads.len() - 1
        });
        // Release: publishes the handle to the thread that calls `unpark`; pairs with `attached`.
        self.attached.store(Arc::as_ptr(&threads[index]).cast_mut(), Ordering::Release);
    }

    /// Whether the calling thread is the one that is attached.
    pub(crate) fn is_attached_here(&self) -> bool {
        self.attached().is_some_and(|thread| thread.id() == thread::current().id())
    }

    /// Parks the calling thread, which must be attached, until an `unpark` or the timeout. May return spuriously.
    pub(crate) fn park(&self, timeout: Option<Duration>) {
        match timeout {
            Some(timeout) => thread::park_timeout(timeout),
            None => thread::park(),
        }
    }

    /// Unparks the attached thread. Wait-free: a swap, and a system call if the thread is asleep.
    pub(crate) fn unpark(&self) {
        if let Some(thread) = self.attached() {
            thread.unpark();
        }
    }

    /// Returns the attached thread.
    fn attached(&self) -> Option<&Thread> {
        // Acquire: pairs with `attach`.
        // SAFETY: the pointer is null or valid, because `threads` keeps an `Arc` of the handle until `self` is dropped.
        // No thread writes to the handle.
        unsafe { self.attached.load(Ordering::Acquire).as_ref() }
    }
}

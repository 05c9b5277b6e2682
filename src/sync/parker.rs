//! The sleep of one thread at a time.

use std::ptr;
use std::time::Duration;

use crate::sync::thread::{self, Thread};
use crate::sync::{Arc, AtomicPtr, Mutex, Ordering};

/// Where one thread sleeps and any other wakes it. A `wake` that comes before the `sleep` ends it at once.
#[derive(Debug)]
pub(crate) struct Parker {
    /// The one that sleeps here now.
    attached: AtomicPtr<Thread>,
    /// All that have ever slept here. Nothing is taken out before the drop.
    threads: Mutex<Vec<Arc<Thread>>>,
}

impl Parker {
    pub(crate) fn new() -> Self {
        Self { attached: AtomicPtr::new(ptr::null_mut()), threads: Mutex::new(Vec::new()) }
    }

    /// Makes the calling thread the one that sleeps here. A `wake` that is not ordered after this call may wake the one
    /// before.
    pub(crate) fn attach(&self) {
        let this = thread::current();
        let mut threads = self.threads.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let known = threads.iter().position(|thread| thread.id() == this.id());
        let index = known.unwrap_or_else(|| {
            threads.push(Arc::new(this));
            threads.len() - 1
        });
        // Release: publishes the thread to `wake`.
        self.attached.store(Arc::as_ptr(&threads[index]).cast_mut(), Ordering::Release);
    }

    /// Whether the calling thread is the one that sleeps here.
    pub(crate) fn is_attached_here(&self) -> bool {
        self.attached().is_some_and(|thread| thread.id() == thread::current().id())
    }

    /// Sleeps until woken, for `timeout` at the most, or shorter for no reason at all.
    pub(crate) fn park(&self, timeout: Option<Duration>) {
        match timeout {
            Some(timeout) => thread::park_timeout(timeout),
            None => thread::park(),
        }
    }

    /// Wakes the sleeper. Wait-free: a swap, and a system call if it is asleep.
    pub(crate) fn unpark(&self) {
        if let Some(thread) = self.attached() {
            thread.unpark();
        }
    }

    fn attached(&self) -> Option<&Thread> {
        // Acquire: pairs with `attach`. SAFETY: it is null, or points to what `self` has a reference to until its drop, and
        // that nothing writes to.
        unsafe { self.attached.load(Ordering::Acquire).as_ref() }
    }
}

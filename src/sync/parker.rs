//! A parker for a thread that is known only once it runs.
//!
//! [`std::thread::park`] parks the calling thread, and its handle unparks it. The thread that will park here
//! [attaches](Parker::attach) itself first.

use std::sync::OnceLock;
use std::time::Duration;

use crate::sync::thread::{self, Thread};

/// Parks one thread. Any other thread may unpark it. An `unpark` that comes before the `park` ends it at once.
pub(crate) struct Parker(OnceLock<Thread>);

impl Parker {
    pub(crate) fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Makes the calling thread the one that parks here. No other thread may have attached itself.
    pub(crate) fn attach(&self) {
        self.0.get_or_init(thread::current);
    }

    /// Returns whether the calling thread is the one that is attached.
    pub(crate) fn is_attached_here(&self) -> bool {
        self.0.get().is_some_and(|thread| thread.id() == thread::current().id())
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
        if let Some(thread) = self.0.get() {
            thread.unpark();
        }
    }
}

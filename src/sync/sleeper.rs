//! The sleep of one thread.

use std::sync::OnceLock;
use std::time::Duration;

use super::thread::{self, Thread};

/// Where one thread sleeps and any other wakes it. A `wake` that comes before the `sleep` ends it at once.
#[derive(Debug, Default)]
pub(crate) struct Sleeper(OnceLock<Thread>);

impl Sleeper {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Makes the calling thread the one that sleeps here. Nobody may call `wake` before.
    pub(crate) fn attach(&self) {
        self.0.get_or_init(thread::current);
    }

    /// Whether the calling thread is the one that sleeps here.
    pub(crate) fn is_attached_here(&self) -> bool {
        self.0.get().is_some_and(|thread| thread.id() == thread::current().id())
    }

    /// Sleeps until woken, for `timeout` at the most, or shorter for no reason at all.
    pub(crate) fn sleep(&self, timeout: Option<Duration>) {
        match timeout {
            Some(timeout) => thread::park_timeout(timeout),
            None => thread::park(),
        }
    }

    /// Wakes the sleeper. Wait-free: a swap, and a system call if it is asleep.
    pub(crate) fn wake(&self) {
        if let Some(thread) = self.0.get() {
            thread.unpark();
        }
    }
}

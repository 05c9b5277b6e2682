//! Makes the process run short of threads or memory during some calls of a program.

use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resource {
    /// `build` may fail.
    Threads,
    /// `schedule` may fail.
    Memory,
}

/// Limits a resource; `None` removes every limit.
type Set = Box<dyn Fn(Option<Resource>) + Send + Sync>;

#[derive(Default)]
pub struct Shortage {
    /// `None`: nothing is limited.
    set: Option<Set>,
    memory_is_short: AtomicBool,
}

/// Ends a shortage when dropped, also during a panic.
struct EndOnDrop<'a>(&'a Shortage);

impl Shortage {
    pub fn new(set: impl Fn(Option<Resource>) + Send + Sync + 'static) -> Self {
        Self { set: Some(Box::new(set)), memory_is_short: AtomicBool::new(false) }
    }

    /// Calls `f` while the process is short of `resource`.
    pub fn during<R>(&self, resource: Resource, f: impl FnOnce() -> R) -> R {
        let Some(set) = &self.set else { return f() };
        set(Some(resource));
        let _end = EndOnDrop(self);
        self.memory_is_short.store(resource == Resource::Memory, Ordering::SeqCst);
        f()
    }

    pub fn may_refuse_threads(&self) -> bool {
        self.set.is_some()
    }

    pub fn is_memory_short(&self) -> bool {
        self.memory_is_short.load(Ordering::SeqCst)
    }
}

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.memory_is_short.store(false, Ordering::SeqCst);
        if let Some(set) = &self.0.set {
            set(None);
        }
    }
}

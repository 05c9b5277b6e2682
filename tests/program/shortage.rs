//! What the process runs short of while a program is played.

use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lack {
    /// A timer may not be built.
    OfThreads,
    /// A timer may not be accepted.
    OfMemory,
}

/// Sets what the process lacks.
type Set = Box<dyn Fn(Option<Lack>) + Send + Sync>;

#[derive(Default)]
pub struct Shortage {
    /// `None`: there is plenty of all.
    set: Option<Set>,
    of_memory: AtomicBool,
}

/// Ends a shortage, also when the program has failed.
struct Ends<'a>(&'a Shortage);

impl Shortage {
    pub fn new(set: impl Fn(Option<Lack>) + Send + Sync + 'static) -> Self {
        Self { set: Some(Box::new(set)), of_memory: AtomicBool::new(false) }
    }

    /// Does something while the process lacks something.
    pub fn during<R>(&self, lack: Lack, f: impl FnOnce() -> R) -> R {
        let Some(set) = &self.set else { return f() };
        set(Some(lack));
        let _ends = Ends(self);
        self.of_memory.store(lack == Lack::OfMemory, Ordering::SeqCst);
        f()
    }

    pub fn may_refuse_threads(&self) -> bool {
        self.set.is_some()
    }

    pub fn is_of_memory(&self) -> bool {
        self.of_memory.load(Ordering::SeqCst)
    }
}

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.of_memory.store(false, Ordering::SeqCst);
        self.0.set.iter().for_each(|set| set(None));
    }
}

//! `ProgramWaker`: the bell that wakes the loop of a program which drives a shard.
//!
//! The loop asks until when it may sleep, and [arms](ProgramWaker::rearm) its waker before. A thread that then sets
//! something earlier takes the waker out and calls it: once for each answer, however many threads come. If no waker is set
//! yet, that thread leaves a note, and the waker that is set next is called at once.
//!
//! The thread of the loop calls no waker: it asks again before it sleeps. Loom model `program`.

use std::ptr;
use std::task::Waker;

use super::alarm::Bell;
use crate::sync::{AtomicBool, AtomicPtr, AtomicU64, Mutex, Ordering, lock, thread_id};

/// The waker of a program's loop. Any thread may call it.
pub(crate) struct ProgramWaker {
    /// The id of the thread that has the loop, or zero.
    thread: AtomicU64,
    /// A boxed waker, null, or `CALLED`. Threads that arm timers use this alone: they take no lock.
    armed: AtomicPtr<Waker>,
    /// It was called for chores, and the loop has not driven and asked since.
    was_lazy: AtomicBool,
    /// The waker that was set last.
    waker: Mutex<Option<Waker>>,
}

/// In place of a waker: it was called, or would have been.
const CALLED: *mut Waker = ptr::dangling_mut();

impl ProgramWaker {
    pub(super) fn new() -> Self {
        Self {
            thread: AtomicU64::new(0),
            armed: AtomicPtr::new(ptr::null_mut()),
            was_lazy: AtomicBool::new(false),
            waker: Mutex::new(None),
        }
    }

    /// Makes the calling thread the one that has the loop.
    pub(crate) fn attach(&self) {
        // Relaxed: only a thread's own id matters to it. One that finds its old id has pushed before the fence
        // of the next sleep, which sees the push.
        self.thread.store(thread_id(), Ordering::Relaxed);
    }

    /// Returns whether the calling thread is the one that has the loop.
    pub(crate) fn is_here(&self) -> bool {
        self.thread.load(Ordering::Relaxed) == thread_id()
    }

    /// Returns whether a waker is set.
    pub(crate) fn is_set(&self) -> bool {
        lock(&self.waker).is_some()
    }

    /// Calls the waker, but once until the loop drives, and not on the calling thread. Wait-free, except for the waker.
    pub(super) fn ring_lazily(&self) {
        // Relaxed: the caller's fence orders it like the shard's `wake_tick`. Loom model `program`.
        if !self.is_here() && !self.was_lazy.swap(true, Ordering::Relaxed) {
            self.ring();
        }
    }

    /// Calls the waker on any thread, even if it was called before.
    pub(super) fn ring_anyway(&self) {
        self.replace(CALLED);
        let waker = lock(&self.waker).clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Sets the waker. Calls it if the last one was called since it was armed, or would have been.
    pub(crate) fn set(&self, waker: &Waker) {
        let old = lock(&self.waker).replace(waker.clone());
        // Unless another thread has called it in between.
        if self.arm(Some(waker.clone())) {
            self.ring();
        }
        drop(old);
    }

    /// Makes the next wake-up call the waker. The loop must then look at everything before it sleeps. `has_driven`: it has
    /// driven since the last call.
    pub(crate) fn rearm(&self, has_driven: bool) {
        // Relaxed: the thread of the loop reads what it wrote, or `CALLED`, after which it looks at everything. Loom
        // model `program`.
        if self.armed.load(Ordering::Relaxed) == CALLED {
            let waker = lock(&self.waker).clone();
            self.arm(waker);
        }
        if has_driven {
            // Relaxed: a thread that still finds the mark has a fence before the look of the loop, which sees its work. One
            // that does not finds the waker armed. Loom model `program`.
            self.was_lazy.swap(false, Ordering::Relaxed);
        }
    }

    /// Removes the waker.
    pub(crate) fn remove(&self) {
        let old = lock(&self.waker).take();
        self.arm(None);
        drop(old);
    }

    /// Returns whether `CALLED` was here.
    fn arm(&self, waker: Option<Waker>) -> bool {
        self.replace(waker.map_or(ptr::null_mut(), |waker| Box::into_raw(Box::new(waker)))).1
    }

    /// Returns the waker that was armed, and whether `CALLED` was here instead.
    fn replace(&self, new: *mut Waker) -> (Option<Waker>, bool) {
        // Release: publishes the waker to the thread that takes it out, and what that thread wrote before to the loop,
        // by `CALLED`. Acquire: pairs with it. Loom model `program`.
        let old = self.armed.swap(new, Ordering::AcqRel);
        if old.is_null() || old == CALLED {
            return (None, old == CALLED);
        }
        // SAFETY: we own the box, because the swap has taken the only pointer to it, which `arm` made.
        (Some(*unsafe { Box::from_raw(old) }), false)
    }
}

impl Bell for ProgramWaker {
    /// Calls the waker, unless it was called since it was armed. Wait-free, except for the waker itself.
    fn ring(&self) {
        if let (Some(waker), _) = self.replace(CALLED) {
            waker.wake();
        }
    }
}

impl Drop for ProgramWaker {
    fn drop(&mut self) {
        self.remove();
    }
}

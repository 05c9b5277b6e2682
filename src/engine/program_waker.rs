//! `ProgramWaker`: wakes the loop of a program that drives a shard.
//!
//! The loop asks until when it may sleep, and [rearms](ProgramWaker::rearm) its waker. A thread that then arms something
//! earlier takes the waker out and calls it: once for each answer, however many threads come. If no waker is set yet,
//! that thread leaves a note, and the waker that is set next is called at once.
//!
//! The thread of the loop wakes nobody: it asks again before it sleeps. Loom model `program`.

use std::ptr;
use std::task::Waker;

use super::alarm::AWAKE;
use crate::sync::{AtomicPtr, AtomicU64, Mutex, Ordering, lock, thread_id};

/// The waker of a program's loop. Any thread may call it.
pub(crate) struct ProgramWaker {
    /// The id of the thread that has the loop, or zero.
    thread: AtomicU64,
    /// `DRIVES`, `SLEEPS` or `WOKEN`.
    state: AtomicU64,
    /// A boxed waker, null, or `CALLED`. Threads that arm timers use this alone: they take no lock.
    armed: AtomicPtr<Waker>,
    /// Tick before which no deadline wakes the loop: see [`gate`](super::gate).
    floor: AtomicU64,
    /// Tick by which the loop asks again by itself.
    asks_by: AtomicU64,
    /// The waker that was set last.
    waker: Mutex<Option<Waker>>,
}

/// The loop has driven, and has not asked how long it may sleep since.
const DRIVES: u64 = 0;
/// It has asked, and has not driven since.
const SLEEPS: u64 = 1;
/// The same, and it was woken for work that is not urgent.
const WOKEN: u64 = 2;

/// In place of a waker: it was called, or would have been.
const CALLED: *mut Waker = ptr::dangling_mut();

impl ProgramWaker {
    pub(super) fn new() -> Self {
        Self {
            thread: AtomicU64::new(0),
            state: AtomicU64::new(DRIVES),
            armed: AtomicPtr::new(ptr::null_mut()),
            floor: AtomicU64::new(0),
            asks_by: AtomicU64::new(u64::MAX),
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

    /// Returns whether a caller that has lowered the shard's wake tick from `before` to `tick` need not call the waker: the
    /// loop comes by its floor, or asks again by then.
    pub(super) fn comes_by(&self, tick: u64, before: u64) -> bool {
        // Relaxed: a caller that finds an old word has written before the fence of the next answer, which takes that into
        // account. Before a newer word, the loop has looked at everything. Loom model `program`.
        tick != AWAKE && (before <= self.floor.load(Ordering::Relaxed) || tick >= self.asks_by.load(Ordering::Relaxed))
    }

    /// Returns whether a waker is set.
    pub(crate) fn is_set(&self) -> bool {
        lock(&self.waker).is_some()
    }

    /// Records that the loop asks again by the tick `asks_by`, until it has [rearmed](Self::rearm) the waker.
    pub(crate) fn ask_by(&self, asks_by: u64) {
        self.asks_by.store(asks_by, Ordering::Relaxed);
    }

    /// Calls the waker, unless the loop is awake, or on the calling thread. Wait-free, except for the waker itself.
    pub(super) fn wake(&self) {
        // Relaxed: ordered as the shard's `wake_tick` is, by the fences of the caller and of `fall_asleep`, or by the
        // lock of the driver cell.
        if self.state.load(Ordering::Relaxed) != DRIVES && !self.is_here() {
            self.call();
        }
    }

    /// The same, but once until the loop drives.
    pub(super) fn wake_lazily(&self) {
        // Acquire: finds the waker that the loop has armed; pairs with `rearm`. By argument.
        if !self.is_here() && self.state.compare_exchange(SLEEPS, WOKEN, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            self.call();
        }
    }

    /// Calls the waker on any thread, even if it was called before.
    pub(super) fn wake_anyway(&self) {
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
            self.call();
        }
        drop(old);
    }

    /// Calls the waker, unless it was called since it was armed.
    fn call(&self) {
        if let (Some(waker), _) = self.replace(CALLED) {
            waker.wake();
        }
    }

    /// The loop is awake: it calls `rearm` before it sleeps.
    pub(crate) fn set_awake(&self) {
        self.state.swap(DRIVES, Ordering::Relaxed);
    }

    /// The loop is about to sleep, at least until the tick `floor` if nothing is due at once: makes the next wake-up call the
    /// waker. Returns whether it was called since.
    pub(crate) fn rearm(&self, floor: u64) -> bool {
        self.floor.store(floor, Ordering::Relaxed);
        self.asks_by.store(u64::MAX, Ordering::Relaxed);
        // Relaxed: the thread of the loop reads what it wrote, or `CALLED`, after which it looks at everything. Loom
        // model `program`.
        let was_called = self.armed.load(Ordering::Relaxed) == CALLED;
        if was_called {
            let waker = lock(&self.waker).clone();
            self.arm(waker);
        }
        // Release: after the waker is armed; pairs with `wake_lazily`. By argument.
        _ = self.state.compare_exchange(DRIVES, SLEEPS, Ordering::Release, Ordering::Relaxed);
        was_called
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

impl Drop for ProgramWaker {
    fn drop(&mut self) {
        self.remove();
    }
}

//! What the caller of `schedule` holds in his hand.

use std::fmt;
use std::mem::{self, ManuallyDrop};
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::clock::Deadline;
use crate::engine::entry::Entry;
use crate::shard::{RawHandle, Shard};

/// One scheduled timer: to cancel it, to move it, to ask after it.
///
/// Dropping the handle detaches it: the timer still fires. [`cancel_on_drop`](Self::cancel_on_drop) makes a guard of it
/// that cancels instead. A handle outlives its timer, and the [`Timer`](crate::Timer), without harm: all it says then is
/// that the timer has ended. It keeps the memory of its shard from being freed, though. In the child of a fork, it says of
/// a timer of the parent that it has ended; see [`Timer`](crate::Timer#fork).
///
/// A handle can be shared by any number of threads. Of all that try to end a timer at the same time (cancels, the
/// firing itself, a shutdown), exactly one does. No method but [`cancel_and_wait`](Self::cancel_and_wait) takes a lock
/// or waits for another thread.
///
/// ```
/// use corewheel::Timer;
/// use std::time::Duration;
///
/// let timer = Timer::new()?;
/// let timeout = timer.schedule(Duration::from_secs(30), || eprintln!("no answer in 30 s"))?;
/// assert!(timeout.reset(Duration::from_secs(60)), "it was pending, and is due in 60 s");
/// assert!(timeout.cancel(), "this call ended it");
/// assert!(!timeout.cancel(), "it had ended already");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TimerHandle {
    raw: RawHandle,
    /// The deadline last asked for by this handle, in nanoseconds: the entry has only its tick.
    exact: AtomicU64,
}

// SAFETY: a handle gives access to its entry by moves on its atomic word, and to its shard, which is `Sync`.
unsafe impl Send for TimerHandle {}
// SAFETY: as above.
unsafe impl Sync for TimerHandle {}

impl TimerHandle {
    /// # Safety
    /// The lease must come from [`Shard::schedule`], and not be used for another handle.
    #[inline]
    pub(crate) unsafe fn new(raw: RawHandle, deadline: Deadline) -> Self {
        Self { raw, exact: AtomicU64::new(deadline.exact) }
    }

    #[inline]
    fn parts(&self) -> (&Shard, &Entry) {
        // SAFETY: a lease keeps its entry and its shard in memory.
        unsafe { (self.raw.shard.as_ref(), self.raw.entry.as_ref()) }
    }

    /// Ends the timer: its callback will not run, or, if it repeats, not run again.
    ///
    /// Returns true if this call ended it; false if it had fired, been cancelled or been shut down. The closure is
    /// dropped here, by the calling thread. (But a repeating callback that is running completes its run first, and is
    /// dropped then, by the thread that runs it.) If the drop of the closure panics, the panic is caught, counted, and
    /// given to [`on_panic`](crate::Builder::on_panic).
    ///
    /// Lock-free, in constant time. When the handle is dropped, the memory of a cancelled timer is kept for the next one
    /// of this thread; what is too much for one thread can be used by others at once.
    #[inline]
    pub fn cancel(&self) -> bool {
        let (shard, entry) = self.parts();
        shard.cancel(entry)
    }

    /// Moves the deadline to `delay` from now. Returns true if the timer was pending, and is now due then; it will not
    /// run at the old deadline. False if it had ended: nothing is done then.
    ///
    /// A repeating timer runs next at the new deadline, also if this is called during a run, and a fixed rate counts on
    /// from there: from the new deadline rounded up to a tick, or as before if it is due at that tick anyway. A delay too
    /// long to represent means never.
    ///
    /// Lock-free, in constant time. To move a deadline later costs one atomic step and disturbs no other thread.
    #[inline]
    pub fn reset(&self, delay: Duration) -> bool {
        self.move_to(self.parts().0.ticks.after(delay))
    }

    /// As [`reset`](Self::reset), to an instant. One that has passed means now.
    #[inline]
    pub fn reset_at(&self, deadline: Instant) -> bool {
        self.move_to(self.parts().0.ticks.at(deadline))
    }

    #[inline]
    fn move_to(&self, deadline: Deadline) -> bool {
        let (shard, entry) = self.parts();
        let moved = shard.reset(entry, self.raw.index(), deadline);
        if moved {
            // Relaxed: shown only where it agrees with the tick in the entry.
            self.exact.store(deadline.exact, Ordering::Relaxed);
        }
        moved
    }

    /// As [`cancel`](Self::cancel); and when it returns, the callback is not running and will not run, whoever ended
    /// the timer; and its closure has been dropped, unless a `shutdown` has handed it back, or another thread that has
    /// cancelled it at the same time is about to drop it.
    ///
    /// Called from inside that very callback it does not wait. If the callback is running, this blocks until it
    /// returns: two callbacks that wait for each other wait forever. So does a callback that waits for work which it has
    /// given to another thread, such as the other half of a [`rayon::join`](crate::rayon::join), if this is called there
    /// for that callback's own timer: as the promise holds on any thread, the call waits. [`cancel`](Self::cancel) never
    /// does.
    pub fn cancel_and_wait(&self) -> bool {
        let cancelled = self.cancel();
        let (shard, entry) = self.parts();
        shard.wait_for_run(entry);
        cancelled
    }

    /// Cancels the timer and drops the handle: as [`cancel`](Self::cancel) followed by a drop, but with one atomic step
    /// instead of two. The drop of [`CancelOnDrop`] does the same.
    ///
    /// A repeating timer, and one under [`max_pending`](crate::Builder::max_pending), takes both steps.
    ///
    /// ```
    /// # let timer = corewheel::Timer::new()?;
    /// # use std::time::Duration;
    /// let timeout = timer.schedule(Duration::from_secs(30), || eprintln!("no answer in 30 s"))?;
    /// // The answer has come.
    /// assert!(timeout.cancel_and_drop(), "the timer had not fired");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn cancel_and_drop(self) -> bool {
        // SAFETY: by the contract of `new`, this is the one handle of the lease. Its drop does not run, as nothing in between
        // unwinds.
        let cancelled = unsafe { Shard::cancel_and_release(&self.raw) };
        mem::forget(self);
        cancelled
    }

    /// Whether the timer has not ended. That of a one-shot ends when its callback starts; a repeating one is pending
    /// also while it runs.
    #[inline]
    pub fn is_pending(&self) -> bool {
        let (shard, entry) = self.parts();
        shard.is_pending(entry)
    }

    /// When the timer is due, or `None` if it has ended. For a repeating timer during a run: when that run was due,
    /// unless it was reset since.
    ///
    /// This is the instant that was asked for where this handle knows it, and otherwise, as for the later runs of a
    /// repeating timer, the tick it was rounded up to. A delay was counted from the time of the call, or from up to 20 µs
    /// after it: see [`Timer::schedule`](crate::Timer::schedule). A timer that is never due shows an instant a hundred
    /// years ahead.
    pub fn deadline(&self) -> Option<Instant> {
        let (shard, entry) = self.parts();
        let tick = shard.deadline(entry)?;
        Some(shard.ticks.display_deadline(tick, self.exact.load(Ordering::Relaxed)))
    }

    /// Makes a guard of the handle that cancels the timer when it is dropped.
    #[inline]
    pub fn cancel_on_drop(self) -> CancelOnDrop {
        CancelOnDrop(ManuallyDrop::new(self))
    }
}

impl Drop for TimerHandle {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: by the contract of `new`, this is the one handle of the lease.
        unsafe { Shard::release(self.raw) }
    }
}

impl fmt::Debug for TimerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerHandle").field("deadline", &self.deadline()).finish_non_exhaustive()
    }
}

/// A [`TimerHandle`] that cancels its timer when it is dropped. It can do all that a handle can.
///
/// ```
/// # let timer = corewheel::Timer::new()?;
/// # use std::time::Duration;
/// let guard = timer.schedule(Duration::from_secs(5), || eprintln!("stuck?"))?.cancel_on_drop();
/// // .. do what must not take longer than five seconds ..
/// drop(guard);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the timer is cancelled when the guard is dropped"]
pub struct CancelOnDrop(ManuallyDrop<TimerHandle>);

impl CancelOnDrop {
    /// Gives the handle back; the timer is not cancelled.
    #[inline]
    pub fn detach(self) -> TimerHandle {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: taken once, as the guard's drop does not run.
        unsafe { ManuallyDrop::take(&mut this.0) }
    }
}

impl Deref for CancelOnDrop {
    type Target = TimerHandle;

    #[inline]
    fn deref(&self) -> &TimerHandle {
        &self.0
    }
}

impl Drop for CancelOnDrop {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: by the contract of `new`, this is the one handle of the lease; its own drop does not run.
        unsafe { Shard::cancel_and_release(&self.0.raw) };
    }
}

impl fmt::Debug for CancelOnDrop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CancelOnDrop").field(&*self.0).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_small() {
        assert!(size_of::<TimerHandle>() <= 32);
    }
}

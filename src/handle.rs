//! The handle of a scheduled timer, and a guard that cancels the timer.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::clock::{Deadline, Ticks};
use crate::engine::entry::{ARMED, Entry};
use crate::shard::{RawHandle, Shard};

/// The handle of one scheduled timer: cancels it, resets it, and reports its deadline.
///
/// Dropping the handle detaches the timer, which still fires. [`cancel_on_drop`](Self::cancel_on_drop) turns the handle
/// into a guard that cancels instead.
///
/// A handle is not `Clone`; any number of threads can share it in an `Arc`. Cancels, the firing itself and a shutdown may compete to end a timer;
/// exactly one of them does. No method takes a lock or waits for another thread, except
/// [`cancel_and_wait`](Self::cancel_and_wait).
///
/// A handle may outlive its timer. It then reports that the timer has ended, and keeps the timer's 64 bytes until it is
/// dropped. So a collection of handles grows by 64 bytes and the handle for each timer that has fired, unless the program
/// removes these. A handle may also outlive the [`Timer`](crate::Timer) service: the memory of its shard stays allocated
/// until the handle is dropped. In the child of a [fork](crate::Timer#fork), the timers of the parent have ended.
///
/// ```
/// use corewheel::Timer;
/// use std::time::Duration;
///
/// let timer = Timer::new()?;
/// let timeout = timer.schedule(Duration::from_secs(30), || eprintln!("no answer in 30 s"))?;
/// assert!(timeout.reset(Duration::from_secs(60))); // it was pending, and is due in 60 s
/// assert!(timeout.cancel()); // this call ended it
/// assert!(!timeout.cancel()); // it had ended already
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TimerHandle {
    raw: RawHandle,
    /// The deadline that the last call requested, in nanoseconds: the entry has only its tick.
    exact: AtomicU64,
}

// SAFETY: a handle accesses its entry only by transitions of the atomic state word, and its shard is `Sync`.
unsafe impl Send for TimerHandle {}
// SAFETY: as above.
unsafe impl Sync for TimerHandle {}

impl TimerHandle {
    /// # Safety
    /// [`NewTimer::arm`](crate::shard::NewTimer::arm) must have returned `raw`, and no other handle may be made from it.
    #[inline]
    pub(crate) unsafe fn new(raw: RawHandle, deadline: Deadline) -> Self {
        Self { raw, exact: AtomicU64::new(deadline.exact) }
    }

    #[inline]
    fn parts(&self) -> (&Shard, &Entry) {
        // SAFETY: the raw handle keeps its entry and its shard in memory.
        unsafe { (self.raw.shard.as_ref(), self.raw.entry.as_ref()) }
    }

    /// Returns the timer, unless this is the child of a fork, in which the timers of the parent have ended.
    #[inline]
    pub(crate) fn live(&self) -> Option<(&Shard, &Entry)> {
        let (shard, entry) = self.parts();
        if shard.is_inherited() { None } else { Some((shard, entry)) }
    }

    /// Returns the deadline that the last reset gave, in nanoseconds since the timer was built, or `UNKNOWN_NANOS`.
    pub(crate) fn exact(&self) -> u64 {
        // Relaxed: it is shown only if it agrees with the tick of the deadline.
        self.exact.load(Ordering::Relaxed)
    }

    /// Returns the tick of the deadline, also after the timer has ended.
    pub(crate) fn last_tick(&self) -> u64 {
        let (shard, entry) = self.parts();
        entry.state().deadline(shard.ticks.now_tick())
    }

    /// Cancels the timer: its callback will not run, or will not run again.
    ///
    /// Returns true if this call ended the timer; false if it had fired, been cancelled or been shut down. The calling
    /// thread drops the closure. The exception is a repeating callback that is running: it completes its run, and the
    /// thread that runs it drops it. If the drop of the closure panics, the panic is caught, counted, and passed to
    /// [`on_panic`](crate::Builder::on_panic).
    ///
    /// Lock-free, in constant time. The thread that drops the handle keeps the memory for its
    /// next timer in that shard. Memory beyond what one thread keeps is available to other threads at once.
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer};
    /// use std::{sync::Arc, time::Duration};
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let request = Arc::new("a request");
    /// let captured = request.clone();
    /// let retry = timer.schedule(Duration::from_secs(1), move || println!("sending {captured} again"))?;
    /// assert!(retry.cancel());
    /// assert_eq!(Arc::strong_count(&request), 1); // the closure has been dropped
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn cancel(&self) -> bool {
        self.live().is_some_and(|(shard, entry)| shard.cancel(entry))
    }

    /// Sets a new deadline, `delay` from now, earlier or later than the old one.
    ///
    /// Returns true if the timer was pending; it then runs at the new deadline and not at the old one. Returns false,
    /// and does nothing, if the timer had ended or was shut down. A delay too long to represent means never.
    ///
    /// A repeating timer runs next at the new deadline, even if a run is in progress during this call. A fixed rate
    /// continues from there: its grid starts at the new deadline, rounded up by less than two ticks. A recurring
    /// callback receives this instant as its deadline. The new deadline also wins over the `None` by which the run in
    /// progress would end a recurring timer. If that run panics, the timer ends, although this returned true.
    ///
    /// Lock-free, in constant time. A reset to a later deadline is one atomic step
    /// that disturbs no other thread; see *Re-arming in place* in [protocols.md].
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer};
    /// use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let idle = timer.schedule(Duration::from_secs(60), || println!("idle: closing"))?;
    /// clock.advance(Duration::from_secs(59));
    /// assert!(idle.reset(Duration::from_secs(60))); // a byte has arrived
    /// clock.advance(Duration::from_secs(59));
    /// assert!(idle.is_pending());
    /// clock.advance(Duration::from_secs(1));
    /// assert!(!idle.reset(Duration::from_secs(60))); // too late: it has fired
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [protocols.md]: https://docs.rs/crate/corewheel/latest/source/docs/internals/protocols.md
    #[inline]
    pub fn reset(&self, delay: Duration) -> bool {
        self.reset_by(|ticks| ticks.after(delay))
    }

    /// Sets a new deadline. A deadline that has passed means now. Otherwise as [`reset`](Self::reset).
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer};
    /// use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let renewal = timer.schedule(Duration::from_secs(3600), || println!("renewing the lease"))?;
    /// let earlier = clock.now() + Duration::from_secs(600);
    /// assert!(renewal.reset_at(earlier));
    /// assert_eq!(renewal.deadline(), Some(earlier));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn reset_at(&self, deadline: Instant) -> bool {
        self.reset_by(|ticks| ticks.at(deadline))
    }

    #[inline]
    fn reset_by(&self, when: impl FnOnce(&Ticks) -> Deadline) -> bool {
        let (shard, entry) = self.parts();
        // Arrives while the clock is read.
        entry.prefetch();
        let deadline = when(&shard.ticks);
        let pending = !shard.is_inherited() && shard.reset(entry, self.raw.index(), deadline);
        if pending {
            // Relaxed: `deadline` uses it only if it agrees with the tick in the entry.
            self.exact.store(deadline.exact, Ordering::Relaxed);
        }
        pending
    }

    /// Cancels the timer as [`cancel`](Self::cancel) does, and waits until its callback is not running.
    ///
    /// When this returns, the timer does not run the callback and will not run it, whichever call ended the timer. The
    /// closure has been dropped, with two exceptions. A `shutdown` may have returned it to the program, which may still
    /// run it. Another thread that cancelled at the same time may be about to drop it.
    ///
    /// From inside that very callback, this does not wait. From elsewhere, it blocks until the callback returns. Two
    /// callbacks that wait for each other wait forever. So does a callback that waits for work on another thread, if
    /// that work calls this for the callback's own timer. In a rayon pool of the program, such work may be the other half
    /// of a [`rayon::join`].
    /// [`cancel`](Self::cancel) never blocks.
    ///
    /// ```
    /// let timer = corewheel::Timer::new()?;
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU32, Ordering};
    /// use std::time::Duration;
    /// let beats = Arc::new(AtomicU32::new(0));
    /// let counted = beats.clone();
    /// let heartbeat = timer.schedule_at_fixed_rate(Duration::ZERO, Duration::from_millis(1), move || {
    ///     counted.fetch_add(1, Ordering::Relaxed);
    /// })?;
    /// heartbeat.cancel_and_wait();
    /// assert_eq!(Arc::strong_count(&beats), 1); // no run is in progress, and the closure is gone
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel_and_wait(&self) -> bool {
        let cancelled = self.cancel();
        if let Some((shard, entry)) = self.live() {
            shard.core.wait_for_run(entry, None);
        }
        cancelled
    }

    /// Returns whether the timer is pending.
    ///
    /// A one-shot timer is no longer pending when its callback starts. A repeating timer is pending until it ends,
    /// including during its runs.
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer};
    /// use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let once = timer.schedule(Duration::from_secs(1), || ())?;
    /// let often = timer.schedule_at_fixed_rate(Duration::from_secs(1), Duration::from_secs(1), || ())?;
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!((once.is_pending(), often.is_pending()), (false, true));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn is_pending(&self) -> bool {
        self.live().is_some_and(|(_, entry)| entry.state().has(ARMED))
    }

    /// Returns the deadline, or `None` if the timer has ended.
    ///
    /// This is the requested instant if this handle knows it, and otherwise the tick to which it was rounded up. A
    /// handle does not know the instants of the later runs of a repeating timer. A requested delay counts from the
    /// call. A timer that is never due reports an instant a
    /// hundred years ahead.
    ///
    /// During a run of a repeating timer this is the deadline of that run, unless a reset has set another.
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer};
    /// use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let often = timer.schedule_at_fixed_rate(Duration::from_secs(1), Duration::from_secs(5), || ())?;
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!(often.deadline(), Some(clock.now() + Duration::from_secs(5)));
    /// often.cancel();
    /// assert_eq!(often.deadline(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn deadline(&self) -> Option<Instant> {
        let (shard, _) = self.live().filter(|(_, entry)| entry.state().has(ARMED))?;
        Some(shard.ticks.display_deadline(self.last_tick(), self.exact()))
    }

    /// Turns the handle into a guard that cancels the timer when it is dropped.
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer};
    /// use std::time::Duration;
    /// let timer = Timer::builder().clock(ManualClock::new()).build()?;
    /// fn handle_request() {}
    /// {
    ///     let warn = || eprintln!("the request takes over 5 s");
    ///     let _guard = timer.schedule(Duration::from_secs(5), warn)?.cancel_on_drop();
    ///     handle_request();
    /// }
    /// assert!(timer.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn cancel_on_drop(self) -> CancelOnDrop {
        CancelOnDrop(self)
    }
}

impl Drop for TimerHandle {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this is the only handle of the raw handle, by the contract of `new`.
        unsafe { Shard::release(self.raw) }
    }
}

impl fmt::Debug for TimerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerHandle").field("deadline", &self.deadline()).finish_non_exhaustive()
    }
}

/// A handle that cancels its timer when it is dropped. It dereferences to the handle.
///
/// [`TimerHandle::cancel_on_drop`] returns it, and with the feature `wall` that of its handles.
///
/// ```
/// use corewheel::{ManualClock, Timer};
/// use std::time::Duration;
/// let timer = Timer::builder().clock(ManualClock::new()).build()?;
/// use corewheel::CancelOnDrop;
///
/// struct Connection {
///     idle: CancelOnDrop, // goes with the connection
/// }
///
/// let idle = timer.schedule(Duration::from_secs(60), || println!("idle: closing"))?.cancel_on_drop();
/// let connection = Connection { idle };
/// connection.idle.reset(Duration::from_secs(60));
/// drop(connection);
/// assert!(timer.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "the timer is cancelled when the guard is dropped"]
pub struct CancelOnDrop<H: Cancel = TimerHandle>(pub(crate) H);

/// The handles of this crate.
pub trait Cancel {
    /// Cancels the timer of the handle.
    fn cancel(&self) -> bool;
}

impl Cancel for TimerHandle {
    #[inline]
    fn cancel(&self) -> bool {
        self.cancel()
    }
}

impl<H: Cancel> CancelOnDrop<H> {
    /// Returns the handle without cancelling the timer.
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer};
    /// use std::time::Duration;
    /// let timer = Timer::builder().clock(ManualClock::new()).build()?;
    /// let guard = timer.schedule(Duration::from_secs(5), || println!("committing"))?.cancel_on_drop();
    /// let handle = guard.detach();
    /// drop(handle);
    /// assert_eq!(timer.len(), 1); // still pending
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn detach(self) -> H {
        let guard = ManuallyDrop::new(self);
        // SAFETY: we own the handle, because the drop of the guard does not run.
        unsafe { ptr::read(&guard.0) }
    }
}

impl<H: Cancel> Deref for CancelOnDrop<H> {
    type Target = H;

    #[inline]
    fn deref(&self) -> &H {
        &self.0
    }
}

impl<H: Cancel> Drop for CancelOnDrop<H> {
    #[inline]
    fn drop(&mut self) {
        self.0.cancel();
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

//! What the owner of a handle does with its entry: cancel it, reset it, release it.
//!
//! Each is one transition of the entry, and what the shard must do after it. Clocks, counters and what keeps the shard's
//! memory are in `Shard`, of which the loom models have one of their own. Loom models `cancel`, `reset` and `hold`.

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use crate::clock::{Deadline, Pinned};
use crate::engine::core::Core;
use crate::engine::entry::{Cancelled, DriverNotice, Entry, Release};
use crate::shard::Shard;
use crate::shard::thread_state::{self, ThreadState};

/// The one handle of an entry. It keeps the entry, and the memory of its shard.
#[derive(Clone, Copy)]
pub(crate) struct RawHandle {
    pub(crate) shard: NonNull<Shard>,
    pub(crate) entry: NonNull<Entry>,
    /// 32 bits, in as many as a pointer has: without padding, the compiler keeps a lease in registers.
    index: usize,
}

impl RawHandle {
    #[inline]
    pub(crate) fn new(shard: NonNull<Shard>, entry: NonNull<Entry>, index: u32) -> Self {
        Self { shard, entry, index: index as usize }
    }

    #[inline]
    pub(crate) fn index(&self) -> u32 {
        self.index as u32
    }
}

impl Shard {
    /// Tells the driver of a deadline that was written while the clock was `pinned`.
    #[inline(always)]
    pub(super) fn notify_driver(
        &self,
        thread: &ThreadState,
        index: u32,
        notice: DriverNotice,
        deadline: u64,
        pinned: Option<Pinned<'_>>,
    ) {
        let tick = match notice {
            DriverNotice::None => deadline,
            _ => self.enqueue_or_wake(thread, index, notice, deadline, pinned.as_ref()),
        };
        drop(pinned);
        self.request_if_due(tick);
    }

    /// Returns the tick by which the driver looks at the entry.
    #[inline(never)]
    fn enqueue_or_wake(
        &self,
        thread: &ThreadState,
        index: u32,
        notice: DriverNotice,
        deadline: u64,
        pinned: Option<&Pinned<'_>>,
    ) -> u64 {
        if notice == DriverNotice::Enqueue {
            thread.count(|counters| &counters.enqueued);
        }
        self.core.notify_driver(index, notice, deadline, || self.ticks.pinned_tick(pinned))
    }

    /// Ends the timer. True if it had not ended before.
    #[inline]
    pub(crate) fn cancel(&self, entry: &Entry) -> bool {
        if self.is_inherited() {
            return false;
        }
        let Some(ended) = entry.cancel() else {
            return false;
        };
        self.release_permit();
        // SAFETY: this call ended the timer, and the caller has its handle.
        unsafe { self.cancelled(entry, ended) };
        true
    }

    /// What is left to do when a timer has been cancelled.
    ///
    /// # Safety
    /// The caller has done that, and has the timer's handle.
    #[inline]
    pub(super) unsafe fn cancelled(&self, entry: &Entry, Cancelled { owns_callback, dispatched }: Cancelled) {
        thread_state::with(self, |thread| thread.count(|counters| &counters.cancelled));
        if owns_callback {
            // SAFETY: it is not running, and the rest is as above.
            self.catch_panic(|| unsafe { entry.drop_callback() });
        }
        if dispatched {
            self.finish_in_flight();
        }
    }

    /// Returns when the callback is not running, unless the calling thread is inside it.
    pub(crate) fn wait_for_run(&self, entry: &Entry) {
        if !self.is_inherited() {
            self.core.wait_for_run(entry);
        }
    }

    /// Moves the deadline. True if the timer had not ended before.
    #[inline]
    pub(crate) fn reset(&self, entry: &Entry, index: u32, deadline: Deadline) -> bool {
        if self.is_inherited() {
            return false;
        }
        let (pinned, now) = self.ticks.pin(deadline.now);
        let Some(notice) = entry.reset(deadline.tick, now) else {
            return false;
        };
        thread_state::with(self, |thread| {
            self.notify_driver(thread, index, notice, deadline.tick, pinned);
            thread.count(|counters| &counters.rearmed);
        });
        true
    }

    /// Whether the timer has not ended.
    #[inline]
    pub(crate) fn is_pending(&self, entry: &Entry) -> bool {
        entry.is_armed() && !self.is_inherited()
    }

    /// The tick at which the timer is due, unless it has ended.
    pub(crate) fn deadline(&self, entry: &Entry) -> Option<u64> {
        self.is_pending(entry).then(|| entry.deadline(self.ticks.now_tick()))
    }

    /// Cancels the timer of a lease, and ends that. True if the timer had not ended before.
    ///
    /// # Safety
    /// As for [`release`](Self::release). The caller must have the lease to itself.
    #[inline(always)]
    pub(crate) unsafe fn cancel_and_release(raw: &RawHandle) -> bool {
        // SAFETY: the lease keeps its entry and its shard.
        let (shard, entry) = unsafe { (raw.shard.as_ref(), raw.entry.as_ref()) };
        // A permit is given back while the lease keeps the shard.
        // SAFETY: the caller has the lease to itself, and the entry was armed for it.
        if !shard.is_limited() && !shard.is_inherited() && unsafe { Self::cancel_and_release_at_once(raw) } {
            return true;
        }
        let cancelled = shard.cancel(entry);
        // SAFETY: by this function's contract.
        unsafe { Self::release(*raw) };
        cancelled
    }

    /// The same in one transition instead of two. False, and nothing is done, if the timer has ended, runs again and again,
    /// or is in a worker's hands; if the shard is closed; or if the thread is ending.
    ///
    /// # Safety
    /// The caller must have the lease to itself, and have armed the entry. If this is true, as for
    /// [`release`](Self::release).
    #[inline(always)]
    pub(super) unsafe fn cancel_and_release_at_once(raw: &RawHandle) -> bool {
        // SAFETY: the lease keeps the shard.
        let (shard_id, aside) = unsafe {
            let shard = raw.shard.as_ref();
            (shard.id, shard.core.slab.is_sparse(raw.index()))
        };
        let mut callback = MaybeUninit::uninit();
        let release = |thread: &mut ThreadState| {
            // A thread that is ending could not tell the shard of a panic.
            if thread.is_temporary() {
                return false;
            }
            // SAFETY: by this function's contract. From here on nothing need keep the shard. The entry is all cells: a
            // reference to it may outlive it in a call.
            let released = unsafe { raw.entry.as_ref().cancel_and_release(&mut callback) };
            if released {
                thread.count(|counters| &counters.cancelled);
                thread.keep(raw.index(), aside);
            }
            released
        };
        // SAFETY: the entry keeps the shard until `release` ends that.
        let released = unsafe { thread_state::with_shard_of_handle(raw.shard, release) };
        if released {
            // Dropped where it is: to move it again would wait for the move before.
            // SAFETY: it was moved here, and is dropped once.
            Self::catch_panic_after_release(shard_id, || unsafe { callback.assume_init_drop() });
        }
        released
    }

    /// Ends a lease.
    ///
    /// # Safety
    /// It must come from [`schedule`](Self::schedule) or a [`SleepEntry`](super::SleepEntry), and not have been released before.
    #[inline]
    pub(crate) unsafe fn release(raw: RawHandle) {
        // SAFETY: the lease keeps the shard.
        let aside = unsafe { raw.shard.as_ref() }.core.slab.is_sparse(raw.index());
        // That, and the thread's own part, are found first: once the lease is over, nothing need keep the shard.
        let release = |thread: &mut ThreadState| {
            // SAFETY: the lease keeps the entry, which is not touched any more once it is released. It is all cells: unlike
            // one to a shard, a reference to it may outlive it in a call.
            match unsafe { raw.entry.as_ref() }.release() {
                Release::InUse => false,
                Release::Owned => {
                    thread.keep(raw.index(), aside);
                    false
                }
                Release::Closed => {
                    // SAFETY: the handle that this takes away keeps the shard until then.
                    unsafe { Core::unpin(NonNull::new_unchecked(&raw mut (*raw.shard.as_ptr()).core)) }
                }
            }
        };
        // SAFETY: the lease keeps the shard until `release` ends it.
        let last = unsafe { thread_state::with_shard_of_handle(raw.shard, release) };
        if last {
            // SAFETY: this was the last lease of a closed shard.
            unsafe { Shard::last_handle_released(raw.shard) };
        }
    }
}

//! Sleeping and waking: the driver sleeps as long as it may, and no wake-up is lost.
//!
//! One word, `wake_tick`, says until which tick the driver sleeps. While the driver is awake, the word is [`AWAKE`],
//! which is zero. The driver sets it, and callers lower it.
//!
//! # The protocol
//!
//! ```text
//! driver                                   caller
//! ──────                                   ──────
//! wake_tick := tick of the next deadline   push an entry with the deadline `tick`
//! fence D                                  fence C
//! is there anything to do?                 is wake_tick > tick?
//! if not: sleep until wake_tick            if so: wake_tick := tick, and unpark the driver
//! wake_tick := AWAKE
//! ```
//!
//! The caller lowers `wake_tick` by one `fetch_min`, and unparks the driver only if it lowered it.
//!
//! # Why no wake-up is lost
//!
//! All fences are sequentially consistent, so they are in one total order. Each sleep of the driver has a fence D of
//! its own.
//!
//! - **D comes after C.** The driver sees the push, and does not begin this sleep.
//! - **D comes before C.** Take the last such D. The caller's last access to `wake_tick`, the load or the `fetch_min`,
//!   finds what the driver wrote before D, or a later value. If this value is
//!   - more than `tick`: the caller lowers it, and unparks the driver.
//!   - at most `tick`, but not `AWAKE`: the driver wakes by then, by its own timeout or by another caller.
//!   - `AWAKE`: this sleep is over. The fence D of the next sleep comes after C, which is the first case.
//!
//! Loom model `sleep` checks this, and fails without either fence.
//!
//! # An earlier deadline between `ENQUEUED` and the push
//!
//! The thread that enqueues an entry, P, sets `ENQUEUED` in the state word some steps before it pushes the entry.
//! Between the two, another thread, R, may give the entry an earlier deadline. R must not push the entry again: it can
//! only wake the driver. The driver may then find the intake empty, and sleep again. So P wakes the driver for the
//! deadline that P loads from the state word *after* its push:
//!
//! ```text
//! driver                        thread P                         thread R
//! ──────                        ────────                         ────────
//! wake_tick := next deadline    push the entry                   deadline in the state word := `tick`
//! fence D                       fence P                          fence R
//! is there anything to do?      t := deadline in the state word  is wake_tick > tick?
//! if not: sleep                 is wake_tick > t?                if so: lower it to `tick`
//!                               if so: lower it to `t`
//! ```
//!
//! Take the last sleep of the driver before it sees the push. Its fence D comes before fence P, because the driver
//! misses the push.
//!
//! - **Fence D comes before fence R.** R makes sure that this sleep ends by `tick`, as above.
//! - **Fence R comes before fence D**, and so before fence P. P loads `tick`, or a newer deadline, from the state word.
//!   P makes sure that this sleep ends by then.
//!
//! Loom model `in_flight` checks this.
//!
//! # Why P and R have no fence in the code
//!
//! For a caller that wakes no thread, a fence would cost as much as everything else that the caller does. So the code
//! has no fences P and R. The accesses before and after them are sequentially consistent instead:
//!
//! - the read-modify-writes that push the entry and that change the state word,
//! - P's load of the state word, and the loads of `wake_tick`.
//!
//! On x86-64 these cost the same as weaker ones, and on AArch64 hardly more. Together with fence D they are in one
//! total order, S. C++20 gives S two properties ([atomics.order]):
//!
//! 1. The accesses and fences of one thread are in S in program order.
//! 2. A load that does not see a write comes before the write in S. If the load is weaker, the fence before it stands
//!    for it in S. If the write is weaker, the fence after it stands for the write.
//!
//! Take again the last sleep of the driver before it sees the push.
//!
//! - **P finds what the driver wrote before D, or a later value.** The driver misses the push, so by 2, D comes before
//!   the push. By 1, the push comes before P's load of `wake_tick`. So this load comes after D. If it missed the
//!   driver's write, it would come before D, by 2. So P makes sure that the sleep ends by the deadline that P has
//!   loaded.
//! - **If P does not load R's deadline, R finds the same.** By 2, P's load of the state word comes before R's write to
//!   it. By 1, the push comes before that load, and R's load of `wake_tick` after that write. So R's load, too, comes
//!   after D, and R makes sure that the sleep ends by `tick`.
//!
//! loom treats sequentially consistent accesses as `AcqRel`. So under loom there is a fence, [`fence_between_seq_cst`],
//! and this argument shows that the accesses are equivalent to it. A caller that writes anything but an entry has a
//! real fence: see [`DriverWakeup::wake_by`].
//!
//! # Which thread is unparked
//!
//! The driver may change threads: see [`loan`](super::loan). A thread [attaches](DriverWakeup::attach) itself before it
//! sleeps as the driver. A caller that lowers `wake_tick` has read the value of one such sleep. So the caller unparks
//! the thread of that sleep, or one that attached later. In the latter case that sleep is already over.
//!
//! # Cost
//!
//! Only a caller that lowers `wake_tick` makes a system call: a burst of equal deadlines wakes the driver once. The
//! word is changed by read-modify-writes only, because loom cannot order a plain store against them.

use std::time::Duration;

use crate::sync::{AtomicU64, Ordering, Parker, fence, fence_between_seq_cst};

/// The value of `wake_tick` while the driver is awake. The driver checks the intake before it sleeps again.
const AWAKE: u64 = 0;

/// The driver's sleep. Any thread may end it.
pub(crate) struct DriverWakeup {
    /// Tick until which the driver sleeps, or `AWAKE`.
    wake_tick: AtomicU64,
    /// Tick at which the driver's last sleep began.
    asleep_since: AtomicU64,
    parker: Parker,
}

impl DriverWakeup {
    pub(crate) fn new() -> Self {
        Self { wake_tick: AtomicU64::new(AWAKE), asleep_since: AtomicU64::new(0), parker: Parker::new() }
    }

    /// Makes the calling thread the one that sleeps as the driver.
    pub(crate) fn attach(&self) {
        self.parker.attach();
    }

    /// Returns whether the calling thread is the one that sleeps as the driver.
    pub(crate) fn is_attached_here(&self) -> bool {
        self.parker.is_attached_here()
    }

    /// Makes sure that the driver sees by `tick` what the caller wrote before this call. Wait-free, except for the
    /// system call.
    #[inline]
    pub(crate) fn wake_by(&self, tick: u64) {
        // SeqCst: orders what the caller wrote before the load; see the file's head. Loom model `in_flight`.
        fence(Ordering::SeqCst);
        self.wake_by_ordered(tick);
    }

    /// Like [`wake_by`](Self::wake_by), for a caller whose write was a sequentially consistent read-modify-write.
    #[inline]
    pub(super) fn wake_by_after_update(&self, tick: u64) {
        // A fence only under loom: see the file's head. Loom model `in_flight`.
        fence_between_seq_cst();
        self.wake_by_ordered(tick);
    }

    /// Like [`wake_by`](Self::wake_by), for a caller whose write is already ordered before the load here.
    #[inline]
    pub(super) fn wake_by_ordered(&self, tick: u64) {
        // SeqCst: comes after what the caller wrote; see the file's head. Acquire: the caller that lowers the word sees
        // which thread is attached; pairs with `sleep`. Loom model `loan`. `fetch_min` is one read-modify-write: each
        // caller that loads a later tick either lowers the word or finds that another caller has.
        if self.wake_tick.load(Ordering::SeqCst) > tick && self.wake_tick.fetch_min(tick, Ordering::Acquire) > tick {
            self.parker.unpark();
        }
    }

    /// Wakes the driver for work that is not urgent: `lazy_wakeup` ticks after its sleep began, or at once if it has
    /// slept longer. However often this is called, it ends at most two sleeps in `lazy_wakeup` ticks.
    #[inline]
    pub(super) fn wake_lazily(&self, lazy_wakeup: u64) {
        // Relaxed: an old value only wakes the driver earlier.
        let since = self.asleep_since.load(Ordering::Relaxed);
        self.wake_by(since.saturating_add(lazy_wakeup));
    }

    /// Sleeps until the tick `until`, or until an earlier tick that a caller sets meanwhile. Returns at once unless
    /// `nothing_to_do`, called when callers can already wake this thread, returns true.
    ///
    /// `timeout` converts a tick into the time that is left until then: zero if the tick has come, `None` if time alone
    /// never brings it. Returns how often the thread woke up. That includes wake-ups after which it slept on, until an
    /// earlier tick.
    pub(crate) fn sleep(
        &self,
        now: u64,
        until: u64,
        timeout: impl Fn(u64) -> Option<Duration>,
        nothing_to_do: impl FnOnce() -> bool,
    ) -> u64 {
        self.asleep_since.store(now, Ordering::Relaxed);
        // Release: publishes which thread is attached to the callers that lower the word; pairs with `wake_by_ordered`.
        // Loom model `loan`. The fence, D in the file's head, orders the write before the check that follows. Loom
        // model `sleep`.
        self.wake_tick.swap(until.max(AWAKE + 1), Ordering::Release);
        fence(Ordering::SeqCst);
        let mut wakeups = 0;
        if nothing_to_do() {
            loop {
                // Relaxed: a caller unparks this thread after it lowers the word, which orders that before the next
                // load.
                let timeout = timeout(self.wake_tick.load(Ordering::Relaxed));
                if timeout == Some(Duration::ZERO) {
                    break;
                }
                self.parker.park(timeout);
                wakeups += 1;
            }
        }
        self.wake_tick.swap(AWAKE, Ordering::Relaxed);
        wakeups
    }
}

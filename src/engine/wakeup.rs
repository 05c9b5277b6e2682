//! Sleeping and waking: how the driver sleeps for as long as it may, and nobody's timer is lost.
//!
//! One word says until which tick the driver sleeps, or [`AWAKE`].
//!
//! ```text
//! driver                                   any caller
//! ──────                                   ──────────
//! wake := tick of the next deadline        push an entry due at `tick`
//! fence                                    fence
//! something to do?                         wake > tick?  then lower it to `tick`;
//! else sleep until wake has come                         whoever lowers it wakes the driver
//! wake := AWAKE
//! ```
//!
//! The two fences are sequentially consistent, so one of them comes first. If the driver's does, the caller reads a
//! word at or after the driver's store: it lowers it and wakes the driver, or sees that the driver wakes by `tick`
//! anyway, or that it is awake and will look at everything before it sleeps again. If the caller's comes first, the
//! driver sees the push before it sleeps. Loom model `sleep` checks it, and fails without either fence.
//!
//! # A deadline that comes nearer while the push is under way
//!
//! One caller announces an entry in its state word, and pushes it some steps later. Between the two, a second caller may
//! give the entry an earlier deadline. It must not push the entry again. It can only wake the driver, which may find the
//! intake empty and sleep again. So the caller that pushes wakes the driver for the deadline in the state word, read
//! *after* the push:
//!
//! ```text
//! driver                        pushes an entry                  gives it an earlier deadline
//! ──────                        ───────────────                  ────────────────────────────
//! wake := next deadline         push                             deadline in the state word := `tick`
//! fence D                       fence P                          fence R
//! something to do?              t := deadline in the state word  wake > tick?  then lower it
//! else sleep                    wake > t?  then lower it
//! ```
//!
//! Take the last sleep of the driver before it sees the push. If D comes before R, the second caller wakes the driver
//! from this sleep. Otherwise R comes before D, and D before P, as the driver does not see the push. Then the first
//! caller reads `tick` from the state word, and wakes the driver for it. Loom model `in_flight` checks it.
//!
//! # Without a fence on the caller's side
//!
//! A caller's fence costs as much as all else that it does to wake nobody. Fences P and R are not made: what stands around
//! them is sequentially consistent, the read-modify-writes that push the entry and that change the state word, and the loads
//! of the state word and of `wake_tick`. These are no more expensive than weaker ones on x86-64, and hardly on aarch64. With fence
//! D they are in one total order, in which each thread's own are in the order of the program, and a load that does not see
//! a write comes before it (C++20, [atomics.order]):
//!
//! - The driver does not see the push: D comes before the push, and so before the load of `wake_tick` that follows the push. That
//!   load sees what the driver wrote before D, or later.
//! - The first caller does not see the second's deadline: D comes before the push, that before the first caller's load of the
//!   state word, that before the second caller's write to it, and so before the second caller's load of `wake_tick`.
//!
//! loom takes such accesses for `AcqRel`. So it explores them with a fence ([`fence_between_seq_cst`]), of which the above
//! is the equivalent. Callers that write something else than an entry make a fence ([`DriverWakeup::wake_by`]).
//!
//! # Which thread sleeps
//!
//! The thread that drives may change: see [`loan`](super::loan). It [attaches](DriverWakeup::attach) itself before it sleeps. A
//! caller that lowers the word has read it from that sleep, so it wakes that thread, or one that drives later. Then the
//! sleep has ended without it.
//!
//! Only the caller that lowers the word pays for the system call that wakes the driver: a burst of inserts wakes it
//! once. And only read-modify-writes change the word, as loom cannot order a plain store against them.

use std::time::Duration;

use crate::sync::{AtomicU64, Ordering, Parker, fence, fence_between_seq_cst};

/// The driver is awake, and looks at all that was pushed before it sleeps.
const AWAKE: u64 = 0;

pub(crate) struct DriverWakeup {
    /// The tick until which the driver sleeps, or `AWAKE`.
    wake_tick: AtomicU64,
    /// The tick at which the driver last lay down.
    asleep_since: AtomicU64,
    parker: Parker,
}

impl DriverWakeup {
    pub(crate) fn new() -> Self {
        Self { wake_tick: AtomicU64::new(AWAKE), asleep_since: AtomicU64::new(0), parker: Parker::new() }
    }

    /// Makes the calling thread the driver.
    pub(crate) fn attach(&self) {
        self.parker.attach();
    }

    /// Whether the calling thread is the driver.
    pub(crate) fn is_attached_here(&self) -> bool {
        self.parker.is_attached_here()
    }

    /// Makes sure that the driver looks at what the caller has written by `tick`. Wait-free but for the system call.
    #[inline]
    pub(crate) fn wake_by(&self, tick: u64) {
        // Orders what the caller has written before the load: see the file's head. Loom model `in_flight`.
        fence(Ordering::SeqCst);
        self.wake_by_ordered(tick);
    }

    /// As [`wake_by`](Self::wake_by), for a caller that has written by a sequentially consistent read-modify-write.
    #[inline]
    pub(crate) fn wake_by_after_update(&self, tick: u64) {
        // As in `wake_by`. Loom model `in_flight`.
        fence_between_seq_cst();
        self.wake_by_ordered(tick);
    }

    /// As [`wake_by`](Self::wake_by), for a caller whose load here is ordered after what it has written.
    #[inline]
    pub(crate) fn wake_by_ordered(&self, tick: u64) {
        // SeqCst: after what the caller has written; see the file's head. The minimum is taken by one read-modify-write, so of
        // all callers that find it too late, each lowers it or finds it lowered. Acquire: the caller that lowers it wakes the thread that sleeps; pairs with `sleep`. Loom model
        // `loan`.
        if self.wake_tick.load(Ordering::SeqCst) > tick && self.wake_tick.fetch_min(tick, Ordering::Acquire) > tick {
            self.parker.unpark();
        }
    }

    /// The same in no hurry: by `lazy_wakeup` ticks after the driver lay down, which is at once if it has slept longer. So
    /// however often this is called, the driver is disturbed twice in `lazy_wakeup` at the most.
    #[inline]
    pub(crate) fn wake_lazily(&self, lazy_wakeup: u64) {
        // Relaxed: an old value only rings earlier.
        let since = self.asleep_since.load(Ordering::Relaxed);
        self.wake_by(since.saturating_add(lazy_wakeup));
    }

    /// The driver sleeps until the tick `until`, or the earlier one that somebody has rung for meanwhile, unless
    /// something is left to do. `timeout` tells how long it is until a tick by the clock: zero if it has come, `None` if it
    /// will not come by itself. Returns how often the thread woke up: once more for each time that it only had to set
    /// itself an earlier alarm.
    pub(crate) fn sleep(
        &self,
        now: u64,
        until: u64,
        timeout: impl Fn(u64) -> Option<Duration>,
        nothing_to_do: impl FnOnce() -> bool,
    ) -> u64 {
        self.asleep_since.store(now, Ordering::Relaxed);
        // Release: publishes which thread is attached to those that lower the word. The fence orders it before the look
        // that follows.
        self.wake_tick.swap(until.max(AWAKE + 1), Ordering::Release);
        fence(Ordering::SeqCst);
        let mut wakeups = 0;
        if nothing_to_do() {
            loop {
                // Relaxed: who lowers it wakes the sleeper afterwards, which orders it before the next look.
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

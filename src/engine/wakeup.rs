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
//! if not: sleep until wake_tick            if so: wake_tick := tick, and wake the driver
//! wake_tick := AWAKE
//! ```
//!
//! The caller lowers `wake_tick` by one `fetch_min`, and wakes the driver only if it lowered it.
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
//! # What is due when it is set
//!
//! Such a timer waits for no [gate](super::gate). A tick cannot say so: by a tick that has passed, a driver sleeps until
//! its gate opens, and each turn overwrites `AWAKE`. So the caller sets a mark of its own, and then wakes the driver. The
//! driver clears the mark, takes the intake and reads the clock, in this order. A caller that sets the mark later has set
//! a timer that this round may miss. The look after fence D then finds the mark, and another round follows, as for
//! a push: the mark takes the place of the intake in the argument above. That look also finds the mark of an entry that was in
//! the driver's hands when it got its deadline, and to which no push follows.
//!
//! R above may leave its mark to a round that begins before the push of P. So P treats a deadline that is not its own as
//! due. Loom model `due_when_set`.
//!
//! # Which thread is woken
//!
//! The word belongs to a shard. The thread that drives the shard may drive others, too: the role in the shard's
//! [seat](super::seat) says which. Each role has an [alarm](super::alarm). The same protocol follows there, one level up,
//! with the words of its shards in place of the intake. The alarm of an own thread unparks it, and that of a program's loop
//! calls its [waker](super::program_waker).
//!
//! # Cost
//!
//! A caller that arms a timer reads the role only if it lowers `wake_tick`: a burst of equal deadlines wakes the driver
//! once. The word is changed by read-modify-writes only, because loom cannot order a plain store against them.

use super::alarm::{AWAKE, Alarm, Alarms};
use super::driver::ShardDriver;
use super::program_waker::ProgramWaker;
use super::seat::{PROGRAM, Seat};
use crate::sync::{Arc, AtomicBool, AtomicU64, Ordering, fence, fence_between_seq_cst};
use crate::wheel::Levels;

/// Until when a shard needs no driver, and which role drives it.
pub(crate) struct DriverWakeup {
    /// Tick until which the driver sleeps, or `AWAKE`.
    wake_tick: AtomicU64,
    /// Tick at which the driver's last sleep began.
    asleep_since: AtomicU64,
    /// A timer was due when it was set, and no round has begun since.
    due_when_set: AtomicBool,
    pub(crate) seat: Seat,
    /// Those of the own threads.
    alarms: Arc<Alarms>,
    /// That of a program's loop.
    pub(crate) program: Alarm<ProgramWaker>,
}

impl DriverWakeup {
    pub(crate) fn new(alarms: Arc<Alarms>, role: u32, levels: Levels) -> Self {
        Self {
            wake_tick: AtomicU64::new(AWAKE),
            asleep_since: AtomicU64::new(0),
            due_when_set: AtomicBool::new(false),
            seat: Seat::new(role, ShardDriver::new(levels)),
            alarms,
            program: Alarm::new(ProgramWaker::new()),
        }
    }

    /// The wakeup of a shard that is alone, with its only role.
    #[cfg(any(test, loom))]
    pub(crate) fn alone() -> Self {
        Self::new(Arc::new(Alarms::new(1)), 0, Levels::new(0, &[2], 2).expect("a valid level"))
    }

    /// Makes sure that the driver sees by `tick` what the caller wrote before this call. Wait-free, except for the
    /// system call.
    #[inline]
    pub(crate) fn wake_by(&self, tick: u64) {
        // SeqCst: orders what the caller wrote before the load; see the file's head. Loom model `in_flight`.
        fence(Ordering::SeqCst);
        self.wake_by_ordered(tick);
    }

    /// Like [`wake_by`](Self::wake_by), for a caller whose write is already ordered before the load here.
    #[inline]
    pub(super) fn wake_by_ordered(&self, tick: u64) {
        // SeqCst: comes after what the caller wrote; see the file's head. `fetch_min` is one read-modify-write: each
        // caller that loads a later tick either lowers the word or finds that another caller has. Relaxed: the fence in
        // `wake_driver` orders it. Loom models `sleep` and `roles`.
        if self.wake_tick.load(Ordering::SeqCst) > tick && self.wake_tick.fetch_min(tick, Ordering::Relaxed) > tick {
            self.wake_driver(tick);
        }
    }

    /// Makes sure that the driver begins a round to the present, whatever its gate says: a timer was due when the caller
    /// set it.
    pub(super) fn wake_for_due(&self) {
        // SeqCst: comes after what the caller wrote, and before the load in `wake_by_ordered`; see the file's head. Loom
        // model `due_when_set`.
        self.due_when_set.swap(true, Ordering::SeqCst);
        fence_between_seq_cst();
        self.wake_by_ordered(AWAKE);
    }

    /// Returns whether a timer was due when it was set, and no round has begun since.
    pub(crate) fn is_due_when_set(&self) -> bool {
        // Relaxed: a fence of the reader orders it, or it is a hint. Loom model `due_when_set`.
        self.due_when_set.load(Ordering::Relaxed)
    }

    /// Records that a round to the present begins. Must be called before the driver takes the intake.
    pub(crate) fn begin_to_present(&self) {
        if self.is_due_when_set() {
            // Acquire: the round sees what each thread wrote before its mark; pairs with `wake_for_due`. Loom model
            // `due_when_set`.
            self.due_when_set.swap(false, Ordering::Acquire);
        }
    }

    /// Makes sure that the role which drives the shard reads the word by `tick`, to which the caller has lowered it.
    #[cold]
    pub(crate) fn wake_driver(&self, tick: u64) {
        // SeqCst: orders the lowered word before the loads of the role and of its alarm. Pairs with the fences of
        // `change_role`, `put_back` and `Alarm::fall_asleep`. Loom model `roles`.
        fence(Ordering::SeqCst);
        match self.seat.role() {
            // The loop asks again before it sleeps.
            PROGRAM if self.program.bell.is_here() => {}
            PROGRAM => self.program.wake_by(tick),
            role => self.alarms.get(role).wake_by(tick),
        }
    }

    /// Wakes the driver because the shard is closed. Calls the waker of a program's loop in any case.
    pub(crate) fn wake_for_close(&self) {
        self.wake_by(AWAKE);
        if self.seat.role() == PROGRAM {
            self.program.bell.ring_anyway();
        }
    }

    /// Wakes the driver for chores: `lazy_wakeup` ticks after its sleep began, or at once if it has
    /// slept longer. However often this is called, it ends at most two sleeps in `lazy_wakeup` ticks. A program's loop is
    /// woken at once, but not again before it drives.
    #[inline]
    pub(crate) fn wake_lazily(&self, lazy_wakeup: u64) {
        // SeqCst: orders what there is to do before the looks at the role, the driver and the loop; pairs with
        // `fall_asleep`. Loom model `program`.
        fence(Ordering::SeqCst);
        if self.seat.role() != PROGRAM {
            // Relaxed: an old value only wakes the driver earlier.
            let since = self.asleep_since.load(Ordering::Relaxed);
            self.wake_by_ordered(since.saturating_add(lazy_wakeup));
        } else if self.wake_tick() != AWAKE {
            // A driver that is awake looks before it sleeps. It may be this thread, in a turn.
            self.program.bell.ring_lazily();
        }
    }

    /// Lets the shard sleep until the tick `until`, or until an earlier tick that a caller sets. Returns false, and keeps
    /// it awake, if a timer was due when it was set, or unless `nothing_to_do`, called when callers can already wake it,
    /// returns true.
    pub(crate) fn fall_asleep(&self, now: u64, until: u64, nothing_to_do: impl FnOnce() -> bool) -> bool {
        self.asleep_since.store(now, Ordering::Relaxed);
        self.wake_tick.swap(until.max(AWAKE + 1), Ordering::Relaxed);
        // SeqCst: D in the file's head. Orders the write before the check that follows. Loom model `sleep`.
        fence(Ordering::SeqCst);
        let sleeps = !self.is_due_when_set() && nothing_to_do();
        if !sleeps {
            _ = self.set_awake();
        }
        sleeps
    }

    /// Ends the shard's sleep: its driver is about to look at everything. Returns the tick until which it slept.
    pub(crate) fn set_awake(&self) -> u64 {
        // Relaxed: the fence of the next sleep orders this before the checks there. Loom models `sleep` and `roles`.
        self.wake_tick.swap(AWAKE, Ordering::Relaxed)
    }

    /// Returns the tick by which the shard needs its driver.
    pub(crate) fn wake_tick(&self) -> u64 {
        // Relaxed: the reader has a fence before this, has read the seat, or is unparked after a change. Loom model
        // `roles`.
        self.wake_tick.load(Ordering::Relaxed)
    }

    /// Gives the shard from one role to another, and wakes that. Returns false, without effect, if the shard has a third.
    pub(crate) fn change_role(&self, from: u32, to: u32) -> bool {
        let is_changed = self.seat.change_role(from, to);
        if is_changed {
            // SeqCst: orders the new role before its thread is woken; see the head of `seat`. Loom model `roles`.
            fence(Ordering::SeqCst);
            self.wake_role(to);
        }
        is_changed
    }

    /// Wakes the thread with this role, so that it looks at the shard now. Not a program's loop, as its waker is foreign
    /// code. The caller has made a fence since its write.
    pub(super) fn wake_role(&self, role: u32) {
        if role != PROGRAM {
            self.alarms.get(role).wake_by(AWAKE);
        }
    }

    /// Returns the alarm of the shard's role, which is not the program's.
    pub(crate) fn alarm(&self) -> &Alarm {
        self.alarms.get(self.seat.role())
    }
}

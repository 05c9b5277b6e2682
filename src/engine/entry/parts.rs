//! The parts of an entry: the state word, which has its flags and its deadline in 64 bits, and the fields that it guards.
//!
//! ```text
//!  63                                 14 13             0
//! ┌─────────────────────────────────────┬───────────────┐
//! │ deadline                            │ flags         │
//! └─────────────────────────────────────┴───────────────┘
//! ```
//!
//! A deadline is a tick of 64 bits, but the word has room for 50.
//!
//! - A *near* deadline is within [`EXACT_RANGE`] of the present tick. The word has its low 50 bits. A reader knows the
//!   present well enough to complete them.
//! - A *far* deadline is rounded up to a multiple of 16384 ticks ([`COARSE`]). The last multiple stands for [`u64::MAX`],
//!   the tick that never comes.
//!
//! | deadline | range          | at a tick of 1 µs | at a tick of 1 ms | late by at most |
//! |----------|----------------|-------------------|-------------------|-----------------|
//! | near     | < 2^48 ticks   | 9 years           | 9,000 years       | 0               |
//! | far      | all of 64 bits | 584,000 years     | 584 million years | 16383 ticks     |

use std::ptr;

use super::callback::{Callback, CallbackKind, Data, Table, VTable};
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering, UnsafeCell};
use crate::wheel::Place;

/// The timer is pending: the callback has yet to run. The thread that clears this flag owns the callback.
pub(crate) const ARMED: u64 = 1 << 0;
/// A worker owns the callback, and runs or drops it.
pub(crate) const RUNNING: u64 = 1 << 1;
/// A handle refers to the entry, which must not be used for another timer.
pub(crate) const HANDLE: u64 = 1 << 2;
/// The entry is in the intake, or about to be pushed there: the driver will collect it.
pub(crate) const ENQUEUED: u64 = 1 << 3;
/// The entry is in the wheel, at its deadline or earlier. Only the driver changes this flag.
pub(crate) const LINKED: u64 = 1 << 4;
/// The entry is in a batch: a worker will come to it.
pub(crate) const DISPATCHED: u64 = 1 << 5;
/// The callback runs more than once. The timer stays armed while it runs.
pub(super) const PERIODIC: u64 = 1 << 6;
/// A reset has set the deadline since the last run began. It replaces the deadline that a periodic callback returns,
/// and the callback [learns](super::PeriodicCallback::reset) of it.
pub(super) const RESET: u64 = 1 << 7;
/// With `RUNNING`: a thread sleeps until that is cleared.
pub(crate) const HAS_WAITER: u64 = 1 << 8;
/// Without `RUNNING`: the shutdown has ended the timer, and has yet to take the callback. Both flags are one, because the
/// end of a run clears it with `RUNNING`. A run that is claimed wakes threads for nothing.
pub(crate) const CLAIMED: u64 = HAS_WAITER;
/// The shard has been shut down: the entry is never armed, reset or started again.
pub(crate) const CLOSED: u64 = 1 << 9;
/// The entry is in a thread's cache or in the depot, though it may still be in the wheel or in the intake. Its owner
/// may arm it.
pub(super) const UNUSED: u64 = 1 << 10;
/// The callback wakes a task. The driver itself runs it.
pub(super) const WAKER: u64 = 1 << 11;
/// The callback makes a value of a delay queue due. The driver itself runs it, before it calls any waker.
pub(super) const VALUE: u64 = 1 << 12;
/// The deadline is a multiple of 16384 ticks.
const COARSE: u64 = 1 << 13;

const DEADLINE_SHIFT: u32 = 14;
const FLAGS: u64 = (1 << DEADLINE_SHIFT) - 1;
/// Distance from the present within which the word alone has the exact deadline, in ticks: 9 years of microseconds.
///
/// It is a quarter of the 2^50 ticks that 50 bits tell apart. So a reader completes the deadline correctly even if its
/// present differs from the writer's by up to as much again. Real time does not pass that far in between, and virtual
/// time ends at this tick.
pub(crate) const EXACT_RANGE: u64 = 1 << 48;
/// The multiple that stands for a deadline that never comes.
const NEVER: u64 = !FLAGS;

/// A copy of an entry's state word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State(pub(super) u64);

impl State {
    pub(super) const FREE: State = State(0);

    pub(crate) fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    pub(super) fn with(self, flags: u64) -> State {
        State(self.0 | flags)
    }

    pub(super) fn without(self, flags: u64) -> State {
        State(self.0 & !flags)
    }

    pub(crate) fn kind(self) -> CallbackKind {
        match self.0 & (PERIODIC | WAKER | VALUE) {
            0 => CallbackKind::Once,
            WAKER => CallbackKind::Waker,
            VALUE => CallbackKind::Value,
            _ => CallbackKind::Periodic,
        }
    }

    /// Replaces the deadline, rounded up if it is far. `now` is the present tick.
    pub(super) fn with_deadline(self, deadline: u64, now: u64) -> State {
        let flags = self.0 & FLAGS & !COARSE;
        if deadline.abs_diff(now) < EXACT_RANGE {
            State(deadline << DEADLINE_SHIFT | flags)
        } else {
            State(deadline.saturating_add(FLAGS) & !FLAGS | flags | COARSE)
        }
    }

    /// Returns the deadline, as a tick. `now` is the present tick, with an error of less than [`EXACT_RANGE`].
    pub(crate) fn deadline(self, now: u64) -> u64 {
        if self.has(COARSE) {
            let multiple = self.0 & !FLAGS;
            return if multiple == NEVER { u64::MAX } else { multiple };
        }
        let distance =
            (self.0 as i64 >> DEADLINE_SHIFT).wrapping_sub(now as i64).wrapping_shl(DEADLINE_SHIFT) >> DEADLINE_SHIFT;
        now.wrapping_add_signed(distance)
    }

    /// Returns [`FREE`](Self::FREE) if no thread has a claim on an entry in this state, and otherwise the state. A free
    /// entry has no flag at all, not even one that qualified its last timer.
    pub(super) fn free_if_idle(self) -> State {
        let is_idle = !self.has(ARMED | RUNNING | ENQUEUED | LINKED | DISPATCHED);
        if is_idle && !self.has(HANDLE | CLOSED | UNUSED) { State::FREE } else { self }
    }

    /// Returns whether an entry in this state is free.
    pub(crate) fn is_free(self) -> bool {
        self == State::FREE
    }
}

/// The memory of one timer. All zero bytes are a free entry.
///
/// The module's head says which thread may touch which field.
#[repr(C, align(64))]
pub(crate) struct Entry {
    /// The [state word](State).
    pub(super) state: AtomicU64,
    /// Index of the next entry in the intake.
    pub(crate) next_in_intake: AtomicU32,
    /// Index of the first entry of the next magazine in the depot.
    pub(crate) next_magazine: AtomicU32,
    /// Low half of the tick at which the driver has linked the entry, or [`UNKNOWN_TICK`].
    registered_tick: AtomicU32,
    /// Where the entry is in the wheel. The driver writes the place before it reads it.
    place: UnsafeCell<Place>,
    /// The table of the callback, or of an earlier one; null before the first. The owner of the callback's data writes
    /// it, and any thread may [read](Self::observe) it.
    vtable: AtomicPtr<VTable>,
    /// The data of the callback, while the entry is armed or its callback runs. In the depot, indices of others.
    pub(super) data: UnsafeCell<Data>,
}

/// Number of entries of a chunk in the depot: as many as indices fit in the cell of the callback's data. One names the
/// next chunk.
pub(crate) const CHUNK: usize = size_of::<Data>() / size_of::<u32>();

/// The `registered_tick` of an entry whose tick is too far away for its low half to identify it.
const UNKNOWN_TICK: u32 = u32::MAX;
/// Distance from the tick of the wheel within which the low half identifies a registered tick.
///
/// It is a quarter of the 2^32 ticks that the low half tells apart. So a thread reads the right tick even if its
/// present is up to as much again behind the driver's.
const REGISTERED_RANGE: u64 = 1 << 30;

impl Entry {
    /// Returns a free entry.
    pub(crate) fn new() -> Self {
        Self {
            state: AtomicU64::new(State::FREE.0),
            next_in_intake: AtomicU32::new(0),
            next_magazine: AtomicU32::new(0),
            registered_tick: AtomicU32::new(0),
            place: UnsafeCell::new(Place::default()),
            vtable: AtomicPtr::new(ptr::null_mut()),
            data: UnsafeCell::new(Data::uninit()),
        }
    }

    /// Fills the entry with zeros, as the system does when it takes back the page. These are plain accesses, so loom
    /// reports any thread that changes the entry, or reads its cells, without an order between the two.
    #[cfg(loom)]
    pub(crate) fn wipe(&self) {
        crate::sync::access_plainly(&self.state);
        self.state.store(0, Ordering::Relaxed);
        for number in [&self.next_in_intake, &self.next_magazine, &self.registered_tick] {
            number.store(0, Ordering::Relaxed);
        }
        // SAFETY: we own the cell, because no thread uses the entry, by the contract of `Pages::discard`.
        self.place.with_mut(|place| unsafe { *place = Place::default() });
        self.vtable.store(ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: as above.
        self.data.with_mut(|data| unsafe { *data = Data::zeroed() });
    }

    /// Makes the processor fetch the entry, which this thread is about to write.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        // SAFETY: a prefetch neither reads nor writes what the program can see.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_ET0>(ptr::from_ref(self).cast());
        }
    }

    /// Loads the state word. It may have changed by the time that the caller uses it.
    #[inline]
    pub(crate) fn state(&self) -> State {
        State(self.state.load(Ordering::Acquire))
    }

    /// Returns whether another thread has replaced `deadline`, which the caller wrote when it set `ENQUEUED`. Must be
    /// called after the push, with a fence in between. `now` is the present tick.
    #[inline]
    pub(crate) fn is_replaced(&self, deadline: u64, now: u64) -> bool {
        // SeqCst: comes after the push; see the head of `wakeup`. Loom model `in_flight`.
        let state = State(self.state.load(Ordering::SeqCst));
        // Without `ENQUEUED`, the driver has collected the entry since the push, and knows its deadline. Another deadline
        // with the same low bits is farther away than a thread can be behind the present.
        state.has(ENQUEUED) && state.with_deadline(deadline, now) != state
    }

    /// Returns the tick at which the driver has linked the entry, or `None` if that is unknown. `now` is the present
    /// tick.
    #[inline]
    pub(crate) fn registered_tick(&self, now: u64) -> Option<u64> {
        // Relaxed: written before the transition that set `LINKED`, and not again while the caller may read it.
        let registered_tick = self.registered_tick.load(Ordering::Relaxed);
        let distance = registered_tick.wrapping_sub(now as u32) as i32;
        (registered_tick != UNKNOWN_TICK).then(|| now.saturating_add_signed(distance.into()))
    }

    /// Notes that the driver is about to link the entry at `deadline`. `now` is the tick of the wheel.
    #[inline]
    pub(super) fn set_registered_tick(&self, deadline: u64, now: u64) {
        let registered_tick = if deadline.abs_diff(now) < REGISTERED_RANGE { deadline as u32 } else { UNKNOWN_TICK };
        // Relaxed: published by the transition that sets `LINKED`. Loom model `rearm_in_place`.
        self.registered_tick.store(registered_tick, Ordering::Relaxed);
    }

    /// Makes the transition to the state that `next` returns, and returns the state before it. If `next` returns
    /// `None`, makes none, and returns the state that `next` refused as the error.
    #[inline(always)]
    pub(super) fn try_transition(&self, mut next: impl FnMut(State) -> Option<State>) -> Result<State, State> {
        let mut state = self.state();
        while let Some(new) = next(state) {
            // SeqCst, Acquire: see "Orderings" in the module's head.
            match self.state.compare_exchange_weak(state.0, new.0, Ordering::SeqCst, Ordering::Acquire) {
                Ok(_) => return Ok(state),
                Err(seen) => state = State(seen),
            }
        }
        Err(state)
    }

    /// Makes a transition that is possible from every state, and returns the states before and after it.
    #[inline]
    pub(super) fn transition(&self, mut next: impl FnMut(State) -> State) -> (State, State) {
        let mut after = State::FREE;
        let (Ok(before) | Err(before)) = self.try_transition(|state| {
            after = next(state);
            Some(after)
        });
        (before, after)
    }

    /// Moves the callback out of the entry.
    ///
    /// # Safety
    /// The caller must own the callback, by the ground rules, and the entry must contain one.
    #[inline]
    pub(super) unsafe fn take_callback(&self) -> Callback {
        // SAFETY: by this function's contract.
        let vtable = unsafe { self.vtable() };
        // SAFETY: we own the callback by this function's contract. The bits left in the cell are treated as
        // uninitialised, except that `will_wake` compares them. Meanwhile no thread writes the cell.
        Callback { vtable, data: self.data.with(|data| unsafe { data.read() }) }
    }

    /// Returns the table of the callback.
    ///
    /// # Safety
    /// The entry must contain a callback, which the caller owns, or has armed.
    #[inline]
    pub(crate) unsafe fn vtable(&self) -> Table {
        // Relaxed: the transition by which the caller has come to own the callback has acquired it.
        let vtable = self.vtable.load(Ordering::Relaxed);
        // SAFETY: it is a table, because a callback was written, by this function's contract. The compiler need not look.
        unsafe { vtable.as_ref().unwrap_unchecked() }
    }

    /// Lets `write` write the data of a callback into the entry and return its table, for
    /// [`arm_written`](Self::arm_written).
    ///
    /// # Safety
    /// The caller must own the callback's cell, by the ground rules: as for [`arm_written`](Self::arm_written), or
    /// inside a run. The cell must contain no callback.
    #[inline(always)]
    pub(crate) unsafe fn write_callback(&self, write: impl FnOnce(*mut Data) -> Table) {
        let vtable = self.data.with_mut(write);
        // Release: publishes that the entry's last timer has ended to a thread that reads this table; pairs with
        // `observe`. Loom model `census`.
        self.vtable.store(ptr::from_ref(vtable).cast_mut(), Ordering::Release);
    }

    /// Returns the state of a pending timer, and the name of its callback's type. Returns `None` if no timer is
    /// pending. For threads that own nothing of the entry. Lock-free: repeats only after a transition of another
    /// thread.
    ///
    /// The state is the same before and after the load of the table. If the table is that of a later callback, the
    /// second load of the state sees that the timer of the first has ended. Only a state that has come back, with the
    /// same deadline and flags, is not told apart. The table is then that of a timer that was armed meanwhile.
    pub(crate) fn observe(&self) -> Option<(State, &'static str)> {
        loop {
            let state = self.state();
            if !state.has(ARMED) {
                return None;
            }
            // Acquire: pairs with `write_callback`. Loom model `census`.
            let vtable = self.vtable.load(Ordering::Acquire);
            // SAFETY: null or a table, which is never freed, because nothing else is ever written there, and the system
            // leaves the memory of a retired page as it is, or zero. So the table is valid, whichever callback it belongs
            // to.
            let vtable = unsafe { vtable.as_ref() };
            if let Some(vtable) = vtable.filter(|_| self.state() == state) {
                return Some((state, (vtable.type_name)()));
            }
        }
    }

    /// Like [`take_callback`](Self::take_callback), after a transition from `state`, in which the timer had this
    /// deadline. A periodic callback learns of a reset since its last run.
    ///
    /// # Safety
    /// As for `take_callback`.
    #[inline]
    pub(super) unsafe fn take_callback_for(&self, state: State, deadline: u64) -> Callback {
        // SAFETY: by this function's contract.
        let mut callback = unsafe { self.take_callback() };
        if state.has(RESET) {
            callback.note_reset(deadline);
        }
        callback
    }

    /// Drops the callback in place.
    ///
    /// # Safety
    /// The caller must own the callback, by the ground rules. It must have the entry's handle, which keeps the entry
    /// from being used again. The entry must contain a callback, which must not be used afterwards.
    #[inline]
    pub(crate) unsafe fn drop_callback(&self) {
        // SAFETY: by this function's contract.
        let vtable = unsafe { self.vtable() };
        // SAFETY: we have the cell to ourselves, because we own the callback by this function's contract. The table is for
        // its data.
        self.data.with_mut(|data| unsafe { (vtable.drop)(data) });
    }

    /// Writes indices of other entries into the cell of the callback's data.
    ///
    /// # Safety
    /// The caller must own the entry, which must be unused.
    #[inline]
    pub(crate) unsafe fn write_indices(&self, indices: [u32; CHUNK]) {
        // SAFETY: we have the cell to ourselves, because we own the entry by this function's contract. An unused entry
        // has no callback, and the indices fit.
        self.data.with_mut(|data| unsafe { data.cast::<[u32; CHUNK]>().write(indices) });
    }

    /// Returns the indices that [`write_indices`](Self::write_indices) has written.
    ///
    /// # Safety
    /// The caller must own the entry, which must be unused. `write_indices` must have been called since the
    /// entry was last armed.
    #[inline]
    pub(crate) unsafe fn read_indices(&self) -> [u32; CHUNK] {
        // SAFETY: we own the entry, and the cell contains the indices, both by this function's contract.
        self.data.with(|data| unsafe { data.cast::<[u32; CHUNK]>().read() })
    }

    /// Returns the place in the wheel. Only the driver may call this.
    pub(crate) fn place(&self) -> Place {
        // SAFETY: we own the place, because only the driver calls this.
        self.place.with(|place| unsafe { *place })
    }

    /// Sets the place in the wheel. Only the driver may call this.
    pub(crate) fn set_place(&self, new: Place) {
        // SAFETY: we own the place, because only the driver calls this.
        self.place.with_mut(|place| unsafe { *place = new });
    }

    /// Returns the tick at which the timer will next expire. Returns `None` if no timer is pending, if the shard is
    /// closed, or if the timer is running and its next deadline is not set yet. `now` is the present tick.
    pub(crate) fn pending_deadline(&self, now: u64) -> Option<u64> {
        let state = self.state();
        let waits = !state.has(RUNNING) || state.has(RESET);
        (state.has(ARMED) && !state.has(CLOSED) && waits).then(|| state.deadline(now))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const PRESENT_TICKS: [u64; 8] = [0, 1, (1 << 30) - 1, 1 << 36, 1 << 52, 1 << 53, u64::MAX - 5000, u64::MAX];

    #[test]
    fn near_deadlines_are_exact_at_any_uptime() {
        for now in PRESENT_TICKS {
            for deadline in [now, now.saturating_add(1), now.saturating_add(1 << 47), now.saturating_sub(9)] {
                for late in [0, 1, 1 << 40] {
                    let state = State(ARMED | HANDLE).with_deadline(deadline, now);
                    assert_eq!(state.deadline(now.saturating_add(late)), deadline);
                    assert!(state.has(ARMED) && state.has(HANDLE) && !state.has(LINKED));
                }
            }
        }
    }

    #[test]
    fn far_deadlines_are_rounded_up() {
        for deadline in [1 << 52, (1 << 53) + 10, u64::MAX / 2 + 1, u64::MAX - 33_000] {
            let stored = State(PERIODIC).with_deadline(deadline, 0);
            assert!(stored.has(PERIODIC));
            let late = stored.deadline(12345) - deadline;
            assert!(late < 16384, "{late} late for {deadline}");
        }
        for never in [u64::MAX - 16383, u64::MAX - 1, u64::MAX] {
            assert_eq!(State::FREE.with_deadline(never, 0).deadline(0), u64::MAX);
        }
    }

    #[test]
    fn a_new_deadline_replaces_the_old_one_and_keeps_the_flags() {
        let far = State(ARMED | PERIODIC).with_deadline((1 << 60) + 5, 0);
        let state = far.with_deadline(77, 0);
        assert_eq!(state.deadline(0), 77);
        assert_eq!(state, State(ARMED | PERIODIC).with_deadline(77, 0));
    }
}

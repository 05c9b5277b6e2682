//! The parts of an entry, and the loop that all transitions but `close` go through.

use std::mem::MaybeUninit;

use super::callback::Callback;
use super::state::{ARMED, CLOSED, ENQUEUED, RESET, RUNNING, State};
use crate::sync::{AtomicU32, AtomicU64, Ordering, UnsafeCell};
use crate::wheel::Links;

/// The memory of one timer. All zero bytes are a free entry.
///
/// The module's head says which thread may touch which field.
#[repr(C, align(64))]
pub(crate) struct Entry {
    /// The [state word](super::state).
    pub(super) state: AtomicU64,
    /// Index of the next entry in the intake.
    pub(crate) next_in_intake: AtomicU32,
    /// Index of the first entry of the next magazine in the depot.
    pub(crate) next_magazine: AtomicU32,
    /// Low half of the tick at which the driver has linked the entry, or [`UNKNOWN_TICK`].
    registered_tick: AtomicU32,
    /// Where the entry is linked in the wheel. The driver writes the links before it reads them.
    links: UnsafeCell<Links>,
    /// The callback, while the entry is armed or its callback runs. In the depot, indices of others.
    pub(super) callback: UnsafeCell<MaybeUninit<Callback>>,
}

/// Number of entries of a chunk in the depot: as many as indices fit in the cell of the callback. One names the next
/// chunk.
pub(crate) const CHUNK: usize = size_of::<Callback>() / size_of::<u32>();

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
            links: UnsafeCell::new(Links::default()),
            callback: UnsafeCell::new(MaybeUninit::uninit()),
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
        self.links.with_mut(|links| unsafe { *links = Links::default() });
        // SAFETY: as above.
        self.callback.with_mut(|callback| unsafe { *callback = MaybeUninit::zeroed() });
    }

    /// Loads the state word. It may have changed by the time that the caller uses it.
    #[inline]
    pub(crate) fn state(&self) -> State {
        State(self.state.load(Ordering::Acquire))
    }

    /// Returns the earlier of two deadlines: `deadline`, which the caller wrote when it set `ENQUEUED`, and the one
    /// that another thread may have written since. Must be called after the push, with a fence in between. Calls
    /// `present` only if the two differ.
    #[inline]
    pub(crate) fn earliest_deadline(&self, deadline: u64, now: u64) -> u64 {
        // SeqCst: comes after the push; see the head of `wakeup`. Loom model `in_flight`.
        let state = State(self.state.load(Ordering::SeqCst));
        // Without `ENQUEUED`, the driver has collected the entry since the push, and knows its deadline.
        if !state.has(ENQUEUED) || state.has_deadline(deadline) {
            return deadline;
        }
        deadline.min(state.deadline(now))
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
        // SAFETY: we own the callback by this function's contract. The bits left in the cell are treated as
        // uninitialised, except that `will_wake` compares them. Meanwhile no thread writes the cell.
        self.callback.with(|cell| unsafe { (*cell).assume_init_read() })
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
        // SAFETY: we have the cell to ourselves, because we own the callback by this function's contract.
        self.callback.with_mut(|cell| unsafe { (*cell).assume_init_drop() });
    }

    /// Writes indices of other entries into the cell of the callback.
    ///
    /// # Safety
    /// The caller must own the entry, which must be free or cached.
    #[inline]
    pub(crate) unsafe fn write_indices(&self, indices: [u32; CHUNK]) {
        // SAFETY: we have the cell to ourselves, because we own the entry by this function's contract. An unused entry
        // has no callback, and the indices fit.
        self.callback.with_mut(|cell| unsafe { cell.cast::<[u32; CHUNK]>().write(indices) });
    }

    /// Returns the indices that [`write_indices`](Self::write_indices) has written.
    ///
    /// # Safety
    /// The caller must own the entry, which must be free or cached. `write_indices` must have been called since the
    /// entry was last armed.
    #[inline]
    pub(crate) unsafe fn read_indices(&self) -> [u32; CHUNK] {
        // SAFETY: we own the entry, and the cell contains the indices, both by this function's contract.
        self.callback.with(|cell| unsafe { cell.cast::<[u32; CHUNK]>().read() })
    }

    /// Returns the links of the wheel. Only the driver may call this.
    pub(crate) fn links(&self) -> Links {
        // SAFETY: we own the links, because only the driver calls this.
        self.links.with(|links| unsafe { *links })
    }

    /// Changes the links of the wheel in place. Only the driver may call this.
    pub(crate) fn change_links(&self, change: impl FnOnce(&mut Links)) {
        // SAFETY: we own the links, because only the driver calls this. Their bytes are never uninitialised.
        self.links.with_mut(|links| change(unsafe { &mut *links }));
    }

    /// Returns the tick at which the timer will next expire. Returns `None` if no timer is pending, if the shard is
    /// closed, or if the timer is running and its next deadline is not set yet. `now` is the present tick.
    pub(crate) fn pending_deadline(&self, now: u64) -> Option<u64> {
        let state = self.state();
        let waits = !state.has(RUNNING) || state.has(RESET);
        (state.has(ARMED) && !state.has(CLOSED) && waits).then(|| state.deadline(now))
    }
}

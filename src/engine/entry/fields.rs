//! The parts of an entry, and the loop that all transitions but `close` go through.

use std::ptr;

use super::callback::{Callback, Data, Table, VTable};
use super::state::{ARMED, CLOSED, ENQUEUED, RESET, RUNNING, State};
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering, UnsafeCell};
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
            links: UnsafeCell::new(Links::default()),
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
        self.links.with_mut(|links| unsafe { *links = Links::default() });
        self.vtable.store(ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: as above.
        self.data.with_mut(|data| unsafe { *data = Data::zeroed() });
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
        // Without `ENQUEUED`, the driver has collected the entry since the push, and knows its deadline.
        state.has(ENQUEUED) && !state.has_deadline(deadline, now)
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

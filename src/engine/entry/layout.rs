//! What an entry consists of, and the steps that all transitions are made of.

use std::mem::MaybeUninit;

use super::callback::Callback;
use super::state::{ARMED, CACHED, CLOSED, ENQUEUED, HANDLE, State, WAKER};
use crate::sync::{AtomicU32, AtomicU64, Ordering, UnsafeCell};
use crate::wheel::Links;

/// One timer. All zero bytes are a free entry.
#[repr(C, align(64))]
pub(crate) struct Entry {
    pub(super) state: AtomicU64,
    /// The next entry in the intake.
    pub(in super::super) next_in_intake: AtomicU32,
    /// The next batch of entries in the pool; while the entry is armed, what its word has no room for of a far
    /// deadline.
    pub(in super::super) batch: AtomicU32,
    /// The low half of the tick by which the driver has linked the entry, or [`UNKNOWN_TICK`].
    pub(super) registered_tick: AtomicU32,
    /// Written before it is read: at first the bytes are zero, which is some place in the wheel.
    pub(super) links: UnsafeCell<MaybeUninit<Links>>,
    pub(super) callback: UnsafeCell<MaybeUninit<Callback>>,
}

/// As many indices of entries as there is room for where a callback would be.
pub(in super::super) type FreeList = [u32; size_of::<Callback>() / size_of::<u32>()];

/// The place of an entry whose tick is too far away to be told by half of it.
const UNKNOWN_TICK: u32 = u32::MAX;
/// How far from the driver's present that tick may be: half of what can be told apart, so that a thread may be as far
/// behind the driver.
const REGISTERED_REACH: u64 = 1 << 30;

impl Entry {
    /// A free entry.
    pub(in super::super) fn new() -> Self {
        Self {
            state: AtomicU64::new(State::FREE.0),
            next_in_intake: AtomicU32::new(0),
            batch: AtomicU32::new(0),
            registered_tick: AtomicU32::new(0),
            links: UnsafeCell::new(MaybeUninit::zeroed()),
            callback: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Fills the entry with zeros, as the system does when it takes the page. These are plain accesses: loom reports a thread
    /// that changes the entry, or reads its cells, without an order between the two.
    #[cfg(loom)]
    pub(crate) fn wipe(&self) {
        crate::sync::access_plainly(&self.state);
        self.state.store(0, Ordering::Relaxed);
        for number in [&self.next_in_intake, &self.batch, &self.registered_tick] {
            number.store(0, Ordering::Relaxed);
        }
        // SAFETY: by the contract of `Pages::discard`, nobody uses the entry.
        self.links.with_mut(|links| unsafe { *links = MaybeUninit::zeroed() });
        // SAFETY: as above.
        self.callback.with_mut(|callback| unsafe { *callback = MaybeUninit::zeroed() });
    }

    /// A look at the word, which may have changed by the time it is used.
    #[inline]
    pub(crate) fn state(&self) -> State {
        State(self.state.load(Ordering::Acquire))
    }

    /// The deadline, as a tick, of the timer that is in the entry now, or was last. `now` is the present tick.
    #[inline]
    pub(crate) fn deadline(&self, now: u64) -> u64 {
        self.deadline_in(self.state(), now)
    }

    /// The deadline that a word of this entry tells.
    #[inline]
    pub(super) fn deadline_in(&self, state: State, now: u64) -> u64 {
        // Relaxed: written before the move that made the word, and not again before the next such move. Who has no hold
        // on the entry, and only wants to show the deadline, may see a newer one.
        state.deadline(now, || self.batch.load(Ordering::Relaxed))
    }

    /// The earlier of `deadline`, which the caller gave the entry when it announced it by `ENQUEUED`, and the deadline that
    /// another thread has given it since. To be called after the push, with a fence in between. The `present` is read
    /// only if the two differ.
    #[inline]
    pub(crate) fn earliest_deadline(&self, deadline: u64, present: impl FnOnce() -> u64) -> u64 {
        // SeqCst: after the push; see the head of `wakeup`.
        let state = State(self.state.load(Ordering::SeqCst));
        // Without the flag, the driver has collected the entry since the push, and knows its deadline.
        if !state.has(ENQUEUED) || state.has_deadline(deadline) {
            return deadline;
        }
        deadline.min(self.deadline_in(state, present()))
    }

    /// The tick by which the driver has linked the entry, at the latest, if it can be told. `now` is the present tick.
    #[inline]
    pub(crate) fn registered_tick(&self, now: u64) -> Option<u64> {
        // Relaxed: written before the move that set `LINKED`, and not again while the caller may look.
        let registered_tick = self.registered_tick.load(Ordering::Relaxed);
        let distance = registered_tick.wrapping_sub(now as u32) as i32;
        (registered_tick != UNKNOWN_TICK).then(|| now.saturating_add_signed(distance.into()))
    }

    /// The driver is about to link the entry by `deadline`. `now` is the tick that the wheel has come to.
    #[inline]
    pub(super) fn set_registered_tick(&self, deadline: u64, now: u64) {
        let registered_tick = if deadline.abs_diff(now) < REGISTERED_REACH { deadline as u32 } else { UNKNOWN_TICK };
        // Relaxed: published by the move that sets `LINKED`.
        self.registered_tick.store(registered_tick, Ordering::Relaxed);
    }

    /// The word with another deadline, by one who has the entry to himself, or holds `RUNNING`.
    #[inline]
    pub(super) fn with_exact_deadline(&self, state: State, deadline: u64, now: u64) -> State {
        let (state, remainder) = state.with_exact_deadline(deadline, now);
        if let Some(remainder) = remainder {
            self.batch.store(remainder, Ordering::Relaxed);
        }
        state
    }

    /// Makes the move that `next` chooses, and returns the word before it; or the word that `next` refused.
    #[inline(always)]
    pub(super) fn advance(&self, mut next: impl FnMut(State) -> Option<State>) -> Result<State, State> {
        let mut state = self.state();
        while let Some(new) = next(state) {
            match self.state.compare_exchange_weak(state.0, new.0, Ordering::SeqCst, Ordering::Acquire) {
                Ok(_) => return Ok(state),
                Err(seen) => state = State(seen),
            }
        }
        Err(state)
    }

    /// A move that is possible from every state: `next` never refuses.
    #[inline]
    pub(super) fn change(&self, mut next: impl FnMut(State) -> State) -> State {
        let (Ok(state) | Err(state)) = self.advance(|state| Some(next(state)));
        state
    }

    /// # Safety
    /// The caller must own the callback, by the ground rules, and there must be none in the entry.
    #[inline]
    pub(super) unsafe fn put(&self, callback: Callback) {
        // SAFETY: the owner has the cell to itself.
        self.callback.with_mut(|cell| unsafe { (*cell).write(callback) });
    }

    /// # Safety
    /// The caller must own the callback, by the ground rules, and there must be one in the entry.
    #[inline]
    pub(in super::super) unsafe fn take(&self) -> Callback {
        // SAFETY: the owner leaves the copy behind for dead. Meanwhile others do no more than look at it, in `wakes`.
        self.callback.with(|cell| unsafe { (*cell).assume_init_read() })
    }

    /// Drops the callback where it is.
    ///
    /// # Safety
    /// The caller must own the callback, by the ground rules, and keep the entry from being used again by its handle.
    /// There must be one in the entry, which is not used any more.
    #[inline]
    pub(crate) unsafe fn drop_callback(&self) {
        // SAFETY: the owner has the cell to itself.
        self.callback.with_mut(|cell| unsafe { (*cell).assume_init_drop() });
    }

    /// Keeps some numbers where the callback would be.
    ///
    /// # Safety
    /// The caller must own the entry, which must be free or cached.
    #[inline]
    pub(in super::super) unsafe fn write_links(&self, list: FreeList) {
        // SAFETY: such an entry has no callback, its owner has the cell to itself, and they fit.
        self.callback.with_mut(|cell| unsafe { cell.cast::<FreeList>().write(list) });
    }

    /// Those numbers.
    ///
    /// # Safety
    /// As for [`write_links`](Self::write_links), which must have been called since the entry was last a timer.
    #[inline]
    pub(in super::super) unsafe fn read_links(&self) -> FreeList {
        // SAFETY: by this function's contract.
        self.callback.with(|cell| unsafe { cell.cast::<FreeList>().read() })
    }

    pub(in super::super) fn links(&self) -> Links {
        // SAFETY: only the driver reads or writes the links, and their bytes are never uninitialised.
        self.links.with(|links| unsafe { (*links).assume_init() })
    }

    pub(in super::super) fn set_links(&self, new: Links) {
        // SAFETY: only the driver reads or writes the links.
        self.links.with_mut(|links| unsafe { (*links).write(new) });
    }

    pub(in super::super) fn change_links(&self, change: impl FnOnce(&mut Links)) {
        // SAFETY: only the driver reads or writes the links, and their bytes are never uninitialised.
        self.links.with_mut(|links| change(unsafe { (*links).assume_init_mut() }));
    }

    /// Returns whether the timer is pending.
    #[inline]
    pub(crate) fn is_armed(&self) -> bool {
        self.state().has(ARMED)
    }

    /// Returns whether the callback wakes a task, which the driver does itself.
    #[inline]
    pub(crate) fn is_waker(&self) -> bool {
        self.state().has(WAKER)
    }

    /// Whether the shard has been shut down.
    pub(crate) fn is_closed(&self) -> bool {
        self.state().has(CLOSED)
    }
}

/// Whether nobody has a hold on the entry, so that it may be used again.
pub(super) fn is_free(state: State) -> bool {
    state.is_idle() && !state.has(HANDLE | CLOSED | CACHED)
}

/// The word of an entry that may be used again has no flag at all, whatever timer it had.
pub(super) fn free_if_idle(state: State) -> State {
    if is_free(state) { State::FREE } else { state }
}

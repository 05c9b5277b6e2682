//! One timer: a cache line, and the state machine that says who may touch it.
//!
//! | file       | concern                                              |
//! |------------|------------------------------------------------------|
//! | `state`     | the state word: flags and deadline in 64 bits        |
//! | `callback` | a closure of any type in 32 bytes                    |
//! | `outcome`  | what becomes of an entry by a move                   |
//! | `look`     | how a future has its timer wake another task         |
//!
//! This file has the rules, and the moves.
//!
//! # Ground rules
//!
//! All ownership is in the [word]. Every move below is one compare-exchange on it, so that of any number
//! of threads that try, one makes the move and the others see that it was made.
//!
//! - Whoever clears `ARMED` owns the callback from then on. While `RUNNING` is set, the worker that set it owns it.
//! - The `links` into the wheel belong to the driver, always. So does `registered_tick`, the tick by which the entry is linked;
//!   others may read it while the entry is disarmed, as the driver moves only what is armed.
//! - The `next_in_intake` link belongs to whoever set `ENQUEUED`, until the driver has collected the entry.
//! - The entry may be used for another timer when nothing is set but `CACHED`, `LINKED` and `ENQUEUED`, by the thread in
//!   whose cache it is, or who takes it from the pool; when nothing is set at all, by whoever made the move that left it
//!   so, who must recycle it. Until then the place of the callback is his, too, and the `batch` link. As a handle is not
//!   `Clone` and keeps `HANDLE` set, no handle ever outlives its timer's entry.
//!
//! # Re-arming in place
//!
//! A cancelled timer's entry stays where it is, in the wheel or the intake, and goes to the cache of the thread that
//! drops the handle. The next timer of this thread takes it, and if it is due no earlier than the driver will come to
//! the entry, that is all: the driver finds a timer that is due later, and moves the entry there. So the steady state
//! of timeouts (one ends, another begins) is one move to arm and two to end, on a cache line that nobody else wants.
//! If the driver comes first it unlinks the entry, and leaves it in the cache. What is too much for one thread's cache
//! goes to the pool as it is, to be aimed anew by another.
//!
//! # The states
//!
//! An entry is *free* (no flag), or it is some of `HANDLE` with one line of this table:
//!
//! | flags            | where the entry is                                | who looks at it next  |
//! |------------------|---------------------------------------------------|-----------------------|
//! | `ARMED ENQUEUED`   | in the intake (with `LINKED`: in the wheel, too)  | driver, at once or at the latest when it is due |
//! | `ARMED LINKED`   | in the wheel, at its deadline or earlier          | driver, when it is due |
//! | `ARMED DISPATCHED`   | in a batch, given to the executor                 | a worker              |
//! | `RUNNING`        | in the hands of a worker (`ARMED` too: it repeats)| that worker           |
//! | `LINKED`, `ENQUEUED`, both  | cancelled, and still there               | driver, when it would have been due |
//! | `DISPATCHED`         | cancelled, in a batch                             | a worker              |
//! | none             | over, or held for a timer to be                   | its handle            |
//! | `CACHED`, with or without `LINKED`, `ENQUEUED` | in a thread's cache, or the pool | that thread, or the driver |
//! | any of these and `CLOSED` | as above, but the shard was shut down    | nobody arms, resets or starts it; the shutdown, if it is `ARMED` |
//!
//! # The moves
//!
//! | move             | by               | from → to                                                | checked by loom model |
//! |------------------|------------------|----------------------------------------------------------|-----------------------|
//! | `arm`            | its owner        | free → `ARMED ENQUEUED HANDLE`; `CACHED LINKED` → `ARMED LINKED HANDLE`, with `ENQUEUED` if it would come too late | `sleep`, `shutdown`, `shutdown_sleep`, `rearm_in_place`, `in_flight` |
//! | `hold`           | its owner        | free, `CACHED` → `HANDLE`                                | `wake`, `shutdown_sleep` |
//! | `cancel`         | handle           | `ARMED` → not                                            | `cancel`, `drain`, `in_flight` |
//! | `reset`          | handle           | new deadline; `LINKED` → `ENQUEUED` if earlier; `RUNNING` → `RESET_WHILE_RUNNING` | `reset`, `in_flight` |
//! | `release`        | handle           | `HANDLE` → not; → `CACHED` if the driver still has it    | `cancel`, `rearm_in_place`     |
//! | `cancel_and_release` | handle       | `ARMED HANDLE` → `CACHED`, unless in a batch or periodic | `wake`, `shutdown_sleep`, `guard` |
//! | `reclaim`        | driver, from the pool | `CACHED LINKED` → none                              | `recycle`             |
//! | `collect`        | driver           | `ARMED ENQUEUED` → `ARMED LINKED`; `LINKED ENQUEUED` → none  | `drain`, `sleep`, `in_flight`, `backlog` |
//! | `expire`         | driver           | `ARMED LINKED` → `ARMED DISPATCHED`, or → `ARMED ENQUEUED` if moved; `LINKED` → none | `cancel`, `drain`, `reset`, `rearm_in_place` |
//! | `start`          | worker           | `ARMED DISPATCHED` → `RUNNING`, or → `ARMED ENQUEUED` if moved | `cancel`, `reset`     |
//! | `finish`         | worker           | `RUNNING` → none                                         | `cancel`, `repeat`    |
//! | `arm_next`          | worker           | `ARMED RUNNING` → `ARMED ENQUEUED`                         | `repeat`, `shutdown`, `in_flight` |
//! | `end`            | worker           | `ARMED RUNNING` → `RUNNING`                              | `repeat`              |
//! | `discard`        | who drops a batch| `ARMED DISPATCHED` → `DISPATCHED`, or → `ARMED ENQUEUED` if moved  | `cancel`, `reset`, `shutdown` |
//! | `close`          | who shuts down   | any → `CLOSED`                                           | `shutdown`, `shutdown_sleep`, `backlog` |
//! | `claim`          | who shuts down   | `ARMED CLOSED` → `CLOSED`, and `ARMED RUNNING CLOSED` → `RUNNING CLOSED` if the run is not waited for | `shutdown`, `shutdown_inside` |
//!
//! # Orderings
//!
//! Every move is at least `AcqRel`: its acquire half makes the callback and the links that the previous owner wrote visible
//! to the new one, its release half hands ours on. Those that compare and exchange are `SeqCst`, which orders a new deadline
//! before the load by which its caller sees until when the driver sleeps: see the head of [`wakeup`](super::wakeup). There is
//! nothing to gain from less on the machines this runs on, where a compare-exchange costs the same at any ordering. The word is read first with `Acquire` for the same reason: what a
//! refused move saw is acted upon, too.
//!
//! # Progress
//!
//! A move is retried only when the word changed under it, that is when another thread made a move: lock-free. Each
//! timer's life has few moves, so in practice a retry is rare and bounded.

mod callback;
mod outcome;
mod poll;
pub(super) mod state;

use std::mem::{ManuallyDrop, MaybeUninit};
use std::task::Waker;

use crate::sync::{AtomicU32, AtomicU64, Ordering, UnsafeCell};
use crate::wheel::Links;
pub(crate) use callback::{Callback, PeriodicCallback, Role};
pub(crate) use outcome::{Claim, Closed, Collect, DriverNotice, Ended, Expire, Finish, Held, NextRun, Release, Start};
pub(crate) use poll::PollOutcome;
use state::{
    ARMED, CACHED, CLOSED, DISPATCHED, ENQUEUED, HANDLE, HAS_WAITER, LINKED, PERIODIC, RESET_WHILE_RUNNING, RUNNING,
    State, WAKER,
};

/// One timer. All zero bytes are a free entry.
#[repr(C, align(64))]
pub(crate) struct Entry {
    state: AtomicU64,
    /// The next entry in the intake.
    pub(in crate::shard) next_in_intake: AtomicU32,
    /// The next batch of entries in the pool; while the entry is armed, what its word has no room for of a far
    /// deadline.
    pub(in crate::shard) batch: AtomicU32,
    /// The low half of the tick by which the driver has linked the entry, or [`UNKNOWN_TICK`].
    registered_tick: AtomicU32,
    /// Written before it is read: at first the bytes are zero, which is some place in the wheel.
    links: UnsafeCell<MaybeUninit<Links>>,
    callback: UnsafeCell<MaybeUninit<Callback>>,
}

/// As many indices of entries as there is room for where a callback would be.
pub(in crate::shard) type FreeList = [u32; size_of::<Callback>() / size_of::<u32>()];

/// The place of an entry whose tick is too far away to be told by half of it.
const UNKNOWN_TICK: u32 = u32::MAX;
/// How far from the driver's present that tick may be: half of what can be told apart, so that a thread may be as far
/// behind the driver.
const REGISTERED_REACH: u64 = 1 << 30;

impl Entry {
    /// A free entry.
    pub(in crate::shard) fn new() -> Self {
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
    fn deadline_in(&self, state: State, now: u64) -> u64 {
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
    fn set_registered_tick(&self, deadline: u64, now: u64) {
        let registered_tick = if deadline.abs_diff(now) < REGISTERED_REACH { deadline as u32 } else { UNKNOWN_TICK };
        // Relaxed: published by the move that sets `LINKED`.
        self.registered_tick.store(registered_tick, Ordering::Relaxed);
    }

    /// The word with another deadline, by one who has the entry to himself, or holds `RUNNING`.
    #[inline]
    fn with_exact_deadline(&self, state: State, deadline: u64, now: u64) -> State {
        let (state, remainder) = state.with_exact_deadline(deadline, now);
        if let Some(remainder) = remainder {
            self.batch.store(remainder, Ordering::Relaxed);
        }
        state
    }

    /// Makes the move that `next` chooses, and returns the word before it; or the word that `next` refused.
    #[inline(always)]
    fn advance(&self, mut next: impl FnMut(State) -> Option<State>) -> Result<State, State> {
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
    fn change(&self, mut next: impl FnMut(State) -> State) -> State {
        let (Ok(state) | Err(state)) = self.advance(|state| Some(next(state)));
        state
    }

    /// # Safety
    /// The caller must own the callback, by the ground rules, and there must be none in the entry.
    #[inline]
    unsafe fn put(&self, callback: Callback) {
        // SAFETY: the owner has the cell to itself.
        self.callback.with_mut(|cell| unsafe { (*cell).write(callback) });
    }

    /// # Safety
    /// The caller must own the callback, by the ground rules, and there must be one in the entry.
    #[inline]
    pub(in crate::shard) unsafe fn take(&self) -> Callback {
        // SAFETY: the owner leaves the copy behind for dead. Meanwhile others do no more than look at it, in `wakes`.
        self.callback.with(|cell| unsafe { (*cell).assume_init_read() })
    }

    /// Keeps some numbers where the callback would be.
    ///
    /// # Safety
    /// The caller must own the entry, which must be free or cached.
    #[inline]
    pub(in crate::shard) unsafe fn write_links(&self, list: FreeList) {
        // SAFETY: such an entry has no callback, its owner has the cell to itself, and they fit.
        self.callback.with_mut(|cell| unsafe { cell.cast::<FreeList>().write(list) });
    }

    /// Those numbers.
    ///
    /// # Safety
    /// As for [`write_links`](Self::write_links), which must have been called since the entry was last a timer.
    #[inline]
    pub(in crate::shard) unsafe fn read_links(&self) -> FreeList {
        // SAFETY: by this function's contract.
        self.callback.with(|cell| unsafe { cell.cast::<FreeList>().read() })
    }

    /// Takes hold of the entry for a timer to be, which has a handle already. False if the shard has been shut down.
    ///
    /// # Safety
    /// The caller must own the entry, which must be free or cached.
    #[inline]
    pub(crate) unsafe fn reserve(&self) -> bool {
        self.advance(|state| (!state.has(CLOSED)).then(|| state.without(CACHED).with(HANDLE))).is_ok()
    }

    /// Whether the entry is in the hands of a driver or a worker, who will look at it whatever its handle does.
    #[inline]
    pub(crate) fn is_in_hands(&self) -> bool {
        self.state().has(DISPATCHED | RUNNING)
    }

    /// Whether the shard has been shut down.
    pub(crate) fn is_closed(&self) -> bool {
        self.state().has(CLOSED)
    }

    /// Whether the callback wakes the same task as `waker`.
    ///
    /// # Safety
    /// The caller must have the entry's handle to itself, and have armed it since it last ended the timer.
    #[inline]
    pub(crate) unsafe fn wakes(&self, waker: &Waker) -> bool {
        // SAFETY: only who has the handle to itself arms the entry again, so nobody writes the callback meanwhile. One
        // that has been taken is still there to be compared.
        self.callback.with(|cell| unsafe { (*cell).assume_init_ref() }.wakes(waker))
    }

    /// Makes the entry a pending timer with a handle. The driver must be told of it then. Gives the callback back if
    /// the shard has been shut down.
    ///
    /// # Safety
    /// The caller must own the entry, which must be free, cached or [reserved](Self::reserve), and in nobody's hands.
    #[inline]
    pub(crate) unsafe fn arm(&self, callback: Callback, deadline: u64, now: u64) -> Result<DriverNotice, Callback> {
        let callback = ManuallyDrop::new(callback);
        // SAFETY: the callback is moved, and used again only if the transition is refused.
        let write = |cell: *mut Callback| unsafe { callback.write(cell) };
        // SAFETY: by this function's contract.
        let armed = unsafe { self.arm_with(callback.role(), write, || (deadline, now)) };
        armed.ok_or_else(|| ManuallyDrop::into_inner(callback))
    }

    /// As [`arm`](Self::arm), with a callback in this role that `write` writes into the entry, and the deadline and the present
    /// that `when` returns then. `None` if the shard has been shut down: what was written must be treated as uninitialised
    /// then.
    ///
    /// # Safety
    /// As for [`arm`](Self::arm).
    #[inline(always)]
    pub(crate) unsafe fn arm_with(
        &self,
        role: Role,
        write: impl FnOnce(*mut Callback),
        when: impl FnOnce() -> (u64, u64),
    ) -> Option<DriverNotice> {
        let role = match role {
            Role::Once => 0,
            Role::Periodic => PERIODIC,
            Role::Waker => WAKER,
        };
        // Such an entry has no callback, and its owner has the cell to itself.
        self.callback.with_mut(|cell| write(cell.cast()));
        let (deadline, now) = when();
        let mut notice = DriverNotice::None;
        let moved = self.advance(|state| {
            notice = if state.has(ENQUEUED) {
                if deadline < self.deadline_in(state, now) { DriverNotice::Wake } else { DriverNotice::None }
            } else if state.has(LINKED)
                && self.registered_tick(now).is_some_and(|registered_tick| deadline >= registered_tick)
            {
                DriverNotice::None
            } else {
                DriverNotice::Enqueue
            };
            let armed = State(ARMED | HANDLE | role | notice.flag() | state.only(LINKED | ENQUEUED));
            (!state.has(CLOSED)).then(|| self.with_exact_deadline(armed, deadline, now))
        });
        moved.ok().map(|_| notice)
    }

    /// Ends the timer; `None` if it had ended already. The entry stays where it is.
    #[inline]
    pub(crate) fn cancel(&self) -> Option<Ended> {
        let state = self.advance(|state| state.has(ARMED).then(|| state.without(ARMED))).ok()?;
        Some(Ended { idle: !state.has(RUNNING), dispatched: state.has(DISPATCHED) })
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

    /// Moves the deadline; `None` if the timer had ended.
    #[inline]
    pub(crate) fn reset(&self, deadline: u64, now: u64) -> Option<DriverNotice> {
        let mut notice = DriverNotice::None;
        let moved = self.advance(|state| {
            notice = if state.has(RUNNING | DISPATCHED) || deadline >= self.deadline_in(state, now) {
                DriverNotice::None
            } else if state.has(ENQUEUED) {
                DriverNotice::Wake
            } else {
                DriverNotice::Enqueue
            };
            let moved = if state.has(RUNNING) { RESET_WHILE_RUNNING } else { notice.flag() };
            let pending = state.has(ARMED) && !state.has(CLOSED);
            pending.then(|| state.with(moved).with_deadline(deadline, now))
        });
        moved.ok().map(|_| notice)
    }

    /// Lets go of the handle. Unless it is `Kept`, the caller must not touch the entry any more.
    #[inline]
    pub(crate) fn release(&self) -> Release {
        let state = self.change(|state| {
            let state = state.without(HANDLE);
            if state.has(ARMED | RUNNING | DISPATCHED | CLOSED) {
                state
            } else if state.has(LINKED | ENQUEUED) {
                state.with(CACHED)
            } else {
                State::FREE
            }
        });
        if state.has(CLOSED) {
            Release::Closed
        } else if state.has(ARMED | RUNNING | DISPATCHED) {
            Release::Held
        } else {
            Release::Kept
        }
    }

    /// Ends the timer and releases the handle in one transition, and moves the callback to `callback`: from then on that and
    /// the entry are the caller's. False if the timer has ended, runs again and again, or is in the hands of the driver or of
    /// a worker, or if the shard is shut down: then nothing is done, and what `callback` holds must be treated as
    /// uninitialised.
    ///
    /// # Safety
    /// The caller must have the handle to itself, and have armed the entry since it last ended the timer. It must not
    /// touch the entry any more if this succeeds, but keep its index for the cache.
    #[inline(always)]
    pub(crate) unsafe fn cancel_and_release(&self, callback: &mut MaybeUninit<Callback>) -> bool {
        if self.state().has(PERIODIC) {
            // A worker may be writing the callback.
            return false;
        }
        // Before the transition, after which the memory of a closed shard may be freed.
        // SAFETY: nobody writes the callback of a one-shot but the owner of its handle.
        self.callback.with(|cell| unsafe { callback.as_mut_ptr().copy_from_nonoverlapping(cell.cast(), 1) });
        // A one-shot that runs is not armed. If it is armed and in no batch, it is in the wheel or in the intake.
        let alone = |state: State| state.has(ARMED) && !state.has(DISPATCHED | CLOSED);
        self.advance(|state| alone(state).then(|| state.without(ARMED | HANDLE).with(CACHED))).is_ok()
    }

    /// The driver, who has the entry from the pool, wants it to himself: it is free then. Returns whether it was in the
    /// wheel, from which it is to be unlinked; or `None` if it is in the intake, and stays as it is.
    pub(crate) fn reclaim(&self) -> Option<bool> {
        let here = |state: State| !state.has(ENQUEUED);
        let state = self.advance(|state| here(state).then(|| free_if_idle(state.without(CACHED | LINKED)))).ok()?;
        Some(state.has(LINKED))
    }

    /// The driver has the entry in its hands: out of the intake, or because its time has come. It is `now`, and the wheel
    /// has come to the tick `wheel`.
    pub(crate) fn collect(&self, now: u64, wheel: u64) -> Collect {
        let goes_on = |state: State| state.has(ARMED) && !state.has(CLOSED);
        let state = self.change(|state| {
            if goes_on(state) {
                self.set_registered_tick(self.deadline_in(state, now), wheel);
                state.without(ENQUEUED).with(LINKED)
            } else {
                free_if_idle(state.without(ENQUEUED | LINKED))
            }
        });
        let linked = state.has(LINKED);
        if goes_on(state) {
            Collect::Link { linked }
        } else {
            Collect::Over { linked, free: is_free(state.without(ENQUEUED | LINKED)) }
        }
    }

    /// The driver has unlinked the entry, whose time has come, or which is disarmed: it is `now`.
    pub(crate) fn expire(&self, now: u64) -> Expire {
        let mut outcome = Expire::Enqueued;
        self.change(|state| {
            let unlinked = state.without(LINKED);
            let (next, what) = if state.has(ENQUEUED) {
                (unlinked, Expire::Enqueued)
            } else if !state.has(ARMED) || state.has(CLOSED) {
                (free_if_idle(unlinked), Expire::Over { free: is_free(unlinked) })
            } else if self.deadline_in(state, now) > now {
                (unlinked.with(ENQUEUED), Expire::Later)
            } else {
                (unlinked.with(DISPATCHED), Expire::Dispatch)
            };
            outcome = what;
            next
        });
        outcome
    }

    /// A worker has come to the entry, in a batch of what was due at `due`.
    #[inline]
    pub(crate) fn start(&self, due: u64) -> Start {
        self.leave_batch(due, |state| {
            if state.has(PERIODIC) { state.with(RUNNING) } else { state.without(ARMED).with(RUNNING) }
        })
    }

    /// The batch of what was due at `due` is dropped unrun. In place of a run, the caller drops the callback, and then calls
    /// [`discarded`](Self::discarded). A timer that was reset meanwhile to a later deadline, or whose shard was shut down,
    /// does not end: it leaves the batch as it does when a worker comes to it.
    pub(crate) fn discard(&self, due: u64) -> Start {
        // `DISPATCHED` keeps the entry from being used again until the callback is dropped.
        self.leave_batch(due, |state| state.without(ARMED).with(DISPATCHED))
    }

    /// The entry leaves a batch of what was due at `due`. `begin` takes the callback, if that is to be run or dropped.
    #[inline]
    fn leave_batch(&self, due: u64, begin: impl Fn(State) -> State) -> Start {
        let mut deadline = due;
        let state = self.change(|state| {
            deadline = self.deadline_in(state, due);
            let state = state.without(DISPATCHED);
            if !state.has(ARMED) {
                free_if_idle(state)
            } else if state.has(CLOSED) {
                state
            } else if deadline > due {
                state.with(ENQUEUED)
            } else {
                begin(state)
            }
        });
        if !state.has(ARMED) {
            Start::Over { free: is_free(state.without(DISPATCHED)) }
        } else if state.has(CLOSED) {
            Start::Closed
        } else if deadline > due {
            Start::Enqueue { deadline }
        } else {
            Start::Run {
                // SAFETY: we own the callback, because `begin` took it: it set `RUNNING` or cleared `ARMED` on an armed entry
                // that did not run.
                callback: unsafe { self.take() },
                deadline,
            }
        }
    }

    /// The worker is done, and has run or dropped the callback.
    pub(crate) fn finish(&self) -> Finish {
        self.let_go(RUNNING)
    }

    fn let_go(&self, hold: u64) -> Finish {
        let state = self.change(|state| free_if_idle(state.without(hold | HAS_WAITER)));
        Finish { has_waiter: state.has(HAS_WAITER), free: is_free(state.without(hold | HAS_WAITER)) }
    }

    /// The worker has made a run, and the callback wants another at `next`.
    pub(crate) fn arm_next(&self, callback: Callback, next: u64, now: u64) -> NextRun {
        // SAFETY: the worker holds `RUNNING`, and has taken the callback out.
        unsafe { self.put(callback) };
        let resumed = |state: State| {
            let state = if state.has(RESET_WHILE_RUNNING) { state } else { self.with_exact_deadline(state, next, now) };
            state.without(RUNNING | RESET_WHILE_RUNNING | HAS_WAITER)
        };
        let moved = self.advance(|state| {
            let enqueued = if state.has(CLOSED) { 0 } else { ENQUEUED };
            state.has(ARMED).then(|| resumed(state).with(enqueued))
        });
        match moved {
            // SAFETY: the move was refused, so this worker still holds `RUNNING`, and the callback is where it put it.
            Err(_) => NextRun::Cancelled(unsafe { self.take() }),
            Ok(state) if state.has(CLOSED) => NextRun::Held { has_waiter: state.has(HAS_WAITER) },
            Ok(state) => NextRun::Enqueue {
                deadline: if state.has(RESET_WHILE_RUNNING) { self.deadline_in(state, now) } else { next },
            },
        }
    }

    /// The worker has made the last run of a repeating callback. True if that ended the timer, and not a `cancel`.
    pub(crate) fn end(&self) -> bool {
        self.advance(|state| state.has(ARMED).then(|| state.without(ARMED))).is_ok()
    }

    /// The callback that [`discard`](Self::discard) took has been dropped. True if the caller must recycle the entry.
    pub(crate) fn discarded(&self) -> bool {
        self.let_go(DISPATCHED).free
    }

    /// Closes the entry of a shard that is shut down: from here on its timer is neither reset nor started, and no other
    /// is armed. A timer that is pending stays so, until it is cancelled or [claimed](Self::claim).
    pub(crate) fn close(&self) -> Closed {
        // AcqRel: as of all moves. It is one that never fails.
        let state = State(self.state.fetch_or(CLOSED, Ordering::AcqRel));
        let timer = match () {
            () if state.has(RUNNING) => Held::Running,
            () if !state.has(ARMED) => Held::None,
            () if state.has(WAKER) => Held::Waker,
            () => Held::Closure,
        };
        Closed { handle: state.has(HANDLE), timer }
    }

    /// Whether a closed entry holds a pending waker.
    pub(crate) fn holds_waker(&self) -> bool {
        let state = self.state();
        state.has(ARMED) && state.has(WAKER)
    }

    /// Takes the timer of a closed entry. One that is running is left alone, unless `end_run`: then it ends with this
    /// run, if it repeats. It is `now`.
    pub(crate) fn claim(&self, end_run: bool, now: u64) -> Claim {
        let claimable = |state: State| state.has(ARMED) && (end_run || !state.has(RUNNING));
        match self.advance(|state| claimable(state).then(|| state.without(ARMED))) {
            Ok(state) if state.has(RUNNING) => Claim::Ended,
            Ok(state) => Claim::Taken {
                deadline: self.deadline_in(state, now),
                // SAFETY: this thread cleared `ARMED` of an entry that does not run; `CLOSED` keeps it from reuse.
                callback: unsafe { self.take() },
                dispatched: state.has(DISPATCHED),
            },
            Err(state) if state.has(RUNNING) => Claim::Running,
            Err(_) => Claim::Over,
        }
    }

    /// Asks the worker that runs the callback to say when it is done. False if nobody runs it.
    pub(crate) fn wait_for_run(&self) -> bool {
        self.advance(|state| state.has(RUNNING).then(|| state.with(HAS_WAITER))).is_ok()
    }

    pub(in crate::shard) fn links(&self) -> Links {
        // SAFETY: only the driver reads or writes the links, and their bytes are never uninitialised.
        self.links.with(|links| unsafe { (*links).assume_init() })
    }

    pub(in crate::shard) fn set_links(&self, new: Links) {
        // SAFETY: only the driver reads or writes the links.
        self.links.with_mut(|links| unsafe { (*links).write(new) });
    }

    pub(in crate::shard) fn change_links(&self, change: impl FnOnce(&mut Links)) {
        // SAFETY: only the driver reads or writes the links, and their bytes are never uninitialised.
        self.links.with_mut(|links| change(unsafe { (*links).assume_init_mut() }));
    }
}

/// Whether nobody has a hold on the entry, so that it may be used again.
fn is_free(state: State) -> bool {
    state.is_idle() && !state.has(HANDLE | CLOSED | CACHED)
}

/// The word of an entry that may be used again has no flag at all, whatever timer it had.
fn free_if_idle(state: State) -> State {
    if is_free(state) { State::FREE } else { state }
}

//! One timer: a cache line, and the state machine that says who may touch it.
//!
//! | file       | concern                                              |
//! |------------|------------------------------------------------------|
//! | `word`     | the state word: flags and deadline in 64 bits        |
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
//! - The `links` into the wheel belong to the driver, always. So does `placed`, the tick by which the entry is linked;
//!   others may read it while the entry is disarmed, as the driver moves only what is armed.
//! - The `mail` link belongs to whoever set `MAILED`, until the driver has collected the entry.
//! - The entry may be used for another timer when nothing is set but `CACHED`, `LINKED` and `MAILED`, by the thread in
//!   whose cache it is, or who takes it from the pool; when nothing is set at all, by whoever made the move that left it
//!   so, who must recycle it. Until then the place of the callback is his, too, and the `batch` link. As a handle is not
//!   `Clone` and keeps `HANDLE` set, no handle ever outlives its timer's entry.
//!
//! # Re-aiming
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
//! | `ARMED MAILED`   | in the intake (with `LINKED`: in the wheel, too)  | driver, at once or at the latest when it is due |
//! | `ARMED LINKED`   | in the wheel, at its deadline or earlier          | driver, when it is due |
//! | `ARMED QUEUED`   | in a batch, given to the executor                 | a worker              |
//! | `RUNNING`        | in the hands of a worker (`ARMED` too: it repeats)| that worker           |
//! | `LINKED`, `MAILED`, both  | cancelled, and still there               | driver, when it would have been due |
//! | `QUEUED`         | cancelled, in a batch                             | a worker              |
//! | none             | over, or held for a timer to be                   | its handle            |
//! | `CACHED`, with or without `LINKED`, `MAILED` | in a thread's cache, or the pool | that thread, or the driver |
//! | any of these and `CLOSED` | as above, but the shard was shut down    | nobody arms, resets or starts it; the shutdown, if it is `ARMED` |
//!
//! # The moves
//!
//! | move             | by               | from → to                                                | checked by loom model |
//! |------------------|------------------|----------------------------------------------------------|-----------------------|
//! | `arm`            | its owner        | free → `ARMED MAILED HANDLE`; `CACHED LINKED` → `ARMED LINKED HANDLE`, with `MAILED` if it would come too late | `sleep`, `shutdown`, `shutdown_sleep`, `reaim`, `in_flight` |
//! | `hold`           | its owner        | free, `CACHED` → `HANDLE`                                | `wake`, `shutdown_sleep` |
//! | `cancel`         | handle           | `ARMED` → not                                            | `cancel`, `drain`, `in_flight` |
//! | `reset`          | handle           | new deadline; `LINKED` → `MAILED` if earlier; `RUNNING` → `MOVED` | `reset`, `in_flight` |
//! | `release`        | handle           | `HANDLE` → not; → `CACHED` if the driver still has it    | `cancel`, `reaim`     |
//! | `cancel_and_release` | handle       | `ARMED HANDLE` → `CACHED`, unless in a batch or periodic | `wake`, `shutdown_sleep`, `guard` |
//! | `reclaim`        | driver, from the pool | `CACHED LINKED` → none                              | `recycle`             |
//! | `collect`        | driver           | `ARMED MAILED` → `ARMED LINKED`; `LINKED MAILED` → none  | `drain`, `sleep`, `in_flight`, `backlog` |
//! | `expire`         | driver           | `ARMED LINKED` → `ARMED QUEUED`, or → `ARMED MAILED` if moved; `LINKED` → none | `cancel`, `drain`, `reset`, `reaim` |
//! | `start`          | worker           | `ARMED QUEUED` → `RUNNING`, or → `ARMED MAILED` if moved | `cancel`, `reset`     |
//! | `finish`         | worker           | `RUNNING` → none                                         | `cancel`, `repeat`    |
//! | `rearm`          | worker           | `ARMED RUNNING` → `ARMED MAILED`                         | `repeat`, `shutdown`, `in_flight` |
//! | `end`            | worker           | `ARMED RUNNING` → `RUNNING`                              | `repeat`              |
//! | `discard`        | who drops a batch| `ARMED QUEUED` → `QUEUED`, or → `ARMED MAILED` if moved  | `cancel`, `reset`, `shutdown` |
//! | `close`          | who shuts down   | any → `CLOSED`                                           | `shutdown`, `shutdown_sleep`, `backlog` |
//! | `claim`          | who shuts down   | `ARMED CLOSED` → `CLOSED`, and `ARMED RUNNING CLOSED` → `RUNNING CLOSED` if the run is not waited for | `shutdown`, `shutdown_inside` |
//!
//! # Orderings
//!
//! Every move is at least `AcqRel`: its acquire half makes the callback and the links that the previous owner wrote visible
//! to the new one, its release half hands ours on. Those that compare and exchange are `SeqCst`, which orders a new deadline
//! before the load by which its caller sees until when the driver sleeps: see the head of [`bell`](super::bell). There is
//! nothing to gain from less on the machines this runs on, where a compare-exchange costs the same at any ordering. The word is read first with `Acquire` for the same reason: what a
//! refused move saw is acted upon, too.
//!
//! # Progress
//!
//! A move is retried only when the word changed under it, that is when another thread made a move: lock-free. Each
//! timer's life has few moves, so in practice a retry is rare and bounded.

mod callback;
mod look;
mod outcome;
pub(super) mod word;

use std::mem::{ManuallyDrop, MaybeUninit};
use std::task::Waker;

use crate::sync::{AtomicU32, AtomicU64, Ordering, UnsafeCell};
use crate::wheel::Links;
pub(crate) use callback::{Callback, Recur, Role};
pub(crate) use look::Look;
pub(crate) use outcome::{Claim, Closed, Collect, Ended, Expire, Finish, Held, Notice, Rearm, Release, Start};
use word::{ARMED, CACHED, CLOSED, HANDLE, LINKED, MAILED, MOVED, QUEUED, REPEAT, RUNNING, WAITED, WAKES, Word};

/// One timer. All zero bytes are a free entry.
#[repr(C, align(64))]
pub(crate) struct Entry {
    word: AtomicU64,
    /// The next entry in the intake.
    pub(in crate::shard) mail: AtomicU32,
    /// The next batch of entries in the pool; while the entry is armed, what its word has no room for of a far
    /// deadline.
    pub(in crate::shard) batch: AtomicU32,
    /// The low half of the tick by which the driver has linked the entry, or [`NOWHERE`].
    placed: AtomicU32,
    /// Written before it is read: at first the bytes are zero, which is some place in the wheel.
    links: UnsafeCell<MaybeUninit<Links>>,
    callback: UnsafeCell<MaybeUninit<Callback>>,
}

/// As many indices of entries as there is room for where a callback would be.
pub(in crate::shard) type Cargo = [u32; size_of::<Callback>() / size_of::<u32>()];

/// The place of an entry whose tick is too far away to be told by half of it.
const NOWHERE: u32 = u32::MAX;
/// How far from the driver's present that tick may be: half of what can be told apart, so that a thread may be as far
/// behind the driver.
const PLACED_REACH: u64 = 1 << 30;

impl Entry {
    /// A free entry.
    pub(in crate::shard) fn new() -> Self {
        Self {
            word: AtomicU64::new(Word::FREE.0),
            mail: AtomicU32::new(0),
            batch: AtomicU32::new(0),
            placed: AtomicU32::new(0),
            links: UnsafeCell::new(MaybeUninit::zeroed()),
            callback: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Fills the entry with zeros, as the system does when it takes the page. These are plain accesses: loom reports a thread
    /// that changes the entry, or reads its cells, without an order between the two.
    #[cfg(loom)]
    pub(crate) fn wipe(&self) {
        crate::sync::access_plainly(&self.word);
        self.word.store(0, Ordering::Relaxed);
        for number in [&self.mail, &self.batch, &self.placed] {
            number.store(0, Ordering::Relaxed);
        }
        // SAFETY: by the contract of `Pages::discard`, nobody uses the entry.
        self.links.with_mut(|links| unsafe { *links = MaybeUninit::zeroed() });
        // SAFETY: as above.
        self.callback.with_mut(|callback| unsafe { *callback = MaybeUninit::zeroed() });
    }

    /// A look at the word, which may have changed by the time it is used.
    #[inline]
    pub(crate) fn word(&self) -> Word {
        Word(self.word.load(Ordering::Acquire))
    }

    /// The deadline, as a tick, of the timer that is in the entry now, or was last. `now` is the present tick.
    #[inline]
    pub(crate) fn deadline(&self, now: u64) -> u64 {
        self.deadline_in(self.word(), now)
    }

    /// The deadline that a word of this entry tells.
    #[inline]
    fn deadline_in(&self, word: Word, now: u64) -> u64 {
        // Relaxed: written before the move that made the word, and not again before the next such move. Who has no hold
        // on the entry, and only wants to show the deadline, may see a newer one.
        word.deadline(now, || self.batch.load(Ordering::Relaxed))
    }

    /// The earlier of `deadline`, which the caller gave the entry when it announced it by `MAILED`, and the deadline that
    /// another thread has given it since. To be called after the push, with a fence in between. The `present` is read
    /// only if the two differ.
    #[inline]
    pub(crate) fn earliest_deadline(&self, deadline: u64, present: impl FnOnce() -> u64) -> u64 {
        // SeqCst: after the push; see the head of `bell`.
        let word = Word(self.word.load(Ordering::SeqCst));
        // Without the flag, the driver has collected the entry since the push, and knows its deadline.
        if !word.has(MAILED) || word.has_deadline(deadline) {
            return deadline;
        }
        deadline.min(self.deadline_in(word, present()))
    }

    /// The tick by which the driver has linked the entry, at the latest, if it can be told. `now` is the present tick.
    #[inline]
    pub(crate) fn placed(&self, now: u64) -> Option<u64> {
        // Relaxed: written before the move that set `LINKED`, and not again while the caller may look.
        let placed = self.placed.load(Ordering::Relaxed);
        let distance = placed.wrapping_sub(now as u32) as i32;
        (placed != NOWHERE).then(|| now.saturating_add_signed(distance.into()))
    }

    /// The driver is about to link the entry by `deadline`. `now` is the tick that the wheel has come to.
    #[inline]
    fn set_placed(&self, deadline: u64, now: u64) {
        let placed = if deadline.abs_diff(now) < PLACED_REACH { deadline as u32 } else { NOWHERE };
        // Relaxed: published by the move that sets `LINKED`.
        self.placed.store(placed, Ordering::Relaxed);
    }

    /// The word with another deadline, by one who has the entry to himself, or holds `RUNNING`.
    #[inline]
    fn with_fine_deadline(&self, word: Word, deadline: u64, now: u64) -> Word {
        let (word, remainder) = word.with_fine_deadline(deadline, now);
        if let Some(remainder) = remainder {
            self.batch.store(remainder, Ordering::Relaxed);
        }
        word
    }

    /// Makes the move that `next` chooses, and returns the word before it; or the word that `next` refused.
    #[inline(always)]
    fn advance(&self, mut next: impl FnMut(Word) -> Option<Word>) -> Result<Word, Word> {
        let mut word = self.word();
        while let Some(new) = next(word) {
            match self.word.compare_exchange_weak(word.0, new.0, Ordering::SeqCst, Ordering::Acquire) {
                Ok(_) => return Ok(word),
                Err(seen) => word = Word(seen),
            }
        }
        Err(word)
    }

    /// A move that is possible from every state: `next` never refuses.
    #[inline]
    fn change(&self, mut next: impl FnMut(Word) -> Word) -> Word {
        let (Ok(word) | Err(word)) = self.advance(|word| Some(next(word)));
        word
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
    pub(in crate::shard) unsafe fn load(&self, cargo: Cargo) {
        // SAFETY: such an entry has no callback, its owner has the cell to itself, and they fit.
        self.callback.with_mut(|cell| unsafe { cell.cast::<Cargo>().write(cargo) });
    }

    /// Those numbers.
    ///
    /// # Safety
    /// As for [`load`](Self::load), which must have been called since the entry was last a timer.
    #[inline]
    pub(in crate::shard) unsafe fn unload(&self) -> Cargo {
        // SAFETY: by this function's contract.
        self.callback.with(|cell| unsafe { cell.cast::<Cargo>().read() })
    }

    /// Takes hold of the entry for a timer to be, which has a handle already. False if the shard has been shut down.
    ///
    /// # Safety
    /// The caller must own the entry, which must be free or cached.
    #[inline]
    pub(crate) unsafe fn hold(&self) -> bool {
        self.advance(|word| (!word.has(CLOSED)).then(|| word.without(CACHED).with(HANDLE))).is_ok()
    }

    /// Whether the entry is in the hands of a driver or a worker, who will look at it whatever its handle does.
    #[inline]
    pub(crate) fn is_in_hands(&self) -> bool {
        self.word().has(QUEUED | RUNNING)
    }

    /// Whether the shard has been shut down.
    pub(crate) fn is_closed(&self) -> bool {
        self.word().has(CLOSED)
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
    /// The caller must own the entry, which must be free, cached or [held](Self::hold), and in nobody's hands.
    #[inline]
    pub(crate) unsafe fn arm(&self, callback: Callback, deadline: u64, now: u64) -> Result<Notice, Callback> {
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
    ) -> Option<Notice> {
        let role = match role {
            Role::Once => 0,
            Role::Repeat => REPEAT,
            Role::Wake => WAKES,
        };
        // Such an entry has no callback, and its owner has the cell to itself.
        self.callback.with_mut(|cell| write(cell.cast()));
        let (deadline, now) = when();
        let mut notice = Notice::None;
        let moved = self.advance(|word| {
            notice = if word.has(MAILED) {
                if deadline < self.deadline_in(word, now) { Notice::Ring } else { Notice::None }
            } else if word.has(LINKED) && self.placed(now).is_some_and(|placed| deadline >= placed) {
                Notice::None
            } else {
                Notice::Mail
            };
            let armed = Word(ARMED | HANDLE | role | notice.flag() | word.only(LINKED | MAILED));
            (!word.has(CLOSED)).then(|| self.with_fine_deadline(armed, deadline, now))
        });
        moved.ok().map(|_| notice)
    }

    /// Ends the timer; `None` if it had ended already. The entry stays where it is.
    #[inline]
    pub(crate) fn cancel(&self) -> Option<Ended> {
        let word = self.advance(|word| word.has(ARMED).then(|| word.without(ARMED))).ok()?;
        Some(Ended { idle: !word.has(RUNNING), queued: word.has(QUEUED) })
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
    pub(crate) fn reset(&self, deadline: u64, now: u64) -> Option<Notice> {
        let mut notice = Notice::None;
        let moved = self.advance(|word| {
            notice = if word.has(RUNNING | QUEUED) || deadline >= self.deadline_in(word, now) {
                Notice::None
            } else if word.has(MAILED) {
                Notice::Ring
            } else {
                Notice::Mail
            };
            let moved = if word.has(RUNNING) { MOVED } else { notice.flag() };
            let pending = word.has(ARMED) && !word.has(CLOSED);
            pending.then(|| word.with(moved).with_deadline(deadline, now))
        });
        moved.ok().map(|_| notice)
    }

    /// Lets go of the handle. Unless it is `Kept`, the caller must not touch the entry any more.
    #[inline]
    pub(crate) fn release(&self) -> Release {
        let word = self.change(|word| {
            let word = word.without(HANDLE);
            if word.has(ARMED | RUNNING | QUEUED | CLOSED) {
                word
            } else if word.has(LINKED | MAILED) {
                word.with(CACHED)
            } else {
                Word::FREE
            }
        });
        if word.has(CLOSED) {
            Release::Closed
        } else if word.has(ARMED | RUNNING | QUEUED) {
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
        if self.word().has(REPEAT) {
            // A worker may be writing the callback.
            return false;
        }
        // Before the transition, after which the memory of a closed shard may be freed.
        // SAFETY: nobody writes the callback of a one-shot but the owner of its handle.
        self.callback.with(|cell| unsafe { callback.as_mut_ptr().copy_from_nonoverlapping(cell.cast(), 1) });
        // A one-shot that runs is not armed. If it is armed and in no batch, it is in the wheel or in the intake.
        let alone = |word: Word| word.has(ARMED) && !word.has(QUEUED | CLOSED);
        self.advance(|word| alone(word).then(|| word.without(ARMED | HANDLE).with(CACHED))).is_ok()
    }

    /// The driver, who has the entry from the pool, wants it to himself: it is free then. Returns whether it was in the
    /// wheel, from which it is to be unlinked; or `None` if it is in the intake, and stays as it is.
    pub(crate) fn reclaim(&self) -> Option<bool> {
        let here = |word: Word| !word.has(MAILED);
        let word = self.advance(|word| here(word).then(|| free_if_idle(word.without(CACHED | LINKED)))).ok()?;
        Some(word.has(LINKED))
    }

    /// The driver has the entry in its hands: out of the intake, or because its time has come. It is `now`, and the wheel
    /// has come to the tick `wheel`.
    pub(crate) fn collect(&self, now: u64, wheel: u64) -> Collect {
        let goes_on = |word: Word| word.has(ARMED) && !word.has(CLOSED);
        let word = self.change(|word| {
            if goes_on(word) {
                self.set_placed(self.deadline_in(word, now), wheel);
                word.without(MAILED).with(LINKED)
            } else {
                free_if_idle(word.without(MAILED | LINKED))
            }
        });
        let linked = word.has(LINKED);
        if goes_on(word) {
            Collect::Place { linked }
        } else {
            Collect::Over { linked, free: is_free(word.without(MAILED | LINKED)) }
        }
    }

    /// The driver has unlinked the entry, whose time has come, or which is disarmed: it is `now`.
    pub(crate) fn expire(&self, now: u64) -> Expire {
        let mut outcome = Expire::Mailed;
        self.change(|word| {
            let unlinked = word.without(LINKED);
            let (next, what) = if word.has(MAILED) {
                (unlinked, Expire::Mailed)
            } else if !word.has(ARMED) || word.has(CLOSED) {
                (free_if_idle(unlinked), Expire::Over { free: is_free(unlinked) })
            } else if self.deadline_in(word, now) > now {
                (unlinked.with(MAILED), Expire::Later)
            } else {
                (unlinked.with(QUEUED), Expire::Due)
            };
            outcome = what;
            next
        });
        outcome
    }

    /// A worker has come to the entry, in a batch of what was due at `due`.
    #[inline]
    pub(crate) fn start(&self, due: u64) -> Start {
        self.leave_batch(
            due,
            |word| if word.has(REPEAT) { word.with(RUNNING) } else { word.without(ARMED).with(RUNNING) },
        )
    }

    /// The batch of what was due at `due` is dropped unrun. In place of a run, the caller drops the callback, and then calls
    /// [`discarded`](Self::discarded). A timer that was reset meanwhile to a later deadline, or whose shard was shut down,
    /// does not end: it leaves the batch as it does when a worker comes to it.
    pub(crate) fn discard(&self, due: u64) -> Start {
        // `QUEUED` keeps the entry from being used again until the callback is dropped.
        self.leave_batch(due, |word| word.without(ARMED).with(QUEUED))
    }

    /// The entry leaves a batch of what was due at `due`. `begin` takes the callback, if that is to be run or dropped.
    #[inline]
    fn leave_batch(&self, due: u64, begin: impl Fn(Word) -> Word) -> Start {
        let mut deadline = due;
        let word = self.change(|word| {
            deadline = self.deadline_in(word, due);
            let word = word.without(QUEUED);
            if !word.has(ARMED) {
                free_if_idle(word)
            } else if word.has(CLOSED) {
                word
            } else if deadline > due {
                word.with(MAILED)
            } else {
                begin(word)
            }
        });
        if !word.has(ARMED) {
            Start::Over { free: is_free(word.without(QUEUED)) }
        } else if word.has(CLOSED) {
            Start::Closed
        } else if deadline > due {
            Start::Mail { deadline }
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
        let word = self.change(|word| free_if_idle(word.without(hold | WAITED)));
        Finish { waited: word.has(WAITED), free: is_free(word.without(hold | WAITED)) }
    }

    /// The worker has made a run, and the callback wants another at `next`.
    pub(crate) fn rearm(&self, callback: Callback, next: u64, now: u64) -> Rearm {
        // SAFETY: the worker holds `RUNNING`, and has taken the callback out.
        unsafe { self.put(callback) };
        let resumed = |word: Word| {
            let word = if word.has(MOVED) { word } else { self.with_fine_deadline(word, next, now) };
            word.without(RUNNING | MOVED | WAITED)
        };
        let moved = self.advance(|word| {
            let mail = if word.has(CLOSED) { 0 } else { MAILED };
            word.has(ARMED).then(|| resumed(word).with(mail))
        });
        match moved {
            // SAFETY: the move was refused, so this worker still holds `RUNNING`, and the callback is where it put it.
            Err(_) => Rearm::Cancelled(unsafe { self.take() }),
            Ok(word) if word.has(CLOSED) => Rearm::Held { waited: word.has(WAITED) },
            Ok(word) => Rearm::Mail { deadline: if word.has(MOVED) { self.deadline_in(word, now) } else { next } },
        }
    }

    /// The worker has made the last run of a repeating callback. True if that ended the timer, and not a `cancel`.
    pub(crate) fn end(&self) -> bool {
        self.advance(|word| word.has(ARMED).then(|| word.without(ARMED))).is_ok()
    }

    /// The callback that [`discard`](Self::discard) took has been dropped. True if the caller must recycle the entry.
    pub(crate) fn discarded(&self) -> bool {
        self.let_go(QUEUED).free
    }

    /// Closes the entry of a shard that is shut down: from here on its timer is neither reset nor started, and no other
    /// is armed. A timer that is pending stays so, until it is cancelled or [claimed](Self::claim).
    pub(crate) fn close(&self) -> Closed {
        // AcqRel: as of all moves. It is one that never fails.
        let word = Word(self.word.fetch_or(CLOSED, Ordering::AcqRel));
        let timer = match () {
            () if word.has(RUNNING) => Held::Running,
            () if !word.has(ARMED) => Held::None,
            () if word.has(WAKES) => Held::Waker,
            () => Held::Closure,
        };
        Closed { handle: word.has(HANDLE), timer }
    }

    /// Whether a closed entry holds a pending waker.
    pub(crate) fn holds_waker(&self) -> bool {
        let word = self.word();
        word.has(ARMED) && word.has(WAKES)
    }

    /// Takes the timer of a closed entry. One that is running is left alone, unless `end_run`: then it ends with this
    /// run, if it repeats. It is `now`.
    pub(crate) fn claim(&self, end_run: bool, now: u64) -> Claim {
        let claimable = |word: Word| word.has(ARMED) && (end_run || !word.has(RUNNING));
        match self.advance(|word| claimable(word).then(|| word.without(ARMED))) {
            Ok(word) if word.has(RUNNING) => Claim::Ended,
            Ok(word) => Claim::Taken {
                deadline: self.deadline_in(word, now),
                // SAFETY: this thread cleared `ARMED` of an entry that does not run; `CLOSED` keeps it from reuse.
                callback: unsafe { self.take() },
                queued: word.has(QUEUED),
            },
            Err(word) if word.has(RUNNING) => Claim::Running,
            Err(_) => Claim::Over,
        }
    }

    /// Asks the worker that runs the callback to say when it is done. False if nobody runs it.
    pub(crate) fn wait_for_run(&self) -> bool {
        self.advance(|word| word.has(RUNNING).then(|| word.with(WAITED))).is_ok()
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
fn is_free(word: Word) -> bool {
    word.is_idle() && !word.has(HANDLE | CLOSED | CACHED)
}

/// The word of an entry that may be used again has no flag at all, whatever timer it had.
fn free_if_idle(word: Word) -> Word {
    if is_free(word) { Word::FREE } else { word }
}

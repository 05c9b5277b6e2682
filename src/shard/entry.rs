//! One timer: a cache line, and the state machine that says who may touch it.
//!
//! # Ground rules
//!
//! All ownership is in the [word](super::word). Every move below is one compare-exchange on it, so that of any number
//! of threads that try, one makes the move and the others see that it was made.
//!
//! - Whoever clears `ARMED` owns the callback from then on. While `RUNNING` is set, the worker that set it owns it.
//! - The `links` into the wheel belong to the driver, always.
//! - The `mail` link belongs to whoever set `MAILED`, until the driver has collected the entry; while the entry is
//!   free, to the cache or the pool it is in.
//! - The entry may be used for another timer when its word is 0 but for the deadline: whoever makes the move that
//!   leaves it so must recycle it. As a handle is not `Clone` and keeps `HANDLE` set, no handle ever outlives its
//!   timer's entry.
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
//! | `MAILED`, `LINKED MAILED` | cancelled, in the intake                 | driver, within 100 ms |
//! | `QUEUED`         | cancelled, in a batch                             | a worker              |
//! | none             | over                                              | its handle            |
//! | any of these and `CLOSED` | as above, but the shard was shut down    | nobody arms or moves it |
//!
//! # The moves
//!
//! | move             | by               | from → to                                                | checked by loom model |
//! |------------------|------------------|----------------------------------------------------------|-----------------------|
//! | `arm`            | its owner        | free → `ARMED MAILED HANDLE`                             | `sleep`, `shutdown`   |
//! | `cancel`         | handle           | `ARMED` → not; `LINKED` → `LINKED MAILED`                | `cancel`, `drain`     |
//! | `reset`          | handle           | new deadline; `LINKED` → `MAILED` if earlier; `RUNNING` → `MOVED` | `reset`      |
//! | `release`        | handle           | `HANDLE` → not                                           | `cancel`, `recycle`   |
//! | `collect`        | driver           | `ARMED MAILED` → `ARMED LINKED`; `MAILED` → none         | `drain`, `sleep`      |
//! | `expire`         | driver           | `ARMED LINKED` → `ARMED QUEUED`; `LINKED MAILED` → `MAILED` | `cancel`, `drain`, `reset` |
//! | `start`          | worker           | `ARMED QUEUED` → `RUNNING`, or → `ARMED MAILED` if moved | `cancel`, `reset`     |
//! | `finish`         | worker           | `RUNNING` → none                                         | `cancel`, `repeat`    |
//! | `rearm`          | worker           | `ARMED RUNNING` → `ARMED MAILED`                         | `repeat`, `shutdown`  |
//! | `end`            | worker           | `ARMED RUNNING` → `RUNNING`                              | `repeat`              |
//! | `discard`        | who drops a batch| `ARMED QUEUED` → `QUEUED`                                | `cancel`              |
//! | `close`          | who shuts down   | any → `CLOSED`; `ARMED` → not, unless `RUNNING`          | `shutdown`            |
//!
//! # Orderings
//!
//! Every move is `AcqRel`: its acquire half makes the callback and the links that the previous owner wrote visible to
//! the new one, its release half hands ours on. There is nothing to gain from less on the machines this runs on, where
//! a compare-exchange costs the same at any ordering. The word is read first with `Acquire` for the same reason: what a
//! refused move saw is acted upon, too.
//!
//! # Progress
//!
//! A move is retried only when the word changed under it, that is when another thread made a move: lock-free. Each
//! timer's life has few moves, so in practice a retry is rare and bounded.

use std::mem::MaybeUninit;

use super::callback::Callback;
use super::word::{ARMED, CLOSED, HANDLE, LINKED, MAILED, MOVED, QUEUED, REPEAT, RUNNING, WAITED, Word};
use crate::sync::{AtomicU32, AtomicU64, Ordering, UnsafeCell};
use crate::wheel::Links;

/// One timer. All zero bytes are a free entry.
#[repr(C, align(64))]
pub(crate) struct Entry {
    word: AtomicU64,
    /// The next entry in the intake, or in a batch of free entries.
    pub(super) mail: AtomicU32,
    /// The next batch of free entries in the pool; while the entry is armed, what its word has no room for of a far
    /// deadline.
    pub(super) batch: AtomicU32,
    /// The entry's own place in the slab.
    index: AtomicU32,
    /// Written before it is read: at first the bytes are zero, which is some place in the wheel.
    links: UnsafeCell<MaybeUninit<Links>>,
    callback: UnsafeCell<MaybeUninit<Callback>>,
}

/// What became of a `cancel`.
pub(crate) enum Cancel {
    /// The timer had ended already.
    Lost,
    /// The timer ended here. The callback is the caller's, unless it is running.
    Ended {
        callback: Option<Callback>,
        /// The caller must put the entry into the intake, in no hurry.
        mail: bool,
        /// The entry is in a batch.
        queued: bool,
    },
}

/// What became of a `reset`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reset {
    /// The timer had ended already.
    Lost,
    /// Whoever looks at the entry next will see the new deadline in time.
    Done,
    /// The entry is in the intake: the driver must look there by the new deadline.
    Ring,
    /// The caller must put the entry into the intake, to be looked at by the new deadline.
    Mail,
}

/// What became of the entry when its handle was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Release {
    /// Somebody else has it, and recycles it when done.
    Held,
    /// The caller must recycle it.
    Free,
    /// The shard is shut down: the caller must take its pin away.
    Closed,
}

/// What the driver does with an entry from the intake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Collect {
    /// Link it into the wheel, after unlinking it if it was linked.
    Place { linked: bool },
    /// Unlink it if it was linked, and recycle it if it is free.
    Over { linked: bool, free: bool },
}

/// What the driver does with an entry that it has just unlinked from a slot whose time has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expire {
    /// Hand it to the executor.
    Due,
    /// Link it again: its deadline has moved.
    Later,
    /// Leave it: it is in the intake.
    Mailed,
    /// Recycle it if it is free.
    Over { free: bool },
}

/// What a worker does with an entry from a batch.
pub(crate) enum Start {
    /// Run the callback, for this deadline.
    Run { callback: Callback, deadline: u64 },
    /// Put it into the intake: its deadline has moved to this one.
    Mail { deadline: u64 },
    /// Recycle it if it is free.
    Over { free: bool },
}

/// What is left to do after a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Finish {
    /// Somebody sleeps until the run is over.
    pub(crate) waited: bool,
    /// The entry must be recycled.
    pub(crate) free: bool,
}

/// What became of the attempt to run again.
pub(crate) enum Rearm {
    /// Cancelled during the run: the callback is the caller's again, who drops it and finishes.
    Cancelled(Callback),
    /// Put it into the intake, for this deadline.
    Mail { deadline: u64 },
    /// The shard is shut down: whoever shuts it down takes the entry. Somebody sleeps until then, if `waited`.
    Held { waited: bool },
}

/// What became of the entry in a shutdown.
pub(crate) enum Close {
    /// It had no timer, or one that is over.
    Over,
    /// The callback was to run at this deadline, and is the caller's. The entry is in a batch, if `queued`.
    Claimed { deadline: u64, callback: Callback, queued: bool },
    /// The callback is running.
    Running,
    /// The callback is running, further down the caller's own stack; it will not run again.
    Ended,
}

impl Entry {
    /// A free entry.
    pub(super) fn new() -> Self {
        Self {
            word: AtomicU64::new(Word::FREE.0),
            mail: AtomicU32::new(0),
            batch: AtomicU32::new(0),
            index: AtomicU32::new(0),
            links: UnsafeCell::new(MaybeUninit::zeroed()),
            callback: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// The entry's place in the slab.
    pub(crate) fn index(&self) -> u32 {
        // Relaxed: written before the entry is first handed out.
        self.index.load(Ordering::Relaxed)
    }

    pub(super) fn set_index(&self, index: u32) {
        self.index.store(index, Ordering::Relaxed);
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

    /// The word with another deadline, by one who has the entry to himself, or holds `RUNNING`.
    #[inline]
    fn with_fine_deadline(&self, word: Word, deadline: u64, now: u64) -> Word {
        let (word, remainder) = word.with_fine_deadline(deadline, now);
        if remainder != 0 {
            self.batch.store(remainder, Ordering::Relaxed);
        }
        word
    }

    /// Makes the move that `next` chooses, and returns the word before it; or the word that `next` refused.
    #[inline]
    fn advance(&self, mut next: impl FnMut(Word) -> Option<Word>) -> Result<Word, Word> {
        let mut word = self.word();
        while let Some(new) = next(word) {
            match self.word.compare_exchange_weak(word.0, new.0, Ordering::AcqRel, Ordering::Acquire) {
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
    unsafe fn take(&self) -> Callback {
        // SAFETY: the owner has the cell to itself, and leaves the copy behind for dead.
        self.callback.with_mut(|cell| unsafe { (*cell).assume_init_read() })
    }

    /// Makes a free entry a pending timer with a handle. The caller must put it into the intake then. Gives the
    /// callback back if the shard has been shut down.
    ///
    /// # Safety
    /// The caller must own the entry, which must be free.
    #[inline]
    pub(crate) unsafe fn arm(&self, callback: Callback, deadline: u64, now: u64) -> Result<(), Callback> {
        let repeat = if callback.repeats() { REPEAT } else { 0 };
        // SAFETY: a free entry has no callback, and its owner owns that place, too.
        unsafe { self.put(callback) };
        let armed = self.with_fine_deadline(Word(ARMED | MAILED | HANDLE | repeat), deadline, now);
        self.advance(|word| (!word.has(CLOSED)).then_some(armed))
            .map(drop)
            // SAFETY: the move was refused, so the entry is still the caller's, with the callback in it.
            .map_err(|_| unsafe { self.take() })
    }

    /// Ends the timer, if it has not ended.
    #[inline]
    pub(crate) fn cancel(&self) -> Cancel {
        let lazily_mailed = |word: Word| word.has(LINKED) && !word.has(MAILED);
        let moved = self.advance(|word| {
            word.has(ARMED).then(|| {
                let mail = if lazily_mailed(word) { MAILED } else { 0 };
                word.without(ARMED).with(mail)
            })
        });
        match moved {
            Err(_) => Cancel::Lost,
            Ok(word) => Cancel::Ended {
                // SAFETY: this thread cleared `ARMED`, and no worker has the callback; the handle that the caller
                // borrows keeps the entry from being used again.
                callback: (!word.has(RUNNING)).then(|| unsafe { self.take() }),
                mail: lazily_mailed(word),
                queued: word.has(QUEUED),
            },
        }
    }

    /// Moves the deadline, if the timer has not ended.
    #[inline]
    pub(crate) fn reset(&self, deadline: u64, now: u64) -> Reset {
        let effect = |word: Word| {
            if !word.has(ARMED) || word.has(CLOSED) {
                Reset::Lost
            } else if word.has(RUNNING | QUEUED) || deadline >= self.deadline_in(word, now) {
                Reset::Done
            } else if word.has(MAILED) {
                Reset::Ring
            } else {
                Reset::Mail
            }
        };
        let moved = self.advance(|word| {
            let word = match effect(word) {
                Reset::Lost => return None,
                Reset::Done if word.has(RUNNING) => word.with(MOVED),
                Reset::Done | Reset::Ring => word,
                Reset::Mail => word.with(MAILED),
            };
            Some(word.with_deadline(deadline, now))
        });
        moved.map_or(Reset::Lost, effect)
    }

    /// Lets go of the handle. Unless it is `Free`, the caller must not touch the entry any more.
    #[inline]
    pub(crate) fn release(&self) -> Release {
        let word = self.change(|word| {
            let word = word.without(HANDLE);
            if word.is_idle() && !word.has(CLOSED) { Word::FREE } else { word }
        });
        if word.has(CLOSED) {
            Release::Closed
        } else if word.is_idle() {
            Release::Free
        } else {
            Release::Held
        }
    }

    /// The driver has taken the entry out of the intake.
    pub(crate) fn collect(&self) -> Collect {
        let word = self.change(|word| {
            if word.has(ARMED) && !word.has(CLOSED) {
                word.without(MAILED).with(LINKED)
            } else {
                free_if_idle(word.without(MAILED | LINKED))
            }
        });
        let linked = word.has(LINKED);
        if word.has(ARMED) && !word.has(CLOSED) {
            Collect::Place { linked }
        } else {
            Collect::Over { linked, free: is_free(word.without(MAILED | LINKED)) }
        }
    }

    /// The driver has unlinked the entry from a slot whose time has come: it is `now`.
    pub(crate) fn expire(&self, now: u64) -> Expire {
        let later = |word: Word| word.has(ARMED) && !word.has(MAILED | CLOSED) && self.deadline_in(word, now) > now;
        let moved = self.advance(|word| {
            if later(word) {
                None
            } else if word.has(ARMED) && !word.has(MAILED | CLOSED) {
                Some(word.without(LINKED).with(QUEUED))
            } else {
                Some(free_if_idle(word.without(LINKED)))
            }
        });
        match moved {
            Err(_) => Expire::Later,
            Ok(word) if word.has(MAILED) => Expire::Mailed,
            Ok(word) if word.has(ARMED) && !word.has(CLOSED) => Expire::Due,
            Ok(word) => Expire::Over { free: is_free(word.without(LINKED)) },
        }
    }

    /// A worker has come to the entry, in a batch of what was due at `due`.
    pub(crate) fn start(&self, due: u64) -> Start {
        let moved_away = |word: Word| self.deadline_in(word, due) > due;
        let word = self.change(|word| {
            if !word.has(ARMED) {
                free_if_idle(word.without(QUEUED))
            } else if moved_away(word) {
                word.without(QUEUED).with(MAILED)
            } else if word.has(REPEAT) {
                word.without(QUEUED).with(RUNNING)
            } else {
                word.without(QUEUED | ARMED).with(RUNNING)
            }
        });
        let deadline = self.deadline_in(word, due);
        if !word.has(ARMED) {
            Start::Over { free: is_free(word.without(QUEUED)) }
        } else if moved_away(word) {
            Start::Mail { deadline }
        } else {
            Start::Run {
                // SAFETY: this thread set `RUNNING` on an armed entry.
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
            Ok(word) => Rearm::Mail { deadline: self.deadline_in(resumed(word), now) },
        }
    }

    /// The worker has made the last run of a repeating callback. True if that ended the timer, and not a `cancel`.
    pub(crate) fn end(&self) -> bool {
        self.advance(|word| word.has(ARMED).then(|| word.without(ARMED))).is_ok()
    }

    /// The batch that the entry is in is dropped unrun. The callback is the caller's, who must drop it and then call
    /// [`leave_batch`](Self::leave_batch).
    pub(crate) fn discard(&self) -> Option<Callback> {
        self.advance(|word| word.has(ARMED).then(|| word.without(ARMED)))
            .ok()
            // SAFETY: this thread cleared `ARMED` of an entry that does not run; it keeps `QUEUED`.
            .map(|_| unsafe { self.take() })
    }

    /// The batch has let go of the entry. True if the caller must recycle it.
    pub(crate) fn leave_batch(&self) -> bool {
        self.let_go(QUEUED).free
    }

    /// The shard is shut down. Returns what became of the entry, and whether it has a handle. `mine` tells that the
    /// callback runs further down the caller's own stack.
    pub(crate) fn close(&self, mine: bool, now: u64) -> (Close, bool) {
        let word =
            self.change(
                |word| {
                    if word.has(RUNNING) && !mine { word.with(CLOSED) } else { word.without(ARMED).with(CLOSED) }
                },
            );
        let fate = match (word.has(ARMED), word.has(RUNNING)) {
            (true, true) if mine => Close::Ended,
            (_, true) if !mine => Close::Running,
            (true, false) => Close::Claimed {
                deadline: self.deadline_in(word, now),
                // SAFETY: this thread cleared `ARMED` of an entry that does not run; `CLOSED` keeps it from reuse.
                callback: unsafe { self.take() },
                queued: word.has(QUEUED),
            },
            _ => Close::Over,
        };
        (fate, word.has(HANDLE))
    }

    /// Takes the callback of a closed entry that had been running when it was closed, and wants to run again.
    pub(crate) fn claim(&self, now: u64) -> Option<(u64, Callback)> {
        let moved = self.advance(|word| word.has(ARMED).then(|| word.without(ARMED)));
        // SAFETY: this thread cleared `ARMED` of an entry that does not run any more; `CLOSED` keeps it from reuse.
        moved.ok().map(|word| (self.deadline_in(word, now), unsafe { self.take() }))
    }

    /// Asks the worker that runs the callback to say when it is done. False if nobody runs it.
    pub(crate) fn wait_for_run(&self) -> bool {
        self.advance(|word| word.has(RUNNING).then(|| word.with(WAITED))).is_ok()
    }

    pub(super) fn links(&self) -> Links {
        // SAFETY: only the driver reads or writes the links, and their bytes are never uninitialised.
        self.links.with(|links| unsafe { (*links).assume_init() })
    }

    pub(super) fn set_links(&self, new: Links) {
        // SAFETY: only the driver reads or writes the links.
        self.links.with_mut(|links| unsafe { (*links).write(new) });
    }
}

/// Whether nobody has a hold on the entry, so that it may be used again.
fn is_free(word: Word) -> bool {
    word.is_idle() && !word.has(HANDLE | CLOSED)
}

/// The word of an entry that may be used again has no flag at all, whatever timer it had.
fn free_if_idle(word: Word) -> Word {
    if is_free(word) { Word::FREE } else { word }
}

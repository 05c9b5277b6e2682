//! The seat: which thread drives which shard.
//!
//! To drive a shard is to take its *seat*, to make a bounded turn, to hand out what has expired, and to put the seat back.
//! The driver, which is a plain value, lies in the seat meanwhile. The *role* of a shard says which thread does this.
//! Another thread may change it at any time.
//!
//! | role                             | its shards                           | the thread that has it |
//! |----------------------------------|--------------------------------------|------------------------|
//! | [`LEADER`]                       | the first, and all that are *folded* | the first own thread   |
//! | the number of another own thread | the shard of that number             | that thread            |
//! | [`PROGRAM`]                      | those that the program drives        | the program's loop     |
//!
//! # The word
//!
//! One word says all of this, so each step is one read-modify-write:
//!
//! | step        | its role                            | whether it is taken | whether chores are left         | number of turns |
//! |-------------|-------------------------------------|---------------------|---------------------------------|-----------------|
//! | take        | must be the caller's                | must be free; taken | cleared                         |                 |
//! | put back    | *returned*: another may have it now | free                | set by the driver               | one more        |
//! | change role | from one to another                 |                     |                                 |                 |
//!
//! A seat that is taken stays taken until what has expired is handed out. So timers are handed out in the order of their
//! ticks, whichever thread drives next. It may be put back before foreign code runs that has no part in this order.
//!
//! # How a shard changes its role
//!
//! ```text
//! any thread             the thread with the old role    the thread with the new role
//! ──────────             ────────────────────────────    ────────────────────────────
//! change the role        put the seat back               publish that it sleeps
//! fence                  is the role still the old one?  fence
//! wake the new role      if not: fence,                  is the seat free, and due?
//!                                wake the new role       if not: sleep
//! ```
//!
//! Take and change of the role are in one order, because they change one word. If the new thread finds the seat taken, the
//! old one puts it back after the change, sees the new role, and wakes it. By the fences, that finds the new thread
//! asleep, or the new thread finds the seat free. So no thread looks again for a seat after some time. The one exception
//! is a program's loop without a waker.
//!
//! A caller that arms something earlier reads the role after a fence. If it finds the old role, its fence comes before that of
//! the change. So the new thread, which is woken after that, sees the lowered tick.
//!
//! A turn calls no foreign code. The waker of a program's loop is foreign code, too. So [`put_back`](Seated::put_back) only
//! says that it must be called, and its caller does that when nothing waits to be handed out.
//!
//! Loom model `roles` checks this against callers that arm something earlier, and against a close.
//!
//! [`LEADER`]: super::alarm::LEADER

use super::alarm::AWAKE;
use super::driver::ShardDriver;
use super::wakeup::DriverWakeup;
use crate::sync::{Arc, AtomicU64, Ordering, UnsafeCell, fence};

/// The role of a shard that the program's own loop drives.
pub(crate) const PROGRAM: u32 = u32::MAX >> 2;

const TAKEN: u64 = 1;
/// The driver has left chores.
const HAS_CHORES: u64 = 2;
const ROLE_SHIFT: u32 = 2;
const ROLE: u64 = (PROGRAM as u64) << ROLE_SHIFT;
/// Unit of the number of turns. It is in the highest bits, so it may overflow.
const TURN: u64 = 1 << 32;

/// The seat of a shard.
pub(crate) struct Seat {
    word: AtomicU64,
    /// Where the driver lies while the seat is free. The seat of a closed shard stays taken.
    driver: UnsafeCell<Option<Box<ShardDriver>>>,
}

/// What the word of a seat was at some moment.
#[derive(Clone, Copy, PartialEq)]
struct SeatState(u64);

// SAFETY: only the thread that has taken the seat uses the cell, and the word hands it on: see `take_seat`.
unsafe impl Sync for Seat {}

/// A seat that the thread has taken. The thread must [put it back](Self::put_back), unless the shard is closed: a drop ends
/// the driver.
pub(crate) struct Seated<'a> {
    wakeup: &'a DriverWakeup,
    pub(crate) driver: Box<ShardDriver>,
    role: u32,
    /// The tick by which the shard needed its driver.
    pub(crate) needed_at: u64,
}

impl SeatState {
    fn role(self) -> u32 {
        ((self.0 & ROLE) >> ROLE_SHIFT) as u32
    }

    fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    fn is_free_for(self, role: u32) -> bool {
        self.role() == role && !self.has(TAKEN)
    }
}

impl Seat {
    pub(super) fn new(role: u32, driver: ShardDriver) -> Self {
        Self { word: AtomicU64::new(u64::from(role) << ROLE_SHIFT), driver: UnsafeCell::new(Some(Box::new(driver))) }
    }

    fn state(&self) -> SeatState {
        // Acquire: a thread that finds the seat free sees the driver, and what its last turn has published; pairs with
        // `put_back`. Loom models `roles` and `quiescence`.
        SeatState(self.word.load(Ordering::Acquire))
    }

    /// Returns the role that drives the shard. Readers that act on it have a fence before this.
    pub(crate) fn role(&self) -> u32 {
        self.state().role()
    }

    /// Returns whether a thread is in a turn, or hands out what has expired.
    pub(crate) fn is_taken(&self) -> bool {
        self.state().has(TAKEN)
    }

    /// Changes the role. Returns false, without effect, if it is not `from`. The caller must then wake the new role.
    pub(super) fn change_role(&self, from: u32, to: u32) -> bool {
        let mut before = self.state();
        while before.role() == from {
            let after = before.0 & !ROLE | u64::from(to) << ROLE_SHIFT;
            // Relaxed: the fence that follows orders it. It continues the release sequence of `put_back`. Loom model
            // `roles`.
            match self.word.compare_exchange(before.0, after, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(state) => before = SeatState(state),
            }
        }
        false
    }
}

impl DriverWakeup {
    /// Takes the seat, and ends the shard's sleep. `None`: the shard has another role, another thread has the seat, or the
    /// shard is closed.
    pub(crate) fn take_seat(&self, role: u32) -> Option<Seated<'_>> {
        let seat = &self.seat;
        let before = seat.state();
        if !before.is_free_for(role) {
            return None;
        }
        // Relaxed: `state` has acquired the driver, and the word is still the same, or has only changed its role meanwhile.
        let after = (before.0 | TAKEN) & !HAS_CHORES;
        seat.word.compare_exchange(before.0, after, Ordering::Relaxed, Ordering::Relaxed).ok()?;
        // SAFETY: we own the cell, because we have set `TAKEN`, and no thread else until we put the seat back.
        let driver = seat.driver.with_mut(|cell| unsafe { &mut *cell }.take())?;
        Some(Seated { wakeup: self, driver, role, needed_at: self.set_awake() })
    }

    /// Returns the tick by which the shard needs its driver. One with chores is due: they may have come since
    /// the thread last looked.
    fn needed_at(&self, seat: SeatState) -> u64 {
        if seat.has(HAS_CHORES) { AWAKE } else { self.wake_tick() }
    }

    /// Returns the tick by which a thread with this role must drive the shard, which is due from tick `now` on. A taken seat
    /// that is due does not count: the thread that has it wakes the role when it puts the seat back.
    fn needs_role_at(&self, role: u32, now: u64) -> u64 {
        let seat = self.seat.state();
        let tick = self.needed_at(seat);
        if seat.role() != role || seat.has(TAKEN) && tick <= now { u64::MAX } else { tick }
    }

    /// Wakes the thread of the role, if the shard is due at tick `now`. The caller has made a fence since time has passed.
    pub(crate) fn wake_if_due(&self, now: u64) {
        let seat = self.seat.state();
        if self.needed_at(seat) <= now {
            self.wake_role(seat.role());
        }
    }

    /// Returns whether the shard sleeps beyond the tick `now`, has no chores, and has handed out all that has
    /// expired.
    ///
    /// In a turn, a shard that seems to sleep may be about to look again, and find something. The number of turns is the
    /// version of a seqlock: if it has not changed, there was no turn at the moment at which the tick was read. By argument:
    /// no model with two preemptions comes here, and a reader does not pause for exactly 2^32 turns.
    pub(crate) fn is_at_rest(&self, now: u64) -> bool {
        let seat = self.seat.state();
        let sleeps = !seat.has(TAKEN | HAS_CHORES) && self.wake_tick() > now;
        // Acquire: the second reading of the word comes after that of the tick.
        fence(Ordering::Acquire);
        sleeps && self.seat.state() == seat
    }
}

impl Seated<'_> {
    /// Puts the seat back. If the shard has got another role meanwhile, wakes that. Returns true if it is the program's and
    /// anything is armed: then the caller must [wake its loop](super::wakeup::DriverWakeup::program).
    #[must_use]
    pub(crate) fn put_back(self) -> bool {
        let Self { wakeup, driver, role, .. } = self;
        let left = if driver.has_chores { HAS_CHORES } else { 0 };
        // SAFETY: we own the cell, because we have the seat.
        wakeup.seat.driver.with_mut(|cell| unsafe { *cell = Some(driver) });
        // Release: publishes the driver, and until when the shard sleeps; pairs with `state`. Loom models
        // `roles` and `quiescence`.
        let before = wakeup.seat.word.fetch_add(TURN + left - TAKEN, Ordering::Release);
        let new = SeatState(before).role();
        if new == role {
            return false;
        }
        // SeqCst: orders the free seat before the load of the alarm, and the load of the role by a caller before that of the
        // tick here; see the file's head. Loom model `roles`.
        fence(Ordering::SeqCst);
        wakeup.wake_role(new);
        new == PROGRAM && wakeup.needed_at(wakeup.seat.state()) != u64::MAX
    }
}

/// Takes the seat of a shard of this role that is due at the tick `due` or, if `chores`, else of one that has
/// chores: then the flag is false. Begins after the shard whose index is `last`, and sets that. `None`: there is none.
pub(crate) fn take_next<'a, S: AsRef<DriverWakeup>>(
    shards: &'a [Arc<S>],
    role: u32,
    due: u64,
    last: &mut usize,
    chores: bool,
) -> Option<(Seated<'a>, bool)> {
    let mut with_chores = None;
    let after = *last + 1;
    for index in (after..after + shards.len()).map(|index| index % shards.len()) {
        let wakeup = (*shards[index]).as_ref();
        let seat = wakeup.seat.state();
        if !seat.is_free_for(role) {
            continue;
        }
        if wakeup.wake_tick() > due {
            with_chores = with_chores.or((chores && seat.has(HAS_CHORES)).then_some(index));
        } else if let Some(seated) = wakeup.take_seat(role) {
            *last = index;
            return Some((seated, true));
        }
    }
    *last = with_chores?;
    Some(((*shards[*last]).as_ref().take_seat(role)?, false))
}

/// Returns the tick by which the role must drive one of the shards.
pub(crate) fn earliest<S: AsRef<DriverWakeup>>(shards: &[Arc<S>], role: u32, now: u64) -> u64 {
    shards.iter().map(|shard| (**shard).as_ref().needs_role_at(role, now)).min().unwrap_or(u64::MAX)
}

//! Roles: which thread drives which shard.
//!
//! To drive a shard is to take its driver out of its *driver cell*, to make a bounded turn, and to put the driver back.
//! The *role* of a shard says which thread does this. Another thread may change it at any time.
//!
//! | role                             | its shards                           | the thread that has it |
//! |----------------------------------|--------------------------------------|------------------------|
//! | [`LEADER`]                       | the first, and all that are *folded* | the first own thread   |
//! | the number of another own thread | the shard of that number             | that thread            |
//! | [`PROGRAM`]                      | those that the program drives        | the program's loop     |
//!
//! # How a shard changes its role
//!
//! ```text
//! any thread             the thread with the old role         the thread with the new role
//! ──────────             ────────────────────────────         ────────────────────────────
//! role := new            publish until when the shard sleeps  woken: is the driver in its cell?
//! fence                  put the driver into its cell         if so: drive, when the shard is due
//! wake the new role      fence                                if not: sleep on
//!                        is the role still the old one?
//!                        if not: wake the new role
//! ```
//!
//! By the fences, either the old thread finds the new role and wakes it, or the new one finds the driver and what was
//! published. A turn is bounded, and calls no foreign code. So a new role can drive within a turn, unless the old thread
//! hands out what has expired.
//!
//! The loop of a program looks under the lock of the driver cell. If the old thread is in a turn, the loop soon looks
//! again by itself, because a waker is foreign code. If the old thread hands out, [it calls the waker](handed_out) once
//! it is done.
//!
//! Loom model `roles` checks this against callers that arm something earlier, and against a close.
//!
//! [`LEADER`]: super::alarm::LEADER
//! [`PROGRAM`]: super::wakeup::PROGRAM

use super::alarm::AWAKE;
use super::gate::Gate;
use super::wakeup::{DriverWakeup, PROGRAM};
use crate::sync::{Arc, AtomicBool, Mutex, Ordering, fence, lock};

/// A shard, as a role sees it.
pub(crate) trait Driven {
    /// What has expired in one turn.
    type Expired;
    type Driver;

    fn wakeup(&self) -> &DriverWakeup;
    fn driver_cell(&self) -> &DriverCell<Self::Driver>;
    /// Returns the tick whose shards are due. A shard that is awake is always due.
    fn due_tick(&self) -> u64;
    /// Makes a bounded turn: of a round, or of non-urgent work if nothing is due. Must not call foreign code.
    fn turn(&self, driver: &mut Self::Driver, is_due: bool) -> TurnOutcome<Self::Expired>;
    /// The shard [may be at rest](is_at_rest): it sleeps, or what has expired is handed out. Must not call foreign code.
    fn may_rest(&self);
}

/// How a turn has ended.
pub(crate) enum TurnOutcome<E> {
    /// These timers have expired. [`handed_out`] must follow. The shard sleeps if nothing else is left to do. The flag says
    /// that non-urgent work is left.
    Expired { expired: E, has_work: bool },
    /// More is left to do. The shard stays awake.
    More,
    /// The shard sleeps. The flag says that non-urgent work is left.
    Asleep { has_work: bool },
    /// The shard is closed.
    Closed,
}

/// Where a shard's driver lies while no thread drives it.
pub(crate) struct DriverCell<D> {
    state: Mutex<CellState<D>>,
    /// Non-urgent work is left.
    has_work: AtomicBool,
}

struct CellState<D> {
    driver: Option<D>,
    /// The role that has not handed out yet what has expired here. No other role drives before that, so that timers are
    /// handed out in the order of their ticks.
    hands_out: Option<u32>,
}

impl<D> CellState<D> {
    /// Returns whether a thread with this role may take the driver.
    fn is_free_for(&self, role: u32) -> bool {
        self.driver.is_some() && self.hands_out.is_none_or(|other| other == role)
    }
}

impl<D> DriverCell<D> {
    pub(crate) fn new(driver: D) -> Self {
        Self {
            state: Mutex::new(CellState { driver: Some(driver), hands_out: None }),
            has_work: AtomicBool::new(false),
        }
    }

    /// Returns whether a thread hands out what has expired.
    pub(crate) fn is_handing_out(&self) -> bool {
        lock(&self.state).hands_out.is_some()
    }

    fn has_work(&self) -> bool {
        // Relaxed: the fence that follows the write in `with_driver` orders it, as what the turn has published. Loom
        // model `roles`.
        self.has_work.load(Ordering::Relaxed)
    }
}

/// Calls `f` with the shard's driver, if the shard still has this role and no other thread drives it. `None`: it does
/// not.
pub(crate) fn with_driver<S: Driven, R>(
    shard: &S,
    role: u32,
    f: impl FnOnce(&mut S::Driver) -> TurnOutcome<R>,
) -> Option<TurnOutcome<R>> {
    let cell = shard.driver_cell();
    let wakeup = shard.wakeup();
    let mut state = lock(&cell.state);
    if wakeup.role() != role {
        return None;
    }
    let is_free = state.is_free_for(role);
    let mut driver = state.driver.take_if(|_| is_free)?;
    drop(state);
    wakeup.set_awake();
    let turn = f(&mut driver);
    if matches!(turn, TurnOutcome::Closed) {
        return Some(turn);
    }
    let has_work = matches!(turn, TurnOutcome::Asleep { has_work: true } | TurnOutcome::Expired { has_work: true, .. });
    cell.has_work.store(has_work, Ordering::Relaxed);
    let mut state = lock(&cell.state);
    state.driver = Some(driver);
    if matches!(turn, TurnOutcome::Expired { .. }) {
        state.hands_out = Some(role);
    }
    drop(state);
    leave(wakeup, role);
    if matches!(turn, TurnOutcome::Asleep { has_work: false }) {
        shard.may_rest();
    }
    Some(turn)
}

/// Records that all that has expired in the shard, by turns of this role, is handed out. Wakes the loop of a program that
/// has got the shard meanwhile, if anything is armed there: `run_foreign` calls the waker, which is foreign code.
pub(crate) fn handed_out<S: Driven>(shard: &S, role: u32, run_foreign: impl FnOnce(&dyn Fn())) {
    let wakeup = shard.wakeup();
    lock(&shard.driver_cell().state).hands_out = None;
    leave(wakeup, role);
    shard.may_rest();
    // A loop that waits has looked under the lock before this, and has changed the role with a fence before that. So a caller
    // that has still woken the old role has lowered the tick before the fence of `leave`. Loom model `roles`.
    if role != PROGRAM && wakeup.role() == PROGRAM && needed_at(shard) != u64::MAX {
        run_foreign(&|| wakeup.program.wake());
    }
}

/// Returns the tick by which the shard needs its role. A shard with non-urgent work is due: the work may have come
/// since the thread last looked.
fn needed_at<S: Driven>(shard: &S) -> u64 {
    if shard.driver_cell().has_work() { AWAKE } else { shard.wakeup().wake_tick() }
}

/// Wakes the thread of the role, if the shard is due. The caller has made a fence since time has passed.
pub(crate) fn wake_if_due<S: Driven>(shard: &S) {
    if needed_at(shard) <= shard.due_tick() {
        shard.wakeup().wake_role(shard.wakeup().role());
    }
}

/// Returns whether the shard sleeps beyond the present, and all that has expired in it is handed out.
pub(crate) fn is_at_rest<S: Driven>(shard: &S) -> bool {
    // The lock publishes what the turns have done. In a turn, a shard that seems to sleep may be about to look again, and
    // find something.
    let state = lock(&shard.driver_cell().state);
    state.driver.is_some() && state.hands_out.is_none() && needed_at(shard) > shard.due_tick()
}

/// Wakes the role that has got the shard meanwhile, if another one has.
fn leave(wakeup: &DriverWakeup, role: u32) {
    // SeqCst: orders what this thread has published before the load of the role; see the file's head. Loom model
    // `roles`.
    fence(Ordering::SeqCst);
    let new = wakeup.role();
    if new != role {
        wakeup.wake_role(new);
    }
}

/// Makes one turn of a shard of this role: of one that is due or, if `works`, else of one that has non-urgent work. `None`:
/// there is none, so the thread may sleep. Begins after the shard that was driven last, whose index is `last`. What the gate
/// holds back is not due.
pub(crate) fn drive_due<S: Driven>(
    shards: &[Arc<S>],
    role: u32,
    gate: &mut Gate,
    last: &mut usize,
    works: bool,
) -> Option<TurnOutcome<S::Expired>> {
    let now = gate.due_tick(shards[0].due_tick());
    let mut with_work = None;
    let after = *last + 1;
    for index in (after..after + shards.len()).map(|index| index % shards.len()) {
        let shard = &*shards[index];
        let tick = shard.wakeup().wake_tick();
        if shard.wakeup().role() != role {
        } else if tick > now {
            with_work = with_work.or((works && shard.driver_cell().has_work()).then_some(index));
        } else if let Some(turn) = with_driver(shard, role, |driver| shard.turn(driver, true)) {
            if tick != AWAKE {
                gate.pass(now, matches!(turn, TurnOutcome::Expired { .. }));
            }
            *last = index;
            return Some(turn);
        }
    }
    *last = with_work?;
    let shard = &*shards[*last];
    with_driver(shard, role, |driver| shard.turn(driver, false))
}

/// Returns the tick by which the role must drive one of the shards. A shard that is due does not count while another
/// thread drives it: that thread wakes the role when it puts the driver back.
pub(crate) fn earliest<S: Driven>(shards: &[Arc<S>], role: u32) -> u64 {
    let now = shards[0].due_tick();
    let shards = shards.iter().filter(|shard| shard.wakeup().role() == role);
    let ticks = shards.map(|shard| {
        let tick = needed_at(&**shard);
        if tick <= now && !lock(&shard.driver_cell().state).is_free_for(role) { u64::MAX } else { tick }
    });
    ticks.min().unwrap_or(u64::MAX)
}

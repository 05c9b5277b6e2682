//! What a thread keeps for each shard it uses: its counters, and a few free entries.
//!
//! A thread finds its part of the shard that it used last by one comparison, and any other in a small hash table, in
//! constant time. Neither keeps a shard alive: the thread forgets a shard that is gone when it next meets a new one, or
//! ends. While a thread is in a call of a [`Timer`](crate::Timer) or of a handle, that keeps the shard alive.

use std::cell::{Cell, RefCell, UnsafeCell};
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::sync::{Arc, Weak};

use super::binding::Shard;
use super::registry::Registered;
use crate::engine::memory::Cache;
use crate::stats::{Count, ThreadCounters};

/// No shard's and no service's id.
const NONE: u64 = 0;

/// A thread's own part of a shard.
pub(crate) struct ThreadState {
    shard: Weak<Shard>,
    /// Kept alive from here, as a thread counts the end of the handle that has kept the shard.
    registered: Arc<Registered>,
    /// Of a part for one call only: the shard, which the call may release. Other threads count on the same record then.
    temporary: Option<Arc<Shard>>,
    pub(crate) cache: Cache,
}

thread_local! {
    static STATES: ThreadStates = const { ThreadStates(RefCell::new(StateTable { all: Vec::new(), slots: Vec::new() })) };
    /// The part used last, which most of the time is the one used next. Null, or one of `STATES`.
    static LAST: Cell<*const StateCell> = const { Cell::new(ptr::null()) };
}

struct ThreadStates(RefCell<StateTable>);

struct StateCell {
    /// The shard's.
    id: u64,
    /// The service whose timers this thread schedules here, or `NONE`.
    home_of: Cell<u64>,
    /// A call uses `state`.
    in_use: Cell<bool>,
    state: UnsafeCell<ThreadState>,
}

/// A part in use: nothing else touches its `state` while this lives.
///
/// It is one pointer, also where it had to be searched for, and no closure is passed to that search. So all that the
/// caller has stays in registers.
struct StateGuard(NonNull<StateCell>);

impl StateCell {
    fn new(id: u64, state: ThreadState) -> Self {
        Self { id, home_of: Cell::new(NONE), in_use: Cell::new(false), state: UnsafeCell::new(state) }
    }

    /// Uses the part, unless it is in use further down the stack.
    ///
    /// # Safety
    /// The part must not be dropped or moved while what is returned lives.
    #[inline(always)]
    unsafe fn enter(&self) -> Option<StateGuard> {
        (!self.in_use.replace(true)).then(|| StateGuard(NonNull::from(self)))
    }
}

impl Deref for StateGuard {
    type Target = ThreadState;

    #[inline(always)]
    fn deref(&self) -> &ThreadState {
        // SAFETY: the part lives, by the contract of `enter`, and `in_use` keeps others from its `state`.
        unsafe { &*self.0.as_ref().state.get() }
    }
}

impl DerefMut for StateGuard {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut ThreadState {
        // SAFETY: as above.
        unsafe { &mut *self.0.as_ref().state.get() }
    }
}

impl Drop for StateGuard {
    #[inline(always)]
    fn drop(&mut self) {
        if self.temporary.is_some() {
            return drop_temporary(self.0);
        }
        // SAFETY: the part lives, by the contract of `enter`.
        unsafe { self.0.as_ref() }.in_use.set(false);
    }
}

/// The parts of one thread.
struct StateTable {
    /// Boxed, as `LAST` and the table point to them while others come and go.
    #[expect(clippy::vec_box, reason = "as above")]
    all: Vec<Box<StateCell>>,
    /// The same by the id of the shard, and where it is the thread's home, by that of the service: a hash table with
    /// linear probing. It has no slot, or a power of two, of which at most half are taken. Ids are numbered on, so the
    /// shards of a service do not collide.
    slots: Vec<Slot>,
}

#[derive(Clone, Copy)]
struct Slot {
    id: u64,
    /// `None`: the slot is empty.
    cell: Option<NonNull<StateCell>>,
}

impl ThreadState {
    /// Counts one of what `which` names.
    #[inline(always)]
    pub(crate) fn count(&self, which: impl FnOnce(&ThreadCounters) -> &Count) {
        self.add(which, 1);
    }

    #[inline(always)]
    pub(crate) fn add(&self, which: impl FnOnce(&ThreadCounters) -> &Count, more: u64) {
        which(&self.registered.counters).add(more, self.temporary.is_some());
    }

    #[inline]
    pub(crate) fn record_lateness(&self, lateness: std::time::Duration) {
        self.registered.counters.record_lateness(lateness, self.temporary.is_some());
    }

    /// The shard, which lives as long as the caller's timer or handle does.
    #[inline]
    pub(crate) fn shard(&self) -> NonNull<Shard> {
        NonNull::new(self.shard.as_ptr().cast_mut()).expect("a pointer into an allocation")
    }

    /// Keeps a free entry for the next timer, or sets it aside. Unlike all else here, it may be called when nothing keeps
    /// the shard any more: then the entry is gone with it.
    #[inline]
    pub(crate) fn recycle(&mut self, index: u32, aside: bool) {
        if aside {
            return self.set_aside(index);
        }
        let shard = &self.shard;
        self.cache.push(index, |batch| give_if_alive(shard, batch));
    }

    #[cold]
    fn set_aside(&self, index: u32) {
        if let Some(shard) = self.shard.upgrade() {
            // SAFETY: it is this thread's to keep.
            unsafe { shard.core.set_aside(index) };
        }
    }

    /// Whether this is a part for one call only, of a thread that is ending.
    #[inline]
    pub(crate) fn is_temporary(&self) -> bool {
        self.temporary.is_some()
    }

    fn new(shard: &Shard) -> Self {
        Self { shard: shard.this.clone(), registered: shard.registry.register(), temporary: None, cache: Cache::new() }
    }
}

impl Drop for StateCell {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        if let Some(shard) = state.temporary.take() {
            shard.core.give_back(&mut state.cache);
        } else if let Some(shard) = state.shard.upgrade() {
            shard.core.give_back(&mut state.cache);
            if self.home_of.get() != NONE {
                shard.leave_home();
            }
            // SAFETY: this shard registered them, and a part is dropped once.
            if unsafe { shard.registry.unregister(&state.registered) } {
                shard.core.wake_lazily();
            }
        }
    }
}

fn give_if_alive(shard: &Weak<Shard>, batch: &[u32]) {
    if let Some(shard) = shard.upgrade() {
        shard.core.give(batch);
    }
}

/// Gives `f` the calling thread's part of `shard`. `f` must not call foreign code.
#[inline(always)]
pub(crate) fn with<R>(shard: &Shard, f: impl FnOnce(&mut ThreadState) -> R) -> R {
    f(&mut find(|cell| cell.id == shard.id, shard.id, || (shard, NONE)))
}

/// The same for an `f` that may release what keeps the shard. No reference to it is held meanwhile, as one that is passed
/// to a function promises that it is valid for as long as that runs.
///
/// # Safety
/// The shard must be valid until `f` releases what keeps it.
#[inline(always)]
pub(crate) unsafe fn with_shard_of_handle<R>(shard: NonNull<Shard>, f: impl FnOnce(&mut ThreadState) -> R) -> R {
    // SAFETY: by this function's contract, as `f` comes after.
    let id = unsafe { (*shard.as_ptr()).id };
    // SAFETY: as above.
    f(&mut find(|cell| cell.id == id, id, || (unsafe { shard.as_ref() }, NONE)))
}

/// Gives `f` the calling thread's part of the shard in which it schedules timers of `service`. The first time, `choose`
/// [chooses](Shard::choose_home) which that is. `f` must not call foreign code.
#[inline(always)]
pub(crate) fn with_home<'a, R>(
    service: u64,
    choose: impl FnOnce() -> &'a Shard,
    f: impl FnOnce(&mut ThreadState) -> R,
) -> R {
    f(&mut find(|cell| cell.home_of.get() == service, service, || (choose(), service)))
}

/// The shard with this id, if the calling thread has used it, and it is still there.
#[cold]
pub(crate) fn shard(id: u64) -> Option<Arc<Shard>> {
    STATES.try_with(|states| states.find(id)).ok().flatten()?.shard.upgrade()
}

#[inline(always)]
fn find<'a>(matches: impl Fn(&StateCell) -> bool, id: u64, choose: impl FnOnce() -> (&'a Shard, u64)) -> StateGuard {
    // SAFETY: a part is dropped only when this has been cleared, and only when it is not in use.
    if let Some(last) = unsafe { LAST.get().as_ref() }
        && matches(last)
        // SAFETY: as above.
        && let Some(guard) = unsafe { last.enter() }
    {
        return guard;
    }
    search(id, choose)
}

#[inline(never)]
fn search<'a>(id: u64, choose: impl FnOnce() -> (&'a Shard, u64)) -> StateGuard {
    let found = STATES.try_with(|states| states.find(id)).ok().flatten();
    let guard = match found {
        Some(guard) => guard,
        None => {
            let (shard, home_of) = choose();
            match STATES.try_with(|states| states.enter(shard, home_of)).ok().flatten() {
                Some(guard) => guard,
                None => {
                    if home_of != NONE {
                        shard.leave_home();
                    }
                    return enter_temporarily(shard.this.upgrade().expect("a shard that the caller keeps"));
                }
            }
        }
    };
    LAST.set(guard.0.as_ptr());
    guard
}

/// The thread is ending, and its locals are gone: counts with everybody, and keeps nothing.
fn enter_temporarily(shard: Arc<Shard>) -> StateGuard {
    let (this, registered) = (shard.this.clone(), shard.common.clone());
    let cell =
        StateCell::new(shard.id, ThreadState { shard: this, registered, temporary: Some(shard), cache: Cache::new() });
    cell.in_use.set(true);
    // `drop_temporary` drops it, with what is returned.
    StateGuard(NonNull::from(Box::leak(Box::new(cell))))
}

#[cold]
fn drop_temporary(cell: NonNull<StateCell>) {
    // SAFETY: `enter_temporarily` made the pointer of a box, and the call that used the part is over.
    drop(unsafe { Box::from_raw(cell.as_ptr()) });
}

impl ThreadStates {
    /// Uses the part with this id, if there is one that is not in use further down the stack.
    fn find(&self, id: u64) -> Option<StateGuard> {
        let table = self.0.try_borrow().ok()?;
        let mut same = table.probe(id).filter(|slot| slot.id == id).filter_map(|slot| slot.cell);
        // SAFETY: it is in the table, so in the list, from which none is taken that is in use.
        same.find_map(|cell| unsafe { cell.as_ref().enter() })
    }

    /// Makes the thread's part of a shard, or makes the one that it has its home.
    #[cold]
    fn enter(&self, shard: &Shard, home_of: u64) -> Option<StateGuard> {
        let mut table = self.0.try_borrow_mut().ok()?;
        LAST.set(ptr::null());
        table.slots.clear();
        // SAFETY: the closure drops it before the part goes.
        table.all.retain(|cell| unsafe { cell.enter() }.is_none_or(|state| state.shard.strong_count() > 0));
        // SAFETY: it is in the list, from which none is taken that is in use.
        let found = table.all.iter().filter(|cell| cell.id == shard.id).find_map(|cell| unsafe { cell.enter() });
        let guard = found.or_else(|| {
            table.all.push(Box::new(StateCell::new(shard.id, ThreadState::new(shard))));
            // SAFETY: as above.
            unsafe { table.all.last()?.enter() }
        })?;
        // SAFETY: it is one of the list.
        let before = (home_of != NONE).then(|| unsafe { guard.0.as_ref() }.home_of.replace(home_of));
        if before.is_some_and(|before| before != NONE) {
            // It was one already.
            shard.leave_home();
        }
        table.fill_slots();
        Some(guard)
    }
}

impl StateTable {
    /// Returns the slots that can have this id.
    fn probe(&self, id: u64) -> impl Iterator<Item = &Slot> {
        let (before, from) = self.slots.split_at(self.first_slot(id));
        from.iter().chain(before).take_while(|slot| slot.cell.is_some())
    }

    fn first_slot(&self, id: u64) -> usize {
        id as usize & self.slots.len().saturating_sub(1)
    }

    fn fill_slots(&mut self) {
        self.slots.resize((4 * self.all.len()).next_power_of_two(), Slot { id: NONE, cell: None });
        let mask = self.slots.len() - 1;
        for cell in &self.all {
            for id in [cell.id, cell.home_of.get()].into_iter().filter(|&id| id != NONE) {
                let free = self.first_slot(id) + self.probe(id).count();
                self.slots[free & mask] = Slot { id, cell: Some(NonNull::from(&**cell)) };
            }
        }
    }
}

impl Drop for ThreadStates {
    fn drop(&mut self) {
        LAST.set(ptr::null());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::{Clock, ManualClock, Ticks};

    /// At the end of the table the search goes on at its beginning.
    #[test]
    fn a_part_is_found_by_the_id_of_its_shard_and_by_that_of_its_service() {
        let mut shards = Vec::new();
        // Each service begins at the last slot, whatever the size of the table is.
        for service in (1..50).map(|number| number << 32 | 0xffff_ffff) {
            let ticks = Ticks::new(Clock::Manual(ManualClock::new()), Duration::from_millis(1));
            let shard = Shard::new(ticks, None, None, None, || false);
            with_home(service, || &shard, |_| ());
            shards.push((service, shard));
            for (service, shard) in &shards {
                for id in [*service, shard.id] {
                    let guard = STATES.with(|states| states.find(id)).expect("a cell of this thread");
                    // SAFETY: it is in the table.
                    let cell = unsafe { guard.0.as_ref() };
                    assert_eq!((cell.id, cell.home_of.get()), (shard.id, *service));
                }
            }
        }
    }
}

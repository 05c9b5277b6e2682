//! `ThreadState`: what each thread keeps for each shard it uses, its counters and a cache of free entries.
//!
//! Every call on a timer passes through here: to take an entry, to count, and to return an entry.
//!
//! ```text
//! LAST ──────────────────────────────┐  the state used last, for most calls the right one: one comparison
//!                                    ▼
//! STATES.slots ──id of a shard───► StateCell { id, home_of, in_use, ThreadState { counters, cache } }
//!        │                           ▲
//!        └───────id of a service─────┘  where the shard is this thread's home
//! ```
//!
//! **Life.** The first use of a shard registers counters, and creates a `StateCell`. When the thread ends, its entries
//! go to the shard's pool, and its counters to the registry. A state whose shard is gone is dropped when the thread
//! next uses a new shard.
//!
//! **Who keeps what.** A state refers to its shard weakly. During a call, the caller's service or handle keeps the
//! shard alive. Two methods may also run after a release that frees the shard: `count`, as the state keeps its
//! counters, and `recycle`, which checks whether the shard still exists.
//!
//! **Recursion.** A call may come here again from inside itself: dropping the last reference to a shard drops the
//! user's hooks, and these may use timers. `in_use` then hides the outer call's state, and the inner call uses another
//! state for the shard.
//!
//! **The end of a thread.** Destructors of other thread-locals may use timers after this one is destroyed. Such a call
//! gets a *temporary* state: an empty cache, and counters that all such threads share.

use std::cell::{Cell, RefCell, UnsafeCell};
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::sync::{Arc, Weak};

use super::registry::Registered;
use super::shard::Shard;
use crate::engine::memory::Cache;
use crate::stats::{Count, ThreadCounters};

/// An id that no shard and no service has.
const NONE: u64 = 0;

/// One thread's state for one shard.
pub(super) struct ThreadState {
    shard: Weak<Shard>,
    /// Kept alive by the state, because the thread still counts after a release that may free the shard.
    registered: Arc<Registered>,
    /// In a temporary state: keeps the shard, which the call may release. Other threads use the same counters then.
    temporary: Option<Arc<Shard>>,
    pub(super) cache: Cache,
}

thread_local! {
    static STATES: ThreadStates = const { ThreadStates(RefCell::new(StateTable { all: Vec::new(), slots: Vec::new() })) };
    /// The state used last. Null, or one of `STATES`.
    static LAST: Cell<*const StateCell> = const { Cell::new(ptr::null()) };
}

struct ThreadStates(RefCell<StateTable>);

struct StateCell {
    /// The id of the shard.
    id: u64,
    /// The id of the service for which this shard is the thread's home, or `NONE`.
    home_of: Cell<u64>,
    /// A `StateGuard` for this cell exists.
    in_use: Cell<bool>,
    state: UnsafeCell<ThreadState>,
}

/// Exclusive access to the `state` of a cell.
///
/// It is a single pointer, and the search for it takes no closure of the caller. So the caller's values stay in
/// registers.
struct StateGuard(NonNull<StateCell>);

impl StateCell {
    fn new(id: u64, state: ThreadState) -> Self {
        Self { id, home_of: Cell::new(NONE), in_use: Cell::new(false), state: UnsafeCell::new(state) }
    }

    /// Returns access to the state, unless a call further down the stack has it.
    ///
    /// # Safety
    /// The cell must not be dropped or moved while the guard exists.
    #[inline(always)]
    unsafe fn enter(&self) -> Option<StateGuard> {
        (!self.in_use.replace(true)).then(|| StateGuard(NonNull::from(self)))
    }
}

impl Deref for StateGuard {
    type Target = ThreadState;

    #[inline(always)]
    fn deref(&self) -> &ThreadState {
        // SAFETY: the cell exists, by the contract of `enter`. We own its `state`, because `in_use` admits one guard.
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
        // SAFETY: the cell exists, by the contract of `enter`.
        unsafe { self.0.as_ref() }.in_use.set(false);
    }
}

/// All states of one thread.
struct StateTable {
    /// Boxed, because `LAST` and `slots` point to the cells while the vector grows and shrinks.
    #[expect(clippy::vec_box, reason = "as above")]
    all: Vec<Box<StateCell>>,
    /// A hash table of `all` with linear probing, by the id of the shard. A home is entered by the id of the service,
    /// too. It has no slot, or a power of two of which at most half are taken. Ids are consecutive, so the shards of
    /// one service do not collide.
    slots: Vec<Slot>,
}

#[derive(Clone, Copy)]
struct Slot {
    id: u64,
    /// `None` in an empty slot.
    cell: Option<NonNull<StateCell>>,
}

impl ThreadState {
    /// Adds one to the counter that `which` names.
    #[inline(always)]
    pub(super) fn count(&self, which: impl FnOnce(&ThreadCounters) -> &Count) {
        self.add(which, 1);
    }

    /// Adds `more` to the counter that `which` names.
    #[inline(always)]
    pub(super) fn add(&self, which: impl FnOnce(&ThreadCounters) -> &Count, more: u64) {
        which(&self.registered.counters).add(more, self.temporary.is_some());
    }

    /// Records the lateness of a run.
    #[inline]
    pub(super) fn record_lateness(&self, lateness: std::time::Duration) {
        self.registered.counters.record_lateness(lateness, self.temporary.is_some());
    }

    /// Returns the shard. It is alive as long as the caller's service or handle keeps it.
    #[inline]
    pub(super) fn shard(&self) -> NonNull<Shard> {
        NonNull::new(self.shard.as_ptr().cast_mut()).expect("a pointer into an allocation")
    }

    /// Caches a free entry for the next timer, or sets it aside in its sparse block.
    ///
    /// May be called when nothing keeps the shard any more. The entry of a shard that is gone needs no cache.
    #[inline]
    pub(super) fn recycle(&mut self, index: u32, aside: bool) {
        if aside {
            return self.recycle_sparse(index);
        }
        let shard = &self.shard;
        self.cache.push(index, |batch| give_if_alive(shard, batch));
    }

    #[cold]
    fn recycle_sparse(&mut self, index: u32) {
        if let Some(shard) = self.shard.upgrade() {
            // SAFETY: we own the entry, because this thread's transition has freed it.
            unsafe { shard.core.recycle_sparse(&mut self.cache, index) };
        }
    }

    fn new(shard: &Shard) -> Self {
        Self { shard: shard.this.clone(), registered: shard.registry.register(), temporary: None, cache: Cache::new() }
    }
}

impl Drop for StateCell {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        if let Some(shard) = state.temporary.take() {
            shard.core.drain_cache(&mut state.cache);
        } else if let Some(shard) = state.shard.upgrade() {
            shard.core.drain_cache(&mut state.cache);
            if self.home_of.get() != NONE {
                shard.leave_home();
            }
            if shard.registry.unregister(&state.registered) {
                shard.core.wake_lazily();
            }
        }
    }
}

/// Gives cached entries back to the shard's pool, if the shard still exists.
fn give_if_alive(shard: &Weak<Shard>, batch: &[u32]) {
    if let Some(shard) = shard.upgrade() {
        shard.core.give_back(batch);
    }
}

/// Calls `f` with the calling thread's state for `shard`. `f` must not call foreign code.
#[inline(always)]
pub(super) fn with<R>(shard: &Shard, f: impl FnOnce(&mut ThreadState) -> R) -> R {
    f(&mut find(|cell| cell.id == shard.id, shard.id, || (shard, NONE)))
}

/// Like [`with`], for an `f` that may release what keeps the shard. No reference to the shard exists while `f` runs,
/// because a reference that is passed to a function must be valid until that function returns.
///
/// # Safety
/// The shard must be alive until `f` releases what keeps it.
#[inline(always)]
pub(super) unsafe fn with_shard_of_handle<R>(shard: NonNull<Shard>, f: impl FnOnce(&mut ThreadState) -> R) -> R {
    // SAFETY: the shard is alive by this function's contract, because `f` has not run yet.
    let id = unsafe { (*shard.as_ptr()).id };
    // SAFETY: as above.
    f(&mut find(|cell| cell.id == id, id, || (unsafe { shard.as_ref() }, NONE)))
}

/// Calls `f` with the calling thread's state for its home shard of `service`. The thread's first call chooses that
/// shard by `choose`; see [`Shard::choose_home`]. `f` must not call foreign code.
#[inline(always)]
pub(super) fn with_home<'a, R>(
    service: u64,
    choose: impl FnOnce() -> &'a Shard,
    f: impl FnOnce(&mut ThreadState) -> R,
) -> R {
    f(&mut find(|cell| cell.home_of.get() == service, service, || (choose(), service)))
}

/// Returns the state that `matches`, which is usually the one used last.
#[inline(always)]
fn find<'a>(matches: impl Fn(&StateCell) -> bool, id: u64, choose: impl FnOnce() -> (&'a Shard, u64)) -> StateGuard {
    // SAFETY: the cell exists, because `LAST` is cleared before any cell is dropped. A cell in use is never dropped.
    if let Some(last) = unsafe { LAST.get().as_ref() }
        && matches(last)
        // SAFETY: as above.
        && let Some(guard) = unsafe { last.enter() }
    {
        return guard;
    }
    search(id, choose)
}

/// Returns the state with this id from the table, or creates it. Sets `LAST`.
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

/// Creates a temporary state, for a thread whose thread-locals are destroyed.
fn enter_temporarily(shard: Arc<Shard>) -> StateGuard {
    let (this, registered) = (shard.this.clone(), shard.common.clone());
    let cell =
        StateCell::new(shard.id, ThreadState { shard: this, registered, temporary: Some(shard), cache: Cache::new() });
    cell.in_use.set(true);
    // `drop_temporary` frees the box when the guard is dropped.
    StateGuard(NonNull::from(Box::leak(Box::new(cell))))
}

#[cold]
fn drop_temporary(cell: NonNull<StateCell>) {
    // SAFETY: we own the box, because `enter_temporarily` leaked it for this guard alone, and the guard is being
    // dropped.
    drop(unsafe { Box::from_raw(cell.as_ptr()) });
}

impl ThreadStates {
    /// Returns the state with this id, if there is one that no call further down the stack uses.
    fn find(&self, id: u64) -> Option<StateGuard> {
        let table = self.0.try_borrow().ok()?;
        let mut same = table.probe(id).filter(|slot| slot.id == id).filter_map(|slot| slot.cell);
        // SAFETY: the cell exists, because `slots` points to cells of `all`. A cell in use is never removed from `all`.
        same.find_map(|cell| unsafe { cell.as_ref().enter() })
    }

    /// Returns the state for `shard`, which it creates if there is none. Makes the shard the home for `home_of`. Drops
    /// the states of shards that are gone.
    #[cold]
    fn enter(&self, shard: &Shard, home_of: u64) -> Option<StateGuard> {
        let mut table = self.0.try_borrow_mut().ok()?;
        table.slots.clear();
        // `LAST` may point to a cell that this drops. Nothing reads it until `search` sets it: the state of a shard that is
        // gone is the thread's own, so no foreign code runs here.
        // SAFETY: the closure drops the guard before `retain` drops the cell.
        table.all.retain(|cell| unsafe { cell.enter() }.is_none_or(|state| state.shard.strong_count() > 0));
        // SAFETY: the cell exists, because a cell in use is never removed from `all`.
        let found = table.all.iter().filter(|cell| cell.id == shard.id).find_map(|cell| unsafe { cell.enter() });
        let guard = found.or_else(|| {
            table.all.push(Box::new(StateCell::new(shard.id, ThreadState::new(shard))));
            // SAFETY: as above.
            unsafe { table.all.last()?.enter() }
        })?;
        // SAFETY: the cell is in `all`.
        let before = (home_of != NONE).then(|| unsafe { guard.0.as_ref() }.home_of.replace(home_of));
        if before.is_some_and(|before| before != NONE) {
            // This shard was the home already, so `choose` has counted the thread twice.
            shard.leave_home();
        }
        table.fill_slots();
        Some(guard)
    }
}

impl StateTable {
    /// Returns the taken slots from the first in which this id can be.
    fn probe(&self, id: u64) -> impl Iterator<Item = &Slot> {
        let (before, from) = self.slots.split_at(self.first_slot(id));
        from.iter().chain(before).take_while(|slot| slot.cell.is_some())
    }

    fn first_slot(&self, id: u64) -> usize {
        id as usize & self.slots.len().saturating_sub(1)
    }

    /// Enters all cells into the empty table.
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
        // Destructors of other thread-locals may use timers after this one has dropped the cells.
        LAST.set(ptr::null());
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::clock::{ManualClock, Ticks};

    fn shard() -> Arc<Shard> {
        let ticks = Ticks::new(Some(ManualClock::new()), Duration::from_millis(1));
        Shard::new(ticks, None, None, None, || false)
    }

    /// Looks for the state used last when the thread ends.
    struct AtExit(Arc<Shard>);

    impl Drop for AtExit {
        fn drop(&mut self) {
            assert!(LAST.get().is_null(), "the cell is dropped: this would use freed memory");
            with(&self.0, |state| assert!(state.temporary.is_some()));
        }
    }

    #[test]
    fn a_destructor_after_that_of_the_states_finds_none_of_them() {
        thread_local! {
            static AT_EXIT: RefCell<Option<AtExit>> = const { RefCell::new(None) };
        }
        let shard = shard();
        let uses = move || {
            // Destructors run in the reverse order of first use.
            AT_EXIT.set(Some(AtExit(shard.clone())));
            with(&shard, |state| assert!(state.temporary.is_none()));
            assert!(!LAST.get().is_null());
        };
        assert!(thread::spawn(uses).join().is_ok());
    }

    /// A search that reaches the end of the table continues at its beginning.
    #[test]
    fn a_state_is_found_by_the_id_of_its_shard_and_of_its_service() {
        let mut shards = Vec::new();
        // The id of each service belongs to the last slot, for any size of the table.
        for service in (1..50).map(|number| number << 32 | 0xffff_ffff) {
            let shard = shard();
            with_home(service, || &shard, |_| ());
            shards.push((service, shard));
            for (service, shard) in &shards {
                for id in [*service, shard.id] {
                    let guard = STATES.with(|states| states.find(id)).expect("a cell of this thread");
                    // SAFETY: the cell exists, because it is in the table.
                    let cell = unsafe { guard.0.as_ref() };
                    assert_eq!((cell.id, cell.home_of.get()), (shard.id, *service));
                }
            }
        }
    }
}

//! `ThreadState`: what each thread keeps for each shard it uses, its counters and a cache of free entries.
//!
//! Every call on a timer passes through here: to take an entry, to count, and to return an entry. A call takes the
//! state of its shard out of the thread-locals, uses it, and puts it back when its [`Guard`] is dropped:
//!
//! ```text
//!        matches: one comparison                  afterwards
//! LAST ──────────────────────────► the call ─────────────────► LAST     the state used last
//!   │ does not match                  ▲
//!   ▼                                 │
//! OTHERS ─────────────────────────────┘                                 all other states
//!          by the id of the shard, or of the service for which it is the thread's home
//! ```
//!
//! **Life.** The first use of a shard registers counters, and creates a state. When the thread ends, its entries go to
//! the shard's depot, and its counters to the registry. A state whose shard is gone is dropped when the thread next
//! uses a new shard.
//!
//! **Who keeps what.** A state refers to its shard weakly. During a call, the caller's service or handle keeps the
//! shard alive. Three methods may also run after a release that frees the shard: `count`, as the state keeps its
//! counters, and `recycle` and `give_back`, which check whether the shard still exists.
//!
//! **Recursion.** A call may come here again from inside itself: dropping the last reference to a shard drops the
//! user's hooks, and a call may wake a program's loop. Both may use timers. The outer call has its state, so the inner
//! call finds or creates another, perhaps for a second home, which the thread has until it drives by a `Driver`.
//!
//! **The end of a thread.** Destructors of other thread-locals may use timers after this one is destroyed. Each such call
//! creates a state, which ends with the call.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use super::counter_registry::ListedCounters;
use super::shard::Shard;
use crate::engine::entry::CHUNK;
use crate::engine::memory::Cache;
pub(crate) use crate::stats::{Counter, ThreadCounters};

/// An id that no shard and no service has.
const NONE: u64 = 0;

/// Number of cached entries from which a thread gives back those of a shard that is not its home, when it uses another:
/// those of a chunk in the [depot](crate::engine::memory).
const HANDFUL: usize = CHUNK;

/// One thread's state for one shard.
pub(crate) struct ThreadState {
    /// Identifies the shard, because `weak` keeps the memory there from being used for another.
    shard: NonNull<Shard>,
    /// The id of the service for which this shard is the thread's home, or `NONE`.
    home_of: u64,
    weak: Weak<Shard>,
    /// Kept alive by the state, because the thread still counts after a release that may free the shard.
    listed: Arc<ListedCounters>,
    /// The thread-locals are destroyed, so the state ends with the call.
    ends: bool,
    pub(super) cache: Cache,
}

/// The state of the calling thread for a shard, while a call uses it.
pub(crate) struct Guard(ManuallyDrop<Box<ThreadState>>);

thread_local! {
    /// The state used last. `None` before the first call, inside a call, and after the drop of `OTHERS`. It has no
    /// destructor, so an access needs no check.
    static LAST: Cell<ManuallyDrop<Option<Box<ThreadState>>>> = const { Cell::new(ManuallyDrop::new(None)) };
    static OTHERS: RefCell<States> = const { RefCell::new(States(Vec::new())) };
}

/// The states that are neither `LAST` nor used by a call. Each is in a box, so that only a pointer moves between here,
/// `LAST` and a call. Beside it are its `shard` and `home_of`, so that a search reads no state: a thread may use the
/// shards of many cores in turn.
struct States(Vec<(NonNull<Shard>, u64, Box<ThreadState>)>);

impl ThreadState {
    /// Adds one to the counter that `which` names.
    #[inline(always)]
    pub(crate) fn count(&self, which: impl FnOnce(&ThreadCounters) -> &Counter) {
        which(&self.listed.counters).add(1);
    }

    /// Records the lateness of a run, in nanoseconds.
    #[inline]
    pub(super) fn record_lateness(&self, nanos: u64) {
        self.listed.counters.record_lateness(nanos);
    }

    /// Returns the shard. It is alive as long as the caller's service or handle keeps it.
    #[inline]
    pub(crate) fn shard(&self) -> NonNull<Shard> {
        self.shard
    }

    /// Caches a free entry for the next timer, or sets it aside in its sparse block.
    ///
    /// May be called when nothing keeps the shard any more. The entry of a shard that is gone needs no cache.
    #[inline]
    pub(super) fn recycle(&mut self, index: u32, aside: bool) {
        if aside {
            return self.recycle_sparse(index);
        }
        let weak = &self.weak;
        self.cache.push(index, |magazine| give_if_alive(weak, magazine));
    }

    #[cold]
    fn recycle_sparse(&mut self, index: u32) {
        if let Some(shard) = self.weak.upgrade() {
            // SAFETY: we own the entry, because this thread's transition has freed it.
            unsafe { shard.core.recycle_sparse(&mut self.cache, index) };
        }
    }

    /// Gives back the cached entries, unless they are a few, or the thread needs them because this shard is its home.
    fn give_back(&mut self) {
        if self.home_of == NONE && self.cache.len() >= HANDFUL {
            let weak = &self.weak;
            self.cache.drain(|magazine| give_if_alive(weak, magazine));
        }
    }

    fn new(shard: &Shard, wanted: Wanted, ends: bool) -> Box<Self> {
        let (weak, listed) = (shard.this.clone(), shard.registry.register());
        let shard = NonNull::new(weak.as_ptr().cast_mut()).expect("a pointer into an allocation");
        Box::new(Self { shard, home_of: wanted.service(), weak, listed, ends, cache: Cache::new() })
    }
}

impl Drop for ThreadState {
    fn drop(&mut self) {
        let Some(shard) = self.weak.upgrade() else { return };
        shard.core.drain_cache(&mut self.cache);
        if self.home_of != NONE {
            // Relaxed, as at `choose_home`.
            shard.homes.fetch_sub(1, Ordering::Relaxed);
        }
        shard.registry.unregister(&self.listed);
    }
}

impl Deref for Guard {
    type Target = ThreadState;

    #[inline(always)]
    fn deref(&self) -> &ThreadState {
        &self.0
    }
}

impl DerefMut for Guard {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut ThreadState {
        &mut self.0
    }
}

impl Drop for Guard {
    /// Makes the state the one used last.
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the guard is not used after this.
        let state = unsafe { ManuallyDrop::take(&mut self.0) };
        let leaves = if state.ends {
            Some(state)
        } else {
            ManuallyDrop::into_inner(LAST.replace(ManuallyDrop::new(Some(state))))
        };
        if let Some(state) = leaves {
            store(state);
        }
    }
}

/// Gives cached entries back to the shard's depot, if the shard still exists.
fn give_if_alive(weak: &Weak<Shard>, magazine: &[u32]) {
    if let Some(shard) = weak.upgrade() {
        shard.core.give_back(magazine);
    }
}

/// Which of a thread's states a call needs.
#[derive(Clone, Copy)]
enum Wanted {
    Of(NonNull<Shard>),
    HomeOf(u64),
}

impl Wanted {
    #[inline(always)]
    fn is(self, shard: NonNull<Shard>, home_of: u64) -> bool {
        match self {
            Self::Of(wanted) => shard == wanted,
            Self::HomeOf(service) => home_of == service,
        }
    }

    fn service(self) -> u64 {
        if let Self::HomeOf(service) = self { service } else { NONE }
    }
}

/// Returns the calling thread's state for `shard`, which the caller keeps alive until it releases it by the state.
#[inline(always)]
pub(crate) fn of(shard: &Shard) -> Guard {
    get(Wanted::Of(shard.into()), || shard)
}

/// Returns the calling thread's state for its home shard of `service`. The thread's first call chooses that shard by
/// `choose`; see [`Shard::choose_home`].
#[inline(always)]
pub(crate) fn home<'a>(service: u64, choose: impl FnOnce() -> &'a Shard) -> Guard {
    get(Wanted::HomeOf(service), choose)
}

/// Makes `to` the calling thread's only home in the service, whose shards the caller keeps alive.
pub(crate) fn move_home(service: u64, to: &Shard) {
    take_last().into_iter().for_each(store);
    with_others(|states| {
        let others = states.0.iter_mut().filter(|(shard, of, _)| *of == service && *shard != to.into());
        for (_, home_of, state) in others {
            *home_of = NONE;
            state.home_of = NONE;
            if let Some(shard) = state.weak.upgrade() {
                // Relaxed, here and below, as at `choose_home`.
                shard.homes.fetch_sub(1, Ordering::Relaxed);
            }
        }
    });
    let enter = || {
        to.homes.fetch_add(1, Ordering::Relaxed);
        to
    };
    drop(home(service, enter));
}

/// Returns the wanted state, which is usually the one used last.
#[inline(always)]
fn get<'a>(wanted: Wanted, choose: impl FnOnce() -> &'a Shard) -> Guard {
    let state = match take_last() {
        Some(last) if wanted.is(last.shard, last.home_of) => last,
        last => search(last, wanted, choose),
    };
    Guard(ManuallyDrop::new(state))
}

#[inline(always)]
fn take_last() -> Option<Box<ThreadState>> {
    ManuallyDrop::into_inner(LAST.take())
}

/// Stores the state used last, and returns the wanted one. If there is none, creates one for the shard that `choose`
/// returns.
#[inline(never)]
fn search<'a>(last: Option<Box<ThreadState>>, wanted: Wanted, choose: impl FnOnce() -> &'a Shard) -> Box<ThreadState> {
    last.into_iter().for_each(store);
    with_others(|others| others.take(wanted)).flatten().unwrap_or_else(|| {
        let shard = choose();
        with_others(|others| others.take_or_create(shard, wanted))
            .unwrap_or_else(|| ThreadState::new(shard, wanted, true))
    })
}

/// Stores the state that was used last. Drops one that ends with its call.
#[cold]
fn store(mut state: Box<ThreadState>) {
    // Before the list is borrowed, because this may wake a program's loop, whose waker may come here.
    state.give_back();
    with_others(|others| others.0.push((state.shard, state.home_of, state)));
}

/// Calls `f` with all other states, unless they are already dropped.
fn with_others<R>(f: impl FnOnce(&mut States) -> R) -> Option<R> {
    OTHERS.try_with(|others| f(&mut others.borrow_mut())).ok()
}

impl States {
    fn take(&mut self, wanted: Wanted) -> Option<Box<ThreadState>> {
        let index = self.0.iter().position(|&(shard, home_of, _)| wanted.is(shard, home_of))?;
        Some(self.0.swap_remove(index).2)
    }

    /// Returns the state for `shard`, which it creates if there is none. Makes the shard the wanted home. Drops the states
    /// of shards that are gone, which runs no foreign code.
    #[cold]
    fn take_or_create(&mut self, shard: &Shard, wanted: Wanted) -> Box<ThreadState> {
        self.0.retain(|(.., state)| state.weak.strong_count() > 0);
        let Some(mut state) = self.take(Wanted::Of(shard.into())) else {
            return ThreadState::new(shard, wanted, false);
        };
        state.home_of = wanted.service();
        state
    }
}

impl Drop for States {
    fn drop(&mut self) {
        // Destructors of other thread-locals may use timers after this.
        drop(take_last());
    }
}

#[cfg(test)]
#[path = "thread_state_tests.rs"]
mod tests;

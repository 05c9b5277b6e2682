//! Quiescence: a manual clock and the drivers agree that nothing is left to run at the present tick.
//!
//! The clock first *requests* every driver to dispatch its expired timers. Then it *waits* for one shard after another.
//! So callbacks of one tick run at the same time and may wait for each other, whatever shard or timer they belong to. A
//! driver answers a request when it finds nothing more to do, and names its next deadline. A shard is quiet when its
//! driver has answered, and none of the timers that it has dispatched is *in flight*.
//!
//! ```text
//! clock                          driver                                worker
//! ─────                          ──────                                ──────
//! request each driver, wake it   r := the last request
//! for each shard:                take the intake
//!   until r is answered, and     dispatch the expired: in flight += n  run
//!   nothing is in flight: wait   answer r, name the next deadline      in flight -= 1
//! again, if anything ran         wake the clock                        the last one wakes the clock
//! ```
//!
//! # Why nothing is left
//!
//! A callback in one shard may arm a timer in a shard that the clock has already waited for. So the clock makes
//! *passes* until one finds that no shard has dispatched a timer since the pass before. Let T be the moment at which
//! this last pass begins.
//!
//! 1. The pass before saw each shard without a timer in flight before T. The last pass sees the same after T, with
//!    nothing dispatched in between. So no callback runs at T or later.
//! 2. So all timers that callbacks arm were armed before T. The requests of the last pass come after T, so their
//!    answers cover these timers.
//! 3. What other threads arm meanwhile is concurrent with the `advance`, and may come before or after it.
//!
//! The clock makes no request of a driver whose last answer still holds: its intake is empty, and its next deadline is
//! ahead. If the driver has taken something from the intake since that answer, it has a later request to answer,
//! because it begins a round only for a request.
//!
//! # Reproducible runs
//!
//! Between two requests, the driver of a manual clock does nothing by itself. Only a timer without a delay makes a
//! request of its own. So the driver finds the timers as the program had armed them before it advanced the clock, and a
//! shard repeats the same run for the same program. The driver gives memory back in these rounds, and as soon as the
//! clock advances.
//!
//! Checked by the models of `quiescence` in `loom-tests`, and by the scenario of virtual time in `shuttle-tests`.

use std::ops::Deref;

use crate::sync::{AtomicU64, Condvar, Mutex, Ordering, lock, unpoisoned};

/// A shard, as a manual clock waits for it before it advances.
pub(crate) trait Quiesce: Send + Sync {
    /// Instants; in models, ticks.
    type Time: Ord;
    /// Requests the driver to dispatch its expired timers. Returns the number of the request, or `None` if there is
    /// nothing to do.
    fn request(&self) -> Option<u64>;
    /// Waits until the driver has answered the request, and no timer is in flight.
    fn wait(&self, request: Option<u64>) -> Quiet<Self::Time>;
    /// Returns whether the shard may need the calling thread to become quiet.
    fn needs_this_thread(&self) -> bool;
}

/// The answer of a quiet shard.
pub(crate) struct Quiet<T> {
    /// Time of the next request: the next deadline of the shard, or earlier.
    pub(crate) next: Option<T>,
    /// The shard has dispatched a timer since it was last quiet.
    pub(crate) worked: bool,
}

/// Waits until all shards in `list` are quiet. Returns the earliest time at which one of them wants another request.
pub(crate) fn wait_for_all<Q: Quiesce + ?Sized, S: Deref<Target = Q>>(list: impl Fn() -> Vec<S>) -> Option<Q::Time> {
    loop {
        let shards = list();
        // All requests precede the first wait, because a callback in one shard may wait for a callback in another.
        let requests: Vec<_> = shards.iter().map(|shard| shard.request()).collect();
        let quiet: Vec<_> = shards.iter().zip(requests).map(|(shard, request)| shard.wait(request)).collect();
        if !quiet.iter().any(|quiet| quiet.worked) {
            return quiet.into_iter().filter_map(|quiet| quiet.next).min();
        }
    }
}

/// The state that a clock shares with the driver and the workers of one shard.
#[derive(Default)]
pub(crate) struct Quiescence {
    /// Number of requests so far.
    requests: AtomicU64,
    /// Number of timers that were dispatched and have not ended.
    in_flight: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The last request that the driver has answered.
    answered: u64,
    /// The tick of the next request.
    next: u64,
    /// The driver has ended.
    ended: bool,
    /// Timers were dispatched since the clock last found the shard quiet.
    worked: bool,
}

impl Quiescence {
    /// Called before the driver dispatches this number of timers.
    pub(crate) fn begin(&self, timers: usize) {
        // Relaxed: the driver's answer publishes the count to the clock, by the lock. The executor publishes it to
        // workers.
        self.in_flight.fetch_add(timers as u64, Ordering::Relaxed);
        lock(&self.state).worked = true;
    }

    /// Called when a dispatched timer has run, or has ended otherwise.
    pub(crate) fn end(&self) {
        // Release: publishes the effects of the callback to the clock; pairs with `wait`. Acquire: continues the
        // release sequence for the thread that wakes the clock. Model: `quiescence`.
        if self.in_flight.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.change(|_| ());
        }
    }

    /// Called when a round is over: the driver has found nothing to do before the tick `next`.
    pub(crate) fn end_round(&self, request: u64, next: u64) {
        self.change(|state| {
            state.answered = request;
            state.next = next;
        });
    }

    /// Called when the driver has ended, perhaps in the middle of a round.
    pub(crate) fn driver_ended(&self) {
        self.change(|state| state.ended = true);
    }

    /// Makes a request, and returns its number. The caller must then wake the driver.
    pub(crate) fn request(&self) -> u64 {
        // Release: publishes the clock and the intake to the driver; pairs with `last_request`.
        self.requests.fetch_add(1, Ordering::Release) + 1
    }

    /// Returns the number of the last request. A round of the driver that begins now answers it.
    pub(crate) fn last_request(&self) -> u64 {
        // Acquire: pairs with `request`.
        self.requests.load(Ordering::Acquire)
    }

    /// Makes a request and wakes the driver, unless the last answer still holds at the tick `now`. `is_empty` returns
    /// whether the intake is empty and no memory is left to give back.
    pub(crate) fn request_unless_quiet(
        &self,
        now: u64,
        is_empty: impl FnOnce() -> bool,
        wake: impl FnOnce(),
    ) -> Option<u64> {
        // The intake is read first. A driver that has emptied it had read its request before, so this thread sees that
        // request, too.
        let empty = is_empty();
        let state = lock(&self.state);
        if state.ended || empty && state.answered == self.last_request() && state.next > now {
            return None;
        }
        drop(state);
        let request = self.request();
        wake();
        Some(request)
    }

    /// Waits until the driver has answered `request`, and no timer is in flight.
    ///
    /// Returns the tick of the next request, unless the driver has ended, and whether timers were dispatched since the
    /// last call.
    pub(crate) fn wait(&self, request: Option<u64>) -> Quiet<u64> {
        let mut state = lock(&self.state);
        let is_answered = |state: &State| state.ended || request.is_none_or(|request| state.answered >= request);
        // Acquire: pairs with `end`.
        while !is_answered(&state) || self.in_flight.load(Ordering::Acquire) > 0 {
            state = unpoisoned(self.changed.wait(state));
        }
        let worked = std::mem::take(&mut state.worked);
        Quiet { next: (!state.ended).then_some(state.next), worked }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut lock(&self.state));
        self.changed.notify_all();
    }
}

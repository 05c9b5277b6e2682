//! Quiescence: a manual clock and the drivers agree that nothing is left to run at the present tick.
//!
//! A manual clock takes the place of real time: a driver sleeps until its next deadline, as by the protocol of
//! [`wakeup`](crate::engine::wakeup), and the clock wakes it when that has come. The clock first wakes *every* driver
//! that is due. Then it *waits* for one shard after another. So callbacks of one tick run at the same time and may wait
//! for each other, whatever shard or timer they belong to. A shard is quiescent when its driver is *at rest*, and none
//! of the timers that it has dispatched is *in flight*. A driver is at rest if its seat is free, and it sleeps
//! beyond the present.
//!
//! ```text
//! clock                                driver                            worker
//! ─────                                ──────                            ──────
//! set the time                         publish until when it sleeps
//! fence                                fence
//! wake each driver that is due         has the time come?                run
//! for each shard:                      if so: dispatch the expired:      in flight -= 1
//!   until its driver is at rest, and     in flight += n                  the last one wakes the clock
//!   nothing is in flight: wait         if not: wake the clock, sleep
//! again, if anything ran
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
//! 2. So all timers that callbacks arm were armed before T. They have lowered the tick until which their driver sleeps,
//!    or the driver has seen them. So a driver that is at rest in the last pass has none that is due.
//! 3. What other threads arm meanwhile is concurrent with the `advance`, and may come before or after it.
//!
//! # Reproducible runs
//!
//! A driver that is at rest does nothing by itself before the clock moves or a timer is armed that is due. So it finds
//! the timers as the program had armed them before it advanced the clock, and a shard repeats the same run for the same
//! program. The driver gives memory back after its rounds, and as soon as the clock advances.
//!
//! Checked by the models of `quiescence` in `loom-tests`, and by the scenario of virtual time in `shuttle-tests`.

use std::mem;
use std::ops::Deref;

use crate::sync::{AtomicU64, Condvar, Mutex, Ordering, lock, unpoisoned};

/// A shard as a manual clock sees it.
pub(crate) trait Quiesce: Send + Sync {
    /// Instants; in models, ticks.
    type Time: Ord;
    /// Wakes the driver if it is due.
    fn wake(&self);
    /// Waits until the driver is at rest, and no timer is in flight. Returns whether the shard has dispatched a timer since
    /// the last call.
    fn wait(&self) -> bool;
    /// Returns when the driver is due: at the next deadline of the shard, or earlier.
    fn due(&self) -> Option<Self::Time>;
    /// Returns the last time that the clock may reach, unless the shard is shut down or no `Instant` represents it.
    fn end(&self) -> Option<Self::Time>;
    /// Returns the tick of the earliest pending deadline, unless no `Instant` represents it.
    fn next_deadline(&self) -> Option<Self::Time>;
    /// Returns whether the shard may need the calling thread to become quiescent.
    fn needs_this_thread(&self) -> bool;
}

/// Waits until all shards in `list` are quiescent. Returns the earliest time at which one of them is due.
pub(crate) fn wait_for_all<Q: Quiesce + ?Sized, S: Deref<Target = Q>>(list: impl Fn() -> Vec<S>) -> Option<Q::Time> {
    loop {
        let shards = list();
        // All wake-ups precede the first wait, because a callback in one shard may wait for a callback in another.
        shards.iter().for_each(|shard| shard.wake());
        let worked = shards.iter().fold(false, |worked, shard| shard.wait() | worked);
        if !worked {
            return shards.iter().filter_map(|shard| shard.due()).min();
        }
    }
}

/// The state that a clock shares with the driver and the workers of one shard.
#[derive(Default)]
pub(crate) struct Quiescence {
    /// Number of timers that were dispatched and have not ended.
    in_flight: AtomicU64,
    /// Timers were dispatched since the clock last found the shard quiescent.
    worked: Mutex<bool>,
    changed: Condvar,
}

impl Quiescence {
    /// Called before the driver dispatches this number of timers.
    pub(crate) fn begin(&self, timers: usize) {
        // Relaxed: the seat publishes the count to the clock, and the executor publishes it to workers.
        self.in_flight.fetch_add(timers as u64, Ordering::Relaxed);
        *lock(&self.worked) = true;
    }

    /// Called when a dispatched timer has run, or has ended otherwise.
    pub(crate) fn end(&self) {
        // Release: publishes the effects of the callback to the clock; pairs with `wait`. Acquire: continues the
        // release sequence for the thread that wakes the clock. Model: `quiescence`.
        if self.in_flight.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.wake_clock();
        }
    }

    /// Called when the driver may be at rest.
    pub(crate) fn wake_clock(&self) {
        drop(lock(&self.worked));
        self.changed.notify_all();
    }

    /// Waits until the driver `is_at_rest`, and no timer is in flight. Returns whether timers were dispatched since the
    /// last call.
    pub(crate) fn wait(&self, is_at_rest: impl Fn() -> bool) -> bool {
        let mut worked = lock(&self.worked);
        // Acquire: pairs with `end`.
        while !is_at_rest() || self.in_flight.load(Ordering::Acquire) > 0 {
            worked = unpoisoned(self.changed.wait(worked));
        }
        mem::take(&mut *worked)
    }
}

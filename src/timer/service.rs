//! The service behind a `Timer` and its clones: its shards, its threads, and their end.

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use super::builder::Builder;
use super::unfired::Unfired;
use crate::clock::{Clock, Due, Ticks};
use crate::error::{BuildError, ScheduleError};
use crate::executor::{self, Desk, Executor, Hands, Pool, Workers};
use crate::future::Sleep;
use crate::handle::TimerHandle;
use crate::shard::{self, Callback, Hold, Limit, Shard};
use crate::stats::Stats;
use crate::system::Process;
use crate::wheel::Levels;

const LEAST_TICK: Duration = Duration::from_micros(1);

pub(super) struct Service {
    /// Unlike any other service's, ever.
    id: u64,
    pub(super) ticks: Ticks,
    shards: Vec<Arc<Shard>>,
    /// The shard that the next new thread will schedule in.
    next_home: AtomicUsize,
    closed: AtomicBool,
    /// The one that has the threads.
    process: Process,
    threads: Mutex<Option<Threads>>,
}

struct Threads {
    drivers: Vec<JoinHandle<()>>,
    pool: Option<Pool>,
}

impl Service {
    pub(super) fn start(builder: Builder) -> Result<Self, BuildError> {
        let tick = builder.tick;
        if tick < LEAST_TICK {
            return Err(BuildError::TickTooShort(tick));
        }
        if builder.shards == 0 {
            return Err(BuildError::NoShards);
        }
        Levels::new(0, &builder.slots_per_level)?;
        // Both before any thread is pinned: from then on it, and its children, see its own core only.
        let cores = builder.pin_cores.then(core_affinity::get_core_ids).flatten().unwrap_or_default();
        let (hands, pool) = match builder.executor {
            Executor::Pool { threads } => {
                let pool = Pool::start(threads, &builder.thread_name)?;
                (Hands::Workers(Workers::Own(Arc::new(Desk::new(pool.pool().clone())))), Some(pool))
            }
            Executor::Rayon(pool) => (Hands::Workers(Workers::Rayon(pool)), None),
            Executor::Inline => (Hands::Inline, None),
            Executor::Custom(custom) => (Hands::Custom(custom), None),
        };
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let mut service = Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            ticks: Ticks::new(builder.clock.map_or_else(Clock::system, Clock::Manual), tick),
            shards: Vec::new(),
            next_home: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            process: Process::this(),
            threads: Mutex::new(Some(Threads { drivers: Vec::new(), pool })),
        };
        let limit = builder.max_pending.map(|most| Arc::new(Limit::new(most)));
        for index in 0..builder.shards {
            let shard = Shard::new(service.ticks.clone(), limit.clone(), builder.on_panic.clone());
            let core = (!cores.is_empty()).then(|| cores[index % cores.len()]);
            let (levels, hands) = (Levels::new_ahead(0, &builder.slots_per_level)?, hands.clone());
            let name = format!("{}-{index}", builder.thread_name);
            let driven = shard.clone();
            let driver = executor::spawn(name, move || shard::drive(driven, levels, hands, core));
            // Dropping the service ends what has been started so far.
            let driver = driver.map_err(BuildError::ThreadStart)?;
            service.shards.push(shard);
            if let Some(threads) = service.threads.get_mut().ok().and_then(Option::as_mut) {
                threads.drivers.push(driver);
            }
        }
        Ok(service)
    }

    pub(super) fn schedule(&self, due: Due, callback: Callback) -> Result<TimerHandle, ScheduleError<Callback>> {
        if self.is_closed() {
            self.home_by_turns().reject();
            return Err(ScheduleError::Shutdown(callback));
        }
        let lease = Shard::schedule(self.id, || self.home_by_turns(), due, callback)?;
        // SAFETY: it comes from `schedule`, for this handle.
        Ok(unsafe { TimerHandle::new(lease, due) })
    }

    pub(super) fn sleep(&self, due: Due) -> Sleep {
        let hold = if self.is_closed() { None } else { Hold::new(self.id, || self.home_by_turns()) };
        Sleep::new(hold, due, || self.ticks.shown_as(due.asked()))
    }

    /// Counts a timer that is refused for what it is.
    pub(super) fn reject(&self) {
        self.home_by_turns().reject();
    }

    fn home_by_turns(&self) -> &Arc<Shard> {
        // Relaxed: any spread will do.
        let turn = self.next_home.fetch_add(1, Ordering::Relaxed);
        &self.shards[turn % self.shards.len()]
    }

    pub(super) fn stats(&self) -> Stats {
        Stats::of(self.shards.iter().map(|shard| shard.stats()).collect())
    }

    pub(super) fn is_closed(&self) -> bool {
        // Relaxed: a hint that saves work. What decides is the word of each entry.
        self.closed.load(Ordering::Relaxed) || self.process.is_gone()
    }

    /// Refuses new timers, waits for the callbacks that have started, takes back the others, and ends the threads. Only
    /// the first call does anything.
    pub(super) fn shutdown(&self) -> Unfired {
        let mut unfired = Vec::new();
        if let Some(pending) = self.close() {
            unfired.reserve_exact(pending);
            self.end(|_, tick, callback| unfired.push((tick, callback)));
        }
        Unfired::new(unfired, self.ticks.clone())
    }

    /// Closes every shard before anything is waited for: from here on no callback starts, in any of them. Returns how many
    /// timers [`end`](Self::end) finds at the most; or `None` if this is not the first call.
    fn close(&self) -> Option<usize> {
        if self.process.is_gone() || self.closed.swap(true, Ordering::AcqRel) {
            return None;
        }
        Some(self.shards.iter().map(Shard::close).sum())
    }

    /// Gives every timer that has not fired to `unfired`, with its shard and its tick, and ends the threads.
    ///
    /// In this order: a closure that is dropped, or a callback that runs, may wait for a sleep; and a callback that runs may
    /// wait for the drop of a closure.
    fn end(&self, mut unfired: impl FnMut(&Shard, u64, Callback)) {
        let threads = self.threads.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        let on_pool = threads.as_ref().and_then(|threads| threads.pool.as_ref()).is_some_and(Pool::is_on_this_thread);
        // Work on the timer's own pool outside of any callback is what a callback has given to the pool. That callback may
        // be waiting for this very work, as for its half of a `rayon::join`, and which one it is cannot be known.
        let wait = !on_pool || self.shards.iter().any(|shard| shard.is_inside_callback());

        self.shards.iter().for_each(|shard| shard.complete_sleeps());
        let mut started = Vec::with_capacity(self.shards.len());
        for shard in &self.shards {
            started.push((shard, shard.claim(&mut |tick, callback| unfired(shard, tick, callback))));
        }
        for (shard, running) in started {
            shard.claim_running(running, wait, &mut |tick, callback| unfired(shard, tick, callback));
        }

        if let Some(Threads { drivers, pool }) = threads {
            // A callback cannot wait for threads, nor one of them for the others: one of these may be waiting for it. They
            // end by themselves.
            let inside = on_pool || self.shards.iter().any(|shard| shard.is_on_this_thread());
            if !inside {
                drivers.into_iter().for_each(executor::join);
            }
            if let Some(pool) = pool {
                pool.stop(!inside);
            }
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if self.process.is_gone() {
            // Threads of another process: there is nothing to let go of.
            mem::forget(self.threads.get_mut().map(Option::take));
        }
        if self.close().is_some() {
            // Each closure is dropped where it is found: there is nobody to sort them for.
            self.end(|shard, _, callback| shard.drop_unfired(callback));
        }
    }
}

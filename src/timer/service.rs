//! `Service`: what a `Timer` and its clones share: the shards, the threads, and the shutdown.
//!
//! **Start.** `start` creates the levels of the wheels, starts the pool, and then creates all shards and starts the
//! own thread of each. If a thread cannot be started, the drop of the unfinished service ends the others.
//!
//! **Use.** `schedule` and `sleep` find the calling thread's home shard, and do the rest there.
//!
//! **End.** `shutdown`, or the drop of the last clone, ends the service in these steps. Each step covers all shards
//! before the next begins:
//!
//! | step           | effect                                                                           |
//! |----------------|----------------------------------------------------------------------------------|
//! | `close`        | refuses new timers. From its return on, no callback starts in any shard          |
//! | `end`: values  | ends the timers of values and the waits for values, because a callback may wait for one, and a waker for that callback |
//! | `end`: sleeps  | completes the pending sleeps, because a closure or a callback may wait for one   |
//! | `end`: closures | ends the timers of closures, then hands these back or drops them, because a running callback may wait for such a drop |
//! | `end`: runs    | waits for the callbacks in progress, and hands periodic closures back            |
//! | `end`: threads | joins the own threads, and stops the pool                                        |
//!
//! With a timeout, the last two steps wait until its end at most. A run that has not ended by then ends its timer,
//! and the threads end by themselves.
//!
//! A thread must not wait for itself. So a shutdown inside a callback does not wait for that callback, nor for threads.
//! On a thread of the service's own pool outside of any callback, it waits for neither callbacks nor threads.

use std::collections::HashMap;
use std::io;
use std::mem::{self, ManuallyDrop};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Instant;

use super::builder::{Builder, SLACK};
use super::pending::Unfired;
use crate::clock::{Deadline, Ticks};
use crate::drive::{self, Driver, OwnThreadHandle, ShardSet};
use crate::engine::call_stack;
use crate::engine::entry::{CLAIMED, Callback, CallbackKind};
use crate::engine::gate::Gate;
use crate::engine::memory::Slab;
use crate::error::{BuildError, ScheduleErrorKind};
use crate::executor::{self, BorrowedPool, Dispatcher, Executor, Pool};
use crate::future::Sleep;
use crate::shard::{NewTimer, Shard, ShardSettings, SleepEntry, thread_state};
use crate::stats::Stats;
use crate::sync::lock;
use crate::system::Process;
use crate::wheel::Levels;

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Refers to a delay queue, which the shutdown of its service closes.
pub(crate) trait QueueRef: Send + Sync {
    /// Returns whether the queue still exists.
    fn exists(&self) -> bool;

    /// Begins to close the queue: it is not over before it is [closed](Self::close).
    fn begin_close(&self);

    /// Closes the queue, if it still exists, and ends the waits of threads. What this returns calls wakers.
    fn close(&self) -> Option<Box<dyn FnOnce()>>;
}

pub(crate) struct Service {
    /// A number that no other service of the process has or had. Never zero.
    pub(crate) id: u64,
    pub(super) ticks: Ticks,
    pub(crate) shards: Vec<Arc<Shard>>,
    /// A counter that spreads threads, and sleeps made after a shutdown, over the shards.
    next: AtomicUsize,
    /// The delay queues of this service that have not been closed.
    queues: Mutex<Vec<Box<dyn QueueRef>>>,
    /// The process that has started the service. In a child by `fork`, the service is closed.
    process: Process,
    /// Until this process closes the service.
    open: AtomicBool,
    /// The shutdown takes them. The drop of the service, in the child of a fork, leaves them to the parent.
    threads: Mutex<ManuallyDrop<Threads>>,
    /// The service's own pool. `None` with another executor.
    pool: Option<Arc<Pool>>,
    /// The drop reports what it drops.
    reports_dropped: bool,
}

impl Service {
    /// Starts a service: its pool, its shards and their own threads.
    pub(super) fn start(builder: Builder) -> Result<Self, BuildError> {
        // Before any thread: it is the first call that prepares the process for forks.
        let process = Process::current();
        // The slabs and the levels come first, because they may be refused. They are nearly all of the memory of a shard:
        // for the rest, and for threads, the code to come does not ask whether there is memory.
        let slabs: io::Result<Vec<_>> = (0..builder.shards).map(|_| Slab::new()).collect();
        let slabs = slabs.map_err(BuildError::OutOfMemory)?;
        let levels = (0..builder.shards).map(|_| Levels::new(0, builder.effective_slots(), 2));
        let levels = levels.collect::<Result<Vec<_>, _>>()?;
        let tick = builder.effective_tick();
        let slack = builder.effective_slack();
        // The cores and the pool come before any thread is pinned. A pinned thread and its children see one core only.
        let cores = builder.pin_cores.then(core_affinity::get_core_ids).flatten().unwrap_or_default();
        // The pool starts before the shards, but runs nothing of callbacks before they exist.
        let reporter = Arc::new(OnceLock::new());
        let (dispatcher, pool) = match builder.executor {
            Executor::Pool { threads } => {
                let reporter = reporter.clone();
                let on_panic = move |payload| Shard::report_panic_if_alive(reporter.get(), false, payload);
                let pool = Pool::start(threads, builder.max_extra_threads, &builder.thread_name, on_panic)?;
                (Dispatcher::Own(pool.clone()), Some(pool))
            }
            Executor::Rayon(pool) => (Dispatcher::Borrowed(Arc::new(BorrowedPool::new(Some(pool)))), None),
            Executor::RayonGlobal => (Dispatcher::Borrowed(Arc::new(BorrowedPool::global()?)), None),
            Executor::Inline => (Dispatcher::Inline, None),
            Executor::Custom(custom) => (Dispatcher::Custom(custom), None),
        };
        let ticks = Ticks::new(builder.clock, tick);
        let needs_this_thread = dispatcher.need_this_thread();
        let permits = builder.max_pending.map(|max| Arc::new(AtomicUsize::new(max)));
        // A pinned thread has its shard for itself. In virtual time callbacks of two shards may wait for each other.
        let is_flexible = !builder.pin_cores && ticks.manual.is_none();
        let gate = Gate::new(ticks.count(slack), ticks.count(SLACK).max(1));
        let mut slabs = slabs.into_iter();
        let shard_set = ShardSet::new(levels, dispatcher, is_flexible, gate, |index, wakeup| {
            let slab = slabs.next().expect("one for each shard");
            let settings = ShardSettings {
                index,
                permits: permits.clone(),
                on_panic: builder.on_panic.clone(),
                on_slow: builder.on_slow.clone(),
                needs_this_thread: Box::new(needs_this_thread.clone()),
            };
            let shard = Shard::new(slab, wakeup, ticks.clone(), settings);
            reporter.get_or_init(|| Arc::downgrade(&shard));
            shard
        });
        let shard_set = Arc::new(shard_set);
        let service = Self {
            // Relaxed: the number orders no other memory.
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            ticks,
            shards: shard_set.shards.clone(),
            next: AtomicUsize::new(0),
            queues: Mutex::default(),
            process,
            open: AtomicBool::new(true),
            pool,
            reports_dropped: builder.report_dropped && cfg!(debug_assertions),
            threads: Mutex::new(ManuallyDrop::new(Threads { own: Vec::new(), shard_set: Some(shard_set.clone()) })),
        };
        for index in 0..builder.shards {
            let core = (!cores.is_empty()).then(|| cores[index % cores.len()]);
            let name = format!("{}-{index}", builder.thread_name);
            let shard_set = shard_set.clone();
            let thread =
                OwnThreadHandle::start(name, move |signal| drive::drive(shard_set, index as u32, core, signal));
            // On an error, the drop of `service` ends the threads that have been started.
            let thread = thread.map_err(BuildError::ThreadStart)?;
            lock(&service.threads).own.push(thread);
        }
        // Now that each shard has a thread, for which the clock waits.
        if let Some(clock) = &service.ticks.manual {
            service.shards.iter().for_each(|shard| clock.register(shard.clone()));
        }
        Ok(service)
    }

    /// Accepts or refuses a new timer.
    #[inline(always)]
    pub(super) fn new_timer(&self) -> Result<NewTimer, ScheduleErrorKind> {
        if self.is_closed() {
            self.reject();
            return Err(ScheduleErrorKind::Shutdown);
        }
        NewTimer::new(self.id, || self.choose_home())
    }

    /// Creates a future that completes at `deadline`, or with the shutdown.
    #[inline]
    pub(super) fn sleep(&self, deadline: Deadline) -> Sleep {
        let entry = if self.is_closed() { None } else { SleepEntry::new(self.id, || self.choose_home()) };
        let any_shard = || self.shards[self.next_index() % self.shards.len()].clone();
        Sleep::new(entry.unwrap_or_else(|| SleepEntry::closed(any_shard())), deadline)
    }

    /// Gives the calling thread's home shard to the program's loop. `None` if it has that shard already, if the timer
    /// is shut down or in virtual time, or if the calling thread is one of the service's.
    pub(super) fn take_driver(&self) -> Option<Driver> {
        let shard_set = if self.is_closed() { None } else { lock(&self.threads).shard_set.clone() }?;
        if shard_set.drives_here() || self.is_on_pool() || self.ticks.manual.is_some() {
            return None;
        }
        let home = thread_state::home(self.id, || self.choose_home()).shard();
        let index = self.shards.iter().position(|shard| NonNull::from(&**shard) == home);
        Driver::take(&shard_set, self.id, index.expect("a shard of this service"))
    }

    /// Returns whether the calling thread is one of the service's own pool, or an extra one.
    fn is_on_pool(&self) -> bool {
        self.pool.as_ref().is_some_and(|pool| pool.has_this_thread())
    }

    /// Counts a timer that is rejected before it comes to a shard.
    #[cold]
    pub(super) fn reject(&self) {
        Shard::reject(self.id, || self.choose_home());
    }

    /// Chooses the home shard of a thread that is new to this service.
    fn choose_home(&self) -> &Shard {
        Shard::choose_home(&self.shards, self.next_index())
    }

    fn next_index(&self) -> usize {
        // Relaxed: the number orders no other memory.
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Adds a new queue, which the shutdown closes. After the shutdown, closes it at once. Amortised constant time.
    pub(crate) fn add_queue(&self, queue: impl QueueRef + Clone + 'static) {
        if !self.is_closed() {
            let mut queues = lock(&self.queues);
            // Before the list grows, it forgets the queues that were dropped. At least half of it is free then.
            if queues.len() == queues.capacity() {
                queues.retain(|queue| queue.exists());
                let kept = queues.len();
                queues.reserve(kept);
            }
            queues.push(Box::new(queue.clone()));
        }
        // After it was added: a shutdown either finds it in the list, or is seen here. A new queue has no wakers.
        if self.is_closed() {
            queue.begin_close();
            drop(queue.close());
        }
    }

    /// Closes all queues, and ends the timers of their values. Calls wakers.
    fn close_queues(&self) {
        let queues = mem::take(&mut *lock(&self.queues));
        // All before the first waker is called: it may wait for a thread that waits in another queue.
        queues.iter().for_each(|queue| queue.begin_close());
        self.shards.iter().for_each(|shard| shard.claim_of(CallbackKind::Value));
        let wakes: Vec<_> = queues.iter().filter_map(|queue| queue.close()).collect();
        wakes.into_iter().for_each(|wake| wake());
    }

    /// Returns the number of pending timers. Reads four counters of each thread.
    pub(super) fn pending(&self) -> u64 {
        self.shards.iter().map(|shard| shard.pending()).sum()
    }

    pub(super) fn stats(&self) -> Stats {
        let mut stats = Stats::of(self.shards.iter().map(|shard| shard.stats()).collect());
        // In the child of a fork, a thread of the parent may have the lock of the queue for ever.
        if let Some(pool) = self.pool.as_ref().filter(|_| !self.shards[0].is_inherited()) {
            (stats.extra_threads, stats.extra_threads_needed) = pool.queue().extra_threads();
        }
        stats
    }

    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        // Relaxed: a hint that saves work. The state of each entry decides.
        !self.open.load(Ordering::Relaxed) || self.process.has_forked()
    }

    /// Shuts the service down, and returns the closures that have not fired. Calls after the first do nothing. Waits
    /// for callbacks and threads until the instant `until`.
    pub(super) fn shutdown(&self, until: Option<Instant>) -> Unfired {
        Unfired::new(self.end(until, Vec::with_capacity, Vec::push), self.ticks.clone())
    }

    /// Ends the service. The head of this file has the order. Passes each closure that has not fired, with its tick, to
    /// `take`, beside what `start` returns for their number. The timers of all that do not run have ended by then. Waits
    /// until the instant `until`. Calls after the first do nothing.
    fn end<T>(
        &self,
        until: Option<Instant>,
        start: impl FnOnce(usize) -> T,
        mut take: impl FnMut(&mut T, (u64, Callback)),
    ) -> T {
        // Relaxed: it chooses one thread. What closes each shard orders the rest.
        if self.process.has_forked() || !self.open.swap(false, Ordering::Relaxed) {
            return start(0);
        }
        // All before this waits for anything: no callback starts afterwards.
        self.shards.iter().for_each(Shard::close);
        let threads = ManuallyDrop::into_inner(mem::take(&mut *lock(&self.threads)));
        let drives_here = threads.shard_set.as_ref().is_some_and(|shard_set| {
            shard_set.wake_all();
            shard_set.drives_here()
        });
        let on_pool = self.is_on_pool();
        // So the workers end.
        if let Some(pool) = &self.pool {
            pool.queue().close();
        }
        let inside = self.shards.iter().any(|shard| call_stack::inside_shard(&shard.core));
        // Work on the service's own pool outside of any callback was `spawn`ed by some callback. Another callback may be
        // waiting for this very work. It is unknown which callback that is. So it waits for none.
        let runs_end = if on_pool && !inside { Some(Instant::now()) } else { until };

        // Before this waits for callbacks or calls wakers: a callback may wait for a value, and a waker for a callback.
        self.close_queues();
        self.shards.iter().for_each(|shard| shard.claim_of(CallbackKind::Waker));
        // Only closures are left. With room for all, a list is allocated once.
        let mut taken = start(self.pending() as usize);
        let mut running = Vec::new();
        for shard in &self.shards {
            let entries = shard.core.claim_closures(|state| shard.count_claimed(state));
            running.extend(entries.into_iter().map(|entry| (shard, entry)));
        }
        let now = self.ticks.now_tick();
        self.shards.iter().flat_map(|shard| shard.core.take_claimed(now)).for_each(|closure| take(&mut taken, closure));
        let mut in_time = true;
        for (shard, entry) in running {
            in_time &= shard.core.claim_running(entry, runs_end, |state| shard.count_claimed(state));
            entry.take(CLAIMED, now).into_iter().for_each(|(_, closure)| take(&mut taken, closure));
        }
        // A callback, an own thread or a pool thread does not wait for threads, as one of them may be waiting for it.
        // The threads end by themselves.
        threads.end(self.pool.clone(), until, in_time && !(inside || on_pool || drives_here));
        taken
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // The timers of these closures have ended: a `cancel` by the drop of one is false for all of them.
        let dropped = self.end(
            None,
            |_| HashMap::<_, u64>::new(),
            |dropped, (_, callback)| {
                if self.reports_dropped {
                    *dropped.entry(callback.type_name()).or_default() += 1;
                }
                self.shards[0].catch_panic(Some(callback.vtable), false, || drop(callback));
            },
        );
        if let Some((most, _)) = dropped.iter().max_by_key(|&(_, number)| number) {
            let number: u64 = dropped.values().sum();
            let what = format!("pending callbacks: {number}, most often `{most}`");
            self.shards[0]
                .catch_panic(None, false, || eprintln!("corewheel: the drop of the last `Timer` drops {what}"));
        }
    }
}

/// The own threads of a service. None are left once a shutdown has taken them.
#[derive(Default)]
struct Threads {
    own: Vec<OwnThreadHandle>,
    /// What these threads drive, and their executor.
    shard_set: Option<Arc<ShardSet>>,
}

impl Threads {
    /// Ends the threads and those of the pool; with `wait`, returns when they have ended, or at the instant `until`. Then
    /// what callbacks have left to rayon and to thread-locals may run longer, and so may the drop of a custom executor.
    fn end(mut self, pool: Option<Arc<Pool>>, until: Option<Instant>, wait: bool) {
        let Some(until) = until else { return self.join(pool, wait) };
        // Inside a callback, no thread that is waited for drops the executor: see the drop of `ShardSet`.
        let _shard_set = self.shard_set.take_if(|_| call_stack::inside_any());
        // The standard library cannot join with a timeout, so a thread joins. If it cannot be started, its closure is
        // dropped here. The threads then end by themselves, because the pool is closed already.
        let (sender, ended) = mpsc::channel();
        let join = move || {
            self.join(pool, wait);
            // An error: the shutdown no longer waits.
            let _ = sender.send(());
        };
        if let (Ok(joiner), true) = (executor::spawn("corewheel-shutdown".to_owned(), join), wait) {
            let left = until.saturating_duration_since(Instant::now());
            if ended.recv_timeout(left).is_ok() {
                executor::join(joiner);
            }
        }
    }

    /// Ends the threads; with `wait`, returns when they have ended. May drop a custom executor.
    fn join(self, pool: Option<Arc<Pool>>, wait: bool) {
        if wait {
            self.own.into_iter().for_each(OwnThreadHandle::join);
            if let Some(pool) = pool {
                pool.stop();
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "service_tests.rs"]
mod tests;

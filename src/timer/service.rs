//! `Service`: what a `Timer` and its clones share: the shards, the threads, and the shutdown.
//!
//! **Start.** `start` checks the builder, starts the pool, and then creates each shard and starts its driver's thread.
//! If a thread cannot be started, the drop of the unfinished service ends the others.
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
//! | `end`: closures | hands the pending closures back or drops them, because a running callback may wait for such a drop |
//! | `end`: runs    | waits for the callbacks in progress, and hands periodic closures back            |
//! | `end`: threads | joins the drivers' threads, and stops the pool                                   |
//!
//! With a limit, the last two steps wait until that instant at most. A run that has not ended by then ends its timer, and
//! the threads end by themselves.
//!
//! A thread must not wait for itself. So a shutdown inside a callback does not wait for that callback, nor for threads.
//! On a thread of the timer's own pool outside of any callback, it waits for neither callbacks nor threads.

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::{Duration, Instant};

use super::builder::Builder;
use super::unfired::Unfired;
use crate::clock::{Deadline, Ticks};
use crate::engine::entry::{Callback, Role};
use crate::error::{BuildError, Rejection};
use crate::executor::{self, BorrowedPool, Dispatcher, Executor, ExtraThreads, JobQueue, Pool};
use crate::future::Sleep;
use crate::handle::TimerHandle;
use crate::queue::{Home, OpenQueues};
use crate::shard::{self, DriverThread, Limit, Shard, SleepEntry};
use crate::stats::Stats;
use crate::sync::lock;
use crate::system::Process;
use crate::wheel::Levels;

/// Minimum tick that a builder accepts.
const MIN_TICK: Duration = Duration::from_micros(1);

pub(super) struct Service {
    /// A number from [`shard::new_id`].
    id: u64,
    pub(super) ticks: Ticks,
    shards: Vec<Arc<Shard>>,
    /// A counter that spreads threads, and sleeps made after a shutdown, over the shards.
    next: AtomicUsize,
    /// The delay queues of this service.
    pub(super) queues: OpenQueues,
    closed: AtomicBool,
    /// The process that has the threads.
    process: Process,
    threads: Mutex<Option<Threads>>,
    /// The queue of the timer's own pool. `None` with another executor.
    queue: Option<Arc<JobQueue>>,
}

struct Threads {
    drivers: Vec<DriverThread>,
    pool: Option<Pool>,
}

impl Threads {
    /// Ends the threads; with `wait`, returns when they have ended.
    fn end(self, wait: bool) {
        let Self { drivers, pool } = self;
        if wait {
            drivers.into_iter().for_each(DriverThread::join);
        }
        if let Some(pool) = pool {
            pool.stop(wait);
        }
    }

    /// Ends the threads, and returns when they have ended, or at the instant `limit`. No callback is running, but what
    /// the callbacks have left to rayon and to thread-locals may still run.
    fn end_within(self, limit: Instant) {
        // The standard library cannot join with a limit, so a thread joins. The threads are shared with it, because a
        // thread that cannot be started drops what it was given.
        let shared = Arc::new(Mutex::new(Some(self)));
        let take = |shared: &Mutex<Option<Self>>| lock(shared).take();
        let (sender, ended) = mpsc::channel();
        let theirs = shared.clone();
        let join = move || {
            take(&theirs).into_iter().for_each(|threads| threads.end(true));
            // An error: the shutdown no longer waits.
            let _ = sender.send(());
        };
        match executor::spawn("corewheel-shutdown".to_owned(), join) {
            Ok(joiner) => {
                let left = limit.saturating_duration_since(Instant::now());
                if ended.recv_timeout(left).is_ok() {
                    executor::join(joiner);
                }
            }
            Err(_) => take(&shared).into_iter().for_each(|threads| threads.end(false)),
        }
    }
}

impl Service {
    /// Starts a service: its pool, its shards and their drivers.
    pub(super) fn start(builder: Builder) -> Result<Self, BuildError> {
        let tick = builder.tick;
        if tick < MIN_TICK {
            return Err(BuildError::TickTooShort(tick));
        }
        if builder.shards == 0 {
            return Err(BuildError::NoShards);
        }
        if builder.thread_name.contains('\0') {
            return Err(BuildError::NulInThreadName(builder.thread_name));
        }
        Levels::new(0, &builder.slots_per_level)?;
        // The cores and the pool come before any thread is pinned. A pinned thread and its children see one core only.
        let cores = builder.pin_cores.then(core_affinity::get_core_ids).flatten().unwrap_or_default();
        // The pool starts before the shards, but runs nothing of callbacks before they exist.
        let reporter = Arc::new(OnceLock::new());
        let (dispatcher, pool) = match builder.executor {
            Executor::Pool { threads } => {
                let reporter = reporter.clone();
                let panicked = move |payload| Shard::report_panic_if_alive(reporter.get(), payload);
                let name = &builder.thread_name;
                let pool = Pool::start(threads, builder.max_extra_threads, name, Arc::new(panicked))?;
                (pool.dispatcher(), Some(pool))
            }
            Executor::Rayon(pool) => (Dispatcher::Borrowed(Arc::new(BorrowedPool::new(pool))), None),
            Executor::RayonGlobal => (Dispatcher::Borrowed(Arc::new(BorrowedPool::global()?)), None),
            Executor::Inline => (Dispatcher::Inline, None),
            Executor::Custom(custom) => (Dispatcher::Custom(custom), None),
        };
        let pool_threads = pool.as_ref().map_or(0, Pool::threads);
        let needs_this_thread = dispatcher.need_this_thread();
        let mut service = Self {
            id: shard::new_id(),
            ticks: Ticks::new(builder.clock, tick),
            shards: Vec::new(),
            next: AtomicUsize::new(0),
            queues: OpenQueues::new(),
            closed: AtomicBool::new(false),
            process: Process::current(),
            queue: pool.as_ref().map(Pool::queue).cloned(),
            threads: Mutex::new(Some(Threads { drivers: Vec::new(), pool })),
        };
        // A worker that drives serves no other shard. So lending needs a worker for each shard, or no shard lends.
        let lending_shards = pool_threads >= builder.shards && !builder.pin_cores && service.ticks.manual().is_none();
        let lending_shards = lending_shards.then_some(builder.shards);
        let limit = builder.max_pending.map(|max| Arc::new(Limit::new(max)));
        for index in 0..builder.shards {
            let on_slow = builder.on_slow.clone().map(|hook| hook.monitor(index));
            let (ticks, limit, on_panic) = (service.ticks.clone(), limit.clone(), builder.on_panic.clone());
            let shard = Shard::new(ticks, limit, on_panic, on_slow, needs_this_thread.clone());
            reporter.get_or_init(|| Arc::downgrade(&shard));
            let core = (!cores.is_empty()).then(|| cores[index % cores.len()]);
            let (levels, dispatcher) = (Levels::new_ahead(0, &builder.slots_per_level)?, dispatcher.clone());
            let name = format!("{}-{index}", builder.thread_name);
            let driven = shard.clone();
            let drive = move |status: &_| shard::drive(driven, levels, dispatcher, core, lending_shards, status);
            let driver = DriverThread::start(name, drive);
            // On an error, the drop of `service` ends the threads that have been started.
            let driver = driver.map_err(BuildError::ThreadStart)?;
            service.shards.push(shard);
            if let Some(threads) = service.threads.get_mut().ok().and_then(Option::as_mut) {
                threads.drivers.push(driver);
            }
        }
        Ok(service)
    }

    /// Returns whether the shard is one of the service's.
    #[cfg(feature = "hyper")]
    pub(super) fn has(&self, shard: &Shard) -> bool {
        self.shards.iter().any(|own| std::ptr::eq(&**own, shard))
    }

    /// Schedules a timer; see [`Shard::schedule`].
    #[inline(always)]
    pub(super) fn schedule(
        &self,
        due: impl FnOnce(&Ticks) -> Deadline,
        role: Role,
        write: impl FnOnce(*mut Callback),
    ) -> Result<TimerHandle, Rejection> {
        if self.is_closed() {
            self.reject();
            return Err(Rejection::Shutdown);
        }
        let (raw, due) = Shard::schedule(self.id, || self.choose_home(), due, role, write)?;
        // SAFETY: the raw handle comes from `schedule`, and only this `TimerHandle` owns it.
        Ok(unsafe { TimerHandle::new(raw, due) })
    }

    /// Creates a future that completes at `deadline`, or with the shutdown.
    pub(super) fn sleep(&self, deadline: Deadline) -> Sleep {
        let entry = if self.is_closed() { None } else { SleepEntry::new(self.id, || self.choose_home()) };
        Sleep::new(entry, deadline, || self.next_shard().clone())
    }

    /// Counts a timer that is rejected before it comes to a shard.
    #[cold]
    pub(super) fn reject(&self) {
        Shard::reject(self.id, || self.choose_home());
    }

    /// Returns what a delay queue needs of the service.
    pub(super) fn home(&self) -> Home {
        Home::new(self.id, &self.shards)
    }

    /// Chooses the home shard of a thread that is new to this service.
    fn choose_home(&self) -> &Arc<Shard> {
        Shard::choose_home(&self.shards, self.next_index())
    }

    /// Returns any shard, in turn.
    fn next_shard(&self) -> &Arc<Shard> {
        &self.shards[self.next_index() % self.shards.len()]
    }

    fn next_index(&self) -> usize {
        // Relaxed: the number orders no other memory.
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the number of pending timers. Reads four counters of each thread.
    pub(super) fn pending(&self) -> u64 {
        self.shards.iter().map(|shard| shard.pending()).sum()
    }

    pub(super) fn stats(&self) -> Stats {
        let mut stats = Stats::of(self.shards.iter().map(|shard| shard.stats()).collect());
        // In the child of a fork, a thread of the parent may have the lock of the queue for ever.
        if let Some(queue) = self.queue.as_ref().filter(|_| !self.process.has_forked()) {
            ExtraThreads { threads: stats.extra_threads, needed: stats.extra_threads_needed } = queue.extra_threads();
        }
        stats
    }

    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        // Relaxed: a hint that saves work. The state of each entry decides.
        self.closed.load(Ordering::Relaxed) || self.process.has_forked()
    }

    /// Shuts the service down, and returns the closures that have not fired. Calls after the first do nothing. Waits for
    /// callbacks and threads until the instant `limit`.
    pub(super) fn shutdown(&self, limit: Option<Instant>) -> Unfired {
        let mut unfired = Vec::new();
        if let Some(pending) = self.close() {
            unfired.reserve_exact(pending);
            self.end(limit, |_, tick, callback| unfired.push((tick, callback)));
        }
        Unfired::new(unfired, self.ticks.clone())
    }

    /// Closes every shard, before the shutdown waits for anything: no callback starts after this returns. Returns the
    /// maximum number of closures that [`end`](Self::end) can find, or `None` if this is not the first call.
    fn close(&self) -> Option<usize> {
        if self.process.has_forked() || self.closed.swap(true, Ordering::AcqRel) {
            return None;
        }
        Some(self.shards.iter().map(Shard::close).sum())
    }

    /// Passes every closure that has not fired to `unfired`, with its shard and its tick, and ends the threads. The
    /// head of this file has the order. Waits until the instant `limit`.
    fn end(&self, limit: Option<Instant>, mut unfired: impl FnMut(&Shard, u64, Callback)) {
        let threads = lock(&self.threads).take();
        let on_pool = threads.as_ref().and_then(|threads| threads.pool.as_ref()).is_some_and(Pool::is_on_this_thread);
        // Work on the timer's own pool outside of any callback was given to the pool by some callback. That callback
        // may be waiting for this very work, for example for half of a `rayon::join`. It is unknown which callback that
        // is.
        let wait = !on_pool || self.shards.iter().any(|shard| shard.is_inside_callback());

        // Before this waits for callbacks or calls wakers: a callback may wait for a value, and a waker for a callback.
        self.shards.iter().for_each(|shard| shard.end_values());
        self.queues.close();
        self.shards.iter().for_each(|shard| shard.complete_sleeps());
        let mut started = Vec::with_capacity(self.shards.len());
        for shard in &self.shards {
            started.push((shard, shard.claim(&mut |tick, callback| unfired(shard, tick, callback))));
        }
        let mut in_time = true;
        for (shard, running) in started {
            let mut unfired = |tick, callback| unfired(shard, tick, callback);
            in_time &= shard.claim_running(running, wait, limit, &mut unfired);
        }

        if let Some(threads) = threads {
            // A callback, a driver or a pool thread does not wait for threads, as one of them may be waiting for it.
            // The threads end by themselves.
            let inside = on_pool || self.shards.iter().any(|shard| shard.is_on_this_thread());
            match limit {
                Some(limit) if in_time && !inside => threads.end_within(limit),
                _ => threads.end(in_time && !inside),
            }
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if self.process.has_forked() {
            // The threads belong to the parent process, so their handles must be neither joined nor dropped.
            mem::forget(self.threads.get_mut().map(Option::take));
        }
        if self.close().is_some() {
            // Each closure is dropped as it is found. This needs no list, and no order.
            self.end(None, |shard, _, callback| shard.drop_unfired(callback));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::SeqCst;
    use std::sync::mpsc::{self, Sender};
    use std::task::{Context, Poll, Wake, Waker};
    use std::thread;

    use super::*;
    use crate::{ManualClock, Timer};

    const SEC: Duration = Duration::from_secs(1);

    /// A task that records that it was woken.
    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, SeqCst);
        }
    }

    /// Another thread of the parent may have a lock during the fork. The child does not have that thread.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_forked_child_waits_for_no_lock_of_its_parent() {
        use nix::sys::signal::{Signal, kill};
        use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
        use nix::unistd::{ForkResult, fork};

        let timer = Timer::new().unwrap();
        // SAFETY: the child may allocate and use the standard library after the fork, because Linux's allocator and
        // library support that in a process with several threads. It ends without any destructor.
        let fork_and_use = || match unsafe { fork() }.unwrap() {
            ForkResult::Parent { child } => child,
            ForkResult::Child => {
                let queue = crate::DelayQueue::new(&timer);
                let is_refused = queue.push(SEC, ()).is_err_and(|error| error.is_shutdown());
                let is_passed = is_refused && queue.pop().is_none() && timer.stats().extra_threads == 0;
                // SAFETY: the call has no preconditions.
                unsafe { libc::_exit(if is_passed { 42 } else { 1 }) }
            }
        };
        let pool = timer.0.queue.as_ref().unwrap();
        let child = timer.0.queues.while_locked(|| pool.while_locked(fork_and_use));
        for _ in 0..2000 {
            thread::sleep(SEC / 100);
            match waitpid(child, Some(WaitPidFlag::WNOHANG)).unwrap() {
                WaitStatus::StillAlive => {}
                status => return assert_eq!(status, WaitStatus::Exited(child, 42)),
            }
        }
        kill(child, Signal::SIGKILL).unwrap();
        panic!("the child hangs");
    }

    /// Makes the driver of the shard panic when the next timer expires.
    fn break_shard(timer: &Timer, shard: usize) {
        timer.0.shards[shard].fault.store(true, SeqCst);
    }

    /// Runs `f`, and panics if it does not return in time.
    fn in_time<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || sender.send(f()));
        receiver.recv_timeout(20 * SEC).expect("it does not hang")
    }

    /// Returns a timer in virtual time, with its clock, and the messages that its `on_panic` receives.
    fn timer_that_reports(shards: usize, executor: Executor) -> (Timer, ManualClock, mpsc::Receiver<String>) {
        let (clock, (sender, reports)) = (ManualClock::new(), mpsc::channel());
        let sender: Mutex<Sender<String>> = Mutex::new(sender);
        let report = move |payload: Box<dyn std::any::Any + Send>| {
            sender.lock().unwrap().send(*payload.downcast().unwrap()).unwrap();
        };
        let builder = Timer::builder().clock(clock.clone()).shards(shards).executor(executor).on_panic(report);
        (builder.build().unwrap(), clock, reports)
    }

    #[test]
    fn a_driver_that_panics_closes_its_shard_and_loses_no_timer() {
        for executor in [Executor::Inline, Executor::Pool { threads: 2 }] {
            let (timer, clock, reports) = timer_that_reports(1, executor);
            let (ran, kept) = (Arc::new(AtomicUsize::new(0)), Arc::new(()));
            let start = clock.now();
            let handles: Vec<_> = (1..=4_u32)
                .map(|secs| {
                    let (ran, kept) = (ran.clone(), kept.clone());
                    let run = move || {
                        ran.fetch_add(1, SeqCst);
                        drop(kept);
                    };
                    timer.schedule(secs * SEC, run).unwrap()
                })
                .collect();
            let every = timer.schedule_at_fixed_rate(3 * SEC, SEC, || ()).unwrap();
            let mut sleep = Box::pin(timer.sleep(10 * SEC));
            let woken = Arc::new(Woken::default());
            let waker = Waker::from(woken.clone());
            assert_eq!(sleep.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
            let mut context = Context::from_waker(Waker::noop());
            let mut soon = Box::pin(timer.sleep(2 * SEC));
            assert_eq!(soon.as_mut().poll(&mut context), Poll::Pending);

            let advancing = clock.clone();
            in_time(move || advancing.advance(SEC));
            assert_eq!(ran.load(SeqCst), 1, "the first has run");
            break_shard(&timer, 0);
            // Timers that expire when the driver panics have already left the wheel.
            let advancing = clock.clone();
            in_time(move || {
                advancing.advance(2 * SEC);
                advancing.advance(2 * SEC);
            });
            let report = reports.recv_timeout(20 * SEC).unwrap();
            assert!(report.contains("corewheel-0") && report.contains("a test has broken the wheel"), "{report}");
            assert_eq!((timer.stats().panicked, ran.load(SeqCst)), (1, 1));
            assert!(woken.0.load(SeqCst), "the task of a sleep that is due later is woken as well");

            assert!(timer.schedule(Duration::ZERO, || ()).unwrap_err().is_shutdown());
            assert!(!handles[3].reset(SEC) && !every.reset(SEC), "no timer is accepted any more");
            assert_eq!(soon.as_mut().poll(&mut context), Poll::Ready(()));
            assert_eq!(sleep.as_mut().poll(&mut context), Poll::Ready(()));
            assert!(sleep.is_shutdown());
            assert_eq!(clock.next_deadline(), None, "none of them will expire");
            assert!(handles[3].is_pending() && handles[3].cancel());
            assert_eq!(Arc::strong_count(&kept), 3, "one has run, and one was cancelled");
            assert_eq!(timer.len(), 3, "they wait for the shutdown");

            let shutting = timer.clone();
            let unfired = in_time(move || shutting.shutdown());
            assert_eq!(unfired.map(|timer| timer.deadline - start).collect::<Vec<_>>(), [2 * SEC, 3 * SEC, 3 * SEC]);
            assert_eq!((Arc::strong_count(&kept), timer.len()), (1, 0));
            let stats = timer.stats();
            assert_eq!(stats.scheduled, stats.completed + stats.cancelled + stats.unfired);
            assert_eq!((stats.cancelled, stats.unfired), (1, 3));
        }
    }

    #[test]
    fn a_driver_that_panics_leaves_other_shards_alone() {
        let (timer, clock, reports) = timer_that_reports(2, Executor::default());
        break_shard(&timer, 0);
        let (in_first, elsewhere) = (timer.clone(), timer.clone());
        // Each new thread has the next shard as its home.
        thread::spawn(move || _ = in_first.schedule(SEC, || ()).unwrap()).join().unwrap();
        let (sender, receiver) = mpsc::channel();
        let schedule = move || _ = elsewhere.schedule(SEC, move || sender.send(()).unwrap()).unwrap();
        thread::spawn(schedule).join().unwrap();
        in_time(move || clock.advance(SEC));
        assert_eq!((reports.iter().take(1).count(), receiver.try_iter().count()), (1, 1));
        let shutting = timer.clone();
        assert_eq!(in_time(move || shutting.shutdown().len()), 1);
        assert_eq!(timer.stats().completed, 1);
    }

    #[test]
    fn a_driver_that_panics_while_a_worker_drives_closes_its_shard() {
        let (sender, reports) = mpsc::channel();
        let sender: Mutex<Sender<String>> = Mutex::new(sender);
        let report = move |payload: Box<dyn std::any::Any + Send>| {
            sender.lock().unwrap().send(*payload.downcast().unwrap()).unwrap();
        };
        let executor = Executor::Pool { threads: 1 };
        let timer = Timer::builder().shards(1).executor(executor).on_panic(report).build().unwrap();
        let every = timer.schedule_at_fixed_rate(SEC / 1000, SEC / 1000, || ()).unwrap();
        // By then a worker drives, even on a machine under load.
        thread::sleep(SEC / 5);
        break_shard(&timer, 0);
        let report = in_time(move || reports.recv().unwrap());
        assert!(report.contains("corewheel-0") && report.contains("a test has broken the wheel"), "{report}");
        assert!(timer.schedule(Duration::ZERO, || ()).unwrap_err().is_shutdown());
        let shutting = timer.clone();
        assert_eq!(in_time(move || shutting.shutdown().len()), 1);
        assert!(!every.is_pending());
    }

    #[test]
    fn a_shard_whose_driver_has_panicked_takes_no_permit() {
        let clock = ManualClock::new();
        let builder = Timer::builder().clock(clock.clone()).shards(1).executor(Executor::Inline);
        let timer = builder.max_pending(2).on_panic(drop).build().unwrap();
        timer.schedule(SEC, || ()).unwrap();
        break_shard(&timer, 0);
        in_time(move || clock.advance(SEC));
        for _ in 0..3 {
            assert!(timer.schedule(SEC, || ()).unwrap_err().is_shutdown(), "one of two permits is taken");
        }
    }

    #[test]
    fn a_job_that_is_dropped_when_its_shard_is_closed_leaves_the_timer_to_the_shutdown() {
        /// An executor that keeps its jobs, and runs none.
        #[derive(Default)]
        struct Keeps(Mutex<Vec<Box<dyn FnOnce() + Send>>>);
        impl crate::Execute for Keeps {
            fn execute(&self, job: Box<dyn FnOnce() + Send>) {
                self.0.lock().unwrap().push(job);
            }
        }
        let (keeps, (sender, reports)) = (Arc::new(Keeps::default()), mpsc::channel());
        let sender = Mutex::new(sender);
        let builder = Timer::builder().shards(1).executor(Executor::Custom(keeps.clone()));
        let timer = builder.on_panic(move |_| sender.lock().unwrap().send(()).unwrap()).build().unwrap();
        timer.schedule(Duration::ZERO, || ()).unwrap();
        let has_job = || {
            (0..10_000).any(|_| {
                thread::sleep(SEC / 1000);
                !keeps.0.lock().unwrap().is_empty()
            })
        };
        assert!(has_job());
        break_shard(&timer, 0);
        timer.schedule(Duration::ZERO, || ()).unwrap();
        in_time(move || reports.recv().unwrap());
        keeps.0.lock().unwrap().clear();
        assert_eq!((timer.stats().cancelled, timer.len()), (0, 2));
        assert_eq!(in_time(move || timer.shutdown().len()), 2);
    }

    #[test]
    fn a_drop_after_a_driver_has_panicked_returns() {
        let (timer, clock, _reports) = timer_that_reports(1, Executor::default());
        let kept = Arc::new(());
        let held = kept.clone();
        timer.schedule(SEC, move || drop(held)).unwrap();
        break_shard(&timer, 0);
        in_time(move || {
            clock.advance(SEC);
            drop(timer);
        });
        assert_eq!(Arc::strong_count(&kept), 1);
    }
}

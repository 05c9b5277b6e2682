//! A pool's queue with its workers, a replacement for rayon, and a clock; and callbacks that wait for each other.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use shuttle::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use shuttle::thread::{self, JoinHandle};

use crate::executor::batch::{Batch, Loan};
use crate::executor::job_queue::{JobQueue, MonitorThread, STRAGGLER_AFTER, SleepProbe, TimedWait, WorkerThread};
use crate::sync::{Arc, Condvar, Mutex, MutexGuard};

pub(super) type Callback = Box<dyn Fn(&Pool) + Send + Sync>;

/// A queue with its workers, a replacement for rayon, and a clock.
pub(super) struct Pool {
    pub(super) queue: JobQueue,
    /// Replaces rayon's queues.
    tasks: Mutex<Vec<Tasks>>,
    start: Instant,
    /// Microseconds since the start.
    clock: AtomicU64,
    /// Threads that wait with a timeout, which ends whenever the clock advances.
    timed: Mutex<Vec<Arc<Condvar>>>,
    extras: Mutex<Vec<JoinHandle<()>>>,
    ended: AtomicBool,
}

pub(super) type Task = Box<dyn FnOnce(&Pool) + Send>;

/// The tasks in the queues of one worker.
#[derive(Default)]
struct Tasks {
    /// Any worker may take these.
    own: VecDeque<Task>,
    /// Its parts of broadcasts: only this worker takes them.
    broadcast: VecDeque<Task>,
}

shuttle::thread_local! {
    static WORKER: std::cell::Cell<usize> = const { std::cell::Cell::new(usize::MAX) };
    static IN_CALLBACK: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    static SLEEP_STATUS: Arc<SleepStatus> = Arc::default();
}

/// Whether a thread is asleep, as the operating system would report it.
#[derive(Default)]
struct SleepStatus {
    asleep: AtomicBool,
    sleeps: AtomicU64,
}

impl Tasks {
    /// Takes a task for the worker whose tasks these are.
    fn pop(&mut self) -> Option<Task> {
        self.own.pop_back().or_else(|| self.broadcast.pop_front())
    }
}

impl SleepStatus {
    fn asleep_during<R>(&self, f: impl FnOnce() -> R) -> R {
        self.sleeps.fetch_add(1, Ordering::SeqCst);
        self.asleep.store(true, Ordering::SeqCst);
        let result = f();
        self.asleep.store(false, Ordering::SeqCst);
        result
    }

    fn probe(&self) -> Option<u64> {
        self.asleep.load(Ordering::SeqCst).then(|| self.sleeps.load(Ordering::SeqCst))
    }
}

/// A batch of callbacks.
pub(super) struct Callbacks {
    pool: Arc<Pool>,
    callbacks: Vec<Callback>,
    taken: AtomicUsize,
}

impl Callbacks {
    pub(super) fn new(pool: &Arc<Pool>, callbacks: Vec<Callback>) -> Self {
        Self { pool: pool.clone(), callbacks, taken: AtomicUsize::new(0) }
    }
}

/// The calling thread: a worker, or the monitor.
struct Thread(Arc<Pool>);

impl Pool {
    /// Starts a pool with this number of workers, and returns its threads.
    pub(super) fn start(workers: usize) -> (Arc<Self>, Vec<JoinHandle<()>>) {
        Self::start_with(workers, 0)
    }

    /// The same with a monitor, if `max_extra` allows extra workers.
    pub(super) fn start_with(workers: usize, max_extra: usize) -> (Arc<Self>, Vec<JoinHandle<()>>) {
        let pool = Arc::new(Self {
            queue: JobQueue::new(workers, max_extra),
            tasks: Mutex::new((0..workers + max_extra).map(|_| Tasks::default()).collect()),
            start: Instant::now(),
            clock: AtomicU64::new(0),
            timed: Mutex::default(),
            extras: Mutex::default(),
            ended: AtomicBool::new(false),
        });
        let mut threads: Vec<_> = (0..workers)
            .map(|index| {
                let pool = pool.clone();
                thread::spawn(move || {
                    WORKER.with(|worker| worker.set(index));
                    pool.queue.worker_loop(&Thread(pool.clone()), false);
                })
            })
            .collect();
        if max_extra > 0 {
            let pool = pool.clone();
            threads.push(thread::spawn(move || pool.queue.monitor_loop(&Thread(pool.clone()))));
        }
        let clock = pool.clone();
        threads.push(thread::spawn(move || clock.pass_time()));
        (pool, threads)
    }

    /// Advances the clock in steps of half a millisecond while a thread waits with a timeout.
    fn pass_time(&self) {
        while !self.ended.load(Ordering::SeqCst) {
            let timed = self.timed.lock().unwrap().clone();
            if !timed.is_empty() {
                self.advance(Duration::from_micros(500));
                timed.iter().for_each(|call| call.notify_one());
            }
            thread::yield_now();
        }
    }

    pub(super) fn now(&self) -> Instant {
        self.start + Duration::from_micros(self.clock.load(Ordering::SeqCst))
    }

    /// Advances the clock. Ends no timeout: [`pass_time`](Self::pass_time) does.
    pub(super) fn advance(&self, time: Duration) {
        self.clock.fetch_add(u64::try_from(time.as_micros()).unwrap(), Ordering::SeqCst);
    }

    /// Puts a batch into the queue, as a driver does.
    pub(super) fn push(self: &Arc<Self>, callbacks: Vec<Callback>) -> Arc<Callbacks> {
        let batch = Arc::new(Callbacks::new(self, callbacks));
        self.queue.push(batch.clone());
        batch
    }

    /// Raises the alert for a batch that is not finished in time, as a driver does.
    pub(super) fn alert_if_unfinished(&self, batch: &Arc<Callbacks>) {
        self.advance(STRAGGLER_AFTER);
        if Arc::strong_count(batch) > 1 {
            self.queue.alert(batch.clone(), self.now());
        }
    }

    /// Gives a task to rayon, from inside a callback.
    pub(super) fn spawn(&self, task: Task) {
        self.tasks.lock().unwrap()[WORKER.with(std::cell::Cell::get)].own.push_back(task);
    }

    /// Gives a task to rayon, from inside a callback, and waits until another worker does it.
    pub(super) fn wait_for_task(&self) {
        let both = Barrier::new(2);
        let task = both.clone();
        self.spawn(Box::new(move |_| task.wait()));
        both.wait();
    }

    /// Gives each worker a task, from inside a callback.
    pub(super) fn broadcast(&self, task: impl Fn(&Self) + Clone + Send + 'static) {
        self.tasks.lock().unwrap().iter_mut().for_each(|tasks| tasks.broadcast.push_back(Box::new(task.clone())));
    }

    fn run_task(&self, task: Option<Task>) -> bool {
        let found = task.is_some();
        if let Some(task) = task {
            task(self);
        }
        found
    }

    pub(super) fn shut_down(self: Arc<Self>, threads: Vec<JoinHandle<()>>) {
        self.queue.close();
        let mut threads = threads;
        let clock = threads.pop().unwrap();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let extras = std::mem::take(&mut *self.extras.lock().unwrap());
        extras.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(self.queue.extra_threads().threads, 0);
        self.ended.store(true, Ordering::SeqCst);
        clock.join().unwrap();
    }
}

impl WorkerThread for Thread {
    fn sleep_probe(&self) -> SleepProbe {
        let status = SLEEP_STATUS.with(Arc::clone);
        Arc::new(move || status.probe())
    }

    fn run_own_task(&self) -> bool {
        let task = self.0.tasks.lock().unwrap()[WORKER.with(std::cell::Cell::get)].pop();
        self.0.run_task(task)
    }

    fn run_any_task(&self) -> bool {
        let mut tasks = self.0.tasks.lock().unwrap();
        let own = tasks[WORKER.with(std::cell::Cell::get)].pop();
        let task = own.or_else(|| tasks.iter_mut().find_map(|tasks| tasks.own.pop_front()));
        drop(tasks);
        self.0.run_task(task)
    }
}

impl TimedWait for Thread {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn wait_timeout<'a, T>(
        &self,
        condvar: &Arc<Condvar>,
        guard: MutexGuard<'a, T>,
        _timeout: Duration,
    ) -> MutexGuard<'a, T> {
        self.0.timed.lock().unwrap().push(condvar.clone());
        let guard = condvar.wait(guard).unwrap();
        self.0.timed.lock().unwrap().retain(|other| !Arc::ptr_eq(other, condvar));
        guard
    }
}

impl MonitorThread for Thread {
    fn start_extra(&self) -> bool {
        let pool = self.0.clone();
        let mut extras = self.0.extras.lock().unwrap();
        let index = self.0.tasks.lock().unwrap().len() - 1 - extras.len();
        extras.push(thread::spawn(move || {
            WORKER.with(|worker| worker.set(index));
            pool.queue.worker_loop(&Thread(pool.clone()), true);
        }));
        true
    }
}

impl Batch for Callbacks {
    fn run(&self) {
        while self.run_one() {}
    }

    fn run_one(&self) -> bool {
        let next = self.callbacks.get(self.taken.fetch_add(1, Ordering::SeqCst));
        if let Some(callback) = next {
            let nested = IN_CALLBACK.with(|inside| inside.replace(true));
            assert!(!nested, "nested callbacks");
            callback(&self.pool);
            IN_CALLBACK.with(|inside| inside.set(false));
        }
        next.is_some()
    }

    fn is_started(&self) -> bool {
        self.taken.load(Ordering::SeqCst) > 0
    }

    fn is_exhausted(&self) -> bool {
        self.taken.load(Ordering::SeqCst) >= self.callbacks.len()
    }

    fn into_singles(self) -> impl Iterator<Item = Self> {
        std::iter::once(self)
    }
}

/// Blocks each of a number of callbacks until all of them wait here.
#[derive(Clone)]
pub(super) struct Barrier(Arc<(Mutex<usize>, Condvar)>);

impl Barrier {
    pub(super) fn new(callbacks: usize) -> Self {
        Self(Arc::new((Mutex::new(callbacks), Condvar::new())))
    }

    pub(super) fn wait(&self) {
        let mut missing = self.arrive();
        while *missing > 0 {
            missing = self.0.1.wait(missing).unwrap();
        }
    }

    /// Comes to the barrier, and does not wait there.
    pub(super) fn arrive(&self) -> MutexGuard<'_, usize> {
        let mut missing = self.0.0.lock().unwrap();
        *missing -= 1;
        self.0.1.notify_all();
        missing
    }

    /// As `wait`, but reports the thread as asleep.
    pub(super) fn wait_asleep(&self) {
        SLEEP_STATUS.with(Arc::clone).asleep_during(|| self.wait());
    }

    pub(super) fn blocking_callback(&self) -> Callback {
        let barrier = self.clone();
        Box::new(move |_| barrier.wait_asleep())
    }

    pub(super) fn callback(&self) -> Callback {
        let barrier = self.clone();
        Box::new(move |_| barrier.wait())
    }
}

/// A shard that a worker drives until it is recalled. Only one batch is due in it.
pub(super) struct Shard {
    pub(super) batch: Mutex<Option<Arc<Callbacks>>>,
    pub(super) is_recalled: Mutex<bool>,
    recalled: Condvar,
}

impl Shard {
    pub(super) fn new(pool: &Arc<Pool>, callbacks: Vec<Callback>) -> Arc<Self> {
        let batch = Callbacks::new(pool, callbacks);
        Arc::new(Self {
            batch: Mutex::new(Some(Arc::new(batch))),
            is_recalled: Mutex::new(false),
            recalled: Condvar::new(),
        })
    }
}

impl Loan for Shard {
    fn next_batch(&self) -> Option<Arc<dyn Batch>> {
        if let Some(batch) = self.batch.lock().unwrap().take() {
            return Some(batch);
        }
        let mut is_recalled = self.is_recalled.lock().unwrap();
        while !*is_recalled {
            is_recalled = self.recalled.wait(is_recalled).unwrap();
        }
        None
    }

    fn recall(&self) {
        *self.is_recalled.lock().unwrap() = true;
        self.recalled.notify_all();
    }
}

/// A shard whose callbacks expire as fast as a worker runs them, until `done`.
pub(super) struct BusyShard {
    pub(super) pool: Arc<Pool>,
    pub(super) done: Arc<AtomicBool>,
    batches: AtomicUsize,
}

impl BusyShard {
    pub(super) fn new(pool: &Arc<Pool>, done: &Arc<AtomicBool>) -> Arc<Self> {
        Arc::new(Self { pool: pool.clone(), done: done.clone(), batches: AtomicUsize::new(0) })
    }
}

impl Loan for BusyShard {
    fn next_batch(&self) -> Option<Arc<dyn Batch>> {
        if self.done.load(Ordering::SeqCst) {
            return None;
        }
        assert!(self.batches.fetch_add(1, Ordering::SeqCst) < 500, "the worker drives for ever");
        let callback: Callback = Box::new(|pool| {
            pool.advance(Duration::from_micros(500));
        });
        thread::yield_now();
        Some(Arc::new(Callbacks::new(&self.pool, vec![callback])))
    }

    fn recall(&self) {}
}

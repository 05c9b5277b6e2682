//! The queue of a pool's batches.
//!
//! No job waits while a worker is idle or while all are blocked, and no thread runs a callback on top of another.
//! Callbacks here wait for each other. If the queue keeps its promise, they all run, and the workers end when the queue
//! is closed. Otherwise shuttle finds a deadlock.
//!
//! Fails under mutations: `queue-put-no-wake`, `queue-straggler-not-assisted`, `queue-no-lookout`,
//! `queue-no-next-lookout`, `queue-alert-needs-parked`, `queue-no-rayon-tasks`, `queue-close-no-wake`,
//! `queue-loan-not-recalled`, `queue-loan-few-workers`, `queue-loan-ignores-blocked`; of its growth:
//! `growth-no-monitor`, `growth-monitor-late`, `growth-never-blocked`, `growth-close-no-wake`,
//! `growth-watches-jobs-only`.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use shuttle::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use shuttle::thread::{self, JoinHandle};

use super::explore;
use crate::executor::batch::{Batch, Loan};
use crate::executor::job_queue::{JobQueue, MonitorThread, STRAGGLER_AFTER, SleepProbe, TimedWait, WorkerThread};
use crate::sync::{Arc, Condvar, Mutex, MutexGuard};

type Callback = Box<dyn Fn(&Pool) + Send + Sync>;

/// A queue with its workers, a replacement for rayon, and a clock.
struct Pool {
    queue: JobQueue,
    /// Replaces rayon's queues: one per worker.
    tasks: Mutex<Vec<VecDeque<Task>>>,
    start: Instant,
    /// Microseconds since the start.
    clock: AtomicU64,
    /// Threads that wait with a timeout, which ends whenever the clock advances.
    timed: Mutex<Vec<Arc<Condvar>>>,
    extras: Mutex<Vec<JoinHandle<()>>>,
    ended: AtomicBool,
}

type Task = Box<dyn FnOnce(&Pool) + Send>;

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
struct Callbacks {
    pool: Arc<Pool>,
    callbacks: Vec<Callback>,
    taken: AtomicUsize,
}

/// The calling thread: a worker, or the monitor.
struct Thread(Arc<Pool>);

impl Pool {
    /// Starts a pool with this number of workers, and returns its threads.
    fn start(workers: usize) -> (Arc<Self>, Vec<JoinHandle<()>>) {
        Self::start_with(workers, 0)
    }

    /// The same with a monitor, if `max_extra` allows extra workers.
    fn start_with(workers: usize, max_extra: usize) -> (Arc<Self>, Vec<JoinHandle<()>>) {
        let pool = Arc::new(Self {
            queue: JobQueue::new(workers, max_extra),
            tasks: Mutex::new((0..workers + max_extra).map(|_| VecDeque::new()).collect()),
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
                self.clock.fetch_add(500, Ordering::SeqCst);
                timed.iter().for_each(|call| call.notify_one());
            }
            thread::yield_now();
        }
    }

    fn now(&self) -> Instant {
        self.start + Duration::from_micros(self.clock.load(Ordering::SeqCst))
    }

    /// Puts a batch into the queue, as a driver does.
    fn push(self: &Arc<Self>, callbacks: Vec<Callback>) -> Arc<Callbacks> {
        let batch = Arc::new(Callbacks { pool: self.clone(), callbacks, taken: AtomicUsize::new(0) });
        self.queue.push(batch.clone());
        batch
    }

    /// Raises the alert for a batch that is not finished in time, as a driver does.
    fn alert_if_unfinished(&self, batch: &Arc<Callbacks>) {
        self.clock.fetch_add(u64::try_from(STRAGGLER_AFTER.as_micros()).unwrap(), Ordering::SeqCst);
        if Arc::strong_count(batch) > 1 {
            self.queue.alert(self.now());
        }
    }

    /// Gives a task to rayon, from inside a callback.
    fn spawn(&self, task: Task) {
        self.tasks.lock().unwrap()[WORKER.with(std::cell::Cell::get)].push_back(task);
    }

    fn run_task(&self, task: Option<Task>) -> bool {
        let found = task.is_some();
        if let Some(task) = task {
            task(self);
        }
        found
    }

    fn shut_down(self: Arc<Self>, threads: Vec<JoinHandle<()>>) {
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
        let task = self.0.tasks.lock().unwrap()[WORKER.with(std::cell::Cell::get)].pop_back();
        self.0.run_task(task)
    }

    fn run_any_task(&self) -> bool {
        let task = self.0.tasks.lock().unwrap().iter_mut().find_map(VecDeque::pop_front);
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
struct Barrier(Arc<(Mutex<usize>, Condvar)>);

impl Barrier {
    fn new(callbacks: usize) -> Self {
        Self(Arc::new((Mutex::new(callbacks), Condvar::new())))
    }

    fn wait(&self) {
        let mut missing = self.0.0.lock().unwrap();
        *missing -= 1;
        self.0.1.notify_all();
        while *missing > 0 {
            missing = self.0.1.wait(missing).unwrap();
        }
    }

    /// As `wait`, but reports the thread as asleep.
    fn wait_asleep(&self) {
        SLEEP_STATUS.with(Arc::clone).asleep_during(|| self.wait());
    }

    fn blocking_callback(&self) -> Callback {
        let barrier = self.clone();
        Box::new(move |_| barrier.wait_asleep())
    }

    fn callback(&self) -> Callback {
        let barrier = self.clone();
        Box::new(move |_| barrier.wait())
    }
}

/// A shard that a worker drives until it is recalled. Only one batch is due in it.
struct Shard {
    batch: Mutex<Option<Arc<Callbacks>>>,
    is_recalled: Mutex<bool>,
    recalled: Condvar,
}

impl Shard {
    fn new(pool: &Arc<Pool>, callbacks: Vec<Callback>) -> Arc<Self> {
        let batch = Callbacks { pool: pool.clone(), callbacks, taken: AtomicUsize::new(0) };
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

/// Each of three workers must get a batch, because the callbacks of three batches wait for each other, three times.
#[test]
fn no_job_waits_while_a_worker_is_idle() {
    explore(|| {
        let (pool, threads) = Pool::start(3);
        for _ in 0..3 {
            let barrier = Barrier::new(4);
            let drivers = [(); 3].map(|()| {
                let (pool, callback) = (pool.clone(), barrier.callback());
                thread::spawn(move || drop(pool.push(vec![callback])))
            });
            drivers.into_iter().for_each(|driver| driver.join().unwrap());
            barrier.wait();
        }
        pool.shut_down(threads);
    });
}

/// The callbacks of one batch wait for each other and for a second batch, so idle workers must assist.
#[test]
fn stragglers_are_assisted() {
    explore(|| {
        let (pool, threads) = Pool::start(3);
        for _ in 0..2 {
            let barrier = Barrier::new(4);
            let straggler = pool.push(vec![barrier.callback(), barrier.callback()]);
            let other = pool.push(vec![barrier.callback()]);
            pool.alert_if_unfinished(&straggler);
            pool.alert_if_unfinished(&other);
            barrier.wait();
        }
        pool.shut_down(threads);
    });
}

/// The callbacks of one batch need all workers, of which the driver calls only one.
#[test]
fn each_lookout_calls_the_next() {
    explore(|| {
        let (pool, threads) = Pool::start(3);
        let barrier = Barrier::new(4);
        let batch = pool.push([(); 3].map(|()| barrier.callback()).into());
        pool.alert_if_unfinished(&batch);
        barrier.wait();
        pool.shut_down(threads);
    });
}

/// All workers are busy when a batch is put and when its driver raises the alert. Its first callback waits for the
/// second.
#[test]
fn a_batch_that_starts_late_is_assisted() {
    explore(|| {
        let (pool, threads) = Pool::start(2);
        let (busy, gate) = (Barrier::new(3), Barrier::new(3));
        for _ in 0..2 {
            let (busy, gate) = (busy.clone(), gate.clone());
            pool.push(vec![Box::new(move |_| {
                busy.wait();
                gate.wait();
            })]);
        }
        busy.wait();
        let late = Barrier::new(3);
        let batch = pool.push(vec![late.callback(), late.callback()]);
        pool.alert_if_unfinished(&batch);
        gate.wait();
        late.wait();
        pool.shut_down(threads);
    });
}

/// A callback waits for a task that it gave to rayon. Another leaves such a task, which waits for a second one.
#[test]
fn idle_workers_run_rayon_tasks() {
    explore(|| {
        let (pool, threads) = Pool::start(2);
        let barrier = Barrier::new(3);
        let inside = barrier.clone();
        let batch = pool.push(vec![Box::new(move |pool: &Pool| {
            let task = inside.clone();
            pool.spawn(Box::new(move |_| task.wait()));
            inside.wait();
        })]);
        pool.alert_if_unfinished(&batch);
        barrier.wait();
        // The callback leaves a task that needs two workers.
        let barrier = Barrier::new(3);
        let outer = barrier.clone();
        let batch = pool.push(vec![Box::new(move |pool: &Pool| {
            let first = outer.clone();
            pool.spawn(Box::new(move |pool| {
                let second = first.clone();
                pool.spawn(Box::new(move |_| second.wait()));
                first.wait();
            }));
        })]);
        pool.alert_if_unfinished(&batch);
        barrier.wait();
        pool.shut_down(threads);
    });
}

/// All workers are blocked, twice, and callbacks wait, so extra workers run them. Idle extra workers are called again.
#[test]
fn extra_workers_run_jobs_while_all_are_blocked() {
    explore(|| {
        let (pool, threads) = Pool::start_with(2, 4);
        for _ in 0..2 {
            let barrier = Barrier::new(5);
            let batches = [(); 4].map(|()| pool.push(vec![barrier.blocking_callback()]));
            batches.iter().for_each(|batch| pool.alert_if_unfinished(batch));
            barrier.wait();
        }
        assert!(pool.queue.extra_threads().needed >= 2);
        pool.shut_down(threads);
    });
}

/// The callbacks of one batch block one after the other.
#[test]
fn extra_workers_assist_a_straggler() {
    explore(|| {
        let (pool, threads) = Pool::start_with(1, 4);
        let barrier = Barrier::new(4);
        let batch = pool.push([(); 3].map(|()| barrier.blocking_callback()).into());
        pool.alert_if_unfinished(&batch);
        barrier.wait();
        pool.shut_down(threads);
    });
}

/// The lookout is called for a job, and then blocks in the straggler, so there is no lookout.
#[test]
fn extra_workers_start_when_the_lookout_takes_a_job() {
    explore(|| {
        let (pool, threads) = Pool::start_with(2, 4);
        let barrier = Barrier::new(4);
        let batch = pool.push([(); 3].map(|()| barrier.blocking_callback()).into());
        pool.alert_if_unfinished(&batch);
        pool.push(vec![Box::new(|_| ())]);
        barrier.wait();
        pool.shut_down(threads);
    });
}

/// The only worker is busy, but not blocked, when a batch is put and when its driver raises the alert.
///
/// The worker then begins the batch, whose first callback waits for the second. No thread raises the alert again.
#[test]
fn a_batch_that_starts_late_gets_an_extra_worker() {
    explore(|| {
        let (pool, threads) = Pool::start_with(1, 2);
        let (busy, gate) = (Barrier::new(2), Barrier::new(2));
        let (begun, opened) = (busy.clone(), gate.clone());
        pool.push(vec![Box::new(move |_| {
            begun.wait();
            opened.wait();
        })]);
        busy.wait();
        let late = Barrier::new(3);
        let batch = pool.push(vec![late.blocking_callback(), late.blocking_callback()]);
        pool.alert_if_unfinished(&batch);
        gate.wait();
        late.wait();
        pool.shut_down(threads);
    });
}

/// Busy workers that are not asleep get no extra workers, however long they run.
#[test]
fn busy_workers_get_no_extra_workers() {
    explore(|| {
        let (pool, threads) = Pool::start_with(2, 4);
        let gate = Barrier::new(3);
        let batches = [(); 2].map(|()| pool.push(vec![gate.callback()]));
        let waiting = pool.push(vec![Box::new(|_| ())]);
        batches.iter().chain([&waiting]).for_each(|batch| pool.alert_if_unfinished(batch));
        gate.wait();
        assert_eq!(pool.queue.extra_threads().needed, 0);
        pool.shut_down(threads);
    });
}

/// A worker that drives a shard is recalled when all workers are needed. While it drives, the other shard has a worker.
#[test]
fn workers_that_drive_are_recalled_on_demand() {
    explore(|| {
        let (pool, threads) = Pool::start(2);
        let (barrier, lent) = (Barrier::new(3), Barrier::new(2));
        let batch = || Callbacks { pool: pool.clone(), callbacks: vec![lent.callback()], taken: AtomicUsize::new(0) };
        let shards = [(); 2].map(|()| Shard::new(&pool, Vec::new()));
        // Both workers may be idle by now, or one, or none.
        let is_lent = pool.queue.push_with_loan(Arc::new(batch()), shards[0].clone(), 2, pool.now());
        lent.wait();
        let batches = [(); 2].map(|()| pool.push(vec![barrier.callback()]));
        batches.iter().for_each(|batch| pool.alert_if_unfinished(batch));
        barrier.wait();
        if is_lent {
            assert!(*shards[0].is_recalled.lock().unwrap());
        }
        pool.shut_down(threads);
    });
}

/// With two shards and one worker that is busy for long, the other worker is lent to neither shard.
#[test]
fn no_worker_drives_if_another_shard_needs_it() {
    explore(|| {
        let (pool, threads) = Pool::start(2);
        let (busy, gate, barrier) = (Barrier::new(2), Barrier::new(2), Barrier::new(2));
        let (started, opened) = (busy.clone(), gate.clone());
        let block: Callback = Box::new(move |_| {
            started.wait();
            opened.wait();
        });
        pool.push(vec![block]);
        busy.wait();
        let shard = Shard::new(&pool, Vec::new());
        let first = Callbacks { pool: pool.clone(), callbacks: vec![Box::new(|_| ())], taken: AtomicUsize::new(0) };
        assert!(!pool.queue.push_with_loan(Arc::new(first), shard, 2, pool.now() + STRAGGLER_AFTER));
        pool.push(vec![barrier.callback()]);
        barrier.wait();
        gate.wait();
        pool.shut_down(threads);
    });
}

/// A worker that drives runs callbacks that block. They get an extra worker like any other callbacks.
#[test]
fn callbacks_of_a_lent_shard_are_assisted() {
    explore(|| {
        let (pool, threads) = Pool::start_with(1, 2);
        let (begun, barrier) = (Barrier::new(2), Barrier::new(3));
        let (started, waiting) = (begun.clone(), barrier.clone());
        let first: Callback = Box::new(move |_| {
            started.wait();
            waiting.wait_asleep();
        });
        let shard = Shard::new(&pool, vec![first, barrier.blocking_callback()]);
        let lent = Callbacks { pool: pool.clone(), callbacks: vec![Box::new(|_| ())], taken: AtomicUsize::new(0) };
        let batch = shard.batch.lock().unwrap().clone();
        if pool.queue.push_with_loan(Arc::new(lent), shard.clone(), 1, pool.now()) {
            // The driver's own thread notices that the worker does not return, and raises the alert for its batch.
            begun.wait();
            batch.iter().for_each(|batch| pool.alert_if_unfinished(batch));
            barrier.wait();
        }
        drop(batch);
        shard.recall();
        pool.shut_down(threads);
    });
}

//! The queue of a pool's batches: no job waits while a worker is idle, or while all are blocked, and no thread runs a
//! callback on top of another.
//!
//! Callbacks here wait for each other. Where the promise is kept they all run, and the workers end when the queue is
//! closed; where it is not, shuttle finds a deadlock. Mutations: `queue-put-silent`, `queue-straggler`,
//! `queue-no-lookout`, `queue-next-lookout`, `queue-alert-lost`, `queue-rayon-unseen`, `queue-close-silent`, `queue-loan-kept`, `queue-loan-greedy`;
//! of its growth: `growth-no-monitor`, `growth-monitor-late`, `growth-idle-uncalled`, `growth-never-blocked`,
//! `growth-close-silent`.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use shuttle::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use shuttle::thread::{self, JoinHandle};

use super::explore;
use crate::executor::batch::{Batch, Loan};
use crate::executor::job_queue::{JobQueue, MonitorThread, STRAGGLER_AFTER, SleepProbe, TimedWait, WorkerThread};
use crate::sync::{Arc, Condvar, Mutex, MutexGuard};

type Callback = Box<dyn Fn(&Pool) + Send + Sync>;

/// A queue with its workers, a stand-in for rayon, and a clock.
struct Pool {
    queue: JobQueue,
    /// Rayon's queues, of which worker *i* has the *i*-th.
    tasks: Mutex<Vec<VecDeque<Task>>>,
    start: Instant,
    /// Microseconds since the start.
    clock: AtomicU64,
    /// Those that wait with a timeout, which is over whenever the clock says so.
    timed: Mutex<Vec<Arc<Condvar>>>,
    extras: Mutex<Vec<JoinHandle<()>>>,
    ended: AtomicBool,
}

type Task = Box<dyn FnOnce(&Pool) + Send>;

shuttle::thread_local! {
    static WORKER: std::cell::Cell<usize> = const { std::cell::Cell::new(usize::MAX) };
    static IN_CALLBACK: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    static DOZE: Arc<Doze> = Arc::default();
}

/// Whether a thread is asleep, as the system would tell.
#[derive(Default)]
struct Doze {
    asleep: AtomicBool,
    sleeps: AtomicU64,
}

impl Doze {
    fn around<R>(&self, f: impl FnOnce() -> R) -> R {
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

/// Callbacks that are due together.
struct Callbacks {
    pool: Arc<Pool>,
    callbacks: Vec<Callback>,
    taken: AtomicUsize,
}

/// The calling thread: a worker, or the monitor.
struct Thread(Arc<Pool>);

impl Pool {
    /// A pool with this many workers, and what waits for their end.
    fn start(workers: usize) -> (Arc<Self>, Vec<JoinHandle<()>>) {
        Self::start_with(workers, 0)
    }

    /// The same with a monitor, if there may be extra workers.
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

    /// Lets time pass, in steps of half a millisecond, while a thread waits for it.
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

    /// Hands a batch over, as a driver does.
    fn push(self: &Arc<Self>, callbacks: Vec<Callback>) -> Arc<Callbacks> {
        let batch = Arc::new(Callbacks { pool: self.clone(), callbacks, taken: AtomicUsize::new(0) });
        self.queue.push(batch.clone());
        batch
    }

    /// Does what a driver does when a batch should be finished.
    fn look_after(&self, batch: &Arc<Callbacks>) {
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

    fn end(self: Arc<Self>, threads: Vec<JoinHandle<()>>) {
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
        let doze = DOZE.with(Arc::clone);
        Arc::new(move || doze.probe())
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
            assert!(!nested, "a callback on top of another");
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

/// Where as many callbacks as it is told wait for each other.
#[derive(Clone)]
struct Meeting(Arc<(Mutex<usize>, Condvar)>);

impl Meeting {
    fn of(callbacks: usize) -> Self {
        Self(Arc::new((Mutex::new(callbacks), Condvar::new())))
    }

    fn meet(&self) {
        let mut missing = self.0.0.lock().unwrap();
        *missing -= 1;
        self.0.1.notify_all();
        while *missing > 0 {
            missing = self.0.1.wait(missing).unwrap();
        }
    }

    /// The same as one that sleeps.
    fn meet_asleep(&self) {
        DOZE.with(Arc::clone).around(|| self.meet());
    }

    fn blocking_callback(&self) -> Callback {
        let meeting = self.clone();
        Box::new(move |_| meeting.meet_asleep())
    }

    fn callback(&self) -> Callback {
        let meeting = self.clone();
        Box::new(move |_| meeting.meet())
    }
}

/// A shard that is driven by a worker, until that is recalled. Nothing is due there but one batch.
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

/// As many batches as there are workers wait for each other, again and again: so each worker has a batch.
#[test]
fn no_job_waits_while_a_worker_is_idle() {
    explore(|| {
        let (pool, threads) = Pool::start(3);
        for _ in 0..3 {
            let meeting = Meeting::of(4);
            let drivers = [(); 3].map(|()| {
                let (pool, callback) = (pool.clone(), meeting.callback());
                thread::spawn(move || drop(pool.push(vec![callback])))
            });
            drivers.into_iter().for_each(|driver| driver.join().unwrap());
            meeting.meet();
        }
        pool.end(threads);
    });
}

/// The callbacks of one batch wait for each other, and one more batch comes meanwhile: the idle assist.
#[test]
fn stragglers_are_assisted() {
    explore(|| {
        let (pool, threads) = Pool::start(3);
        for _ in 0..2 {
            let meeting = Meeting::of(4);
            let straggler = pool.push(vec![meeting.callback(), meeting.callback()]);
            let other = pool.push(vec![meeting.callback()]);
            pool.look_after(&straggler);
            pool.look_after(&other);
            meeting.meet();
        }
        pool.end(threads);
    });
}

/// Callbacks of one batch that need all workers, of which its driver calls one.
#[test]
fn lookouts_follow_one_another() {
    explore(|| {
        let (pool, threads) = Pool::start(3);
        let meeting = Meeting::of(4);
        let batch = pool.push([(); 3].map(|()| meeting.callback()).into());
        pool.look_after(&batch);
        meeting.meet();
        pool.end(threads);
    });
}

/// Every worker is busy when a batch comes and when its driver looks, and its first callback waits for the second.
#[test]
fn a_batch_that_is_begun_late_is_assisted() {
    explore(|| {
        let (pool, threads) = Pool::start(2);
        let (busy, gate) = (Meeting::of(3), Meeting::of(3));
        for _ in 0..2 {
            let (busy, gate) = (busy.clone(), gate.clone());
            pool.push(vec![Box::new(move |_| {
                busy.meet();
                gate.meet();
            })]);
        }
        busy.meet();
        let late = Meeting::of(3);
        let batch = pool.push(vec![late.callback(), late.callback()]);
        pool.look_after(&batch);
        gate.meet();
        late.meet();
        pool.end(threads);
    });
}

/// A callback waits for what it has given to rayon, and what another has left there waits for that.
#[test]
fn rayons_work_is_done_by_the_idle() {
    explore(|| {
        let (pool, threads) = Pool::start(2);
        let meeting = Meeting::of(3);
        let inside = meeting.clone();
        let batch = pool.push(vec![Box::new(move |pool: &Pool| {
            let task = inside.clone();
            pool.spawn(Box::new(move |_| task.meet()));
            inside.meet();
        })]);
        pool.look_after(&batch);
        meeting.meet();
        // It leaves work that takes two, and is finished only when that is.
        let meeting = Meeting::of(3);
        let left = meeting.clone();
        let batch = pool.push(vec![Box::new(move |pool: &Pool| {
            let first = left.clone();
            pool.spawn(Box::new(move |pool| {
                let second = first.clone();
                pool.spawn(Box::new(move |_| second.meet()));
                first.meet();
            }));
        })]);
        pool.look_after(&batch);
        meeting.meet();
        pool.end(threads);
    });
}

/// All workers are blocked, again and again, and callbacks wait: extra workers run them. Those that are idle are called
/// again.
#[test]
fn extra_workers_run_what_waits_while_all_are_blocked() {
    explore(|| {
        let (pool, threads) = Pool::start_with(2, 4);
        for _ in 0..2 {
            let meeting = Meeting::of(5);
            let batches = [(); 4].map(|()| pool.push(vec![meeting.blocking_callback()]));
            batches.iter().for_each(|batch| pool.look_after(batch));
            meeting.meet();
        }
        assert!(pool.queue.extra_threads().needed >= 2);
        pool.end(threads);
    });
}

/// The callbacks of one batch are blocked one after the other.
#[test]
fn extra_workers_assist_a_straggler() {
    explore(|| {
        let (pool, threads) = Pool::start_with(1, 4);
        let meeting = Meeting::of(4);
        let batch = pool.push([(); 3].map(|()| meeting.blocking_callback()).into());
        pool.look_after(&batch);
        meeting.meet();
        pool.end(threads);
    });
}

/// The lookout is called for a job, and is blocked in the straggler afterwards: there is no lookout then.
#[test]
fn extra_workers_come_when_the_lookout_is_called_away() {
    explore(|| {
        let (pool, threads) = Pool::start_with(2, 4);
        let meeting = Meeting::of(4);
        let batch = pool.push([(); 3].map(|()| meeting.blocking_callback()).into());
        pool.look_after(&batch);
        pool.push(vec![Box::new(|_| ())]);
        meeting.meet();
        pool.end(threads);
    });
}

/// The only worker is busy, but not blocked, when a batch comes and when its driver looks. Then it begins the batch, whose
/// first callback waits for the second, and nobody raises the alert any more.
#[test]
fn a_batch_that_is_begun_late_has_an_extra_worker() {
    explore(|| {
        let (pool, threads) = Pool::start_with(1, 2);
        let (busy, gate) = (Meeting::of(2), Meeting::of(2));
        let (begun, opened) = (busy.clone(), gate.clone());
        pool.push(vec![Box::new(move |_| {
            begun.meet();
            opened.meet();
        })]);
        busy.meet();
        let late = Meeting::of(3);
        let batch = pool.push(vec![late.blocking_callback(), late.blocking_callback()]);
        pool.look_after(&batch);
        gate.meet();
        late.meet();
        pool.end(threads);
    });
}

/// Workers that are busy, and not asleep, get no extra ones, however long they take.
#[test]
fn workers_that_are_busy_have_no_extra_ones() {
    explore(|| {
        let (pool, threads) = Pool::start_with(2, 4);
        let gate = Meeting::of(3);
        let batches = [(); 2].map(|()| pool.push(vec![gate.callback()]));
        let waiting = pool.push(vec![Box::new(|_| ())]);
        batches.iter().chain([&waiting]).for_each(|batch| pool.look_after(batch));
        gate.meet();
        assert_eq!(pool.queue.extra_threads().needed, 0);
        pool.end(threads);
    });
}

/// A worker drives a shard when all workers are needed: it is recalled. While it drives, the other shard has a worker.
#[test]
fn workers_that_drive_are_recalled_when_they_are_needed() {
    explore(|| {
        let (pool, threads) = Pool::start(2);
        let (meeting, lent) = (Meeting::of(3), Meeting::of(2));
        let batch = || Callbacks { pool: pool.clone(), callbacks: vec![lent.callback()], taken: AtomicUsize::new(0) };
        let shards = [(); 2].map(|()| Shard::new(&pool, Vec::new()));
        // Both workers may be idle, one of them, or none yet.
        let is_lent = pool.queue.push_with_loan(Arc::new(batch()), shards[0].clone(), 2, pool.now());
        lent.meet();
        let batches = [(); 2].map(|()| pool.push(vec![meeting.callback()]));
        batches.iter().for_each(|batch| pool.look_after(batch));
        meeting.meet();
        if is_lent {
            assert!(*shards[0].is_recalled.lock().unwrap());
        }
        pool.end(threads);
    });
}

/// Two shards, and a worker that is busy for long: the other worker is lent to neither.
#[test]
fn no_worker_drives_where_another_shard_would_wait_for_it() {
    explore(|| {
        let (pool, threads) = Pool::start(2);
        let (busy, gate, meeting) = (Meeting::of(2), Meeting::of(2), Meeting::of(2));
        let (begin, pass) = (busy.clone(), gate.clone());
        let block: Callback = Box::new(move |_| {
            begin.meet();
            pass.meet();
        });
        pool.push(vec![block]);
        busy.meet();
        let shard = Shard::new(&pool, Vec::new());
        let first = Callbacks { pool: pool.clone(), callbacks: vec![Box::new(|_| ())], taken: AtomicUsize::new(0) };
        assert!(!pool.queue.push_with_loan(Arc::new(first), shard, 2, pool.now() + STRAGGLER_AFTER));
        pool.push(vec![meeting.callback()]);
        meeting.meet();
        gate.meet();
        pool.end(threads);
    });
}

/// A worker that drives has callbacks to run, which are blocked: they have an extra worker like any other.
#[test]
fn callbacks_of_a_shard_on_loan_are_assisted() {
    explore(|| {
        let (pool, threads) = Pool::start_with(1, 2);
        let (begun, meeting) = (Meeting::of(2), Meeting::of(3));
        let (begin, meet) = (begun.clone(), meeting.clone());
        let first: Callback = Box::new(move |_| {
            begin.meet();
            meet.meet_asleep();
        });
        let shard = Shard::new(&pool, vec![first, meeting.blocking_callback()]);
        let lent = Callbacks { pool: pool.clone(), callbacks: vec![Box::new(|_| ())], taken: AtomicUsize::new(0) };
        let batch = shard.batch.lock().unwrap().clone();
        if pool.queue.push_with_loan(Arc::new(lent), shard.clone(), 1, pool.now()) {
            // The driver's own thread finds that the worker does not come back, and looks after its batch.
            begun.meet();
            batch.iter().for_each(|batch| pool.look_after(batch));
            meeting.meet();
        }
        drop(batch);
        shard.recall();
        pool.end(threads);
    });
}

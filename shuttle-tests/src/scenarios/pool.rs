//! A pool's queue with its workers, the leader and a clock, and callbacks that wait for each other.

use std::time::{Duration, Instant};

use shuttle::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::executor::job_queue::{Batch, JobQueue, WorkerThread};
use crate::sync::thread::{self, JoinHandle, Thread};
use crate::sync::{Arc, Condvar, Mutex};

pub(super) type Callback = Box<dyn Fn() + Send + Sync>;

/// A queue with its workers, the leader and a clock.
pub(super) struct Pool {
    pub(super) queue: JobQueue,
    start: Instant,
    /// Microseconds since the start.
    clock: AtomicU64,
    /// Threads that are parked with a timeout, which ends whenever the clock advances.
    timed: Mutex<Vec<Thread>>,
    leader: Leader,
    extras: Mutex<Vec<JoinHandle<()>>>,
    ended: AtomicBool,
}

/// The thread that checks the queue.
#[derive(Default)]
struct Leader {
    thread: Mutex<Option<Thread>>,
    /// It sleeps without a timeout.
    rests: AtomicBool,
}

shuttle::thread_local! {
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

    fn sample(&self) -> Option<u64> {
        self.asleep.load(Ordering::SeqCst).then(|| self.sleeps.load(Ordering::SeqCst))
    }
}

/// A batch of callbacks.
pub(super) struct Callbacks {
    callbacks: Vec<Callback>,
    taken: AtomicUsize,
}

impl Callbacks {
    pub(super) fn new(callbacks: Vec<Callback>) -> Self {
        Self { callbacks, taken: AtomicUsize::new(0) }
    }
}

/// The calling thread, as a worker.
struct Worker(Arc<Pool>);

impl Pool {
    /// Starts a pool with this number of workers, and returns its threads.
    pub(super) fn start(workers: usize) -> (Arc<Self>, Vec<JoinHandle<()>>) {
        Self::start_with(workers, 0)
    }

    /// The same with extra threads.
    pub(super) fn start_with(workers: usize, max_extra: usize) -> (Arc<Self>, Vec<JoinHandle<()>>) {
        let pool = Arc::new(Self {
            queue: JobQueue::new(max_extra),
            start: Instant::now(),
            clock: AtomicU64::new(0),
            timed: Mutex::default(),
            leader: Leader::default(),
            extras: Mutex::default(),
            ended: AtomicBool::new(false),
        });
        let mut threads: Vec<_> = (0..workers)
            .map(|_| {
                let pool = pool.clone();
                thread::spawn(move || pool.queue.work(&Worker(pool.clone()), false))
            })
            .collect();
        let woken = Arc::downgrade(&pool);
        pool.queue.set_waker(move || {
            if let Some(pool) = woken.upgrade() {
                pool.wake_leader();
            }
        });
        let leads = pool.clone();
        threads.push(thread::spawn(move || leads.lead()));
        let clock = pool.clone();
        threads.push(thread::spawn(move || clock.pass_time()));
        (pool, threads)
    }

    /// What the leader does between its dispatches.
    fn lead(self: &Arc<Self>) {
        let leader = &self.leader;
        leader.thread.lock().unwrap().replace(thread::current());
        while !self.ended.load(Ordering::SeqCst) {
            let start = |count| (0..count).map(|_| self.start_extra()).count();
            self.queue.check(self.now(), start);
            let timeout = self.queue.next_check().map(|at| at.saturating_duration_since(self.now()));
            leader.rests.store(timeout.is_none(), Ordering::SeqCst);
            self.park(timeout);
            leader.rests.store(false, Ordering::SeqCst);
        }
    }

    fn wake_leader(&self) {
        self.leader.rests.store(false, Ordering::SeqCst);
        if let Some(thread) = &*self.leader.thread.lock().unwrap() {
            thread.unpark();
        }
    }

    /// Waits until the leader sleeps without a timeout.
    pub(super) fn wait_until_the_leader_rests(&self) {
        while !self.leader.rests.load(Ordering::SeqCst) {
            thread::yield_now();
        }
    }

    /// Waits until so much time has passed. That is for ever if no thread waits for it.
    pub(super) fn sleep(&self, time: Duration) {
        let ends = self.now() + time;
        while self.now() < ends {
            thread::yield_now();
        }
    }

    /// Advances the clock in steps of half a millisecond while a thread waits with a timeout.
    fn pass_time(&self) {
        while !self.ended.load(Ordering::SeqCst) {
            let timed = self.timed.lock().unwrap().clone();
            if !timed.is_empty() {
                self.advance(Duration::from_micros(500));
                timed.iter().for_each(Thread::unpark);
            }
            thread::yield_now();
        }
    }

    pub(super) fn park(&self, timeout: Option<Duration>) {
        if timeout.is_none() {
            return thread::park();
        }
        self.timed.lock().unwrap().push(thread::current());
        thread::park();
        let this = thread::current().id();
        self.timed.lock().unwrap().retain(|thread| thread.id() != this);
    }

    fn start_extra(self: &Arc<Self>) {
        let pool = self.clone();
        let extra = thread::spawn(move || pool.queue.work(&Worker(pool.clone()), true));
        self.extras.lock().unwrap().push(extra);
    }

    pub(super) fn now(&self) -> Instant {
        self.start + Duration::from_micros(self.clock.load(Ordering::SeqCst))
    }

    /// Advances the clock. Ends no timeout: [`pass_time`](Self::pass_time) does.
    pub(super) fn advance(&self, time: Duration) {
        self.clock.fetch_add(u64::try_from(time.as_micros()).unwrap(), Ordering::SeqCst);
    }

    /// Dispatches a batch.
    pub(super) fn push(&self, callbacks: Vec<Callback>) {
        self.queue.push(Arc::new(Callbacks::new(callbacks)), self.now());
    }

    pub(super) fn shut_down(self: Arc<Self>, mut threads: Vec<JoinHandle<()>>) {
        self.queue.close();
        let drives = threads.split_off(threads.len() - 2);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        self.ended.store(true, Ordering::SeqCst);
        self.wake_leader();
        drives.into_iter().for_each(|thread| thread.join().unwrap());
        let extras = std::mem::take(&mut *self.extras.lock().unwrap());
        extras.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(self.queue.extra_threads().0, 0);
    }
}

impl WorkerThread for Worker {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn park(&self, timeout: Option<Duration>) {
        self.0.park(timeout);
    }

    fn sample() -> impl Fn() -> Option<u64> + Send + Sync + 'static {
        let status = SLEEP_STATUS.with(Arc::clone);
        move || status.sample()
    }
}

impl Batch for Callbacks {
    fn run(&self, after_each: &dyn Fn()) {
        while let Some(callback) = self.callbacks.get(self.taken.fetch_add(1, Ordering::SeqCst)) {
            let nested = IN_CALLBACK.with(|inside| inside.replace(true));
            assert!(!nested, "nested callbacks");
            callback();
            IN_CALLBACK.with(|inside| inside.set(false));
            after_each();
        }
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
        let mut missing = self.0.0.lock().unwrap();
        *missing -= 1;
        self.0.1.notify_all();
        while *missing > 0 {
            missing = self.0.1.wait(missing).unwrap();
        }
    }

    /// As `wait`, but reports the thread as asleep.
    pub(super) fn wait_asleep(&self) {
        SLEEP_STATUS.with(Arc::clone).asleep_during(|| self.wait());
    }

    pub(super) fn blocking_callback(&self) -> Callback {
        let barrier = self.clone();
        Box::new(move || barrier.wait_asleep())
    }

    pub(super) fn callback(&self) -> Callback {
        let barrier = self.clone();
        Box::new(move || barrier.wait())
    }
}

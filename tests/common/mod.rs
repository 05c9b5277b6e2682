//! Helpers that the integration tests share.
#![allow(dead_code, reason = "each test file uses only some of it")]

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::task::Wake;
use std::time::{Duration, Instant};
use std::{fs, hint, panic, process, thread};

use corewheel::{Builder, Execute, Executor, ManualClock, Timer, rayon};

pub const MS: Duration = Duration::from_millis(1);
pub const SEC: Duration = Duration::from_secs(1);
pub const HOUR: Duration = Duration::from_secs(3600);
pub const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// How long a test waits before it fails. Only a test that fails takes this long.
pub const TIMEOUT: Duration = Duration::from_secs(20);

/// Returns a builder with a manual clock, and the clock.
pub fn on_manual_clock() -> (Builder, ManualClock) {
    let clock = ManualClock::new();
    (Timer::builder().clock(clock.clone()), clock)
}

/// Returns a timer on a manual clock, with one shard that runs callbacks inline and in order; and the clock. A callback
/// that panics fails the test.
pub fn in_virtual_time() -> (Timer, ManualClock) {
    let (builder, clock) = on_manual_clock();
    let clock = clock.propagate_panics();
    (builder.shards(1).executor(Executor::Inline).build().unwrap(), clock)
}

/// A task that counts how often it is woken.
#[derive(Default)]
pub struct Task(pub AtomicUsize);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Task {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    pub fn woken(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// What `Execute::execute` receives.
pub type Job = Box<dyn FnOnce() + Send>;

/// A rayon pool of two threads, built by the test.
pub fn rayon_pool() -> Executor {
    Executor::Rayon(Arc::new(rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap()))
}

/// Returns the sum of the numbers below 100, each added by a rayon task.
pub fn sum_in_a_scope() -> usize {
    let sum = AtomicUsize::new(0);
    rayon::scope(|scope| {
        for number in 0..100 {
            let sum = &sum;
            scope.spawn(move |_| _ = sum.fetch_add(number, Ordering::SeqCst));
        }
    });
    sum.into_inner()
}

/// Number of names that [`use_rayon_on_one_thread`] sends.
pub const TASKS: usize = 2;

/// Called in a callback of the timer's own pool: uses rayon in all ways. Work that nothing waits for sends the name of its
/// thread.
pub fn use_rayon_on_one_thread(sender: &Sender<String>) {
    let here = thread::current().id();
    assert_eq!((rayon::current_num_threads(), rayon::current_thread_index()), (1, Some(0)));
    let (one, two) = rayon::join(|| 1, || rayon::join(|| 2, || thread::current().id()));
    assert_eq!((one, two), (1, (2, here)));
    assert_eq!(sum_in_a_scope(), 4950);
    let mut part = 0;
    rayon::in_place_scope(|scope| scope.spawn(|_| part = 1));
    assert_eq!(part, 1);
    assert_eq!(rayon::broadcast(|_| thread::current().id()), [here]);
    assert_eq!(rayon::yield_now(), Some(rayon::Yield::Idle));
    let spawned = sender.clone();
    let broadcast = Mutex::new(sender.clone());
    let name = || thread::current().name().unwrap().to_owned();
    rayon::spawn_broadcast(move |_| broadcast.lock().unwrap().send(name()).unwrap());
    rayon::spawn(move || spawned.send(name()).unwrap());
}

/// Returns one executor of each kind.
pub fn every_executor() -> Vec<Executor> {
    vec![
        Executor::Pool { threads: 1 },
        Executor::Pool { threads: 3 },
        rayon_pool(),
        Executor::RayonGlobal,
        Executor::Inline,
        Executor::Custom(Arc::new(ThreadPerJob)),
        Executor::Custom(Arc::new(RunInPlace)),
    ]
}

/// Runs each job on a new thread.
pub struct ThreadPerJob;

impl Execute for ThreadPerJob {
    fn execute(&self, job: Job) {
        thread::spawn(job);
    }
}

/// Runs each job inside `execute`.
pub struct RunInPlace;

impl Execute for RunInPlace {
    fn execute(&self, job: Job) {
        job();
    }
}

/// Holds the jobs until the test takes them.
#[derive(Clone, Default)]
pub struct HeldJobs(Arc<Mutex<Vec<Job>>>);

impl Execute for HeldJobs {
    fn execute(&self, job: Job) {
        self.0.lock().unwrap().push(job);
    }
}

impl HeldJobs {
    pub fn executor(&self) -> Executor {
        Executor::Custom(Arc::new(self.clone()))
    }

    pub fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    pub fn take(&self) -> Vec<Job> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// An executor that calls a function.
pub struct ExecuteFn<F>(pub F);

impl<F: Fn(Job) + Send + Sync + 'static> Execute for ExecuteFn<F> {
    fn execute(&self, job: Job) {
        (self.0)(job);
    }
}

/// Blocks the threads that pass it until it is opened.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    /// Waits until the gate is open.
    pub fn pass(&self) {
        let open = self.0.1.wait_timeout_while(self.0.0.lock().unwrap(), TIMEOUT, |open| !*open).unwrap();
        assert!(*open.0, "the gate was never opened");
    }

    /// Returns whether the gate is opened within `time`.
    pub fn opens_within(&self, time: Duration) -> bool {
        *self.0.1.wait_timeout_while(self.0.0.lock().unwrap(), time, |open| !*open).unwrap().0
    }
}

/// Schedules callbacks that wait for the gate, and returns once all of them wait.
pub fn block(timer: &Timer, callbacks: usize, gate: &Gate) {
    let (sender, receiver) = channel();
    for _ in 0..callbacks {
        let (sender, gate) = (sender.clone(), gate.clone());
        let block = move || {
            sender.send(()).unwrap();
            gate.pass();
        };
        timer.schedule(Duration::ZERO, block).unwrap();
    }
    (0..callbacks).for_each(|_| wait_for(&receiver));
}

/// Counts the live [`Token`]s that it has handed out.
#[derive(Clone, Default)]
pub struct Tokens(Arc<AtomicUsize>);

/// A value for a closure to capture, which reveals when the closure is dropped.
pub struct Token(Arc<AtomicUsize>);

impl Tokens {
    pub fn give(&self) -> Token {
        self.0.fetch_add(1, Ordering::SeqCst);
        Token(self.0.clone())
    }

    pub fn alive(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Calls a function when it is dropped.
pub struct OnDrop<F: FnMut()>(pub F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Panics when it is dropped, unless the thread is already panicking.
pub struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !thread::panicking() {
            quiet_panic("bomb");
        }
    }
}

/// Panics without a message on the terminal.
pub fn quiet_panic(payload: &'static str) -> ! {
    panic::resume_unwind(Box::new(payload))
}

/// Returns a channel on which callbacks report to the test.
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    mpsc::channel()
}

/// Returns what has been sent so far.
pub fn received<T>(receiver: &Receiver<T>) -> Vec<T> {
    receiver.try_iter().collect()
}

/// Waits for the next message.
pub fn wait_for<T>(receiver: &Receiver<T>) -> T {
    receiver.recv_timeout(TIMEOUT).expect("no message arrived in time")
}

/// Waits until the cell has a value.
pub fn once_set<T>(cell: &OnceLock<T>) -> &T {
    eventually("the cell has a value", || cell.get().is_some());
    cell.get().unwrap()
}

/// Waits until `condition` is true.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < TIMEOUT, "not true in time: {what}");
        thread::sleep(MS);
    }
}

/// Keeps the calling thread busy.
pub fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        hint::spin_loop();
    }
}

/// Runs `f` on a thread of its own, and fails if `f` does not return in time.
pub fn in_time<T: Send + 'static>(what: &str, f: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn(move || sender.send(f()));
    match receiver.recv_timeout(TIMEOUT) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("does not return: {what}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => panic::resume_unwind(thread.join().unwrap_err()),
    }
}

/// Returns the number of this process's threads whose names begin with `prefix`, which has at most 15 bytes.
pub fn threads_named(prefix: &str) -> usize {
    tasks_named(prefix).len()
}

/// Returns the thread ids of these threads.
pub fn tasks_named(prefix: &str) -> Vec<i32> {
    // A listing ends early if another thread ends while it is read.
    let listing = || fs::read_dir("/proc/self/task").unwrap().filter_map(|task| Some(task.ok()?.file_name()));
    let tasks: BTreeSet<_> = (0..5).flat_map(|_| listing()).collect();
    let has_name = |task: &OsString| {
        let name = fs::read_to_string(Path::new("/proc/self/task").join(task).join("comm"));
        name.is_ok_and(|name| name.starts_with(prefix))
    };
    tasks.into_iter().filter(has_name).map(|task| task.to_str().unwrap().parse().unwrap()).collect()
}

/// Returns how often the threads whose names begin with `prefix` have gone to sleep.
pub fn sleeps_of(prefix: &str) -> u64 {
    let sleeps = |task| {
        let status = fs::read_to_string(format!("/proc/self/task/{task}/status")).ok()?;
        let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches"))?;
        line.split_whitespace().last()?.parse::<u64>().ok()
    };
    tasks_named(prefix).into_iter().filter_map(sleeps).sum()
}

/// Runs one test of this binary in a new process, and tells it so by an environment variable. `shell` runs first in the
/// process's shell, and may lower its limits.
pub fn child(test: &str, shell: &str, variables: &[(&str, &str)]) -> process::Output {
    child_command(test, shell).envs(variables.iter().copied()).output().unwrap()
}

/// Runs a [`child`] that can start no thread, because one stack is larger than the limit of its address space. Where a
/// pointer has 32 bits, musl refuses stacks of more than 1 GiB as invalid.
pub fn child_without_threads(test: &str) -> process::Output {
    child(test, "ulimit -v 900000;", &[("RUST_MIN_STACK", "1000000000")])
}

/// Returns the command for [`child`], with its output not yet captured.
pub fn child_command(test: &str, shell: &str) -> process::Command {
    let mut command = process::Command::new("sh");
    command
        .arg("-c")
        .arg(format!("{shell} exec \"$0\" --exact {test} --nocapture --test-threads 1"))
        .arg(std::env::current_exe().unwrap())
        .env("COREWHEEL_TEST_CHILD", test);
    command
}

/// Returns whether this process was started by [`child`] for this test.
pub fn is_child(test: &str) -> bool {
    std::env::var("COREWHEEL_TEST_CHILD").is_ok_and(|name| name == test)
}

/// Asserts that each accepted timer is counted in exactly one outcome or is pending, in each shard and in all.
#[track_caller]
pub fn assert_balanced(timer: &Timer) {
    let stats = timer.stats();
    assert_eq!(stats.scheduled, stats.completed + stats.cancelled + stats.unfired + stats.pending, "{stats:?}");
    assert_eq!(stats.lateness.count(), stats.fired);
    for shard in stats.shards() {
        assert_eq!(shard.scheduled, shard.completed + shard.cancelled + shard.unfired + shard.pending, "{shard:?}");
        assert_eq!(shard.lateness.count(), shard.fired);
    }
    macro_rules! assert_sums {
        ($($field:ident)*) => {
            $(assert_eq!(
                stats.$field,
                stats.shards().iter().map(|shard| shard.$field).sum::<u64>(),
                stringify!($field)
            );)*
        };
    }
    assert_sums!(scheduled fired completed cancelled unfired pending resets panicked rejected wakeups);
}

/// Returns a callback that counts its runs.
pub fn counting(runs: &Arc<AtomicUsize>) -> impl Fn() + Send + 'static {
    let runs = runs.clone();
    move || {
        runs.fetch_add(1, Ordering::SeqCst);
    }
}

//! What the integration tests share.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use std::{fs, panic, process, thread};

use corewheel::{Builder, Execute, Executor, ManualClock, Timer, rayon};

pub const MS: Duration = Duration::from_millis(1);
pub const SEC: Duration = Duration::from_secs(1);
pub const HOUR: Duration = Duration::from_secs(3600);
pub const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// For how long a test waits for what must come: only what never comes takes longer.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The settings of a timer in virtual time, and its clock.
pub fn on_manual_clock() -> (Builder, ManualClock) {
    let clock = ManualClock::new();
    (Timer::builder().clock(clock.clone()), clock)
}

/// A timer in virtual time with one shard that runs its callbacks itself, in order; and its clock.
pub fn in_virtual_time() -> (Timer, ManualClock) {
    let (builder, clock) = on_manual_clock();
    (builder.shards(1).executor(Executor::Inline).build().unwrap(), clock)
}

/// What an executor is given to run.
pub type Job = Box<dyn FnOnce() + Send>;

/// A rayon pool of two threads of the caller's own.
pub fn rayon_pool() -> Executor {
    Executor::Rayon(Arc::new(rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap()))
}

/// Returns the sum of the numbers below 100, each added by a task of rayon's.
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

/// One executor of each kind.
pub fn every_executor() -> Vec<Executor> {
    vec![
        Executor::Pool { threads: 1 },
        Executor::Pool { threads: 3 },
        rayon_pool(),
        Executor::RayonGlobal,
        Executor::Inline,
        Executor::Custom(Arc::new(Threads)),
        Executor::Custom(Arc::new(AtOnce)),
    ]
}

/// A thread for each job.
pub struct Threads;

impl Execute for Threads {
    fn execute(&self, job: Job) {
        thread::spawn(job);
    }
}

/// Runs each job where it is handed over.
pub struct AtOnce;

impl Execute for AtOnce {
    fn execute(&self, job: Job) {
        job();
    }
}

/// Keeps the jobs until the test takes them.
#[derive(Clone, Default)]
pub struct Shelf(Arc<Mutex<Vec<Job>>>);

impl Execute for Shelf {
    fn execute(&self, job: Job) {
        self.0.lock().unwrap().push(job);
    }
}

impl Shelf {
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

/// Calls a function of any kind as an executor.
pub struct Calls<F>(pub F);

impl<F: Fn(Job) + Send + Sync + 'static> Execute for Calls<F> {
    fn execute(&self, job: Job) {
        (self.0)(job);
    }
}

/// Keeps whoever waits at it until it is opened.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    /// Waits until the gate is open.
    pub fn pass(&self) {
        let open = self.0.1.wait_timeout_while(self.0.0.lock().unwrap(), PATIENCE, |open| !*open).unwrap();
        assert!(*open.0, "the gate was never opened");
    }

    /// Whether the gate is opened within `time`.
    pub fn opens_within(&self, time: Duration) -> bool {
        *self.0.1.wait_timeout_while(self.0.0.lock().unwrap(), time, |open| !*open).unwrap().0
    }
}

/// Callbacks that wait until the gate is open, each of them inside by now.
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

/// Counts what is alive of the [`Token`]s that it has given out.
#[derive(Clone, Default)]
pub struct Tokens(Arc<AtomicUsize>);

/// To be captured by a closure: tells when that is dropped.
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

/// Panics when it is dropped, unless the thread is panicking already.
pub struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !thread::panicking() {
            quiet_panic("bomb");
        }
    }
}

/// Panics, without a message on the terminal.
pub fn quiet_panic(payload: &'static str) -> ! {
    panic::resume_unwind(Box::new(payload))
}

/// Where callbacks send to, and where to receive it.
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    mpsc::channel()
}

/// What has been sent so far.
pub fn received<T>(receiver: &Receiver<T>) -> Vec<T> {
    receiver.try_iter().collect()
}

/// The next that is sent.
pub fn wait_for<T>(receiver: &Receiver<T>) -> T {
    receiver.recv_timeout(PATIENCE).expect("it should have come by now")
}

/// Waits until `condition` holds.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "still not so: {what}");
        thread::sleep(MS);
    }
}

/// Runs `f` on a thread of its own, and fails if it takes forever.
pub fn in_time<T: Send + 'static>(what: &str, f: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn(move || sender.send(f()));
    match receiver.recv_timeout(PATIENCE) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs: {what}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => panic::resume_unwind(thread.join().unwrap_err()),
    }
}

/// How many threads of this process have a name that begins with `prefix`, which has 15 bytes at the most.
pub fn threads_named(prefix: &str) -> usize {
    tasks_named(prefix).len()
}

/// The numbers of these threads.
pub fn tasks_named(prefix: &str) -> Vec<i32> {
    fs::read_dir("/proc/self/task")
        .unwrap()
        .filter_map(|task| {
            let task = task.ok()?;
            let name = fs::read_to_string(task.path().join("comm")).ok()?;
            name.starts_with(prefix).then(|| task.file_name().to_str()?.parse().ok())?
        })
        .collect()
}

/// How often the threads of this process whose name begins so have gone to sleep.
pub fn sleeps_of(prefix: &str) -> u64 {
    let sleeps = |task| {
        let status = fs::read_to_string(format!("/proc/self/task/{task}/status")).ok()?;
        let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches"))?;
        line.split_whitespace().last()?.parse::<u64>().ok()
    };
    tasks_named(prefix).into_iter().filter_map(sleeps).sum()
}

/// Runs one test of this binary in a process of its own, with an environment variable set that tells it so; it goes
/// through a shell, which may lower its limits first.
pub fn child(test: &str, shell: &str, variables: &[(&str, &str)]) -> process::Output {
    child_command(test, shell).envs(variables.iter().copied()).output().unwrap()
}

/// The same, not started yet.
pub fn child_command(test: &str, shell: &str) -> process::Command {
    let mut command = process::Command::new("sh");
    command
        .arg("-c")
        .arg(format!("{shell} exec \"$0\" --exact {test} --nocapture --test-threads 1"))
        .arg(std::env::current_exe().unwrap())
        .env("COREWHEEL_TEST_CHILD", test);
    command
}

/// Whether this process was started by [`child`] for this test.
pub fn is_child(test: &str) -> bool {
    std::env::var("COREWHEEL_TEST_CHILD").is_ok_and(|name| name == test)
}

/// The timer's books: every timer that was accepted has ended in one way, or is pending; in each shard, and in all.
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
    assert_sums!(scheduled fired completed cancelled unfired pending rearmed panicked rejected wakeups);
}

/// A callback that counts its runs.
pub fn counting(runs: &Arc<AtomicUsize>) -> impl Fn() + Send + 'static {
    let runs = runs.clone();
    move || {
        runs.fetch_add(1, Ordering::SeqCst);
    }
}

/// Numbers that look random, the same every time.
pub struct Random(pub u64);

impl Random {
    /// One that is below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        // The splitmix64 generator.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % limit
    }
}

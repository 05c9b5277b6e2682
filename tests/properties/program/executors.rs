//! The executors of a program: each kind of the crate's, and custom ones.

use std::cell::Cell;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use corewheel::{Execute, Executor, rayon};

use super::grammar::{ExecutorKind, pool_size};
use crate::common::Job;

/// Starts the executor. The names of its own threads begin with `name`.
pub fn start(kind: ExecutorKind, name: &str) -> Executor {
    match kind {
        ExecutorKind::Inline => Executor::Inline,
        ExecutorKind::Serial => Executor::Custom(Arc::new(Serial::default())),
        ExecutorKind::Background => Executor::Custom(Arc::new(Background::start(name))),
        ExecutorKind::Dropping { one_in } => Executor::Custom(Arc::new(Dropping::new(one_in))),
        ExecutorKind::Pool { threads } => Executor::Pool { threads: pool_size(threads) },
        ExecutorKind::Rayon { threads } => {
            let threads = pool_size(threads);
            let name = name.to_owned();
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(move |_| name.clone());
            Executor::Rayon(Arc::new(pool.build().unwrap()))
        }
    }
}

/// Runs one job at a time, over all shards.
#[derive(Default)]
struct Serial(Mutex<()>);

impl Execute for Serial {
    fn execute(&self, job: Job) {
        let _turn = self.0.lock();
        job();
    }
}

/// Runs the jobs on a thread of its own, which ends when the timer drops the executor.
struct Background(mpsc::Sender<Job>);

impl Background {
    fn start(name: &str) -> Self {
        let (jobs, received) = mpsc::channel::<Job>();
        let run = move || received.into_iter().for_each(|job| job());
        thread::Builder::new().name(name.to_owned()).spawn(run).unwrap();
        Self(jobs)
    }
}

impl Execute for Background {
    fn execute(&self, job: Job) {
        self.0.send(job).expect("the thread outlives the executor");
    }
}

/// Runs one job at a time, but drops one in `one_in` without running it.
struct Dropping {
    one_in: u8,
    turn: Mutex<()>,
    jobs: AtomicU8,
}

thread_local! {
    static DROPS_JOB: Cell<bool> = const { Cell::new(false) };
}

/// Whether an executor is dropping a job on this thread.
pub fn drops_job() -> bool {
    DROPS_JOB.get()
}

impl Dropping {
    fn new(one_in: u8) -> Self {
        Self { one_in: 1 + one_in % 6, turn: Mutex::default(), jobs: AtomicU8::new(0) }
    }
}

impl Execute for Dropping {
    fn execute(&self, job: Job) {
        let _turn = self.turn.lock();
        if self.jobs.fetch_add(1, Ordering::Relaxed).is_multiple_of(self.one_in) {
            DROPS_JOB.set(true);
            drop(job);
            DROPS_JOB.set(false);
        } else {
            job();
        }
    }
}

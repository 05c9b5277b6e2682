//! The executors of a program: the crate's own kinds, and custom ones.

use std::cell::Cell;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use corewheel::{Execute, Executor, rayon};

use super::language::{Workers, number_of};
use crate::common::Job;

/// Starts the executor. The names of its own threads begin with `name`.
pub fn start(workers: Workers, name: &str) -> Executor {
    match workers {
        Workers::Inline => Executor::Inline,
        Workers::InTurn => Executor::Custom(Arc::new(InTurn::default())),
        Workers::Later => Executor::Custom(Arc::new(Later::start(name))),
        Workers::Dropping { one_in } => Executor::Custom(Arc::new(Dropping::new(one_in))),
        Workers::Pool { threads } => Executor::Pool { threads: number_of(threads) },
        Workers::Rayon { threads } => {
            let (threads, name) = (number_of(threads), name.to_owned());
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(move |_| name.clone());
            Executor::Rayon(Arc::new(pool.build().unwrap()))
        }
    }
}

/// Runs one callback at a time, in whichever shard.
#[derive(Default)]
struct InTurn(Mutex<()>);

impl Execute for InTurn {
    fn execute(&self, job: Job) {
        let _turn = self.0.lock();
        job();
    }
}

/// Has a thread of its own run the jobs. The thread ends when the timer has dropped the executor.
struct Later(mpsc::Sender<Job>);

impl Later {
    fn start(name: &str) -> Self {
        let (jobs, received) = mpsc::channel::<Job>();
        let run = move || received.into_iter().for_each(|job| job());
        thread::Builder::new().name(name.to_owned()).spawn(run).unwrap();
        Self(jobs)
    }
}

impl Execute for Later {
    fn execute(&self, job: Job) {
        self.0.send(job).expect("its thread outlives it");
    }
}

/// Runs one callback at a time, but drops one job in some.
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

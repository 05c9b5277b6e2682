//! Threads that come and go: what the first and the last use of a timer costs a thread, and what ended threads leave
//! behind. A test binary of its own, because it counts allocations; its tests run one at a time.
#![cfg(feature = "std")]

mod common;
#[allow(dead_code)]
#[path = "common/counting_allocator.rs"]
mod counting_allocator;

use std::cell::RefCell;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use common::*;
use corewheel::{Execute, Executor, Timer};
use counting_allocator::{ALLOCATED, ALLOCATED_HERE, alone};

/// Threads that live until `end` is called.
struct ThreadGroup {
    end: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl ThreadGroup {
    /// Starts `count` threads, each of which has called `f` when this returns.
    fn start(count: usize, f: impl Fn() + Send + Sync + 'static) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let f = Arc::new(f);
        let (sender, receiver) = mpsc::channel();
        let start = |_| {
            let (end, f, sender) = (end.clone(), f.clone(), sender.clone());
            let live = move || {
                f();
                sender.send(()).unwrap();
                while !end.load(Ordering::Acquire) {
                    thread::park();
                }
            };
            thread::Builder::new().stack_size(64 << 10).spawn(live).unwrap()
        };
        let threads = (0..count).map(start).collect();
        (0..count).for_each(|_| receiver.recv().unwrap());
        Self { end, threads }
    }

    fn end(self) {
        self.end.store(true, Ordering::Release);
        self.threads.iter().for_each(|thread| thread.thread().unpark());
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

/// Calls a function when it is dropped.
struct AtExit(Box<dyn Fn()>);

impl Drop for AtExit {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Returns how many bytes a new thread allocates: for its first use of the timer, and from then until it has ended.
fn first_and_last_use(timer: &Timer) -> [usize; 2] {
    thread_local! {
        static AT_EXIT: RefCell<Option<AtExit>> = const { RefCell::new(None) };
    }
    let timer = timer.clone();
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn(move || {
        let begin = Arc::new(AtomicU64::new(0));
        let (from, ended) = (begin.clone(), sender.clone());
        // Destructors run in the reverse order of first use, so this one runs after the crate's own.
        let report = move || ended.send(ALLOCATED_HERE.get() - from.load(Ordering::Relaxed) as usize).unwrap();
        AT_EXIT.set(Some(AtExit(Box::new(report))));
        let before = ALLOCATED_HERE.get();
        assert!(timer.schedule(HOUR, || ()).unwrap().cancel());
        sender.send(ALLOCATED_HERE.get() - before).unwrap();
        drop(timer);
        begin.store(ALLOCATED_HERE.get() as u64, Ordering::Relaxed);
    });
    thread.join().unwrap();
    [receiver.recv().unwrap(), receiver.recv().unwrap()]
}

type Job = Box<dyn FnOnce() + Send>;

/// Passes the jobs to its threads in turn.
struct RoundRobin {
    threads: Mutex<Vec<mpsc::Sender<Job>>>,
    turn: AtomicU64,
}

impl Execute for RoundRobin {
    fn execute(&self, job: Job) {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) as usize;
        let threads = self.threads.lock().unwrap();
        threads[turn % threads.len()].send(job).unwrap();
    }
}

/// Returns a timer with one shard for which each of `count` threads has run a callback. The threads end when the
/// executor drops their channels.
fn run_by(count: usize) -> (Timer, Arc<RoundRobin>, Vec<JoinHandle<()>>) {
    let (threads, joins): (Vec<_>, Vec<_>) = (0..count)
        .map(|_| {
            let (sender, jobs) = mpsc::channel::<Job>();
            let work = move || jobs.into_iter().for_each(|job| job());
            (sender, thread::Builder::new().stack_size(256 << 10).spawn(work).unwrap())
        })
        .unzip();
    let executor = Arc::new(RoundRobin { threads: Mutex::new(threads), turn: AtomicU64::new(0) });
    let timer = Timer::builder().shards(1).executor(Executor::Custom(executor.clone())).build().unwrap();
    for runs in 1..=count as u64 {
        timer.schedule(Duration::ZERO, || ()).unwrap();
        eventually("the callback has run", || timer.is_empty());
        assert_eq!(timer.stats().fired, runs);
    }
    (timer, executor, joins)
}

/// Promise: counts are exact.
#[test]
fn first_and_last_use_cost_the_same_beside_any_number_of_threads() {
    alone(|| {
        let costs = [10, 500].map(|count| {
            let timer = Timer::builder().shards(1).build().unwrap();
            let used = timer.clone();
            let crowd = ThreadGroup::start(count, move || assert!(used.schedule(HOUR, || ()).unwrap().cancel()));
            let costs = first_and_last_use(&timer);
            crowd.end();
            costs
        });
        // A list of the threads would take 4 kB; nothing else depends on their number.
        let [few, many] = costs;
        assert!(
            many[0] < few[0] + 1000 && many[1] < few[1] + 1000,
            "bytes beside few threads: {few:?}, beside many: {many:?}"
        );
    });
}

/// Promise: counts are exact.
#[test]
fn the_memory_of_a_peak_of_threads_is_freed() {
    const THREADS: usize = 300;
    alone(|| {
        let (timer, executor, threads) = run_by(THREADS);
        let peak = ALLOCATED.load(Ordering::Relaxed);
        executor.threads.lock().unwrap().clear();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        // The data of some threads is retained for later threads. Each has a histogram of 4 KiB.
        let least = (THREADS - 50) as isize * 4096;
        eventually("the data of the threads is freed", || peak - ALLOCATED.load(Ordering::Relaxed) >= least);
        let stats = timer.stats();
        assert_eq!((stats.fired, stats.lateness.count()), (THREADS as u64, THREADS as u64));
        assert_balanced(&timer);
    });
}

#[test]
fn len_is_empty_and_debug_copy_no_histogram() {
    const THREADS: usize = 100;
    alone(|| {
        let (timer, ..) = run_by(THREADS);
        let allocated = |f: &dyn Fn()| {
            let before = ALLOCATED_HERE.get();
            f();
            ALLOCATED_HERE.get() - before
        };
        timer.schedule(HOUR, || ()).unwrap();
        assert_eq!((timer.len(), timer.is_empty()), (1, false));
        // A histogram takes 4 KiB.
        let most = THREADS * 64;
        let calls: [&dyn Fn(); 3] = [&|| _ = black_box(timer.len()), &|| _ = black_box(timer.is_empty()), &|| {
            _ = black_box(format!("{timer:?}"))
        }];
        for call in calls {
            let allocated = allocated(call);
            assert!(allocated < most, "{allocated} bytes");
        }
    });
}

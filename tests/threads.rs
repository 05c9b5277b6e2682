//! Threads that come and go: what the first and the last use of a timer costs a thread, and what ended threads leave. A test
//! binary of its own, as it counts allocations, and so its tests run one at a time.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use common::*;
use corewheel::{Execute, Executor, Timer};

struct Counting;

/// The memory that the allocator has given out.
static ALLOCATED: AtomicIsize = AtomicIsize::new(0);

thread_local! {
    /// The memory that the calling thread has ever been given. It has no destructor, so it is there until the end.
    static GIVEN: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: all is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size() as isize, Ordering::Relaxed);
        GIVEN.set(GIVEN.get() + layout.size());
        // SAFETY: by this function's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: by this function's contract.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn alone<R>(f: impl FnOnce() -> R) -> R {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    f()
}

/// Threads that live until they are told to end.
struct Crowd {
    end: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Crowd {
    /// Starts so many threads, each of which calls `f` before this returns.
    fn start(count: usize, f: impl Fn() + Send + Sync + 'static) -> Self {
        let (end, f, (sender, receiver)) = (Arc::new(AtomicBool::new(false)), Arc::new(f), mpsc::channel());
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

/// How much memory a new thread is given, by bytes: for its first use of the timer, and until it has ended.
fn first_and_last_use(timer: &Timer) -> [usize; 2] {
    thread_local! {
        static AT_EXIT: RefCell<Option<AtExit>> = const { RefCell::new(None) };
    }
    let (timer, (sender, receiver)) = (timer.clone(), mpsc::channel());
    let thread = thread::spawn(move || {
        let begin = Arc::new(AtomicU64::new(0));
        let (from, ended) = (begin.clone(), sender.clone());
        // Destructors run in the reverse order of the first use, so this one comes after the crate's own.
        let tell = move || ended.send(GIVEN.get() - from.load(Ordering::Relaxed) as usize).unwrap();
        AT_EXIT.set(Some(AtExit(Box::new(tell))));
        let before = GIVEN.get();
        assert!(timer.schedule(HOUR, || ()).unwrap().cancel());
        sender.send(GIVEN.get() - before).unwrap();
        drop(timer);
        begin.store(GIVEN.get() as u64, Ordering::Relaxed);
    });
    thread.join().unwrap();
    [receiver.recv().unwrap(), receiver.recv().unwrap()]
}

type Job = Box<dyn FnOnce() + Send>;

/// Hands each job to the next of some threads.
struct ByTurns {
    threads: Mutex<Vec<mpsc::Sender<Job>>>,
    turn: AtomicU64,
}

impl Execute for ByTurns {
    fn execute(&self, job: Job) {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) as usize;
        let threads = self.threads.lock().unwrap();
        threads[turn % threads.len()].send(job).unwrap();
    }
}

/// A timer of one shard, for which each of so many threads has run a callback. They end when the executor forgets them.
fn run_by(count: usize) -> (Timer, Arc<ByTurns>, Vec<JoinHandle<()>>) {
    let (threads, joins): (Vec<_>, Vec<_>) = (0..count)
        .map(|_| {
            let (sender, jobs) = mpsc::channel::<Job>();
            let work = move || jobs.into_iter().for_each(|job| job());
            (sender, thread::Builder::new().stack_size(256 << 10).spawn(work).unwrap())
        })
        .unzip();
    let executor = Arc::new(ByTurns { threads: Mutex::new(threads), turn: AtomicU64::new(0) });
    let timer = Timer::builder().shards(1).executor(Executor::Custom(executor.clone())).build().unwrap();
    for runs in 1..=count as u64 {
        timer.schedule(Duration::ZERO, || ()).unwrap();
        eventually("it has run", || timer.is_empty());
        assert_eq!(timer.stats().fired, runs);
    }
    (timer, executor, joins)
}

#[test]
fn first_and_last_use_cost_the_same_beside_any_number_of_threads() {
    alone(|| {
        let costs = [10, 500].map(|count| {
            let timer = Timer::builder().shards(1).build().unwrap();
            let used = timer.clone();
            let crowd = Crowd::start(count, move || assert!(used.schedule(HOUR, || ()).unwrap().cancel()));
            let costs = first_and_last_use(&timer);
            crowd.end();
            costs
        });
        // A list of the threads would be one of 4 kB, and nothing else could depend on their number.
        let [few, many] = costs;
        assert!(many[0] < few[0] + 1000 && many[1] < few[1] + 1000, "bytes beside few {few:?}, beside many {many:?}");
    });
}

#[test]
fn the_memory_of_a_peak_of_threads_is_freed() {
    const THREADS: usize = 300;
    alone(|| {
        let (timer, executor, threads) = run_by(THREADS);
        let peak = ALLOCATED.load(Ordering::Relaxed);
        executor.threads.lock().unwrap().clear();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        // Some are retained for the next threads. A histogram is one of 4 KiB.
        let least = (THREADS - 50) as isize * 4096;
        eventually("it is freed", || peak - ALLOCATED.load(Ordering::Relaxed) >= least);
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
        let given = |f: &dyn Fn()| {
            let before = GIVEN.get();
            f();
            GIVEN.get() - before
        };
        timer.schedule(HOUR, || ()).unwrap();
        assert_eq!((timer.len(), timer.is_empty()), (1, false));
        // A histogram is one of 4 KiB.
        let most = THREADS * 64;
        let calls: [&dyn Fn(); 3] = [&|| _ = black_box(timer.len()), &|| _ = black_box(timer.is_empty()), &|| {
            _ = black_box(format!("{timer:?}"))
        }];
        for call in calls {
            let given = given(call);
            assert!(given < most, "{given} bytes");
        }
    });
}

//! Soft timers as in an embedded system: one hardware timer ticks, and all other timers count its ticks.
//!
//! ```text
//! cargo run --release --example soft_timers
//! ```
//!
//! After chapter 11 of *Real-Time Concepts for Embedded Systems* (Li and Yao): an interrupt only counts ticks. A task
//! advances a wheel of a few slots by these ticks, and calls the handlers of the timers that expire. The book names
//! three problems of such a wheel. This example shows their solutions:
//!
//! - *Overflow.* 8 slots of 10 ms reach 70 ms. The book keeps later timers in a sorted buffer beside the wheel. Here
//!   they wait at the next level, where a slot spans a turn of the level below.
//! - *A late handler.* The book calls the handlers of a slot one after another, so a slow handler delays the others.
//!   Here they run on a pool. One handler waits until all other timers have had all their runs, and delays none of
//!   them.
//! - *Precision.* A duration that starts between two ticks could count from the last tick or from the next. Here its
//!   end is rounded up. So no run is early. A run is late by up to a tick, and by the time in which the machine wakes two
//!   threads. The task catches up with ticks that were announced late.

mod options;
#[macro_use]
mod output;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use corewheel::Wheel;
use corewheel::rayon::{ThreadPool, ThreadPoolBuilder};
use hdrhistogram::Histogram;

const TICK: Duration = Duration::from_millis(10);
const SLOTS: usize = 8;
/// Maximum time that the late handler waits for each run of another timer.
const RUN_LIMIT: Duration = Duration::from_secs(20);

/// Parameters of a timer. One that runs more than once does so every `after`.
struct TimerSpec {
    name: &'static str,
    after: Duration,
    runs: u32,
}

const fn spec(name: &'static str, millis: u64, runs: u32) -> TimerSpec {
    TimerSpec { name, after: Duration::from_millis(millis), runs }
}

/// The timers. The first is the one whose handler is late.
const TIMERS: [TimerSpec; 7] = [
    spec("flash write", 30, 1),
    spec("key debounce", 20, 1),
    spec("display", 50, 20),
    spec("temperature", 80, 12),
    spec("motor off", 400, 1),
    spec("watchdog", 250, 4),
    spec("report", 1000, 1),
];

fn main() {
    options::none("Runs timers beside one whose handler is late, and checks that it delays no other.");
    let pool = ThreadPoolBuilder::new().num_threads(2).build().expect("two threads");
    let timers = SoftTimers::new(pool);
    let records: Vec<_> = TIMERS.iter().map(|_| Arc::new(Mutex::new(Record::new()))).collect();
    let (done, others) = mpsc::channel();
    let (released, outcome) = mpsc::channel();
    let others = Mutex::new(others);

    println!("{:<14}{:>10}{:>8}{:>12}{:>14}", "timer", "after", "level", "slot from", "to");
    let all_ran = thread::scope(|scope| {
        let task = scope.spawn(|| timers.advance_wheel());
        let task = task.thread().clone();
        scope.spawn(|| timers.announce_ticks(task));

        let record = records[0].clone();
        let runs: u32 = TIMERS[1..].iter().map(|spec| spec.runs).sum();
        let late = move |deadline| {
            record.lock().expect("no thread panics while it has the lock").add(deadline);
            let others = others.lock().expect("no thread panics while it has the lock");
            let ran = (0..runs).take_while(|_| others.recv_timeout(RUN_LIMIT).is_ok()).count();
            released.send(ran as u32 == runs).expect("main waits");
        };
        install(&timers, &TIMERS[0], late);
        for (spec, record) in TIMERS.iter().zip(&records).skip(1) {
            let (record, done) = (record.clone(), done.clone());
            install(&timers, spec, move |deadline| {
                record.lock().expect("no thread panics while it has the lock").add(deadline);
                done.send(()).expect("the late handler waits");
            });
        }
        let all_ran = outcome.recv().expect("the late handler answers");
        timers.stopped.store(true, Ordering::Relaxed);
        all_ran
    });
    assert!(all_ran, "the late handler delayed the others");
    report(&timers, &records);
}

fn install(timers: &SoftTimers, spec: &TimerSpec, handler: impl Fn(Instant) + Send + Sync + 'static) {
    let (level, first, last) = timers.install(spec, Arc::new(handler));
    assert!(level > 0 || spec.after < SLOTS as u32 * TICK, "a timer beyond the first level waits at a higher one");
    let after = format!("{} ms", spec.after.as_millis());
    let [first, last] = [first, last].map(|tick| format!("{} ms", tick * TICK.as_millis() as u64));
    println!("{:<14}{after:>10}{level:>8}{first:>12}{last:>14}", spec.name);
}

fn report(timers: &SoftTimers, records: &[Arc<Mutex<Record>>]) {
    println!("\n{:<14}{:>10}{:>8}{:>12}{:>14}", "", "runs", "early", "late p50", "late max");
    for (spec, record) in TIMERS.iter().zip(records) {
        let Record { early, late } = &*record.lock().expect("no thread panics while it has the lock");
        let [p50, max] = [0.5, 1.0].map(|quantile| format!("{:.2} ms", late.value_at_quantile(quantile) as f64 / 1e3));
        println!("{:<14}{:>10}{early:>8}{p50:>12}{max:>14}", spec.name, late.len());
        assert_eq!((late.len(), *early), (u64::from(spec.runs), 0), "{}", spec.name);
    }
    let [ticks, delayed] = [&timers.ticks, &timers.delayed].map(|count| count.load(Ordering::Relaxed));
    println!("\n{ticks} ticks of {TICK:?}, {delayed} of them announced over a tick late");
    println!("ok: the flash write ended last; every other timer had all its runs before");
}

/// Earliness and lateness of a timer's runs.
struct Record {
    early: u32,
    /// Lateness in microseconds.
    late: Histogram<u64>,
}

impl Record {
    fn new() -> Self {
        Self { early: 0, late: Histogram::new(3).expect("3 significant digits are valid") }
    }

    fn add(&mut self, deadline: Instant) {
        let now = Instant::now();
        self.early += u32::from(now < deadline);
        self.late += now.saturating_duration_since(deadline).as_micros() as u64;
    }
}

type Handler = Arc<dyn Fn(Instant) + Send + Sync>;

/// A timer in the wheel.
struct Soft {
    /// Deadline of the next run: the time of the tick that it waits for, or less than a tick before.
    deadline: Instant,
    every: Duration,
    runs: u32,
    handler: Handler,
}

struct SoftTimers {
    start: Instant,
    /// Number of announced ticks.
    ticks: AtomicU64,
    delayed: AtomicU64,
    stopped: AtomicBool,
    wheel: Mutex<Wheel<Soft>>,
    pool: ThreadPool,
}

impl SoftTimers {
    fn new(pool: ThreadPool) -> Self {
        let [ticks, delayed] = [0, 0].map(AtomicU64::new);
        let wheel = Mutex::new(Wheel::with_levels(0, &[SLOTS]).expect("eight slots are a valid level"));
        Self { start: Instant::now(), ticks, delayed, stopped: AtomicBool::new(false), wheel, pool }
    }

    /// The interrupt: counts a tick and wakes the task.
    fn announce_ticks(&self, task: Thread) {
        for tick in 1.. {
            let due = self.start + TICK * tick;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            self.delayed.fetch_add(u64::from(due.elapsed() > TICK), Ordering::Relaxed);
            self.ticks.store(tick.into(), Ordering::Release);
            // Read before the wake-up, so that the task finds `stopped` set when it is unparked for the last time.
            let stopped = self.stopped.load(Ordering::Relaxed);
            task.unpark();
            if stopped {
                return;
            }
        }
    }

    /// The task: advances the wheel to the announced tick, and passes expired timers to the pool.
    fn advance_wheel(&self) {
        while !self.stopped.load(Ordering::Relaxed) {
            thread::park();
            let mut due = Vec::new();
            let mut wheel = self.wheel.lock().expect("no thread panics while it has the lock");
            wheel.advance(self.ticks.load(Ordering::Acquire), |_, timer| due.push(timer));
            for timer in due {
                let handler = timer.handler.clone();
                let deadline = timer.deadline;
                self.pool.spawn(move || handler(deadline));
                if timer.runs > 1 {
                    let deadline = deadline + timer.every;
                    wheel.insert(self.tick_at(deadline), Soft { deadline, runs: timer.runs - 1, ..timer });
                }
            }
        }
    }

    /// Starts a timer. Returns the level at which it waits, and the first and the last tick of its slot.
    fn install(&self, spec: &TimerSpec, handler: Handler) -> (usize, u64, u64) {
        let mut wheel = self.wheel.lock().expect("no thread panics while it has the lock");
        let deadline = Instant::now() + spec.after;
        let key = wheel.insert(self.tick_at(deadline), Soft { deadline, every: spec.after, runs: spec.runs, handler });
        wheel.position(key).expect("the timer has not expired yet")
    }

    /// Returns the first tick that is not earlier than `at`.
    fn tick_at(&self, at: Instant) -> u64 {
        (at - self.start).as_nanos().div_ceil(TICK.as_nanos()) as u64
    }
}

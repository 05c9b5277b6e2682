//! Soft timers as an embedded system has them: one hardware timer ticks, and all others are counted in its ticks.
//!
//! ```text
//! cargo run --release --example soft_timers
//! ```
//!
//! After chapter 11 of *Real-Time Concepts for Embedded Systems* (Li and Yao): an interrupt counts ticks and does
//! nothing else; a task turns a wheel of a few slots by as much, and calls the handlers of what is due. The book names
//! three troubles of such a wheel. Here is what becomes of them:
//!
//! - *Overflow.* 8 slots of 10 ms reach 70 ms. The book keeps what is beyond in a sorted buffer beside the wheel. Here
//!   it waits at the next level, where a slot spans a turn of the level below.
//! - *A late handler.* The handlers of a slot are called one after another, so that one which takes its time delays the
//!   others. Here they run on a pool. One of them does not end before all others have had all their runs; and they do.
//! - *Precision.* Does a time that is set between two ticks count from the last, or from the next? Here it is rounded
//!   up: no run is early, and none is later than a tick and what the system takes to wake two threads. Ticks that were
//!   announced late are made up for.

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
/// For how long the late handler waits for the others: only what never comes takes longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// What is wanted of a timer. One that runs more than once does so every `after`.
struct Wish {
    name: &'static str,
    after: Duration,
    runs: u32,
}

const fn wish(name: &'static str, millis: u64, runs: u32) -> Wish {
    Wish { name, after: Duration::from_millis(millis), runs }
}

/// The first is the one whose handler is late.
const WISHES: [Wish; 7] = [
    wish("flash write", 30, 1),
    wish("key debounce", 20, 1),
    wish("display", 50, 20),
    wish("temperature", 80, 12),
    wish("motor off", 400, 1),
    wish("watchdog", 250, 4),
    wish("report", 1000, 1),
];

fn main() {
    let pool = ThreadPoolBuilder::new().num_threads(2).build().expect("two threads");
    let timers = SoftTimers::new(pool);
    let records: Vec<_> = WISHES.iter().map(|_| Arc::new(Mutex::new(Record::new()))).collect();
    let (done, others) = mpsc::channel();
    let (released, outcome) = mpsc::channel();
    let others = Mutex::new(others);

    println!("{:<14}{:>10}{:>8}{:>12}{:>14}", "timer", "after", "level", "slot from", "to");
    let come = thread::scope(|scope| {
        let task = scope.spawn(|| timers.turn_wheel());
        let task = task.thread().clone();
        scope.spawn(|| timers.announce_ticks(task));

        let record = records[0].clone();
        let runs: u32 = WISHES[1..].iter().map(|wish| wish.runs).sum();
        let late = move |asked| {
            record.lock().expect("a lock").add(asked);
            let others = others.lock().expect("a lock");
            let come = (0..runs).take_while(|_| others.recv_timeout(PATIENCE).is_ok()).count();
            released.send(come as u32 == runs).expect("main waits");
        };
        install(&timers, &WISHES[0], late);
        for (wish, record) in WISHES.iter().zip(&records).skip(1) {
            let (record, done) = (record.clone(), done.clone());
            install(&timers, wish, move |asked| {
                record.lock().expect("a lock").add(asked);
                done.send(()).expect("the late handler waits");
            });
        }
        let come = outcome.recv().expect("the late handler answers");
        timers.stopped.store(true, Ordering::Relaxed);
        come
    });
    assert!(come, "the late handler has delayed the others");
    report(&timers, &records);
}

fn install(timers: &SoftTimers, wish: &Wish, handler: impl Fn(Instant) + Send + Sync + 'static) {
    let (level, first, last) = timers.install(wish, Arc::new(handler));
    assert!(level > 0 || wish.after < SLOTS as u32 * TICK, "more than the first level reaches");
    let after = format!("{} ms", wish.after.as_millis());
    let [first, last] = [first, last].map(|tick| format!("{} ms", tick * TICK.as_millis() as u64));
    println!("{:<14}{after:>10}{level:>8}{first:>12}{last:>14}", wish.name);
}

fn report(timers: &SoftTimers, records: &[Arc<Mutex<Record>>]) {
    println!("\n{:<14}{:>10}{:>8}{:>12}{:>14}", "", "runs", "early", "late p50", "late max");
    for (wish, record) in WISHES.iter().zip(records) {
        let Record { early, late } = &*record.lock().expect("a lock");
        let [p50, max] = [0.5, 1.0].map(|quantile| format!("{:.2} ms", late.value_at_quantile(quantile) as f64 / 1e3));
        println!("{:<14}{:>10}{early:>8}{p50:>12}{max:>14}", wish.name, late.len());
        assert_eq!((late.len(), *early), (u64::from(wish.runs), 0), "{}", wish.name);
    }
    let [ticks, delayed] = [&timers.ticks, &timers.delayed].map(|count| count.load(Ordering::Relaxed));
    println!("\n{ticks} ticks of {TICK:?}, {delayed} of them announced over a tick late");
    println!("ok: the flash write ended last, and every other timer had all its runs meanwhile");
}

/// How a timer's runs began.
struct Record {
    early: u32,
    /// In microseconds.
    late: Histogram<u64>,
}

impl Record {
    fn new() -> Self {
        Self { early: 0, late: Histogram::new(3).expect("three digits are possible") }
    }

    fn add(&mut self, asked: Instant) {
        let now = Instant::now();
        self.early += u32::from(now < asked);
        self.late += now.saturating_duration_since(asked).as_micros() as u64;
    }
}

type Handler = Arc<dyn Fn(Instant) + Send + Sync>;

/// A timer in the wheel.
struct Soft {
    /// When it was asked to run next: at the tick that it waits for, or less than a tick before.
    asked: Instant,
    every: Duration,
    runs: u32,
    handler: Handler,
}

struct SoftTimers {
    start: Instant,
    /// How many ticks have been announced.
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

    /// The interrupt: it counts, and makes the task ready.
    fn announce_ticks(&self, task: Thread) {
        for tick in 1.. {
            let due = self.start + TICK * tick;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            self.delayed.fetch_add(u64::from(due.elapsed() > TICK), Ordering::Relaxed);
            self.ticks.store(tick.into(), Ordering::Release);
            // Asked first, so that the task, too, finds it stopped when it is unparked for the last time.
            let stopped = self.stopped.load(Ordering::Relaxed);
            task.unpark();
            if stopped {
                return;
            }
        }
    }

    /// The task: it turns the wheel by the ticks announced since, and hands over what is due.
    fn turn_wheel(&self) {
        while !self.stopped.load(Ordering::Relaxed) {
            thread::park();
            let mut due = Vec::new();
            let mut wheel = self.wheel.lock().expect("a lock");
            wheel.advance(self.ticks.load(Ordering::Acquire), |_, timer| due.push(timer));
            for timer in due {
                let (handler, asked) = (timer.handler.clone(), timer.asked);
                self.pool.spawn(move || handler(asked));
                if timer.runs > 1 {
                    let asked = asked + timer.every;
                    wheel.insert(self.tick_at(asked), Soft { asked, runs: timer.runs - 1, ..timer });
                }
            }
        }
    }

    /// Starts a timer. Where it waits: the level, and the first and the last tick of the slot.
    fn install(&self, wish: &Wish, handler: Handler) -> (usize, u64, u64) {
        let mut wheel = self.wheel.lock().expect("a lock");
        let asked = Instant::now() + wish.after;
        let key = wheel.insert(self.tick_at(asked), Soft { asked, every: wish.after, runs: wish.runs, handler });
        wheel.position(key).expect("it is not due yet")
    }

    /// The first tick that is not earlier.
    fn tick_at(&self, at: Instant) -> u64 {
        (at - self.start).as_nanos().div_ceil(TICK.as_nanos()) as u64
    }
}

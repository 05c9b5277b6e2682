//! The workloads, and which of their steps are counted.

extern crate alloc;

// The real standard library's `Arc`: accesses by the harness are not recorded.
use alloc::sync::Arc;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use coherence::count;
use coherence::schedule;

use crate::contender::Timers;
use crate::measured::Measured;

/// Number of live timers of a thread in W1, as in `benches/compare`.
const RING: usize = 256;
/// Virtual time of an operation, in nanoseconds, if the threads do nothing else.
const OPERATION: u64 = 100;
const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
/// The shortest and the longest timeout of a server in W1.
const TIMEOUTS: (u64, u64) = (5 * SECOND, 30 * SECOND);
/// Maximum lateness of the end of a timer.
const LATENESS: Duration = Duration::from_millis(5);
const STANDING: u64 = 30 * 60 * SECOND;
const MINUTE: u64 = 60 * SECOND;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// Pairs of `schedule` and `cancel`, 10 million a second and thread, between two wake-ups of the driver
    W1,
    /// The same at 20 pairs a second and thread, so that the driver handles each timer
    W1Slow,
    /// A burst of timers, which are then cancelled in random order
    W2,
    /// Resets of standing timers to a later deadline
    W4,
    /// Pairs whose timer is scheduled by one thread and cancelled by the next
    Handed,
    /// Timers from 1 to 100 ms; one in ten fires, the others are cancelled at half their delay
    Mixed,
}

/// Parameters of the order in which the threads take turns.
#[derive(Clone, Copy)]
pub struct Order {
    pub seed: u64,
    pub mean_turn: u64,
}

/// A part of a workload. All threads start it when all have ended the previous one, and the timer's threads sleep.
struct Step<T: Timers> {
    /// Name of the operation; `None` if the step is not counted.
    name: Option<&'static str>,
    /// Number of operations of each thread.
    operations: u64,
    act: fn(&mut Caller<T>, u64),
}

/// One thread.
struct Caller<T: Timers> {
    timer: Arc<T>,
    threads: u64,
    random: u64,
    handles: Vec<T::Handle>,
    /// Timers to cancel by the time of the cancel, each with its deadline.
    timed: BTreeMap<(Instant, u64), (T::Handle, Instant)>,
    inboxes: Inboxes<T::Handle>,
    thread: usize,
}

/// The handles that were passed to each thread.
type Inboxes<H> = Arc<[Mutex<VecDeque<H>>]>;

impl Workload {
    pub fn run<T: Timers>(self, threads: usize, order: Order, start: impl FnOnce() -> T) -> Vec<Measured> {
        let not_counted = |operations, act| Step { name: None, operations, act };
        let counted = |name, operations, act| Step { name: Some(name), operations, act };
        let steps: Vec<Step<T>> = match self {
            Self::W1 => vec![
                not_counted(RING as u64, Caller::fill_short),
                not_counted(64, Caller::churn),
                counted("W1: a pair", 512, Caller::churn),
            ],
            Self::W1Slow => vec![
                not_counted(RING as u64 / 4, Caller::fill),
                not_counted(600, Caller::churn_slowly),
                counted("W1, slow: a pair", 1000, Caller::churn_slowly),
            ],
            Self::W2 => vec![
                counted("W2: a `schedule`", 1024, Caller::burst),
                counted("W2: a `cancel`", 1024, Caller::cancel_in_random_order),
            ],
            Self::W4 => vec![
                not_counted(RING as u64, Caller::connect),
                not_counted(RING as u64, Caller::reset),
                counted("W4: a `reset`", 1024, Caller::reset),
            ],
            Self::Handed => vec![
                not_counted(512, Caller::pass_on),
                counted("handed on: a pair", 512, Caller::pass_on),
                not_counted(0, Caller::accept),
            ],
            Self::Mixed => {
                vec![not_counted(500, Caller::open_loop), counted("mixed: a timer", 1000, Caller::open_loop)]
            }
        };
        play(threads, order, start, steps)
    }
}

fn play<T: Timers>(threads: usize, order: Order, start: impl FnOnce() -> T, steps: Vec<Step<T>>) -> Vec<Measured> {
    coherence::simulate(order.seed, order.mean_turn, || {
        let timer = Arc::new(start());
        let steps = Arc::new(steps);
        let inboxes: Inboxes<T::Handle> = (0..threads).map(|_| Mutex::default()).collect();
        let callers: Vec<_> = (0..threads)
            .map(|thread| {
                let (timer, steps, inboxes) = (timer.clone(), steps.clone(), inboxes.clone());
                thread::spawn(move || {
                    count::caller();
                    let mut caller = Caller::new(timer, thread, threads, inboxes);
                    for (number, step) in (1..).zip(&*steps) {
                        schedule::wait_for_phase(number);
                        (step.act)(&mut caller, step.operations);
                    }
                    schedule::wait_for_phase(steps.len() + 1);
                    caller.end();
                })
            })
            .collect();
        schedule::settle(threads);
        let mut all = Vec::new();
        for (number, step) in (1..).zip(&*steps) {
            count::begin();
            schedule::begin_phase(number);
            schedule::settle(threads);
            let count = count::end();
            let operations = step.operations * threads as u64;
            all.extend(step.name.map(|name| Measured::new(name, count, operations)));
        }
        schedule::begin_phase(steps.len() + 1);
        callers.into_iter().for_each(|caller| caller.join().expect("a caller does not panic"));
        all
    })
}

impl<T: Timers> Caller<T> {
    fn new(timer: Arc<T>, thread: usize, threads: usize, inboxes: Inboxes<T::Handle>) -> Self {
        let random = (thread as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let handles = Vec::new();
        let timed = BTreeMap::new();
        Self { timer, threads: threads as u64, random, handles, timed, inboxes, thread }
    }

    /// Cancels a timer that must be pending.
    fn cancel(&self, handle: T::Handle) {
        assert!(self.timer.cancel(handle), "the timer is pending");
    }

    /// Returns a random number below `end`.
    fn random(&mut self, end: u64) -> u64 {
        // Xorshift.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % end
    }

    fn between(&mut self, (from, to): (u64, u64)) -> Duration {
        Duration::from_nanos(from + self.random(to - from))
    }

    /// Advances the time by an operation, divided by the number of threads, because these operate in parallel.
    fn pass(&self) {
        schedule::pass((OPERATION / self.threads).max(1));
    }

    /// Sleeps until a random time in period `number`, for the operation with this number. Time passes when all threads
    /// sleep.
    fn sleep(&mut self, began: Instant, number: u64, period: u64) {
        let at = began + Duration::from_nanos(number * period + self.random(period));
        schedule::sleep(at.saturating_duration_since(Instant::now()).as_nanos() as u64);
    }

    fn schedule_more(&mut self, timers: u64, delays: (u64, u64)) {
        for _ in 0..timers {
            let delay = self.between(delays);
            self.handles.push(self.timer.schedule(delay));
            self.pass();
        }
    }

    /// Makes the state after many pairs: each timer is registered for the shortest delay so far. Frees one more entry,
    /// because a pair starts with its `schedule`.
    fn fill_short(&mut self, timers: u64) {
        self.schedule_more(timers + 1, (TIMEOUTS.0, TIMEOUTS.0 + 1));
        let extra = self.handles.pop().expect("at least one timer");
        self.cancel(extra);
    }

    fn fill(&mut self, timers: u64) {
        self.schedule_more(timers, TIMEOUTS);
    }

    fn pair(&mut self, number: u64) {
        let delay = self.between(TIMEOUTS);
        let new = self.timer.schedule(delay);
        let oldest = number as usize % self.handles.len();
        let oldest = std::mem::replace(&mut self.handles[oldest], new);
        self.cancel(oldest);
    }

    fn churn(&mut self, pairs: u64) {
        for number in 0..pairs {
            self.pair(number);
            self.pass();
        }
    }

    fn churn_slowly(&mut self, pairs: u64) {
        let began = Instant::now();
        for number in 0..pairs {
            self.sleep(began, number, SECOND / 20);
            self.pair(number);
        }
    }

    fn burst(&mut self, timers: u64) {
        self.schedule_more(timers, (STANDING - MINUTE, STANDING + MINUTE));
    }

    fn cancel_in_random_order(&mut self, timers: u64) {
        for left in (1..=timers).rev() {
            let any = self.random(left) as usize;
            let handle = self.handles.swap_remove(any);
            self.cancel(handle);
            self.pass();
        }
    }

    fn connect(&mut self, timers: u64) {
        self.schedule_more(timers, (MINUTE, MINUTE + 1));
    }

    fn reset(&mut self, times: u64) {
        for _ in 0..times {
            let any = self.random(RING as u64) as usize;
            self.timer.reset(&mut self.handles[any], Duration::from_nanos(MINUTE));
            self.pass();
        }
    }

    /// Schedules 5,000 timers a second, and cancels most of them, as in W6.
    fn open_loop(&mut self, timers: u64) {
        let began = Instant::now();
        for number in 0..timers {
            self.sleep(began, number, SECOND / 5000);
            let now = Instant::now();
            while let Some(first) = self.timed.first_entry()
                && first.key().0 <= now
            {
                let (handle, deadline) = first.remove();
                let was_pending = self.timer.cancel(handle);
                assert!(was_pending || now >= deadline, "the timer has ended too early");
                assert!(!was_pending || now < deadline + LATENESS, "the timer has not ended");
            }
            // Log-uniform.
            let delay =
                Duration::from_millis(1).mul_f64(100_f64.powf(self.random(1 << 20) as f64 / f64::from(1 << 20)));
            let fires = self.random(10) == 0;
            let handle = self.timer.schedule(delay);
            let ends = if fires { delay + LATENESS } else { delay / 2 };
            self.timed.insert((now + ends, number), (handle, now + delay));
        }
    }

    /// Schedules for the next thread, and cancels what the thread before has scheduled.
    fn pass_on(&mut self, pairs: u64) {
        for _ in 0..pairs {
            let handle = self.timer.schedule(Duration::from_nanos(TIMEOUTS.1));
            let next = (self.thread + 1) % self.inboxes.len();
            let oldest = count::silently(|| {
                self.inboxes[next].lock().expect("no thread panics while it has the lock").push_back(handle);
                let mut own = self.inboxes[self.thread].lock().expect("as above");
                (own.len() > RING / 4).then(|| own.pop_front()).flatten()
            });
            if let Some(handle) = oldest {
                self.cancel(handle);
            }
            self.pass();
        }
    }

    fn accept(&mut self, _: u64) {
        let own = count::silently(|| {
            std::mem::take(&mut *self.inboxes[self.thread].lock().expect("no thread panics while it has the lock"))
        });
        self.handles.extend(own);
    }

    fn end(mut self) {
        let timed = std::mem::take(&mut self.timed).into_values().map(|(handle, _)| handle);
        self.handles.drain(..).chain(timed).for_each(|handle| _ = self.timer.cancel(handle));
    }
}

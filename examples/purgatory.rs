//! Kafka's purgatory: requests that wait for an event, each with a timeout that is almost always cancelled.
//!
//! ```text
//! cargo run --release --example purgatory
//! cargo run --release --example purgatory -- --rate 100000 --timeout 500 --seconds 5
//! ```
//!
//! A broker delays a produce request until the replicas have the data. Kafka keeps such requests in a
//! `DelayedOperationPurgatory`, whose `SystemTimer` is a hierarchical `TimingWheel` with a queue of buckets. The levels
//! of this crate's wheel are sliding windows like Kafka's. This example builds that timer on a [`Wheel`], with its
//! operations: `add`, `cancel`, `size`, and an `advance` that waits for a limited time. A reaper thread calls `advance`
//! in a loop, and passes expired timers to an executor.
//!
//! The load is like that of Kafka's own benchmark. Requests arrive at random, whether or not earlier ones are done (an
//! open loop). They complete after a log-normal time, given by two of its percentiles. The answer to a request may race
//! with its timeout: exactly one of them ends the request.

mod options;
#[macro_use]
mod output;

use std::f64::consts::TAU;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use bpaf::{Parser, construct};
use corewheel::rayon::{ThreadPool, ThreadPoolBuilder};
use corewheel::{Key, Wheel};
use fastrand::Rng;
use hdrhistogram::Histogram;
use options::number_or;
use output::count;

/// Maximum wait of the reaper, the same as Kafka's.
const REAP: Duration = Duration::from_millis(200);
/// The 75th percentile of the normal distribution, in standard deviations.
const SIGMAS_TO_75: f64 = 0.674_490;
/// Time after the last timeout within which every request must end.
const END_LIMIT: Duration = Duration::from_secs(20);

struct Args {
    rate: u32,
    timeout: u32,
    pct50: f64,
    pct75: f64,
    seconds: u32,
}

fn args() -> Args {
    let rate = number_or("rate", "Requests a second, on average", 1..=1_000_000, 20_000);
    let timeout = number_or("timeout", "Timeout of a request, in milliseconds", 1..=u32::MAX, 200);
    let pct50 = number_or("pct50", "Milliseconds within which half of the requests complete", 0.001..=1e6, 20.0);
    let pct75 = number_or("pct75", "Milliseconds within which three in four requests complete", 0.001..=1e6, 60.0);
    let seconds = number_or("seconds", "Seconds in which requests arrive", 1..=600, 2);
    let description = "Runs requests that wait for their completion or their timeout. Panics if a request does not \
                       end in exactly one way, or is timed out early.";
    construct!(Args { rate, timeout, pct50, pct75, seconds }).to_options().descr(description).run()
}

fn main() {
    let args = args();
    let purgatory = Purgatory::new();
    let stopped = AtomicBool::new(false);
    let (arrived, most) = thread::scope(|scope| {
        scope.spawn(|| {
            while !stopped.load(Ordering::Relaxed) {
                purgatory.timer.advance(REAP);
            }
        });
        let load = send(&args, &purgatory);
        stopped.store(true, Ordering::Relaxed);
        load
    });
    report(arrived, most, &purgatory);
}

/// Sends requests and answers until every request has ended. Returns the number of requests, and the maximum number
/// that waited at once.
fn send(args: &Args, purgatory: &Purgatory) -> (u64, usize) {
    let timeout = Duration::from_millis(args.timeout.into());
    let median = args.pct50 / 1e3;
    let sigma = (args.pct75 / args.pct50).ln() / SIGMAS_TO_75;
    let mut rng = Rng::with_seed(50_75);
    let mut uniform = move || 1.0 - rng.f64();

    let start = Instant::now();
    let end = start + Duration::from_secs(args.seconds.into());
    let mut next = start;
    let (mut arrived, mut most) = (0, 0);
    // The requests whose answers have not come yet, by microseconds from the start.
    let mut answers = Wheel::new(0);
    loop {
        let now = Instant::now();
        while next < end.min(now) {
            let request = purgatory.accept(timeout);
            let normal = (-2.0 * uniform().ln()).sqrt() * (TAU * uniform()).cos();
            let time = Duration::try_from_secs_f64(median * (sigma * normal).exp()).unwrap_or(Duration::MAX);
            let answered = (next - start).saturating_add(time).as_micros();
            answers.insert(answered.try_into().unwrap_or(u64::MAX), request);
            next += Duration::from_secs_f64(-uniform().ln() / f64::from(args.rate));
            arrived += 1;
        }
        most = most.max(purgatory.timer.size());
        answers.advance((now - start).as_micros() as u64, |_, request| purgatory.complete(&request));
        if next >= end && purgatory.tally.left_timer() == arrived || now > end + timeout + END_LIMIT {
            return (arrived, most);
        }
        thread::sleep(Duration::from_micros(200));
    }
}

fn report(arrived: u64, most: usize, purgatory: &Purgatory) {
    let Tally { completed, expired, cancelled, taken, early, late } = &*purgatory.tally;
    let [completed, expired, cancelled, taken, early] =
        [completed, expired, cancelled, taken, early].map(|count| count.load(Ordering::Relaxed));
    let row = |name: &str, number| println!("{name:<34}{:>12}", count(number));
    row("requests", arrived);
    row("maximum waiting at once", most as u64);
    row("completed", completed);
    row("expired", expired);
    row("completed while expiring", taken - expired);

    let late = late.lock().expect("no thread panics while it has the lock");
    println!("\n{:<34}{:>12}{:>12}{:>12}", "lateness of the timeouts", "p50", "p99", "max");
    let at = |quantile| format!("{:.2} ms", late.value_at_quantile(quantile) as f64 / 1e3);
    println!("{:<34}{:>12}{:>12}{:>12}", "", at(0.5), at(0.99), at(1.0));

    assert_eq!(completed + expired, arrived, "a request ends in one way");
    assert_eq!(cancelled + taken, arrived, "a timer is either cancelled or expires");
    assert_eq!((purgatory.timer.size(), early), (0, 0), "remaining timers, and early timeouts");
    println!("\nok: each request has ended once, and none was timed out early");
}

/// A waiting request.
struct Request {
    ended: AtomicBool,
    timeout: OnceLock<Key>,
}

impl Request {
    /// Kafka's `forceComplete`: returns whether this call ended the request.
    fn end(&self) -> bool {
        !self.ended.swap(true, Ordering::AcqRel)
    }
}

struct Purgatory {
    timer: SystemTimer,
    tally: Arc<Tally>,
}

struct Tally {
    completed: AtomicU64,
    expired: AtomicU64,
    /// Timers that were cancelled.
    cancelled: AtomicU64,
    /// Timers that expired, and whose callback has run on the executor.
    taken: AtomicU64,
    early: AtomicU64,
    /// Lateness of the callbacks that ended their request, in microseconds.
    late: Mutex<Histogram<u64>>,
}

impl Tally {
    fn left_timer(&self) -> u64 {
        self.cancelled.load(Ordering::Acquire) + self.taken.load(Ordering::Acquire)
    }

    fn expire(&self, request: &Request, deadline: Instant) {
        let now = Instant::now();
        self.early.fetch_add(u64::from(now < deadline), Ordering::Relaxed);
        if request.end() {
            self.expired.fetch_add(1, Ordering::Relaxed);
            *self.late.lock().expect("no thread panics while it has the lock") +=
                now.saturating_duration_since(deadline).as_micros() as u64;
        }
        // Release: publishes the counts above to a thread that has read this one; pairs with `left_timer`.
        self.taken.fetch_add(1, Ordering::Release);
    }
}

impl Purgatory {
    fn new() -> Self {
        let [completed, expired, cancelled, taken, early] = [0; 5].map(AtomicU64::new);
        let late = Mutex::new(Histogram::new(3).expect("3 significant digits are valid"));
        let executor = ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
        let tally = Arc::new(Tally { completed, expired, cancelled, taken, early, late });
        Self { timer: SystemTimer::new(executor), tally }
    }

    fn accept(&self, timeout: Duration) -> Arc<Request> {
        let request = Arc::new(Request { ended: AtomicBool::new(false), timeout: OnceLock::new() });
        let deadline = Instant::now() + timeout;
        let (tally, expiring) = (self.tally.clone(), request.clone());
        let key = self.timer.add(deadline, Box::new(move || tally.expire(&expiring, deadline)));
        request.timeout.set(key).expect("a request is accepted once");
        request
    }

    fn complete(&self, request: &Request) {
        if request.end() {
            self.tally.completed.fetch_add(1, Ordering::Relaxed);
            let key = request.timeout.get().expect("the request has been accepted");
            self.tally.cancelled.fetch_add(u64::from(self.timer.cancel(*key)), Ordering::Relaxed);
        }
    }
}

type Task = Box<dyn FnOnce() + Send>;

/// Kafka's timer on a [`Wheel`] with ticks of a millisecond.
struct SystemTimer {
    start: Instant,
    wheel: Mutex<Wheel<Task>>,
    /// Wakes the reaper when the earliest deadline has changed.
    earlier: Condvar,
    executor: ThreadPool,
}

impl SystemTimer {
    fn new(executor: ThreadPool) -> Self {
        Self { start: Instant::now(), wheel: Mutex::new(Wheel::new(0)), earlier: Condvar::new(), executor }
    }

    fn add(&self, deadline: Instant, task: Task) -> Key {
        let tick = (deadline - self.start).as_nanos().div_ceil(1_000_000) as u64;
        let mut wheel = self.wheel();
        let next = wheel.next_deadline();
        let key = wheel.insert(tick, task);
        if wheel.next_deadline() != next {
            self.earlier.notify_one();
        }
        key
    }

    /// Cancels a timer. Returns false if it had expired.
    fn cancel(&self, key: Key) -> bool {
        let task = self.wheel().remove(key);
        task.is_some()
    }

    /// Waits at most `at_most` for timers to expire, and passes them to the executor. Returns whether any expired.
    fn advance(&self, at_most: Duration) -> bool {
        let end = Instant::now() + at_most;
        let mut expired = Vec::new();
        let mut wheel = self.wheel();
        loop {
            let now = Instant::now();
            wheel.advance((now - self.start).as_millis() as u64, |_, task| expired.push(task));
            if !expired.is_empty() || now >= end {
                break;
            }
            let next = wheel.next_deadline().map_or(end, |tick| end.min(self.start + Duration::from_millis(tick)));
            wheel = self
                .earlier
                .wait_timeout(wheel, next.saturating_duration_since(now))
                .expect("no thread panics while it has the lock")
                .0;
        }
        drop(wheel);
        let any = !expired.is_empty();
        expired.into_iter().for_each(|task| self.executor.spawn(task));
        any
    }

    fn size(&self) -> usize {
        self.wheel().len()
    }

    fn wheel(&self) -> MutexGuard<'_, Wheel<Task>> {
        self.wheel.lock().expect("no thread panics while it has the lock")
    }
}

//! Jobs that fail and are tried again, each time after a longer delay, with jitter.
//!
//! ```text
//! cargo run --release --example retry_queue
//! cargo run --release --example retry_queue -- --jobs 100000 --workers 8 --failures 70
//! ```
//!
//! A worker takes a job that is due from a [`DelayQueue`], and runs it. A job that fails goes back into the queue: after
//! its first failure it waits up to `base`, then up to twice as long, and so on up to `cap`. The delay is drawn at random
//! from that range ("full jitter"), so that jobs that failed together do not come back together. A job that has failed
//! too often is given up. Some jobs are withdrawn before they are tried again: their key removes them from the queue.
//!
//! Each job ends in exactly one way: done, given up or withdrawn. At the end the program checks this, and that no job was
//! tried early.

mod options;
#[macro_use]
mod output;

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bpaf::{Parser, construct};
use corewheel::{DelayKey, DelayQueue, Timer};
use fastrand::Rng;
use hdrhistogram::Histogram;
use options::number_or;

struct Args {
    jobs: u32,
    workers: u16,
    /// Percentage of tries that fail.
    failures: u8,
    /// Percentage of jobs that are withdrawn after their first failure.
    withdrawn: u8,
    /// Number of tries after which a job is given up.
    tries: u32,
    /// Longest delays after the first failure, and after any, in milliseconds.
    base: u64,
    cap: u64,
}

fn args() -> Args {
    let jobs = number_or("jobs", "Jobs", 1..=u32::MAX, 20_000);
    let workers = number_or("workers", "Threads that run jobs", 1..=1000, 4);
    let failures = number_or("failures", "Tries in 100 that fail", 0..=100, 50);
    let withdrawn = number_or("withdrawn", "Jobs in 100 that are withdrawn after their first failure", 0..=100, 5);
    let tries = number_or("tries", "Tries after which a job is given up", 1..=u32::MAX, 8);
    let base = number_or("base", "Longest delay after the first failure, in milliseconds", 0..=u64::MAX, 10);
    let cap = number_or("cap", "Longest delay after any failure, in milliseconds", 0..=u64::MAX, 200);
    let description = "Runs jobs that fail at random, and tries them again. Fails if a job does not end in exactly one \
                       way, or is tried early.";
    construct!(Args { jobs, workers, failures, withdrawn, tries, base, cap }).to_options().descr(description).run()
}

/// One job.
struct Job {
    id: u32,
    /// Number of tries that have failed.
    failed: u32,
    /// The job must not be tried before.
    not_before: Instant,
}

/// How the jobs ended.
#[derive(Default)]
struct Summary {
    done: AtomicUsize,
    given_up: AtomicUsize,
    withdrawn: AtomicUsize,
    tries: AtomicUsize,
    early: AtomicUsize,
    /// Sum of all delays, in microseconds.
    waited: AtomicU64,
}

struct Retries<'a> {
    args: &'a Args,
    queue: DelayQueue<Job>,
    summary: Summary,
    /// Keys of jobs that are to be withdrawn.
    unwanted: Mutex<HashMap<u32, DelayKey<Job>>>,
    timer: Timer,
}

impl Retries<'_> {
    /// Runs jobs that are due until none is left. Returns how late each was taken, in microseconds.
    fn work(&self, mut random: Rng) -> Histogram<u64> {
        let mut late = Histogram::new(3).expect("a valid precision");
        while let Some(due) = self.queue.pop() {
            let now = Instant::now();
            let job = due.value;
            let early = now < job.not_before || now < due.deadline;
            self.summary.early.fetch_add(usize::from(early), Ordering::Relaxed);
            late.saturating_record(now.saturating_duration_since(due.deadline).as_micros() as u64);
            self.try_once(job, &mut random);
        }
        late
    }

    fn try_once(&self, mut job: Job, random: &mut Rng) {
        self.summary.tries.fetch_add(1, Ordering::Relaxed);
        if random.u8(0..100) >= self.args.failures {
            return self.end(&self.summary.done);
        }
        job.failed += 1;
        if job.failed == self.args.tries {
            return self.end(&self.summary.given_up);
        }
        let delay = self.backoff(job.failed, random);
        self.summary.waited.fetch_add(delay.as_micros() as u64, Ordering::Relaxed);
        job.not_before = Instant::now() + delay;
        let id = job.id;
        let is_unwanted = job.failed == 1 && random.u8(0..100) < self.args.withdrawn;
        let key = self.queue.push(delay, job).expect("the timer runs until all jobs have ended");
        if is_unwanted {
            self.unwanted.lock().unwrap().insert(id, key);
        }
    }

    /// Returns a random delay of up to `base`, doubled for each failure after the first.
    fn backoff(&self, failed: u32, random: &mut Rng) -> Duration {
        let doubled = self.args.base.saturating_mul(1_u64.checked_shl(failed - 1).unwrap_or(u64::MAX));
        let longest = Duration::from_millis(doubled.min(self.args.cap));
        longest.mul_f64(random.f64())
    }

    /// Withdraws the jobs of which that was asked. One that has come out of the queue meanwhile goes on.
    fn withdraw(&self) {
        let unwanted = std::mem::take(&mut *self.unwanted.lock().unwrap());
        let withdrawn = unwanted.into_values().filter_map(DelayKey::remove);
        withdrawn.for_each(|_job| self.end(&self.summary.withdrawn));
    }

    /// Counts the end of a job. After the last, the shutdown ends the workers: their `pop` returns `None`.
    fn end(&self, how: &AtomicUsize) {
        how.fetch_add(1, Ordering::SeqCst);
        if self.ended() == self.args.jobs as usize {
            self.timer.shutdown();
        }
    }

    fn ended(&self) -> usize {
        let Summary { done, given_up, withdrawn, .. } = &self.summary;
        [done, given_up, withdrawn].map(|count| count.load(Ordering::SeqCst)).iter().sum()
    }
}

fn main() -> ExitCode {
    let args = args();
    let timer = Timer::new().expect("the timer starts");
    let queue = DelayQueue::new(&timer);
    let start = Instant::now();
    for id in 0..args.jobs {
        let job = Job { id, failed: 0, not_before: start };
        queue.push(Duration::ZERO, job).expect("the timer is open");
    }
    let retries = Retries { args: &args, queue, summary: Summary::default(), unwanted: Mutex::default(), timer };
    let late = thread::scope(|scope| {
        let workers: Vec<_> = (0..args.workers).map(|_| scope.spawn(|| retries.work(Rng::new()))).collect();
        while !retries.timer.is_shutdown() {
            retries.withdraw();
            thread::sleep(Duration::from_millis(1));
        }
        let mut late = Histogram::<u64>::new(3).expect("a valid precision");
        workers
            .into_iter()
            .for_each(|worker| late.add(worker.join().expect("a worker ends")).expect("the same precision"));
        late
    });
    let elapsed = start.elapsed();

    let Summary { done, given_up, withdrawn, tries, early, waited } = &retries.summary;
    let [done, given_up, withdrawn, tries, early] =
        [done, given_up, withdrawn, tries, early].map(|count| count.load(Ordering::SeqCst));
    let again = tries.saturating_sub(args.jobs as usize);
    println!("{} jobs on {} workers in {elapsed:.2?}", args.jobs, args.workers);
    println!("  done       {done}");
    println!("  given up   {given_up}, after {} failures each", args.tries);
    println!("  withdrawn  {withdrawn}");
    let mean = Duration::from_micros(waited.load(Ordering::SeqCst) / again.max(1) as u64);
    println!("  tries      {tries}, {again} of them again, after {mean:.1?} on average");
    let percentile = |percentile| Duration::from_micros(late.value_at_quantile(percentile / 100.0));
    println!("  taken      {:?} late at p50, {:?} at p99", percentile(50.0), percentile(99.0));

    let left = retries.queue.len();
    if done + given_up + withdrawn != args.jobs as usize || early > 0 || left > 0 {
        eprintln!("error: {early} tries were early, and {left} jobs are left");
        return ExitCode::FAILURE;
    }
    println!("ok: each job has ended in one way, and no try was early");
    ExitCode::SUCCESS
}

//! The cost of a growing pool where growth does not help: while other threads keep every core busy.
//!
//! Timers with and without extra threads take turns. Each fires 200,000 timers over a second, while 8 threads spin.
//!
//! ```text
//! cargo bench -p benches --bench overload
//! ```

#[path = "harness/spread.rs"]
mod spread;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use corewheel::Timer;
use spread::spread;

const TIMERS: u32 = 200_000;
const STORM: Duration = Duration::from_secs(1);
const BUSY_THREADS: usize = 8;
const ROUNDS: usize = 11;

/// The figures of one storm.
struct Storm {
    /// Processor time of the timer's own threads, in nanoseconds for each timer.
    cpu: f64,
    /// 99th percentile of lateness, in milliseconds.
    late: f64,
    extra_threads_needed: u64,
}

fn main() {
    let stop = Arc::new(AtomicBool::new(false));
    let spin = |stop: Arc<AtomicBool>| move || while !stop.load(Ordering::Relaxed) {};
    let busy: Vec<_> = (0..BUSY_THREADS).map(|_| thread::spawn(spin(stop.clone()))).collect();
    let limits = [256, 0];
    let mut storms = limits.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        for (storms, limit) in storms.iter_mut().zip(limits) {
            storms.push(storm(limit));
        }
    }
    stop.store(true, Ordering::Relaxed);
    busy.into_iter().for_each(|busy| busy.join().expect("a spinning thread does not panic"));
    println!("| maximum extra threads | CPU ns a timer | ms late, p99 | times that an extra thread was needed |");
    println!("|---:|---:|---:|---:|");
    for (storms, limit) in storms.iter().zip(limits) {
        let cpu = spread(storms.iter().map(|storm| storm.cpu), 3);
        let late = spread(storms.iter().map(|storm| storm.late), 3);
        let needed: u64 = storms.iter().map(|storm| storm.extra_threads_needed).sum();
        println!("| {limit} | {cpu} | {late} | {needed} |");
    }
}

fn storm(max_extra_threads: usize) -> Storm {
    let timer = Timer::builder().max_extra_threads(max_extra_threads).build().expect("the timer starts");
    let start = timer.now();
    for number in 0..TIMERS {
        timer.schedule_at(start + STORM / TIMERS * number, || ()).expect("the timer is open");
    }
    while timer.stats().completed < u64::from(TIMERS) {
        thread::sleep(Duration::from_millis(10));
    }
    let stats = timer.stats();
    Storm {
        cpu: cpu_of_timer_threads().as_nanos() as f64 / f64::from(TIMERS),
        late: stats.lateness.quantile(0.99).as_secs_f64() * 1e3,
        extra_threads_needed: stats.extra_threads_needed,
    }
}

/// Returns the processor time of the timer's threads.
fn cpu_of_timer_threads() -> Duration {
    let tasks = fs::read_dir("/proc/self/task").expect("Linux has /proc");
    let of_task = |task: fs::DirEntry| {
        let name = fs::read_to_string(task.path().join("comm")).ok()?;
        let times = fs::read_to_string(task.path().join("schedstat")).ok()?;
        let nanos = times.split(' ').next()?.parse().ok()?;
        name.starts_with("corewheel").then_some(Duration::from_nanos(nanos))
    };
    tasks.flatten().filter_map(of_task).sum()
}

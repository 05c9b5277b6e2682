//! What becomes of timers when the process is stopped, or gets a fraction of a core: the figures of docs/clocks.md.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use corewheel::Timer;

const PERIOD: Duration = Duration::from_millis(10);

/// Counts the runs of a callback.
fn counting(runs: &Arc<AtomicUsize>) -> impl FnMut() + Send + 'static {
    let runs = runs.clone();
    move || _ = runs.fetch_add(1, Ordering::Relaxed)
}

#[test]
#[ignore = "takes eight seconds, in which something must be done to the process"]
fn timers_of_eight_seconds() {
    let timer = Timer::new().unwrap();
    let (sender, late) = mpsc::channel();
    let start = Instant::now();
    for after in [500, 2_000, 4_000, 6_000].map(Duration::from_millis) {
        let sender = sender.clone();
        let deadline = start + after;
        timer.schedule_at(deadline, move || sender.send(deadline.elapsed()).unwrap()).unwrap();
    }
    let (rate, delay) = (Arc::default(), Arc::default());
    timer.schedule_at_fixed_rate(PERIOD, PERIOD, counting(&rate)).unwrap();
    timer.schedule_with_fixed_delay(PERIOD, PERIOD, counting(&delay)).unwrap();
    thread::sleep(Duration::from_secs(8));
    let late: Vec<_> = late.try_iter().collect();
    let [rate, delay] = [rate, delay].map(|runs| runs.load(Ordering::Relaxed));
    let lateness = timer.stats().lateness;
    let [p50, p99] = [0.5, 0.99].map(|quantile| lateness.quantile(quantile));
    println!("one-shots, late: {late:.1?}; fixed rate: {rate} runs; fixed delay: {delay} runs");
    println!("lateness: {p50:.2?} at p50, {p99:.2?} at p99, {:.2?} at most", lateness.max());
    assert_eq!(late.len(), 4, "each one-shot fires once");
    assert!(rate as u128 <= start.elapsed().as_millis() / PERIOD.as_millis(), "a run was early");
}

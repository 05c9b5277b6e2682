//! W11: threads push to one queue and remove from it at once, beside values that become due and callbacks of the same
//! service.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::churn::{DELAYS, RING};
use super::scale::Scale;
use crate::case::Case;
use crate::contender::Connection;
use crate::extra::beside::Beside;
use crate::harness::random::Random;
use crate::harness::threads::{LapTimer, alone, cores, together};
use crate::measured::{Measured, histogram, nanos};
use crate::memory::{Growth, MIB};
use crate::system::cpu_time;
use crate::target::{Alarm, Lateness, settle, wait_for_all};

/// Number of values that become due together, every `DUE_EVERY`.
const DUE: usize = 10;
const DUE_EVERY: Duration = Duration::from_millis(2);
/// Delay of these values.
const DUE_AFTER: Duration = Duration::from_millis(20);
const CALL_BACK_EVERY: Duration = Duration::from_millis(1);
const CALL_BACK_AFTER: Duration = Duration::from_millis(5);
/// Number of pairs for each call of the control.
const CONTROL_EVERY: usize = 4;
/// Readings of the clock in a call of the control, which takes as long as a short call of a queue.
const READINGS: usize = 8;
/// Maximum lateness; a value or a callback that is later counts as lost.
const MAX_LATENESS: Duration = Duration::from_secs(10);

pub fn cases<C: Beside>(scale: Scale) -> Vec<Case> {
    let lap = scale.pick(Duration::from_millis(1250), Duration::from_millis(100));
    let threads: &[_] = scale.pick(&[1, 2, 4, 6], &[1, 4]);
    let case = |&threads: &usize| {
        let plural = if threads == 1 { "" } else { "s" };
        Case::new(format!("{threads} thread{plural}"), move || shared_queue::<C>(threads, lap))
    };
    threads.iter().map(case).collect()
}

fn shared_queue<C: Beside>(threads: usize, lap: Duration) -> Measured {
    let queue = Arc::new(C::start());
    alone(&queue, settle);
    let growth = Growth::start();
    let ended = Arc::new(AtomicBool::new(false));
    let values = steadily(&queue, &ended, DUE_EVERY, |queue, step, alarms| {
        for _ in 0..DUE {
            let alarm = Alarm::new(step + DUE_AFTER);
            queue.schedule(alarm.due().saturating_duration_since(Instant::now()), alarm.clone());
            alarms.push(alarm);
        }
    });
    let callbacks = steadily(&queue, &ended, CALL_BACK_EVERY, |queue, _, alarms| {
        let alarm = Alarm::new(Instant::now() + CALL_BACK_AFTER);
        if queue.call_back(CALL_BACK_AFTER, alarm.clone()) {
            alarms.push(alarm);
        }
    });
    let rest = Barrier::new(threads);
    let (_, results) =
        together(&queue, (0..threads).collect(), move |queue, thread, laps| churn(queue, thread, laps, lap, &rest));
    ended.store(true, Ordering::Relaxed);
    let [values, callbacks] = [values, callbacks].map(|thread| thread.recv().expect("the thread has not panicked"));
    let until = Instant::now() + MAX_LATENESS;
    wait_for_all(&values.alarms, until);
    wait_for_all(&callbacks.alarms, until);
    let at_end = growth.bytes() / MIB;
    let at_most = growth.end().into_iter().map(|(_, grown)| grown).fold(at_end, f64::max);

    let measured = add_pairs(Measured::default(), &results);
    let measured = Lateness::of(&values.alarms).add_to(measured, &[50.0, 99.0]);
    let lateness = Lateness::of(&callbacks.alarms);
    lateness
        .add_as("ms a callback was late", measured, &[99.0])
        .with("callbacks lost", lateness.lost() as f64)
        .with("ms the callbacks' thread woke late, max", callbacks.woke.max() as f64 / 1e6)
        .with("MiB more at the end", at_end)
        .with("MiB more at most", at_most)
}

/// The result of a thread that takes steps.
struct Steps {
    alarms: Vec<Arc<Alarm>>,
    /// Lateness of the thread itself after each sleep until its next step.
    woke: Histogram<u64>,
}

/// Starts a thread that takes a step at a fixed rate until the end, even if it falls behind. A step receives the time
/// for which it was planned, and adds its alarms.
fn steadily<C: Beside>(
    queue: &Arc<C>,
    ended: &Arc<AtomicBool>,
    every: Duration,
    take_step: impl Fn(&C, Instant, &mut Vec<Arc<Alarm>>) + Send + 'static,
) -> mpsc::Receiver<Steps> {
    let (used, ended) = (queue.clone(), ended.clone());
    let (sender, result) = mpsc::channel();
    queue.spawn(move || {
        let mut alarms = Vec::new();
        let mut woke = histogram();
        let mut step = Instant::now();
        while !ended.load(Ordering::Relaxed) {
            step += every;
            let early = step.saturating_duration_since(Instant::now());
            if !early.is_zero() {
                used.wait(|| thread::sleep(early));
                woke += step.elapsed().as_nanos() as u64;
            }
            take_step(&used, step, &mut alarms);
        }
        // The drop of the last reference ends the queue. One of its own threads must not do that.
        drop(used);
        sender.send(Steps { alarms, woke }).unwrap();
    });
    result
}

/// The times that a thread has measured. A pair is a wall time and a processor time.
struct ThreadResult {
    start: (Instant, Duration),
    end: (Instant, Duration),
    pairs: usize,
    pushes: Histogram<u64>,
    removals: Histogram<u64>,
    control: Histogram<u64>,
}

/// Makes pairs for the time of a lap, and then pairs whose calls are timed one by one. Then empties the ring.
fn churn<C: Beside>(queue: &C, thread: usize, laps: &mut LapTimer, lap: Duration, rest: &Barrier) -> ThreadResult {
    let mut random = Random::new(thread);
    let connection = Arc::new(Connection);
    let mut push = || queue.schedule(Duration::from_nanos(random.next(DELAYS)), connection.clone());
    let mut ring: Vec<_> = (0..RING).map(|_| push()).collect();
    let mut start = (Instant::now(), cpu_time());
    let mut pairs = 0;
    laps.time(|| {
        start = (Instant::now(), cpu_time());
        while start.0.elapsed() < lap {
            for oldest in &mut ring {
                queue.cancel(mem::replace(oldest, push()));
            }
            pairs += RING;
        }
    });
    let end = (Instant::now(), cpu_time());
    // A thread that spins for the next lap would keep a core from those that are late.
    rest.wait();
    let (mut pushes, mut removals, mut control) = (histogram(), histogram(), histogram());
    laps.time(|| {
        let start = Instant::now();
        while start.elapsed() < lap {
            for (turn, oldest) in ring.iter_mut().enumerate() {
                let start = Instant::now();
                let new = push();
                let pushed = Instant::now();
                queue.cancel(mem::replace(oldest, new));
                let removed = Instant::now();
                pushes += (pushed - start).as_nanos() as u64;
                removals += (removed - pushed).as_nanos() as u64;
                if turn % CONTROL_EVERY == 0 {
                    let start = Instant::now();
                    let read = (0..READINGS).fold(start, |_, _| Instant::now());
                    control += (read - start).as_nanos() as u64;
                }
            }
        }
    });
    ring.into_iter().for_each(|value| _ = queue.cancel(value));
    ThreadResult { start, end, pairs, pushes, removals, control }
}

fn add_pairs(measured: Measured, results: &[ThreadResult]) -> Measured {
    let start = results.iter().map(|result| result.start).min().expect("there are threads");
    let end = results.iter().map(|result| result.end).max().expect("there are threads");
    let pairs = results.iter().map(|result| result.pairs).sum::<usize>() as f64;
    let all = |calls: fn(&ThreadResult) -> &Histogram<u64>| {
        let mut all = histogram();
        results.iter().for_each(|result| all += calls(result));
        all
    };
    measured
        .with("ns a pair", nanos(end.0 - start.0) * cores().min(results.len()) as f64 / pairs)
        .with("CPU ns a pair", nanos(end.1 - start.1) / pairs)
        .with_percentiles("ms a push", &all(|result| &result.pushes), 1e6, &[99.9])
        .with_percentiles("ms a remove", &all(|result| &result.removals), 1e6, &[99.9])
        .with_percentiles("ms a call of the control", &all(|result| &result.control), 1e6, &[99.9])
}

//! W1, W1c and W7: timers are scheduled and cancelled, and none of them fires.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::task::Wake;
use std::time::{Duration, Instant};
use std::{array, mem};

use hdrhistogram::Histogram;

use super::list::Workload;
use super::scale::{STANDING, Scale, count, fits};
use crate::case::Case;
use crate::contender::{Connection, Contender};
use crate::extra::noop::Noop;
use crate::harness::random::Random;
use crate::harness::threads::{LapTimer, cores, together};
use crate::measured::{Measured, histogram, nanos};
use crate::system::cpu_time;
use crate::target::settle;

/// Number of live timers of a thread, besides the standing ones.
pub(super) const RING: usize = 256;
const SECOND: u64 = 1_000_000_000;
/// Delays of W1's pairs, in nanoseconds.
pub(super) const DELAYS: Range<u64> = 5 * SECOND..30 * SECOND;

#[derive(Clone)]
struct Load {
    threads: usize,
    standing: usize,
    /// Delays of the standing timers, in nanoseconds.
    standing_delays: Range<u64>,
    /// Delays of the timers in pairs, in nanoseconds.
    delays: Range<u64>,
    /// Number of pairs of all threads together.
    pairs: usize,
    /// Number of pairs of each thread whose calls are timed one by one afterwards.
    calls: usize,
}

pub fn cases<C: Contender>(workload: Workload, scale: Scale) -> Vec<Case> {
    each(workload, scale, churn::<C>)
}

/// The control: the same work on unshared memory, without standing timers.
pub fn control(workload: Workload, scale: Scale) -> Vec<Case> {
    each(workload, scale, unshared)
}

fn each(workload: Workload, scale: Scale, run: fn(Load) -> Measured) -> Vec<Case> {
    let load = |threads, standing, standing_delays: &Range<u64>, delays: &Range<u64>| Load {
        threads,
        standing,
        standing_delays: standing_delays.clone(),
        delays: delays.clone(),
        // Enough pairs that a contender with lazy cancellation also sweeps its cancelled timers.
        pairs: scale.pick(2_000_000, 100_000).max(2 * standing),
        calls: scale.pick(200_000, 10_000),
    };
    if workload == Workload::W7 {
        let all: &[_] = scale.pick(&[1_000, 10_000, 100_000, 1_000_000, 10_000_000], &[1_000, 10_000, 100_000]);
        let delays = SECOND..3600 * SECOND;
        let case = |&standing| {
            let load = load(1, standing, &delays, &delays);
            Case::new(format!("{} standing", count(standing)), move || run(load)).at(standing)
        };
        return all.iter().filter(|standing| fits(**standing)).map(case).collect();
    }
    let all: &[_] = scale.pick(&[0, 100_000, 1_000_000], &[0, 100_000]);
    let threads: &[_] = scale.pick(&[1, 2, 4, 8], &[1, 2]);
    let delays = if workload == Workload::W1 { DELAYS } else { exactly(30 * SECOND) };
    let case = |threads: usize, standing: usize| {
        let load = load(threads, standing, &exactly(STANDING.as_nanos() as u64), &delays);
        let plural = if threads == 1 { "" } else { "s" };
        let case = Case::new(format!("{threads} thread{plural}, {} standing", count(standing)), move || run(load));
        if all.last() == Some(&standing) { case.at(threads) } else { case }
    };
    let case = &case;
    all.iter().flat_map(|&standing| threads.iter().map(move |&threads| case(threads, standing))).collect()
}

fn exactly(nanos: u64) -> Range<u64> {
    nanos..nanos + 1
}

fn churn<C: Contender>(load: Load) -> Measured {
    let timer = Arc::new(C::start());
    let of_each = load.clone();
    let rest = Barrier::new(load.threads);
    let (_, results) = together(&timer, (0..load.threads).collect(), move |timer, thread, laps| {
        let mut random = Random::new(thread);
        let connection = Arc::new(Connection);
        let mut schedule =
            |delays: &Range<u64>| timer.schedule(Duration::from_nanos(random.next(delays.clone())), connection.clone());
        let cancel = |handle| assert_ne!(timer.cancel(handle), Some(false), "{}: the timer was pending", C::NAME);
        let standing = of_each.standing / of_each.threads;
        let _standing: Vec<_> = (0..standing).map(|_| schedule(&of_each.standing_delays)).collect();
        measure(&of_each, laps, &rest, || schedule(&of_each.delays), cancel, || settle(timer))
    });
    figures(&load, &results)
}

/// A timer of the control: a cache line with the callback in it.
#[repr(align(64))]
struct Line<F> {
    deadline: AtomicU64,
    callback: Option<F>,
}

fn unshared(load: Load) -> Measured {
    const NONE: u64 = 0;
    let of_each = load.clone();
    let rest = Barrier::new(load.threads);
    let (_, results) = together(&Arc::new(Noop), (0..load.threads).collect(), move |_, thread, laps| {
        let mut random = Random::new(thread);
        let connection = Arc::new(Connection);
        let epoch = Instant::now();
        let lines: [_; RING + 1] = array::from_fn(|_| Line { deadline: AtomicU64::new(NONE), callback: None });
        let lines = RefCell::new(lines);
        let mut next = 0;
        let change = |line: &AtomicU64, from, to| {
            assert!(line.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok());
        };
        let schedule = || {
            let index = next;
            next = (next + 1) % (RING + 1);
            let deadline = epoch.elapsed().as_nanos() as u64 + random.next(of_each.delays.clone());
            let line = &mut lines.borrow_mut()[index];
            let connection = connection.clone();
            line.callback = Some(move || connection.wake());
            change(&line.deadline, NONE, deadline);
            (index, deadline)
        };
        let cancel = |(index, deadline): (usize, u64)| {
            let line = &mut lines.borrow_mut()[index];
            change(&line.deadline, deadline, NONE);
            line.callback = None;
        };
        measure(&of_each, laps, &rest, schedule, cancel, || ())
    });
    figures(&load, &results)
}

/// The times that a thread has measured. A pair is a wall time and a processor time.
struct ThreadResult {
    start: (Instant, Duration),
    end: Instant,
    /// When the timer's threads had done the work that the calls left to them.
    settled: (Instant, Duration),
    calls: Histogram<u64>,
}

/// Measures the pairs of a thread. The threads sleep at `rest` until all have settled: a thread that spins for the next
/// lap would keep a core from the timer's threads.
fn measure<H>(
    load: &Load,
    laps: &mut LapTimer,
    rest: &Barrier,
    mut schedule: impl FnMut() -> H,
    mut cancel: impl FnMut(H),
    settle: impl Fn(),
) -> ThreadResult {
    let mut ring: Vec<_> = (0..RING).map(|_| schedule()).collect();
    settle();
    rest.wait();
    let pairs = load.pairs / load.threads;
    let mut start = (Instant::now(), cpu_time());
    laps.time(|| {
        start = (Instant::now(), cpu_time());
        for turn in 0..pairs {
            let new = schedule();
            cancel(mem::replace(&mut ring[turn % RING], new));
        }
    });
    let end = Instant::now();
    settle();
    let settled = (Instant::now(), cpu_time());
    rest.wait();
    let mut calls = histogram();
    laps.time(|| {
        for turn in pairs..pairs + load.calls {
            let start = Instant::now();
            let new = schedule();
            let scheduled = Instant::now();
            cancel(mem::replace(&mut ring[turn % RING], new));
            calls += (scheduled - start).as_nanos() as u64;
            calls += scheduled.elapsed().as_nanos() as u64;
        }
    });
    ring.into_iter().for_each(cancel);
    ThreadResult { start, end, settled, calls }
}

fn figures(load: &Load, results: &[ThreadResult]) -> Measured {
    let start = results.iter().map(|result| result.start).min().expect("there are threads");
    let end = results.iter().map(|result| result.end).max().expect("there are threads");
    let settled = results.iter().map(|result| result.settled).max().expect("there are threads");
    let mut calls = histogram();
    results.iter().for_each(|result| calls += &result.calls);
    let pairs = (load.pairs / load.threads * load.threads) as f64;
    let cores = cores().min(load.threads) as f64;
    Measured::default()
        .with("ns a pair", nanos(end - start.0) * cores / pairs)
        .with("ns a pair, settled", nanos(settled.0 - start.0) * cores / pairs)
        .with("CPU ns a pair", nanos(settled.1 - start.1) / pairs)
        .with_percentiles("ns a call", &calls, 1.0, &[50.0, 99.9])
}

//! Threads that do the same at the same time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// What one of the threads has timed.
pub struct Laps<'a> {
    line: &'a Line,
    laps: Vec<(Instant, Instant)>,
}

impl Laps<'_> {
    /// Times `f`. All threads begin it together, and go on together when the last has ended it.
    pub fn time(&mut self, f: impl FnOnce()) {
        self.line.wait();
        let start = Instant::now();
        f();
        self.laps.push((start, Instant::now()));
        self.line.wait();
    }

    /// Times `f`, or only calls it.
    pub fn time_if(&mut self, timed: bool, f: impl FnOnce()) {
        if timed { self.time(f) } else { f() }
    }
}

/// Calls `f` on a thread for each input, and returns how long their laps took: each from the start of the first thread
/// to the end of the last. All make the same number of laps.
pub fn together<T: Send>(inputs: impl ExactSizeIterator<Item = T>, f: impl Fn(T, &mut Laps) + Sync) -> Duration {
    let line = Line { threads: inputs.len(), arrived: AtomicUsize::new(0) };
    let run = &|input| {
        let mut laps = Laps { line: &line, laps: Vec::new() };
        f(input, &mut laps);
        laps.laps
    };
    let laps: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = inputs.map(|input| scope.spawn(move || run(input))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let wall = |lap: usize| {
        let lap = || laps.iter().map(|laps| laps[lap]);
        let first = lap().map(|(start, _)| start).min();
        let last = lap().map(|(_, end)| end).max();
        last.zip(first).map_or(Duration::ZERO, |(last, first)| last - first)
    };
    (0..laps[0].len()).map(wall).sum()
}

/// How many threads can run at once.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// A barrier that nobody sleeps at: a thread that must be woken first starts too late.
struct Line {
    threads: usize,
    arrived: AtomicUsize,
}

impl Line {
    fn wait(&self) {
        let before = self.arrived.fetch_add(1, Ordering::AcqRel);
        let complete = before - before % self.threads + self.threads;
        while self.arrived.load(Ordering::Acquire) < complete {
            thread::yield_now();
        }
    }
}

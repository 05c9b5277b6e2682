//! Threads that do the same at the same time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::contender::Contender;

/// What one of the threads has timed.
pub struct Laps {
    line: Arc<Line>,
    laps: Vec<(Instant, Instant)>,
}

impl Laps {
    /// Times `f`. All threads begin it together.
    pub fn time(&mut self, f: impl FnOnce()) {
        self.wait();
        let start = Instant::now();
        f();
        self.laps.push((start, Instant::now()));
    }

    /// Waits until all threads are here.
    pub fn wait(&self) {
        self.line.wait();
    }
}

/// Calls `f` on a thread for each input, where the contender wants its users to be. Returns how long their laps took,
/// each from the start of the first thread to the end of the last, and what `f` returned. All make the same number of
/// laps.
pub fn together<C: Contender, T: Send + 'static, R: Send + 'static>(
    timer: &Arc<C>,
    inputs: Vec<T>,
    f: impl Fn(&C, T, &mut Laps) -> R + Send + Sync + 'static,
) -> (Duration, Vec<R>) {
    let line = Arc::new(Line { threads: inputs.len(), arrived: AtomicUsize::new(0) });
    let f = Arc::new(f);
    let spawn = |input| {
        let (used, line, f) = (timer.clone(), line.clone(), f.clone());
        let (sender, result) = mpsc::channel();
        timer.spawn(move || {
            let mut laps = Laps { line, laps: Vec::new() };
            let returned = f(&used, input, &mut laps);
            // Whoever drops the timer last ends it, which must not be one of its own threads.
            drop((used, f));
            sender.send((laps.laps, returned)).unwrap();
        });
        result
    };
    let running: Vec<_> = inputs.into_iter().map(spawn).collect();
    let (laps, returned): (Vec<_>, _) =
        running.into_iter().map(|result| result.recv().expect("the thread has not panicked")).unzip();
    let wall = |lap: usize| {
        let lap = || laps.iter().map(|laps| laps[lap]);
        let first = lap().map(|(start, _)| start).min();
        let last = lap().map(|(_, end)| end).max();
        last.zip(first).map_or(Duration::ZERO, |(last, first)| last - first)
    };
    ((0..laps[0].len()).map(wall).sum(), returned)
}

/// Calls `f` on one thread, where the contender wants its users to be.
pub fn alone<C: Contender, R: Send + 'static>(timer: &Arc<C>, f: impl Fn(&C) -> R + Send + Sync + 'static) -> R {
    let (_, mut returned) = together(timer, vec![()], move |timer, (), _| f(timer));
    returned.remove(0)
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

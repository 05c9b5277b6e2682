//! Runs the same work on several threads at the same time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::contender::Contender;

/// Times the laps of one thread, which all threads start together.
pub struct LapTimer {
    barrier: Arc<SpinBarrier>,
    laps: Vec<(Instant, Instant)>,
}

impl LapTimer {
    /// Times `f`. All threads start it together.
    pub fn time(&mut self, f: impl FnOnce()) {
        self.wait();
        let start = Instant::now();
        f();
        self.laps.push((start, Instant::now()));
    }

    /// Waits until all threads have called this.
    pub fn wait(&self) {
        self.barrier.wait();
    }
}

/// Calls `f` for each input, on threads that the contender provides for its users. Returns the sum of the laps' times,
/// and the results of `f`. The time of a lap is that from the start of the first thread to the end of the last. All
/// threads must make the same number of laps.
pub fn together<C: Contender, T: Send + 'static, R: Send + 'static>(
    timer: &Arc<C>,
    inputs: Vec<T>,
    f: impl Fn(&C, T, &mut LapTimer) -> R + Send + Sync + 'static,
) -> (Duration, Vec<R>) {
    let barrier = Arc::new(SpinBarrier { threads: inputs.len(), arrived: AtomicUsize::new(0) });
    let f = Arc::new(f);
    let spawn = |input| {
        let (used, barrier, f) = (timer.clone(), barrier.clone(), f.clone());
        let (sender, result) = mpsc::channel();
        timer.spawn(move || {
            let mut laps = LapTimer { barrier, laps: Vec::new() };
            let returned = f(&used, input, &mut laps);
            // The drop of the last reference ends the timer. One of its own threads must not do that.
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

/// Calls `f` on one thread that the contender provides for its users.
pub fn alone<C: Contender, R: Send + 'static>(timer: &Arc<C>, f: impl Fn(&C) -> R + Send + Sync + 'static) -> R {
    let (_, mut returned) = together(timer, vec![()], move |timer, (), _| f(timer));
    returned.remove(0)
}

/// Returns the number of threads that can run at once.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// A barrier at which threads spin: a thread that sleeps would start too late.
struct SpinBarrier {
    threads: usize,
    arrived: AtomicUsize,
}

impl SpinBarrier {
    fn wait(&self) {
        let before = self.arrived.fetch_add(1, Ordering::AcqRel);
        let complete = before - before % self.threads + self.threads;
        while self.arrived.load(Ordering::Acquire) < complete {
            thread::yield_now();
        }
    }
}

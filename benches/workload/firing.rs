//! Many timers due at one moment.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::contender::Contender;

/// How many timers share a counter: enough that it takes little memory, few enough that threads seldom meet at one.
const BLOCK: usize = 50;

/// A block of timers that have not run yet.
struct Block {
    timers: AtomicUsize,
    blocks: Arc<AtomicUsize>,
    all_ran: mpsc::Sender<Instant>,
}

impl Block {
    fn one_ran(&self) {
        let is_last = |left: &AtomicUsize| left.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last(&self.timers) && is_last(&self.blocks) {
            self.all_ran.send(Instant::now()).unwrap();
        }
    }
}

/// Schedules the timers for one moment, and returns how long after it the last of them has run.
pub fn fire<C: Contender>(timer: &C, timers: usize, threads: usize) -> Duration {
    assert_eq!(timers % (BLOCK * threads), 0, "whole blocks for each thread");
    let mut lead = Duration::from_millis(10) + Duration::from_nanos(500) * timers as u32;
    loop {
        let due = Instant::now() + lead;
        let all_ran = schedule(timer, timers / BLOCK, threads, due);
        let in_time = Instant::now() < due;
        let all_ran = all_ran.recv().expect("all timers run");
        let took = all_ran.checked_duration_since(due).expect("none is early");
        if in_time {
            return took;
        }
        lead *= 2;
    }
}

fn schedule<C: Contender>(timer: &C, blocks: usize, threads: usize, due: Instant) -> mpsc::Receiver<Instant> {
    let (all_ran, receiver) = mpsc::channel();
    let left = Arc::new(AtomicUsize::new(blocks));
    thread::scope(|scope| {
        for _ in 0..threads {
            let (left, all_ran) = (left.clone(), all_ran.clone());
            scope.spawn(move || {
                for _ in 0..blocks / threads {
                    let block =
                        Block { timers: AtomicUsize::new(BLOCK), blocks: left.clone(), all_ran: all_ran.clone() };
                    let block = Arc::new(block);
                    for _ in 0..BLOCK {
                        let block = block.clone();
                        timer.schedule(due.saturating_duration_since(Instant::now()), move || block.one_ran());
                    }
                }
            });
        }
    });
    receiver
}

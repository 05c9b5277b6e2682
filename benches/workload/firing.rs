//! Fires many timers with the same deadline.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::Wake;
use std::time::{Duration, Instant};

use crate::contender::Contender;
use crate::harness::threads::together;

/// Number of timers that share a counter: enough to save memory, few enough that threads rarely contend for one.
const BLOCK: usize = 50;

/// Counts the timers of a block that have not run yet. No two share a cache line, nor a pair that a processor fetches
/// together.
#[repr(align(128))]
struct Block {
    timers: AtomicUsize,
    blocks: Arc<AtomicUsize>,
    all_ran: mpsc::Sender<Instant>,
}

impl Wake for Block {
    fn wake(self: Arc<Self>) {
        let is_last = |left: &AtomicUsize| left.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last(&self.timers) && is_last(&self.blocks) {
            self.all_ran.send(Instant::now()).unwrap();
        }
    }
}

/// Schedules timers with the same deadline. Returns the time from the deadline until the last has run.
pub fn fire<C: Contender>(timer: &Arc<C>, timers: usize, threads: usize) -> Duration {
    assert_eq!(timers % (BLOCK * threads), 0, "whole blocks for each thread");
    let mut lead = Duration::from_millis(10) + Duration::from_nanos(500) * timers as u32;
    loop {
        let due = Instant::now() + lead;
        let (all_ran, has_run) = mpsc::channel();
        let left = Arc::new(AtomicUsize::new(timers / BLOCK));
        let (_, handles) = together(timer, vec![(); threads], move |timer, (), _| {
            let block = || Block { timers: AtomicUsize::new(BLOCK), blocks: left.clone(), all_ran: all_ran.clone() };
            let schedule = |block: Arc<Block>| timer.schedule(due.saturating_duration_since(Instant::now()), block);
            let blocks = (0..timers / BLOCK / threads).map(|_| Arc::new(block()));
            blocks.flat_map(|block| vec![block; BLOCK]).map(schedule).collect::<Vec<_>>()
        });
        let in_time = Instant::now() < due;
        let all_ran = has_run.recv().expect("all timers run");
        drop(handles);
        let took = all_ran.checked_duration_since(due).expect("none is early");
        if in_time {
            return took;
        }
        lead *= 2;
    }
}

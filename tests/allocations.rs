//! What a shutdown allocates: a list of what it hands back, and for a drop nothing at all.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::*;
use corewheel::{Timer, UnfiredTimer};

/// Counts the bytes that are allocated, and the most that were at once.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: it is the system's allocator, and only counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(now, Ordering::Relaxed);
        // SAFETY: by the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: by the caller's contract.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// One test at a time, as they count for all.
static TURN: Mutex<()> = Mutex::new(());

const TIMERS: usize = 100_000;

/// How much more was allocated at once while `f` ran than before.
fn peak_of<T>(f: impl FnOnce() -> T) -> (usize, T) {
    let before = NOW.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let result = f();
    (PEAK.load(Ordering::Relaxed) - before, result)
}

fn full_timer() -> Timer {
    let (timer, _clock) = in_virtual_time();
    for number in 0..TIMERS {
        timer.schedule(HOUR + number as u32 * MS, move || assert!(number < TIMERS)).unwrap();
    }
    timer
}

#[test]
fn the_drop_of_the_last_clone_collects_nothing() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let timer = full_timer();
    let (peak, ()) = peak_of(move || drop(timer));
    assert!(peak < 64 * 1024, "{peak} bytes for {TIMERS} timers");
}

#[test]
fn a_shutdown_makes_one_list() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let timer = full_timer();
    let (peak, unfired) = peak_of(|| timer.shutdown());
    // The closure of each, and its deadline.
    assert!(peak < TIMERS * 48, "{} bytes for each of {TIMERS} timers", peak / TIMERS);
    assert_eq!(unfired.len(), TIMERS);
    let (peak, ()) = peak_of(move || unfired.for_each(UnfiredTimer::run));
    assert!(peak < 64 * 1024, "{peak} bytes");
}

//! What a shutdown allocates: one list of the timers that it hands back. Dropping the last clone allocates nothing.
#![cfg(feature = "std")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::*;
use corewheel::{Timer, UnfiredTimer};

/// Counts the allocated bytes, and their peak.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of this function.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The counters are global, so the tests run one at a time.
static TURN: Mutex<()> = Mutex::new(());

const TIMERS: usize = 100_000;

/// Returns by how many bytes the allocations grew at their peak while `f` ran.
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
fn dropping_the_last_clone_allocates_no_list() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let timer = full_timer();
    let (peak, ()) = peak_of(move || drop(timer));
    assert!(peak < 64 * 1024, "{peak} bytes for {TIMERS} timers");
}

#[test]
fn a_shutdown_allocates_one_list() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let timer = full_timer();
    let (peak, unfired) = peak_of(|| timer.shutdown());
    // The deadline and the closure of each timer.
    assert!(peak < TIMERS * 48, "{} bytes for each of {TIMERS} timers", peak / TIMERS);
    assert_eq!(unfired.len(), TIMERS);
    let (peak, ()) = peak_of(move || unfired.for_each(UnfiredTimer::run));
    assert!(peak < 64 * 1024, "{peak} bytes");
}

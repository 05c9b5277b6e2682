//! What a shutdown allocates: one list of the timers that it hands back. The drop of the last clone needs none, and neither
//! does that of a delay queue.
#![cfg(feature = "std")]

mod common;
#[allow(dead_code)]
#[path = "common/counting_allocator.rs"]
mod counting_allocator;

use std::sync::atomic::Ordering;

use common::*;
use corewheel::{DelayQueue, Timer, UnfiredTimer};
use counting_allocator::{ALLOCATED, PEAK, alone};

const TIMERS: usize = 100_000;

/// Returns by how many bytes the allocations grew at their peak while `f` ran.
fn peak_of<T>(f: impl FnOnce() -> T) -> (usize, T) {
    let before = ALLOCATED.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let result = f();
    ((PEAK.load(Ordering::Relaxed) - before) as usize, result)
}

fn full_timer() -> Timer {
    let (timer, _clock) = in_virtual_time();
    for number in 0..TIMERS {
        timer.schedule(HOUR + number as u32 * MS, move || assert!(number < TIMERS)).unwrap();
    }
    timer
}

/// Promise: the shutdown loses nothing.
#[test]
fn a_shutdown_allocates_one_list_and_a_drop_none() {
    alone(|| {
        let timer = full_timer();
        let (peak, ()) = peak_of(move || drop(timer));
        assert!(peak < 64 * 1024, "{peak} bytes");
        let timer = full_timer();
        let (peak, unfired) = peak_of(|| timer.shutdown());
        // The deadline and the closure of each timer.
        assert!(peak < TIMERS * 48, "{} bytes for each of {TIMERS} timers", peak / TIMERS);
        assert_eq!(unfired.len(), TIMERS);
        let (peak, ()) = peak_of(move || unfired.for_each(UnfiredTimer::run));
        assert!(peak < 64 * 1024, "{peak} bytes");
    });
}

/// Promise: delay queues.
#[test]
fn the_drop_of_a_queue_allocates_no_list() {
    alone(|| {
        let (timer, _clock) = in_virtual_time();
        let queue = DelayQueue::new(&timer);
        for number in 0..TIMERS {
            queue.push(HOUR, number).unwrap();
        }
        let (peak, ()) = peak_of(move || drop(queue));
        assert!(peak < 64 * 1024, "{peak} bytes");
        assert!(timer.is_empty());
    });
}

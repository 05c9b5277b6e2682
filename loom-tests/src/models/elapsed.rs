//! Explores the time of a manual clock: a thread reads it while another sets it.
//!
//! Invariant: a time that is read was set, and either a driver that falls asleep sees the time, or the clock the sleep.

use std::time::Duration;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;

use super::explore;
use crate::source::clock::atomic_duration::AtomicDuration;

/// Returns a time whose parts are equal.
fn time(number: u32) -> Duration {
    Duration::new(number.into(), number)
}

#[test]
fn a_time_that_is_read_was_set() {
    explore(|| {
        let elapsed = Arc::new(AtomicDuration::default());
        // So that a stale cell is not the present.
        (1..=2).for_each(|number| elapsed.set(time(number)));
        let theirs = elapsed.clone();
        let writer = thread::spawn(move || (3..=5).for_each(|number| theirs.set(time(number))));
        let read = [elapsed.get(), elapsed.get()];
        writer.join().unwrap();
        assert!(read.iter().all(|&read| read == time(read.subsec_nanos())), "{read:?}");
        assert!(time(2) <= read[0] && read[0] <= read[1] && elapsed.get() == time(5));
    });
}

#[test]
fn the_driver_sees_the_time_or_the_clock_the_sleep() {
    explore(|| {
        let elapsed = Arc::new(AtomicDuration::default());
        let until = Arc::new(AtomicU64::new(0));
        let (theirs, sleep) = (elapsed.clone(), until.clone());
        let driver = thread::spawn(move || {
            // As in `Alarm::sleep`.
            sleep.swap(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            theirs.get() == time(1)
        });
        elapsed.set(time(1));
        let is_seen = until.load(Ordering::Relaxed) == 1;
        assert!(driver.join().unwrap() || is_seen);
    });
}

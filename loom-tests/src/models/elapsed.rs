//! Explores the time of a manual clock: a thread reads it while another sets it.
//!
//! Invariant: a time that is read was set, and a deadline is seen either by the thread that set it or by the clock.

use std::time::Duration;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use super::explore;
use crate::source::clock::elapsed::Elapsed;
use crate::sync::fence_between_seq_cst;

/// Returns a time whose parts are equal.
fn time(number: u32) -> Duration {
    Duration::new(number.into(), number)
}

#[test]
fn a_time_that_is_read_was_set() {
    explore(|| {
        let elapsed = Arc::new(Elapsed::default());
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
fn a_deadline_is_seen_by_the_caller_or_by_the_clock() {
    explore(|| {
        let (elapsed, pushed) = (Arc::new(Elapsed::default()), Arc::new(AtomicU64::new(0)));
        let (theirs, push) = (elapsed.clone(), pushed.clone());
        let caller = thread::spawn(move || {
            push.fetch_add(1, Ordering::SeqCst);
            // As in `Core::enqueue`.
            fence_between_seq_cst();
            theirs.get() == time(1)
        });
        elapsed.set(time(1));
        let is_seen = pushed.load(Ordering::Acquire) == 1;
        assert!(caller.join().unwrap() || is_seen);
    });
}

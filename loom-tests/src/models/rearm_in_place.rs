//! Explores a cached entry that is armed again in place, against the driver that reaches it.
//!
//! Invariant: the second timer runs once, at its deadline, and the entry becomes free once.
//!
//! Promise: exactly once; memory comes back.

use super::{Fixture, explore};
use crate::engine::memory::Cache;

/// Schedules a timer at `first`, perhaps resets it to `reset_to`, and cancels it unless it has fired.
///
/// A timer at `second` then reuses its entry, while the driver turns at `meanwhile`. The second timer runs once, at its
/// deadline.
fn rearm(first: u64, reset_to: Option<u64>, before: bool, meanwhile: u64, second: u64) {
    explore(move || {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let mut cache = Cache::new();
        let first_worker = fixture.worker(0);
        let handle = fixture.schedule(&mut cache, fixture.counts.once(), first).unwrap();
        if before {
            fixture.drive(&mut driver, &first_worker);
        }
        if let Some(reset_to) = reset_to {
            assert!(fixture.reset(&handle, reset_to, 0));
        }
        let user = fixture.spawn(move |fixture| {
            let cancelled = fixture.cancel(&handle);
            fixture.release(handle, &mut cache);
            let handle = fixture.schedule(&mut cache, fixture.counts.once(), second).unwrap();
            fixture.release(handle, &mut cache);
            (cancelled, cache)
        });
        let worker = fixture.worker(meanwhile);
        if meanwhile < second {
            fixture.drive(&mut driver, &worker);
        } else {
            fixture.drive_until_runs(&mut driver, &worker, 1);
        }
        let (cancelled, mut cache) = user.join().unwrap();
        let last = fixture.worker(second.max(meanwhile));
        fixture.drive(&mut driver, &last);
        let ran: Vec<u64> = worker.ran.take().into_iter().chain(last.ran.take()).collect();
        let expected = if cancelled { vec![second] } else { vec![first, second] };
        assert_eq!((ran, fixture.counts.dropped()), (expected, 2));
        fixture.assert_all_free(&mut driver, [&mut cache, &mut worker.into_cache(), &mut last.into_cache()]);
    });
}

#[test]
fn to_a_later_deadline() {
    rearm(5, None, true, 5, 9);
}

#[test]
fn to_an_earlier_deadline() {
    rearm(9, None, true, 5, 5);
}

#[test]
fn in_the_intake() {
    rearm(9, None, false, 5, 5);
}

/// The driver finds that the first timer was reset to a deadline after that of the second.
#[test]
fn of_a_timer_that_was_reset() {
    rearm(5, Some(20), true, 5, 9);
}

/// With two slots per level, a deadline 9 ticks ahead cascades at ticks 8 and 9.
#[test]
fn during_a_cascade() {
    rearm(9, Some(20), true, 9, 10);
}

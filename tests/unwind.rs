//! Timers and panics of their callers: what may be used inside `catch_unwind`, and works after a panic there.
#![cfg(feature = "std")]

mod common;

use std::panic::{self, RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::*;
use corewheel::{
    CancelOnDrop, DelayKey, DelayQueue, Expired, Interval, ManualClock, Sleep, Stats, Timeout, Timer, TimerHandle,
    Unfired, UnfiredTimer, WeakTimer,
};

const _: () = {
    const fn holds<T: UnwindSafe + RefUnwindSafe>() {}
    holds::<Timer>();
    holds::<WeakTimer>();
    holds::<TimerHandle>();
    holds::<CancelOnDrop>();
    holds::<DelayQueue<u8>>();
    holds::<DelayKey<u8>>();
    holds::<Expired<u8>>();
    holds::<Sleep>();
    holds::<Interval>();
    holds::<Timeout<std::future::Pending<()>>>();
    holds::<Unfired>();
    holds::<UnfiredTimer>();
    holds::<ManualClock>();
    holds::<Stats>();
};

/// Promise: panics stay inside.
#[test]
fn a_timer_can_be_used_inside_and_after_a_caught_panic() {
    let (timer, clock) = in_virtual_time();
    let runs = Arc::new(AtomicUsize::new(0));
    let handle = panic::catch_unwind(|| timer.schedule(SEC, counting(&runs)).unwrap()).unwrap();
    let unwound = panic::catch_unwind(|| {
        let _guard = timer.schedule(SEC, counting(&runs)).unwrap().cancel_on_drop();
        assert!(handle.reset(2 * SEC));
        drop(timer.sleep(SEC));
        quiet_panic("inside catch_unwind")
    });
    assert!(unwound.is_err());
    panic::catch_unwind(|| clock.advance(SEC)).unwrap();
    assert!(handle.is_pending() && timer.len() == 1);
    clock.advance(SEC);
    assert_eq!((runs.load(Ordering::SeqCst), timer.stats().cancelled), (1, 1));
    assert_balanced(&timer);
}

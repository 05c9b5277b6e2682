//! The real clock: the present to which a timer adds a delay.
#![cfg(feature = "std")]

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use corewheel::Timer;

/// By how much the present that a delay counts from may be ahead of the clock.
const AHEAD: Duration = Duration::from_micros(10);

/// Reads the time in bursts and after pauses, on more threads than there are cores, so that threads are preempted
/// anywhere.
/// Promise: never early.
#[test]
fn a_delay_counts_from_now() {
    const DELAY: Duration = Duration::from_secs(3600);
    let timer = Timer::builder().tick(Duration::from_micros(1)).shards(1).build().unwrap();
    let end = Instant::now() + Duration::from_millis(1500);
    let watch = |seed| {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut handle = timer.schedule(DELAY, || ()).unwrap();
        let mut last = Instant::now();
        while Instant::now() < end {
            for _ in 0..random.u32(0..500) {
                let before = Instant::now();
                if random.bool() {
                    assert!(handle.reset(DELAY));
                } else {
                    handle = timer.schedule(DELAY, || ()).unwrap();
                }
                let after = Instant::now();
                let now = handle.deadline().unwrap() - DELAY;
                assert!(now >= before, "{:?} early", before - now);
                assert!(now <= after + AHEAD, "{:?} late", now - after);
                assert!(now >= last, "{:?} back", last - now);
                last = now;
            }
            thread::sleep(Duration::from_micros(random.u64(0..300)));
        }
    };
    thread::scope(|scope| (0..6).for_each(|seed| drop(scope.spawn(move || watch(seed)))));
}

#[test]
fn a_timer_due_now_does_not_wait_for_a_tick() {
    let timer = Timer::builder().tick(Duration::from_secs(60)).shards(1).build().unwrap();
    let (sender, receiver) = mpsc::channel();
    for at_instant in [false, true].repeat(500) {
        // From here on the thread has a recent reading of the clock.
        timer.schedule(Duration::from_secs(1), || ()).unwrap().cancel();
        let now = Instant::now();
        let sender = sender.clone();
        let report = move || sender.send(Instant::now()).unwrap();
        if at_instant {
            timer.schedule_at(now, report).unwrap();
        } else {
            timer.schedule(Duration::ZERO, report).unwrap();
        }
        assert!(receiver.recv_timeout(Duration::from_secs(20)).expect("a timer that is due now does not fire") >= now);
    }
}

#![allow(missing_docs)]
use corewheel::*;
use std::sync::mpsc;
use std::time::*;

#[test]
fn fires() {
    let timer = Timer::new().unwrap();
    let (tx, rx) = mpsc::channel();
    let start = Instant::now();
    for i in 0..100 {
        let tx = tx.clone();
        drop(timer.schedule(Duration::from_millis(i), move || tx.send((i, Instant::now())).unwrap()).unwrap());
    }
    for _ in 0..100 {
        let (i, at) = rx.recv_timeout(Duration::from_secs(2)).unwrap();
        assert!(at - start >= Duration::from_millis(i));
    }
    let s = timer.stats();
    println!("{s:?} {:?}", s.lateness.quantile(0.99));
    assert_eq!((s.scheduled, s.fired, s.completed, s.pending), (100, 100, 100, 0));
    let h = timer.schedule(Duration::from_secs(3600), || ()).unwrap();
    let t = Instant::now();
    assert_eq!(timer.shutdown().len(), 1);
    assert!(t.elapsed() < Duration::from_secs(1));
    assert!(!h.cancel());
    drop(timer);
    drop(h);
}
#[test]
fn manual() {
    let clock = ManualClock::new();
    let timer = Timer::builder().clock(clock.clone()).shards(3).build().unwrap();
    let h = timer.schedule_at_fixed_rate(Duration::from_secs(1), Duration::from_secs(3), || ()).unwrap();
    clock.advance(Duration::from_secs(12 * 3600));
    let s = timer.stats();
    assert_eq!(s.fired, 14400);
    assert_eq!(timer.len(), 1);
    assert!(h.cancel());
    assert!(timer.is_empty());
}

//! On time when alone, together under load: the slack.
#![cfg(feature = "std")]

mod common;

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use common::*;
use corewheel::{Executor, Timer};

/// Number of wake-ups that may come early.
const BURST: usize = 50;

fn timer(slack: Duration) -> Timer {
    Timer::builder().shards(1).executor(Executor::Inline).slack(slack).build().unwrap()
}

/// Makes the thread of the timer use up all wake-ups that may come early. Leaves a timer that waits for the next one.
fn use_up(timer: &Timer) {
    let runs = |run| {
        let (sender, receiver) = channel();
        timer.schedule(Duration::from_micros(100), move || _ = sender.send(())).unwrap();
        // A thread that is still awake does not need one each time.
        let wait = if run < BURST { TIMEOUT } else { 200 * MS };
        let runs = receiver.recv_timeout(wait).is_ok();
        assert!(runs || run >= BURST, "{run}");
        runs
    };
    assert!((0..10 * BURST).any(|run| !runs(run)), "the gate never closes");
}

/// Schedules timers at different ticks, which have come when this returns.
fn overdue(timer: &Timer) -> Arc<Mutex<Vec<u64>>> {
    let order = Arc::<Mutex<Vec<u64>>>::default();
    let first = Instant::now() + 200 * MS;
    for number in (1..=20).rev() {
        let order = order.clone();
        timer.schedule_at(first + number as u32 * MS / 10, move || order.lock().unwrap().push(number)).unwrap();
    }
    thread::sleep(250 * MS);
    assert_eq!(*order.lock().unwrap(), [], "the gate is closed for an hour");
    order
}

fn in_order(order: &Mutex<Vec<u64>>) -> bool {
    let order = order.lock().unwrap();
    assert!(order.is_sorted(), "{order:?}");
    order.len() == 20
}

#[test]
fn what_is_due_when_it_is_set_waits_for_no_slack() {
    let timer = timer(HOUR);
    use_up(&timer);
    let order = overdue(&timer);
    let (sender, receiver) = channel();
    timer.schedule(Duration::ZERO, move || sender.send(()).unwrap()).unwrap();
    receiver.recv_timeout(TIMEOUT).unwrap();
    eventually("a round goes to the present", || in_order(&order));
}

#[test]
fn a_deadline_that_has_passed_and_a_reset_to_it_wait_for_no_slack() {
    let timer = timer(HOUR);
    use_up(&timer);
    let before = overdue(&timer);
    timer.schedule_at(Instant::now() - MS, || ()).unwrap();
    eventually("a passed deadline", || in_order(&before));
    let before = overdue(&timer);
    let handle = timer.schedule(HOUR, || ()).unwrap();
    assert!(handle.reset(Duration::ZERO));
    eventually("a reset", || in_order(&before));
}

#[test]
fn a_late_run_of_a_fixed_rate_waits_for_no_slack() {
    let timer = timer(HOUR);
    use_up(&timer);
    let runs = Arc::new(AtomicUsize::new(0));
    let count = counting(&runs);
    let slow = move || {
        thread::sleep(2 * MS);
        count();
    };
    // Each run is due before the one before it has ended.
    let handle = timer.schedule_at_fixed_rate(Duration::ZERO, MS, slow).unwrap();
    eventually("it catches up", || runs.load(SeqCst) > BURST);
    handle.cancel();
}

/// Returns in which order timers of close deadlines run after a stall, or `None` if one was scheduled too late for that.
fn order_after_a_stall(slack: Duration) -> Option<Vec<u64>> {
    let timer = timer(slack);
    timer.schedule(Duration::ZERO, || thread::sleep(60 * MS)).unwrap();
    let order = Arc::<Mutex<Vec<u64>>>::default();
    let mut delays: Vec<u64> = (1..=1000).map(|delay| 20 * delay).collect();
    fastrand::shuffle(&mut delays);
    let first = Instant::now() + 20 * MS;
    for delay in delays {
        let order = order.clone();
        let run = move || order.lock().unwrap().push(delay);
        timer.schedule_at(first + Duration::from_micros(delay), run).unwrap();
    }
    let in_time = Instant::now() < first;
    thread::sleep(50 * MS);
    timer.schedule(Duration::ZERO, || ()).unwrap();
    eventually("all run", || order.lock().unwrap().len() == 1000);
    let order = order.lock().unwrap().clone();
    in_time.then_some(order)
}

#[test]
fn timers_keep_the_order_of_their_ticks_after_a_stall() {
    for slack in [Duration::ZERO, MS, HOUR] {
        let order = std::iter::repeat_with(|| order_after_a_stall(slack)).take(50).find_map(|order| order);
        assert!(order.expect("a machine that is not too busy").is_sorted());
    }
}

#[test]
fn dense_timers_share_wake_ups() {
    let timer = timer(MS);
    let begun = Instant::now();
    for _ in 0..20_000 {
        timer.schedule(Duration::from_micros(fastrand::u64(1000..500_000)), || ()).unwrap();
    }
    eventually("all run", || timer.stats().fired == 20_000);
    let most = begun.elapsed().as_millis() as usize + BURST;
    let wakeups = timer.stats().wakeups as usize;
    // Each timer that is armed before all others, or for the memory, may wake the thread, too.
    assert!(wakeups <= most + 20, "{wakeups} of at most {most}");
}

#[test]
fn sparse_timers_are_not_rounded_to_the_slack() {
    let timer = timer(Duration::from_millis(500));
    let mut late = Vec::new();
    for _ in 0..20 {
        let (sender, receiver) = channel();
        let at = timer.now() + 2 * MS;
        timer.schedule_at(at, move || sender.send(Instant::now()).unwrap()).unwrap();
        let ran = receiver.recv_timeout(TIMEOUT).unwrap();
        late.push(ran.checked_duration_since(at).expect("never early"));
    }
    late.sort_unstable();
    assert!(late[10] < 100 * MS, "{late:?}");
}

#[test]
fn a_loop_is_called_for_no_deadline_before_the_end_of_the_slack() {
    struct Calls(AtomicUsize);
    impl Wake for Calls {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    let timer = timer(HOUR);
    let mut driver = timer.take_driver().unwrap();
    let calls = Arc::new(Calls(AtomicUsize::new(0)));
    driver.set_waker(&Waker::from(calls.clone()));
    for _ in 0..BURST {
        timer.schedule(Duration::from_micros(100), || ()).unwrap();
        let next = driver.next_wakeup().expect("a deadline");
        assert!(next < Instant::now() + SEC, "the gate is open");
        thread::sleep(next.saturating_duration_since(Instant::now()));
        assert_eq!(driver.drive(), 1);
    }
    timer.schedule(MS, || ()).unwrap();
    let floor = driver.next_wakeup().expect("a deadline");
    assert!(floor > Instant::now() + HOUR / 2, "the loop neither spins nor wakes early");
    let home = timer.clone();
    thread::spawn(move || home.schedule(Duration::from_micros(500), || ()).unwrap()).join().unwrap();
    thread::sleep(2 * MS);
    assert_eq!(driver.next_wakeup(), Some(floor), "both are due");
    assert_eq!(calls.0.load(SeqCst), 0);
    let home = timer.clone();
    thread::spawn(move || home.schedule(Duration::ZERO, || ()).unwrap()).join().unwrap();
    assert_eq!(calls.0.load(SeqCst), 1);
    assert_eq!(driver.drive(), 3, "all that is due");
}

#[test]
fn the_tick_sets_the_slack() {
    let settings = |builder: corewheel::Builder| format!("{builder:?}");
    assert!(settings(Timer::builder()).contains("tick: 20µs, slack: 1ms"));
    assert!(settings(Timer::builder().tick(5 * MS)).contains("tick: 5ms, slack: 5ms"));
    assert!(settings(Timer::builder().slack(MS / 4).tick(5 * MS)).contains("tick: 5ms, slack: 250µs"));
    assert!(settings(on_manual_clock().0.slack(MS)).contains("tick: 1ms, slack: 0ns"));
}

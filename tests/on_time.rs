//! On time when alone, together under load: the slack.
#![cfg(feature = "std")]

mod common;

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use common::*;
use corewheel::{DelayQueue, Executor, Timer};

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

/// Waits until a round has linked what was scheduled before.
fn link(timer: &Timer) {
    let (sender, receiver) = channel();
    timer.schedule(Duration::ZERO, move || sender.send(()).unwrap()).unwrap();
    receiver.recv_timeout(TIMEOUT).unwrap();
}

/// Promise: due now.
#[test]
fn what_takes_the_place_of_an_overdue_timer_waits_for_no_slack() {
    for is_linked in [false, true] {
        let timer = timer(HOUR);
        use_up(&timer);
        let overdue = timer.schedule(100 * MS, || ()).unwrap();
        if is_linked {
            link(&timer);
        }
        thread::sleep(150 * MS);
        assert!(overdue.cancel());
        drop(overdue);
        link(&timer);
    }
}

/// Promise: due now.
#[test]
fn a_reset_of_an_overdue_timer_waits_for_no_slack() {
    for is_linked in [false, true] {
        let timer = timer(HOUR);
        use_up(&timer);
        let (sender, receiver) = channel();
        let overdue = timer.schedule(100 * MS, move || sender.send(()).unwrap()).unwrap();
        if is_linked {
            link(&timer);
        }
        thread::sleep(150 * MS);
        assert!(overdue.reset(Duration::ZERO), "the gate is closed for an hour");
        receiver.recv_timeout(TIMEOUT).unwrap();
    }
}

#[test]
fn a_value_in_the_place_of_an_overdue_one_waits_for_no_slack() {
    let timer = timer(HOUR);
    use_up(&timer);
    let queue = DelayQueue::new(&timer);
    let overdue = queue.push(100 * MS, 1).unwrap();
    link(&timer);
    thread::sleep(150 * MS);
    assert_eq!(overdue.remove(), Some(1));
    queue.push(Duration::ZERO, 2).unwrap();
    assert_eq!(queue.pop_timeout(TIMEOUT).expect("due now").value, 2);
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

/// Promise: on time.
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

/// Promise: on time.
#[test]
fn sparse_timers_are_not_rounded_to_the_slack() {
    let late = lateness(&timer(Duration::from_millis(500)), 20, Duration::ZERO);
    assert!(late[10] < 100 * MS, "{late:?}");
}

/// Promise: on time.
#[test]
fn traffic_that_only_cancels_holds_back_no_sparse_timer() {
    let timer = timer(200 * MS);
    let is_over = AtomicUsize::new(0);
    let late = thread::scope(|scope| {
        scope.spawn(|| {
            while is_over.load(SeqCst) == 0 {
                let handle = timer.schedule(MS, || ()).unwrap();
                thread::sleep(MS / 2);
                handle.cancel();
                thread::sleep(3 * MS);
            }
        });
        thread::sleep(SEC / 2);
        let late = lateness(&timer, 21, 450 * MS);
        is_over.store(1, SeqCst);
        late
    });
    assert!(late[10] < 50 * MS, "{late:?}");
}

/// Returns how late timers are of which one is scheduled in each `period`.
fn lateness(timer: &Timer, timers: usize, period: Duration) -> Vec<Duration> {
    let late = (0..timers).map(|_| {
        let (sender, receiver) = channel();
        let at = timer.now() + 2 * MS;
        timer.schedule_at(at, move || sender.send(Instant::now()).unwrap()).unwrap();
        let ran = receiver.recv_timeout(TIMEOUT).unwrap();
        thread::sleep((at + period).saturating_duration_since(Instant::now()));
        ran.checked_duration_since(at).expect("never early")
    });
    let mut late: Vec<_> = late.collect();
    late.sort_unstable();
    late
}

/// How often a timer that is hours away is reset to a little earlier.
const RESETS: u32 = 2000;

#[test]
fn resets_to_ever_earlier_deadlines_wake_the_driver_few_times() {
    let timer = timer(MS);
    let handle = timer.schedule(3 * HOUR, || ()).unwrap();
    let before = timer.stats().wakeups;
    for reset in 0..RESETS {
        assert!(handle.reset(2 * HOUR - reset * SEC));
        thread::sleep(MS / 10);
    }
    link(&timer);
    let wakeups = timer.stats().wakeups - before;
    assert!(wakeups < 20, "{wakeups}");
}

/// Counts the calls of a loop's waker.
struct Calls(AtomicUsize);

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn resets_to_ever_earlier_deadlines_call_a_loop_few_times() {
    let timer = timer(MS);
    let mut driver = timer.take_driver().unwrap();
    let calls = Arc::new(Calls(AtomicUsize::new(0)));
    driver.set_waker(&Waker::from(calls.clone()));
    let handle = timer.schedule(3 * HOUR, || ()).unwrap();
    let mut earliest = driver.next_wakeup().expect("a deadline");
    thread::scope(|scope| {
        let (reset, resets) = channel();
        let (done, is_done) = channel();
        scope.spawn(move || resets.into_iter().try_for_each(|at| done.send(handle.reset_at(at))));
        for number in 0..RESETS {
            let called = calls.0.load(SeqCst);
            let at = timer.now() + 2 * HOUR - number * SEC;
            reset.send(at).unwrap();
            assert!(is_done.recv().unwrap());
            if calls.0.load(SeqCst) > called {
                assert!(at < earliest, "the loop comes before");
                assert_eq!(driver.drive(), 0);
                earliest = driver.next_wakeup().expect("a deadline");
            }
            assert!(earliest <= at + MS, "the loop comes in time");
        }
        drop(reset);
    });
    assert!(calls.0.load(SeqCst) < 20, "{}", calls.0.load(SeqCst));
}

#[test]
fn a_loop_is_called_for_no_deadline_before_the_end_of_the_slack() {
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

/// A loop goes to sleep behind a closed gate, again and again, while another thread schedules what is due at once.
/// Promise: due now.
#[test]
fn a_loop_that_goes_to_sleep_waits_for_no_slack() {
    let timer = timer(HOUR);
    let is_over = AtomicUsize::new(0);
    let end = Instant::now() + SEC;
    thread::scope(|scope| {
        let (taken, is_taken) = channel();
        let (timer, is_over) = (&timer, &is_over);
        scope.spawn(move || {
            let mut driver = timer.take_driver().unwrap();
            driver.set_waker(&Waker::from(Arc::new(Unpark(thread::current()))));
            taken.send(()).unwrap();
            while is_over.load(SeqCst) == 0 && Instant::now() < end + TIMEOUT {
                driver.drive();
                let next = driver.next_wakeup().map_or(HOUR, |at| at.saturating_duration_since(Instant::now()));
                thread::park_timeout(next.min(2 * TIMEOUT));
            }
        });
        is_taken.recv().unwrap();
        use_up(timer);
        while Instant::now() < end {
            link(timer);
            // The next one comes at any moment of the loop.
            (0..fastrand::u32(0..200)).for_each(|_| std::hint::spin_loop());
        }
        is_over.store(1, SeqCst);
        timer.schedule(Duration::ZERO, || ()).unwrap();
    });
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[test]
fn a_loop_without_a_waker_waits_for_no_callback_that_runs_elsewhere() {
    let timer = timer(MS);
    let (begun, begins) = channel();
    let (end, ends) = channel::<()>();
    timer
        .schedule(Duration::ZERO, move || {
            begun.send(()).unwrap();
            _ = ends.recv_timeout(TIMEOUT);
        })
        .unwrap();
    begins.recv_timeout(TIMEOUT).unwrap();
    let mut driver = timer.take_driver().unwrap();
    timer.schedule(10 * MS, || ()).unwrap();
    assert!(driver.next_wakeup().expect("the loop looks again") < Instant::now() + SEC);
    drop(end);
    eventually("the loop's own timer", || {
        thread::sleep(driver.next_wakeup().expect("a deadline").saturating_duration_since(Instant::now()));
        driver.drive() == 1
    });
}

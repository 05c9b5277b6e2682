//! The program's own loop drives a shard.
#![cfg(feature = "std")]

mod common;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use common::*;
use corewheel::{DelayQueue, Driver, Executor, ManualClock, Panicked, Sleep, Timer, TimerHandle};

/// Counts its calls, and unparks the thread that created it.
struct Calls(AtomicUsize, thread::Thread);

impl Calls {
    fn new() -> Arc<Self> {
        Arc::new(Self(AtomicUsize::new(0), thread::current()))
    }

    fn count(&self) -> usize {
        self.0.load(SeqCst)
    }
}

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
        self.1.unpark();
    }
}

fn poll(sleep: Pin<&mut Sleep>) -> Poll<()> {
    sleep.poll(&mut Context::from_waker(Waker::noop()))
}

fn timer() -> Timer {
    Timer::builder().shards(1).executor(Executor::Inline).build().unwrap()
}

/// Runs the loop of a program until `is_over`.
fn run_loop(driver: &mut Driver, mut is_over: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_over() {
        assert!(begun.elapsed() < TIMEOUT, "the loop does not end");
        driver.drive();
        if is_over() {
            break;
        }
        match driver.next_wakeup() {
            Some(at) => thread::park_timeout(at.saturating_duration_since(Instant::now())),
            None => thread::park_timeout(5 * MS),
        }
    }
}

#[test]
fn a_loop_runs_callbacks_on_its_own_thread_and_never_early() {
    let timer = timer();
    let mut driver = timer.take_driver().unwrap();
    assert!(timer.take_driver().is_none(), "there is a driver of this shard");
    let (sender, receiver) = channel();
    let this = thread::current().id();
    for ms in [5, 1, 20, 0, 3] {
        let sender = sender.clone();
        let deadline = Instant::now() + ms * MS;
        let run = move || {
            assert_eq!(thread::current().id(), this);
            sender.send(Instant::now() >= deadline).unwrap();
        };
        timer.schedule_at(deadline, run).unwrap();
    }
    let mut runs = 0;
    run_loop(&mut driver, || {
        runs += receiver.try_iter().inspect(|in_time| assert!(in_time)).count();
        runs == 5
    });
    assert_eq!(driver.next_wakeup(), None, "nothing is left");
    assert_eq!((timer.stats().completed, driver.drive()), (5, 0));
    drop(driver);
    timer.schedule(MS, move || sender.send(thread::current().id() != this).unwrap()).unwrap();
    assert!(wait_for(&receiver), "the timer's own thread drives again");
    assert!(timer.take_driver().is_some(), "it can be taken again");
}

/// Promise: tickless.
#[test]
fn next_wakeup_is_no_later_than_the_earliest_deadline_and_moves_on_after_a_cancel() {
    let timer = timer();
    let mut driver = timer.take_driver().unwrap();
    assert_eq!(driver.next_wakeup(), None);
    let now = Instant::now();
    let late = timer.schedule_at(now + 3600 * SEC, || ()).unwrap();
    let soon = timer.schedule_at(now + 10 * SEC, || ()).unwrap();
    let next = driver.next_wakeup().unwrap();
    assert!(next <= soon.deadline().unwrap() + MS && next > Instant::now());
    assert!(soon.cancel());
    let begun = Instant::now();
    while driver.next_wakeup().is_some_and(|at| at <= now + 11 * SEC) && begun.elapsed() < TIMEOUT {
        let wakeup = driver.next_wakeup().unwrap();
        // The loop may not sleep longer than the promise allows.
        thread::sleep(wakeup.saturating_duration_since(Instant::now()).min(100 * MS));
        driver.drive();
    }
    assert!(driver.next_wakeup().unwrap() > now + 11 * SEC);
    assert!(late.cancel());
}

#[test]
fn another_thread_that_arms_something_earlier_calls_the_waker_once() {
    let timer = timer();
    let mut driver = timer.take_driver().unwrap();
    let calls = Calls::new();
    let other_timer = timer.clone();
    driver.set_waker(&Waker::from(calls.clone()));
    let _own = timer.schedule(60 * SEC, || ()).unwrap();
    driver.drive();
    assert!(driver.next_wakeup().is_some());
    let _own = timer.schedule(30 * SEC, || ()).unwrap();
    assert_eq!(calls.count(), 0, "the loop's own thread wakes nobody");
    driver.next_wakeup();
    thread::scope(|scope| {
        let arm = |delays: &'static [u32]| {
            let timer = &other_timer;
            let arms = move || delays.iter().for_each(|&delay| _ = timer.schedule(delay * SEC, || ()).unwrap());
            scope.spawn(arms).join().unwrap();
        };
        arm(&[50, 40]);
        assert_eq!(calls.count(), 0, "later than the answer");
        arm(&[20, 19, 18]);
        assert_eq!(calls.count(), 1, "once for each answer");
        assert!(driver.next_wakeup().is_some_and(|at| at < Instant::now() + 19 * SEC));
        arm(&[10]);
        assert_eq!(calls.count(), 2);
        let late = Calls::new();
        driver.set_waker(&Waker::from(late.clone()));
        assert_eq!((calls.count(), late.count()), (2, 1), "a wake-up was due meanwhile");
        assert_eq!(Arc::strong_count(&calls), 1, "the former waker is dropped");
        drop(driver);
        assert_eq!(Arc::strong_count(&late), 1, "with the driver");
    });
}

/// Timers that are due later call it not at all.
#[test]
fn memory_to_be_given_back_calls_the_waker_once_until_the_loop_drives() {
    const TIMERS: u32 = 100_000;
    let timer = timer();
    let calls = Calls::new();
    let mut driver = timer.take_driver().unwrap();
    driver.set_waker(&Waker::from(calls.clone()));
    let _own = timer.schedule(60 * SEC, || ()).unwrap();
    for expected in 1..=2 {
        driver.drive();
        for _ in 0..3 {
            while driver.next_wakeup().unwrap() <= Instant::now() {}
            let called = calls.count();
            let add_and_cancel = || {
                let handles: Vec<_> = (0..TIMERS).map(|_| timer.schedule(HOUR, || ()).unwrap()).collect();
                assert_eq!(calls.count(), called, "they are due later");
                assert!(handles.iter().all(|handle| handle.cancel()));
            };
            thread::scope(|scope| scope.spawn(add_and_cancel).join().unwrap());
            assert_eq!(calls.count(), expected);
        }
    }
}

/// Promise: no timer is forgotten.
#[test]
fn a_loop_that_sleeps_is_woken_for_what_other_threads_arm() {
    let timer = timer();
    let mut driver = timer.take_driver().unwrap();
    driver.set_waker(&Waker::from(Calls::new()));
    let runs = Arc::new(AtomicUsize::new(0));
    const EACH: usize = 300;
    thread::scope(|scope| {
        for seed in 0..2 {
            let (timer, runs) = (&timer, &runs);
            scope.spawn(move || {
                for step in 0..EACH {
                    let delay = ((step * 7 + seed) % 5) as u32 * MS;
                    timer.schedule(delay, counting(runs)).unwrap();
                    thread::sleep(MS / 4);
                }
            });
        }
        run_loop(&mut driver, || runs.load(SeqCst) == 2 * EACH);
    });
    assert_eq!(timer.stats().completed, 2 * EACH as u64);
}

#[test]
fn sleeps_and_values_are_counted_by_drive() {
    let timer = timer();
    let mut driver = timer.take_driver().unwrap();
    let queue = DelayQueue::new(&timer);
    let _key = queue.push(MS, 7).unwrap();
    let mut sleep = Box::pin(timer.sleep(100 * MS));
    assert!(poll(sleep.as_mut()).is_pending());
    timer.schedule(MS, || ()).unwrap();
    thread::sleep(105 * MS);
    assert_eq!(driver.drive(), 3);
    assert!(poll(sleep.as_mut()).is_ready() && queue.try_pop().is_some_and(|expired| expired.value == 7));
}

#[test]
fn the_pool_runs_callbacks_that_a_loop_expires() {
    for executor in [Executor::Pool { threads: 1 }, Executor::default()] {
        let timer = Timer::builder().shards(2).executor(executor).build().unwrap();
        let mut driver = timer.take_driver().unwrap();
        let runs = Arc::new(AtomicUsize::new(0));
        (0..100).for_each(|ms| _ = timer.schedule(ms % 10 * MS, counting(&runs)).unwrap());
        run_loop(&mut driver, || runs.load(SeqCst) == 100);
    }
}

/// Schedules two callbacks, of which the one that starts first waits for the other. Returns how many have started.
fn schedule_pair(timer: &Timer, at: Instant) -> Arc<AtomicUsize> {
    let gate = Gate::default();
    let started = Arc::new(AtomicUsize::new(0));
    for _ in 0..2 {
        let (gate, started) = (gate.clone(), started.clone());
        let meet = move || if started.fetch_add(1, SeqCst) == 0 { gate.pass() } else { gate.open() };
        timer.schedule_at(at, meet).unwrap();
    }
    started
}

/// The callbacks wait for each other, so one must be looked after.
#[test]
fn a_waker_that_a_loop_calls_may_wait_for_callbacks_of_its_turn() {
    struct Waits(Arc<AtomicUsize>);
    impl Wake for Waits {
        fn wake(self: Arc<Self>) {
            eventually("both have started", || self.0.load(SeqCst) == 2);
        }
    }

    let timer = Timer::builder().shards(1).executor(Executor::Pool { threads: 2 }).build().unwrap();
    let mut driver = timer.take_driver().unwrap();
    let at = timer.now() + 20 * MS;
    let waker = Waker::from(Arc::new(Waits(schedule_pair(&timer, at))));
    let mut sleep = timer.sleep_until(at);
    assert!(Pin::new(&mut sleep).poll(&mut Context::from_waker(&waker)).is_pending());
    run_loop(&mut driver, || timer.stats().completed == 3);
    assert_eq!(timer.stats().panicked, 0);
}

/// The callback that the loop has handed over has ended, so no look is to come.
#[cfg(target_os = "linux")]
#[test]
fn no_thread_wakes_beside_a_loop_that_has_nothing_to_do() {
    let builder = Timer::builder().shards(1).executor(Executor::Pool { threads: 2 }).thread_name("loop-rest");
    let timer = builder.build().unwrap();
    let mut driver = timer.take_driver().unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    timer.schedule(5 * MS, counting(&runs)).unwrap();
    run_loop(&mut driver, || runs.load(SeqCst) == 1);
    assert_eq!(driver.next_wakeup(), None);
    thread::sleep(200 * MS);
    let before = sleeps_of("loop-rest");
    thread::sleep(300 * MS);
    assert_eq!(sleeps_of("loop-rest"), before);
}

/// `next_wakeup` has begun a round before the deadline, and left much of it.
#[test]
fn drive_ends_an_old_round_and_begins_another() {
    let timer = Timer::builder().shards(1).executor(Executor::Inline).build().unwrap();
    let mut driver = timer.take_driver().unwrap();
    (0..2000).for_each(|_| _ = timer.schedule(HOUR, || ()).unwrap());
    timer.schedule(20 * MS, || ()).unwrap();
    driver.next_wakeup();
    thread::sleep(40 * MS);
    assert_eq!(driver.drive(), 1);
}

/// The timer's thread is inside a waker, with a callback still to run, when the program takes its shard.
#[test]
fn inline_callbacks_keep_their_order_when_a_loop_takes_the_shard() {
    let timer = Timer::builder().shards(1).executor(Executor::Inline).build().unwrap();
    let blocks = Blocks::default();
    let order = Arc::new(Mutex::new(Vec::new()));
    let Blocks(begun, gate) = &blocks;
    let sleep = blocks.arm(&timer, 20 * MS);
    let at = sleep.deadline();
    for late in [0, 1] {
        let order = order.clone();
        timer.schedule_at(at + late * 10 * MS, move || order.lock().unwrap().push(late)).unwrap();
    }
    begun.pass();
    let mut driver = timer.take_driver().unwrap();
    thread::sleep(20 * MS);
    assert_eq!(driver.drive(), 0);
    gate.open();
    run_loop(&mut driver, || order.lock().unwrap().len() == 2);
    assert_eq!(*order.lock().unwrap(), [0, 1]);
}

/// A callback waits for its mate, for which a pool of one thread grows. The loop does not come back before, and no other
/// timer is due.
/// Promise: no starvation by a neighbour.
#[test]
fn a_callback_does_not_depend_on_the_loop_that_has_handed_it_over() {
    for threads in [2, 1] {
        if threads == 1 && cfg!(not(target_os = "linux")) {
            continue;
        }
        let timer = Timer::builder().shards(1).executor(Executor::Pool { threads }).build().unwrap();
        let mut driver = timer.take_driver().unwrap();
        for _ in 0..5 {
            let started = schedule_pair(&timer, timer.now() + 5 * MS);
            while driver.drive() == 0 {}
            let begun = Instant::now();
            eventually("what it waits for has started", || started.load(SeqCst) == 2);
            assert!(begun.elapsed() < SEC, "{threads} threads");
        }
    }
}

#[test]
fn each_shard_returns_to_the_timers_threads() {
    for executor in [Executor::Inline, Executor::Pool { threads: 1 }] {
        let timer = Timer::builder().shards(2).executor(executor).build().unwrap();
        let _first = timer.take_driver().unwrap();
        let shared = timer.clone();
        let second = move || {
            drop(shared.take_driver().unwrap());
            let (sender, receiver) = channel();
            shared.schedule(MS, move || sender.send(()).unwrap()).unwrap();
            wait_for(&receiver);
        };
        thread::spawn(second).join().unwrap();
    }
}

/// The last `next_wakeup` has taken a timer out of the wheel that no `drive` hands out.
#[test]
fn a_shutdown_hands_back_what_a_driver_has() {
    let timer = timer();
    let tokens = Tokens::default();
    let mut driver = timer.take_driver().unwrap();
    let token = tokens.give();
    timer.schedule(MS, move || drop(token)).unwrap();
    thread::sleep(5 * MS);
    assert!(driver.next_wakeup().is_some());
    assert_eq!(timer.shutdown().len(), 1);
    drop((driver, timer));
    assert_eq!(tokens.alive(), 0);
}

/// Promise: the shutdown loses nothing.
#[test]
fn a_shutdown_calls_the_waker_and_ends_the_driver() {
    let timer = timer();
    let mut driver = timer.take_driver().unwrap();
    let calls = Calls::new();
    driver.set_waker(&Waker::from(calls.clone()));
    let pending = timer.schedule(MS, || ()).unwrap();
    assert!(!driver.is_shutdown());
    thread::sleep(3 * MS);
    assert_eq!(timer.shutdown().len(), 1);
    assert!(calls.count() == 1 && driver.is_shutdown() && !pending.is_pending());
    assert_eq!((driver.drive(), driver.next_wakeup()), (0, None));
    assert!(timer.take_driver().is_none());
    drop(timer);
    assert_eq!((driver.drive(), driver.next_wakeup()), (0, None), "the timer is gone");
}

/// Promise: panics stay inside.
#[test]
fn a_waker_that_panics_affects_neither_the_thread_that_calls_it_nor_a_shutdown() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            quiet_panic("woken");
        }
    }
    let payloads = Arc::new(AtomicUsize::new(0));
    let count = payloads.clone();
    let report = move |panicked: Panicked| {
        assert_eq!((panicked.payload_as_str(), panicked.callback, panicked.shard), (Some("woken"), None, Some(0)));
        count.fetch_add(1, SeqCst);
    };
    let executor = Executor::Pool { threads: 1 };
    let timer = Timer::builder().shards(2).executor(executor).on_panic(report).build().unwrap();
    let mut driver = timer.take_driver().unwrap();
    driver.set_waker(&Waker::from(Arc::new(Panics)));
    let runs = Arc::new(AtomicUsize::new(0));
    let repeats = timer.schedule_at_fixed_rate(MS, MS, counting(&runs)).unwrap();
    // A worker arms each next run: for earlier than the loop has been told, because nothing else is pending.
    eventually("the worker and its timer go on", || {
        driver.drive();
        driver.next_wakeup();
        runs.load(SeqCst) >= 3 && payloads.load(SeqCst) >= 2
    });
    assert!(repeats.cancel());
    thread::scope(|scope| {
        // On both shards.
        let arms = || scope.spawn(|| timer.schedule(60 * SEC, || ()).unwrap()).join().unwrap();
        assert!((0..4).map(|_| arms()).all(|handle| handle.is_pending()));
    });
    driver.next_wakeup();
    assert_eq!(timer.shutdown().len(), 4);
    assert_eq!(timer.stats().panicked, payloads.load(SeqCst) as u64);
    assert_balanced(&timer);
}

#[test]
fn a_waker_whose_drop_panics_does_not_keep_the_shard() {
    struct PanicsOnDrop;
    impl Wake for PanicsOnDrop {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            quiet_panic("dropped");
        }
    }
    let timer = timer();
    let mut driver = timer.take_driver().unwrap();
    (0..2).for_each(|_| driver.set_waker(&Waker::from(Arc::new(PanicsOnDrop))));
    assert_eq!(timer.stats().panicked, 1);
    drop(driver);
    assert_eq!(timer.stats().panicked, 2);
    wait_for_a_timer(&timer);
}

/// Opens a gate when it is called, and waits for another.
#[derive(Clone, Default)]
struct Blocks(Gate, Gate);

impl Wake for Blocks {
    fn wake(self: Arc<Self>) {
        self.0.open();
        self.1.pass();
    }
}

impl Blocks {
    /// Arms a sleep that calls this.
    fn arm(&self, timer: &Timer, delay: Duration) -> Pin<Box<Sleep>> {
        let waker = Waker::from(Arc::new(self.clone()));
        let mut sleep = Box::pin(timer.sleep(delay));
        assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        sleep
    }
}

/// Schedules a timer on the calling thread, and waits until it has fired.
fn wait_for_a_timer(timer: &Timer) {
    let (sender, receiver) = channel();
    timer.schedule(MS, move || sender.send(()).unwrap()).unwrap();
    wait_for(&receiver);
}

/// The timer's thread is inside a callback, or inside `execute`, when the program takes its shard. Meanwhile the loop has
/// nothing to do, and does not look again. The thread calls its waker when it is done, if anything is armed then.
#[test]
fn a_loop_that_takes_a_shard_from_a_thread_is_woken_once_that_is_done() {
    let run = |job: Job| job();
    for executor in [Executor::Inline, Executor::Custom(Arc::new(ExecuteFn(run)))] {
        for is_armed in [true, false] {
            let (begun, gate) = (Gate::default(), Gate::default());
            let (begin, pass) = (begun.clone(), gate.clone());
            let timer = Timer::builder().shards(1).executor(executor.clone()).build().unwrap();
            let blocks = move || {
                begin.open();
                pass.pass();
            };
            timer.schedule(Duration::ZERO, blocks).unwrap();
            begun.pass();
            let mut driver = timer.take_driver().unwrap();
            let calls = Calls::new();
            driver.set_waker(&Waker::from(calls.clone()));
            let runs = Arc::new(AtomicUsize::new(0));
            if is_armed {
                timer.schedule(Duration::ZERO, counting(&runs)).unwrap();
            }
            for _ in 0..3 {
                assert_eq!((driver.drive(), driver.next_wakeup()), (0, None));
            }
            assert_eq!(calls.count(), 0);
            gate.open();
            if is_armed {
                eventually("the loop is woken", || calls.count() == 1);
                assert!(driver.next_wakeup().is_some());
                assert_eq!((driver.drive(), runs.load(SeqCst)), (1, 1));
            } else {
                thread::sleep(20 * MS);
            }
            assert_eq!(driver.next_wakeup(), None);
            assert_eq!(calls.count(), usize::from(is_armed));
        }
    }
}

#[test]
fn the_thread_that_uses_the_driver_has_its_shard_as_home() {
    let timer = Timer::builder().shards(2).executor(Executor::Inline).build().unwrap();
    let mut driver = timer.take_driver().unwrap();
    let shared = timer.clone();
    let calls = Calls::new();
    driver.set_waker(&Waker::from(calls.clone()));
    let moved = thread::spawn(move || {
        // Its home is the other shard, before it has the driver.
        shared.schedule(3600 * SEC, || ()).unwrap();
        let before = driver.next_wakeup();
        shared.schedule(MS, || ()).unwrap();
        assert_eq!(calls.count(), 0, "the loop's own thread wakes nobody");
        let after = driver.next_wakeup();
        thread::sleep(5 * MS);
        (before, after.is_some(), driver.drive())
    });
    assert_eq!(moved.join().unwrap(), (None, true, 1));
    let pending: Vec<_> = timer.stats().shards().iter().map(|shard| shard.scheduled).collect();
    assert_eq!(pending, [1, 1]);
}

#[test]
fn of_two_drivers_the_one_used_last_has_the_home() {
    let timer = Timer::builder().shards(2).executor(Executor::Inline).build().unwrap();
    let mut first = timer.take_driver().unwrap();
    let other = timer.clone();
    let second = thread::spawn(move || other.take_driver().unwrap()).join().unwrap();
    assert!(!second.is_shutdown());
    assert_eq!(first.drive(), 0);
    timer.schedule(Duration::ZERO, || ()).unwrap();
    eventually("it is in the shard of the first", || first.drive() == 1);
}

/// The waker schedules while its thread schedules, so that thread has timers in both shards.
#[test]
fn a_thread_that_drives_has_one_home() {
    struct Schedules(Timer, Mutex<Option<TimerHandle>>);
    impl Wake for Schedules {
        fn wake(self: Arc<Self>) {
            *self.1.lock().unwrap() = self.0.schedule(HOUR, || ()).ok();
        }
    }

    let timer = Timer::builder().shards(2).executor(Executor::Inline).build().unwrap();
    let scheduled = || timer.stats().shards().iter().map(|shard| shard.scheduled).collect::<Vec<_>>();
    let mut driver = timer.take_driver().unwrap();
    let schedules = Arc::new(Schedules(timer.clone(), Mutex::default()));
    let waker = Waker::from(schedules.clone());
    let lend = move || {
        driver.set_waker(&waker);
        assert_eq!(driver.next_wakeup(), None);
        driver
    };
    let mut driver = thread::spawn(lend).join().unwrap();
    timer.schedule(HOUR, || ()).unwrap();
    assert_eq!(scheduled(), [1, 1]);
    driver.drive();
    assert!(schedules.1.lock().unwrap().take().unwrap().cancel());
    timer.schedule(HOUR, || ()).unwrap();
    assert_eq!(scheduled(), [2, 1]);
}

#[test]
fn no_driver_is_given_in_virtual_time_nor_to_the_timers_threads() {
    let virtual_time = Timer::builder().clock(ManualClock::new()).build().unwrap();
    assert!(virtual_time.take_driver().is_none());
    for executor in [Executor::Inline, Executor::Pool { threads: 1 }] {
        let timer = Timer::builder().shards(1).executor(executor).build().unwrap();
        let (sender, receiver) = channel();
        let inside = timer.clone();
        timer.schedule(MS, move || sender.send(inside.take_driver().is_none()).unwrap()).unwrap();
        assert!(wait_for(&receiver));
        assert!(timer.take_driver().is_some());
    }
}

/// Threads take the driver, drive for a while, and drop it, while others arm timers.
/// Promise: no timer is forgotten.
#[test]
fn nothing_is_lost_while_the_driver_changes_hands() {
    for executor in [Executor::Inline, Executor::Pool { threads: 2 }] {
        let timer = Timer::builder().shards(2).executor(executor).build().unwrap();
        let runs = Arc::new(AtomicUsize::new(0));
        const ARMED: usize = 2000;
        thread::scope(|scope| {
            let (timer, runs) = (&timer, &runs);
            for _ in 0..2 {
                scope.spawn(move || {
                    while runs.load(SeqCst) < ARMED {
                        let Some(mut driver) = timer.take_driver() else { continue };
                        driver.set_waker(&Waker::from(Calls::new()));
                        for _ in 0..3 {
                            driver.drive();
                            let left = driver.next_wakeup().map(|at| at.saturating_duration_since(Instant::now()));
                            thread::park_timeout(left.unwrap_or(MS).min(MS));
                        }
                    }
                });
            }
            (0..ARMED).for_each(|step| {
                timer.schedule((step % 3) as u32 * MS, counting(runs)).unwrap();
                if step % 16 == 0 {
                    thread::sleep(MS / 2);
                }
            });
            eventually("all run", || runs.load(SeqCst) == ARMED);
        });
        assert_eq!(timer.shutdown().len(), 0);
    }
}

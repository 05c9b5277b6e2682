//! A pool grows while its threads are blocked inside callbacks, and only then.
#![cfg(all(feature = "std", target_os = "linux"))]

mod common;

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use common::*;
use corewheel::{Executor, Sleep, Timer, rayon};

/// How long an extra thread is idle before it ends.
const IDLE: Duration = Duration::from_secs(5);

/// Returns a timer with one shard and a pool of `threads` threads.
fn timer_with(threads: usize, max_extra: usize, name: &str) -> Timer {
    let builder = Timer::builder().shards(1).executor(Executor::Pool { threads }).max_extra_threads(max_extra);
    builder.thread_name(name).build().unwrap()
}

/// Promise: no starvation by a neighbour.
#[test]
fn callbacks_that_block_delay_no_others() {
    const BLOCKS: Duration = Duration::from_secs(1);
    for (all, blocking) in [(1_000, 4), (5_000, 100)] {
        let timer = Timer::builder().executor(Executor::Pool { threads: 2 }).build().unwrap();
        let at = timer.now() + 50 * MS;
        let last = Arc::new(Mutex::new(at));
        for number in 0..all {
            let clock = timer.downgrade();
            let last = last.clone();
            let run = move || {
                if number % (all / blocking) == 0 {
                    thread::sleep(BLOCKS);
                } else if let Some(timer) = clock.upgrade() {
                    let mut last = last.lock().unwrap();
                    *last = timer.now().max(*last);
                }
            };
            timer.schedule_at(at, run).unwrap();
        }
        eventually("all callbacks have started", || timer.stats().fired == all);
        let late = *last.lock().unwrap() - at;
        assert!(late < BLOCKS / 2, "the last callback is {late:?} late beside {blocking} of {all} that block");
        let stats = timer.stats();
        assert!(stats.extra_threads >= blocking - 2, "{} for {blocking} that block", stats.extra_threads);
        assert!(stats.extra_threads_needed >= stats.extra_threads);
    }
}

/// Promise: no starvation by a neighbour.
#[test]
fn a_callback_may_wait_for_a_timer_that_is_due_later() {
    let timer = timer_with(1, 256, "growth-chain");
    let gates: Vec<_> = (0..50).map(|_| Gate::default()).collect();
    for (number, gate) in gates.iter().enumerate() {
        let gate = gate.clone();
        let next = gates.get(number + 1).cloned();
        let wait_for_the_next = move || {
            if let Some(next) = next {
                next.pass();
            }
            gate.open();
        };
        timer.schedule(number as u32 * MS, wait_for_the_next).unwrap();
    }
    gates[0].pass();
    assert!(timer.stats().extra_threads >= 48);
}

/// The waker blocks the thread that checks the pool. It goes on when the waker returns.
#[test]
fn a_pool_grows_on_after_a_waker_that_blocks_the_leader() {
    struct Naps(Duration);
    impl Wake for Naps {
        fn wake(self: Arc<Self>) {
            thread::sleep(self.0);
        }
    }

    const CALLBACKS: usize = 50;
    for _ in 0..40 {
        let timer = Timer::builder().shards(2).executor(Executor::Pool { threads: 1 }).build().unwrap();
        let nap = Duration::from_micros(fastrand::u64(8_000..20_000));
        let mut sleep = timer.sleep(5 * MS);
        let waker = Waker::from(Arc::new(Naps(nap)));
        let _ = Pin::new(&mut sleep).poll(&mut Context::from_waker(&waker));
        let gate = Gate::default();
        let started = Arc::new(AtomicUsize::new(0));
        let at = timer.now() + 6 * MS;
        for _ in 0..CALLBACKS {
            let gate = gate.clone();
            let count = counting(&started);
            let block = move || {
                count();
                gate.pass();
            };
            timer.schedule_at(at, block).unwrap();
        }
        eventually("all callbacks have started", || started.load(Ordering::SeqCst) == CALLBACKS);
        gate.open();
    }
}

/// Three tasks whose wakers nap keep the only thread that drives awake: another is due whenever one returns.
#[test]
fn a_pool_grows_beside_a_thread_that_never_sleeps() {
    struct Naps(Timer, Mutex<Option<Sleep>>);
    impl Wake for Naps {
        fn wake(self: Arc<Self>) {
            if self.0.is_shutdown() {
                return;
            }
            thread::sleep(2 * MS);
            let mut sleep = self.0.sleep(MS);
            _ = Pin::new(&mut sleep).poll(&mut Context::from_waker(&Waker::from(self.clone())));
            *self.1.lock().unwrap() = Some(sleep);
        }
    }

    let timer = timer_with(1, 8, "growth-busy");
    let tasks = [(); 3].map(|()| Arc::new(Naps(timer.clone(), Mutex::default())));
    tasks.iter().cloned().for_each(Wake::wake);
    let gate = Gate::default();
    let started = Arc::new(AtomicUsize::new(0));
    let at = timer.now() + 20 * MS;
    for _ in 0..2 {
        let gate = gate.clone();
        let count = counting(&started);
        let block = move || {
            count();
            gate.pass();
        };
        timer.schedule_at(at, block).unwrap();
    }
    eventually("both have started", || started.load(Ordering::SeqCst) == 2);
    gate.open();
    timer.shutdown();
}

/// Promise: no starvation by a neighbour.
#[test]
fn extra_threads_do_not_exceed_the_limit() {
    for limit in [0, 3] {
        let timer = timer_with(1, limit, "growth-limit");
        let gate = Gate::default();
        block(&timer, 1 + limit, &gate);
        let (sender, receiver) = channel();
        timer.schedule(Duration::ZERO, move || sender.send(()).unwrap()).unwrap();
        assert!(receiver.recv_timeout(200 * MS).is_err(), "one more than {limit} extra threads");
        assert_eq!(timer.stats().extra_threads, limit as u64);
        gate.open();
        wait_for(&receiver);
    }
}

/// Promise: no starvation by a neighbour.
#[test]
fn idle_extra_threads_end_and_leave_no_thread_awake() {
    let name = "growth-idle";
    let timer = timer_with(2, 256, name);
    let gate = Gate::default();
    block(&timer, 10, &gate);
    assert!((8..=20).contains(&timer.stats().extra_threads), "{}", timer.stats().extra_threads);
    gate.open();
    let idle = Instant::now();
    eventually("all callbacks have run", || timer.stats().pending == 0);
    assert!(timer.stats().extra_threads >= 8, "extra threads stay while they are idle for a short time");
    eventually("the extra threads have ended", || timer.stats().extra_threads == 0);
    assert!(idle.elapsed() >= IDLE - 10 * MS);
    // A driver and two workers.
    eventually("only the other threads are left", || threads_named(name) == 3);
    thread::sleep(200 * MS);
    let before = sleeps_of(name);
    thread::sleep(500 * MS);
    assert_eq!(sleeps_of(name), before, "a thread woke up");
    // The pool can grow again.
    let gate = Gate::default();
    block(&timer, 5, &gate);
    gate.open();
}

/// Promise: no starvation by a neighbour.
#[test]
fn a_shutdown_waits_for_extra_threads() {
    const BLOCKED: usize = 5;
    type AtTheEnd = OnDrop<fn()>;
    static ENDED: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static AT_THE_END: Cell<Option<AtTheEnd>> = const { Cell::new(None) };
    }
    let count: fn() = || {
        thread::sleep(50 * MS);
        ENDED.fetch_add(1, Ordering::SeqCst);
    };
    for (shuts_down, spawns) in [false, true].into_iter().cycle().zip([true, true, false, false, false, false]) {
        let name = "growth-join";
        let timer = timer_with(1, 256, name);
        let gate = Gate::default();
        let (sender, receiver) = channel();
        for _ in 0..BLOCKED {
            let (gate, sender) = (gate.clone(), sender.clone());
            let block = move || {
                // The extra thread may have work left after its callback.
                if thread::current().name().unwrap().contains("-extra-") {
                    AT_THE_END.set(Some(OnDrop(count)));
                    if spawns {
                        rayon::spawn(|| thread::sleep(100 * MS));
                    }
                }
                sender.send(()).unwrap();
                gate.pass();
            };
            timer.schedule(Duration::ZERO, block).unwrap();
        }
        (0..BLOCKED).for_each(|_| wait_for(&receiver));
        assert!(threads_named(name) > BLOCKED);
        if !spawns {
            // They are idle, and end together.
            gate.open();
            thread::sleep(5 * MS);
        }
        let opener = thread::spawn(move || {
            thread::sleep(50 * MS);
            gate.open();
        });
        if shuts_down {
            assert_eq!(timer.shutdown().len(), 0);
        } else {
            drop(timer);
        }
        assert_eq!(ENDED.swap(0, Ordering::SeqCst), BLOCKED - 1);
        eventually("the threads have ended", || threads_named(name) == 0);
        opener.join().unwrap();
    }
}

/// Extra threads that are blocked are left to end by themselves; the pool has no thread afterwards.
/// Promise: a shutdown with a limit.
#[test]
fn a_shutdown_with_a_limit_leaves_blocked_extra_threads() {
    let name = "growth-limit";
    let timer = timer_with(1, 4, name);
    let gate = Gate::default();
    let tokens = Tokens::default();
    block(&timer, 5, &gate);
    // No worker is left for these.
    for _ in 0..10 {
        let token = tokens.give();
        timer.schedule(Duration::ZERO, move || drop(token)).unwrap();
    }
    thread::sleep(20 * MS);
    let start = Instant::now();
    let shutting = timer.clone();
    let unfired = in_time("a shutdown with a limit", move || shutting.shutdown_timeout(50 * MS));
    assert!((50 * MS..10 * SEC).contains(&start.elapsed()));
    assert_eq!((unfired.len(), tokens.alive()), (10, 10));
    drop(unfired);
    assert_eq!((tokens.alive(), timer.shutdown().len()), (0, 0));
    assert!(threads_named(name) >= 5, "they are blocked");
    gate.open();
    eventually("the threads have ended", || threads_named(name) == 0);
    assert_balanced(&timer);
}

#[test]
fn a_timer_can_be_shut_down_on_an_extra_thread() {
    for by_drop in [false, true] {
        let name = if by_drop { "growth-drop" } else { "growth-shut" };
        let timer = timer_with(1, 256, name);
        let gate = Gate::default();
        block(&timer, 1, &gate);
        let (sender, receiver) = channel();
        let inside = timer.clone();
        let shut_down = move || {
            let name = thread::current().name().unwrap().to_owned();
            gate.open();
            let left = if by_drop { 0 } else { inside.shutdown().len() };
            sender.send((name, left)).unwrap();
            drop(inside);
        };
        let far = timer.schedule(HOUR, || ()).unwrap();
        timer.schedule(Duration::ZERO, shut_down).unwrap();
        drop(timer);
        let (on, left) = wait_for(&receiver);
        assert!(on.starts_with(&format!("{name}-extra")), "{on}");
        assert_eq!(left, usize::from(!by_drop));
        eventually("all threads have ended", || threads_named(name) == 0);
        assert!(!far.is_pending());
    }
}

/// Promise: no starvation by a neighbour.
#[test]
fn callbacks_that_compute_start_no_extra_thread() {
    let timer = timer_with(2, 256, "growth-compute");
    let runs = Arc::new(AtomicUsize::new(0));
    for _ in 0..20 {
        let runs = runs.clone();
        let compute = move || {
            spin(20 * MS);
            runs.fetch_add(1, Ordering::SeqCst);
        };
        timer.schedule(Duration::ZERO, compute).unwrap();
    }
    eventually("all callbacks have run", || runs.load(Ordering::SeqCst) == 20);
    assert_eq!(timer.stats().extra_threads_needed, 0);
}

/// Promise: no starvation by a neighbour.
#[test]
fn overload_starts_no_extra_thread() {
    let timer = Timer::builder().executor(Executor::Pool { threads: 2 }).build().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let busy: Vec<_> = (0..8)
        .map(|_| {
            let stop = stop.clone();
            thread::spawn(move || while !stop.load(Ordering::Relaxed) {})
        })
        .collect();
    let runs = Arc::new(AtomicUsize::new(0));
    let start = timer.now();
    for number in 0..200_000_u32 {
        timer.schedule_at(start + Duration::from_micros(5) * number, counting(&runs)).unwrap();
    }
    eventually("all callbacks have run", || runs.load(Ordering::SeqCst) == 200_000);
    stop.store(true, Ordering::Relaxed);
    busy.into_iter().for_each(|busy| busy.join().unwrap());
    assert_eq!(timer.stats().extra_threads_needed, 0);
}

/// Promise: no starvation by a neighbour.
#[test]
fn a_blocked_callback_frees_its_core_for_other_callbacks() {
    // One callback blocks and another computes, so there is room for one more.
    let timer = timer_with(2, 256, "growth-mixed");
    let gate = Gate::default();
    let stop = Arc::new(AtomicBool::new(false));
    block(&timer, 1, &gate);
    let begun = Gate::default();
    let stopped = stop.clone();
    let begin = begun.clone();
    let compute = move || {
        begin.open();
        while !stopped.load(Ordering::Relaxed) {}
    };
    timer.schedule(Duration::ZERO, compute).unwrap();
    begun.pass();
    let (sender, receiver) = channel();
    timer.schedule(Duration::ZERO, move || sender.send(()).unwrap()).unwrap();
    wait_for(&receiver);
    assert!(timer.stats().extra_threads >= 1);
    stop.store(true, Ordering::Relaxed);
    gate.open();
}

/// Promise: no starvation by a neighbour.
#[test]
fn rayon_works_on_an_extra_thread() {
    let timer = timer_with(1, 256, "growth-rayon");
    let gate = Gate::default();
    block(&timer, 1, &gate);
    let (sender, receiver) = channel();
    for _ in 0..10 {
        let (sender, gate) = (sender.clone(), gate.clone());
        let uses = move || {
            use_rayon_on_one_thread(&sender);
            assert!(!gate.opens_within(Duration::ZERO));
        };
        timer.schedule(Duration::ZERO, uses).unwrap();
    }
    for _ in 0..10 * TASKS {
        let on = wait_for(&receiver);
        assert!(on.starts_with("growth-rayon-extra"), "{on}");
    }
    assert_eq!(timer.stats().panicked, 0);
    gate.open();
}

/// The extra thread belongs to the pool, so it is not joined.
#[test]
fn a_shutdown_in_rayons_work_on_an_extra_thread_does_not_deadlock() {
    let name = "growth-within";
    let timer = timer_with(1, 256, name);
    let gate = Gate::default();
    block(&timer, 1, &gate);
    let (sender, receiver) = channel();
    let weak = timer.downgrade();
    let shut_down = move || {
        gate.open();
        sender.send(weak.upgrade().unwrap().shutdown().len()).unwrap();
    };
    timer.schedule(Duration::ZERO, || rayon::spawn(shut_down)).unwrap();
    assert_eq!(wait_for(&receiver), 0);
    eventually("the threads have ended", || threads_named(name) == 0);
}

#[test]
fn the_pool_grows_in_virtual_time() {
    let (builder, clock) = on_manual_clock();
    let timer = builder.executor(Executor::Pool { threads: 1 }).build().unwrap();
    let gate = Gate::default();
    for number in 0..5 {
        let gate = gate.clone();
        timer.schedule(MS, move || if number == 4 { gate.open() } else { gate.pass() }).unwrap();
    }
    in_time("an advance over callbacks that wait for a later one", move || clock.advance(MS));
    assert_eq!(timer.stats().completed, 5);
}

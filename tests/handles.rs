//! Handles: cancel, reset, wait, query, guard, detach.
#![cfg(feature = "std")]

mod common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, OnceLock};
use std::thread;
use std::time::Duration;

use common::*;
use corewheel::{CancelOnDrop, Executor, Timer, TimerHandle};
use fastrand::Rng;

#[test]
fn a_cancelled_timer_never_runs_and_cancels_once() {
    let (timer, clock) = in_virtual_time();
    let handle = timer.schedule(SEC, || panic!("a cancelled timer ran")).unwrap();
    assert!(handle.is_pending());
    assert!(handle.cancel());
    assert!(!handle.is_pending() && handle.deadline().is_none());
    assert!(!handle.cancel() && !handle.cancel_and_wait() && !handle.reset(SEC) && !handle.reset_at(clock.now()));
    clock.advance(HOUR);
    let stats = timer.stats();
    assert_eq!((stats.cancelled, stats.fired, stats.resets, stats.pending), (1, 0, 0, 0));
}

#[test]
fn a_fired_timer_cannot_be_cancelled_or_reset() {
    let (timer, clock) = in_virtual_time();
    let handle = timer.schedule(SEC, || ()).unwrap();
    clock.advance(SEC);
    assert!(!handle.is_pending() && handle.deadline().is_none());
    assert!(!handle.cancel() && !handle.cancel_and_wait() && !handle.reset(SEC) && !handle.reset_at(clock.now()));
    clock.advance(HOUR);
    assert_eq!(timer.stats().fired, 1);
}

/// Promise: exactly once.
#[test]
fn the_closure_is_dropped_by_the_thread_that_cancels_at_once() {
    struct Where(Arc<OnceLock<thread::ThreadId>>);
    impl Drop for Where {
        fn drop(&mut self) {
            self.0.set(thread::current().id()).unwrap();
        }
    }
    let timer = Timer::new().unwrap();
    let cancels: [fn(TimerHandle); 3] = [
        |handle| assert!(handle.cancel()),
        |handle| assert!(handle.cancel_and_wait()),
        |handle| drop(handle.cancel_on_drop()),
    ];
    for cancel in cancels {
        for (linked, large) in [(false, false), (true, false), (false, true), (true, true)] {
            let dropped = Arc::new(OnceLock::new());
            let captured = Where(dropped.clone());
            let ballast = [0_u8; 500];
            let handle = if large {
                timer.schedule(HOUR, move || drop((captured, ballast[0]))).unwrap()
            } else {
                timer.schedule(HOUR, move || drop(captured)).unwrap()
            };
            if linked {
                thread::sleep(5 * MS);
            }
            assert_eq!(dropped.get(), None);
            cancel(handle);
            assert_eq!(dropped.get(), Some(&thread::current().id()));
        }
    }
}

#[test]
fn the_closure_of_a_timer_in_a_batch_is_dropped_by_the_thread_that_cancels() {
    let held_jobs = HeldJobs::default();
    let timer = Timer::builder().executor(held_jobs.executor()).build().unwrap();
    let tokens = Tokens::default();
    let token = tokens.give();
    let handle = timer.schedule(Duration::ZERO, move || panic!("{}", (token, "a cancelled timer ran").1)).unwrap();
    eventually("handed over", || held_jobs.len() == 1);
    assert!(handle.is_pending());
    assert!(handle.cancel());
    assert_eq!(tokens.alive(), 0);
    held_jobs.take().pop().unwrap()();
    let stats = timer.stats();
    assert_eq!((stats.fired, stats.cancelled, stats.panicked), (0, 1, 0));
}

#[test]
fn the_closure_is_dropped_when_it_has_run() {
    let (timer, clock) = in_virtual_time();
    let tokens = Tokens::default();
    let token = tokens.give();
    let handle = timer.schedule(SEC, move || assert_eq!(size_of_val(&token), size_of::<usize>())).unwrap();
    clock.advance(SEC);
    assert_eq!(tokens.alive(), 0);
    assert_eq!(timer.stats().panicked, 0);
    drop(handle);
}

#[test]
fn a_dropped_handle_detaches() {
    let (timer, clock) = in_virtual_time();
    drop(timer.schedule(SEC, || ()).unwrap());
    clock.advance(SEC);
    assert_eq!(timer.stats().fired, 1);
}

#[test]
fn a_guard_cancels_and_a_detached_guard_does_not() {
    let (timer, clock) = in_virtual_time();
    let guard: CancelOnDrop =
        timer.schedule(SEC, || panic!("a timer ran after its guard was dropped")).unwrap().cancel_on_drop();
    assert!(guard.is_pending() && guard.reset(2 * SEC));
    drop(guard);
    let handle: TimerHandle = timer.schedule(SEC, || ()).unwrap().cancel_on_drop().detach();
    assert!(handle.is_pending());
    drop(handle);
    drop(timer.schedule(Duration::ZERO, || ()).unwrap().cancel_on_drop().detach());
    clock.advance(HOUR);
    let stats = timer.stats();
    assert_eq!((stats.fired, stats.cancelled, stats.panicked), (2, 1, 0));
}

#[test]
fn a_guard_may_be_dropped_in_every_state_of_the_timer() {
    let (timer, clock) = in_virtual_time();
    let guard = |after| timer.schedule(after, || ()).unwrap().cancel_on_drop();
    let cancelled = guard(HOUR);
    let fired = guard(SEC);
    let twice = guard(HOUR);
    let every = timer.schedule_at_fixed_rate(SEC, SEC, || ()).unwrap().cancel_on_drop();
    clock.advance(SEC);
    assert!(twice.cancel());
    drop((cancelled, every, fired, twice));
    let unfired = guard(SEC);
    assert_eq!(timer.shutdown().len(), 1);
    drop(unfired);
    let stats = timer.stats();
    assert_eq!((stats.scheduled, stats.completed, stats.cancelled, stats.unfired), (5, 1, 3, 1));
}

#[test]
fn a_guard_of_a_fired_timer_does_nothing() {
    let (timer, clock) = in_virtual_time();
    let guard = timer.schedule(SEC, || ()).unwrap().cancel_on_drop();
    clock.advance(SEC);
    drop(guard);
    assert_eq!((timer.stats().fired, timer.stats().cancelled), (1, 0));
}

#[test]
fn a_reset_runs_the_callback_once_at_the_new_deadline() {
    for (old, new) in [(SEC, 3 * SEC), (3 * SEC, SEC), (HOUR, MS), (4 * MS, HOUR), (SEC, SEC), (SEC, Duration::ZERO)] {
        for absolute in [false, true] {
            for age in [Duration::ZERO, old / 2] {
                let (timer, clock) = in_virtual_time();
                let (sender, receiver) = channel();
                let start = clock.now();
                let at = clock.clone();
                let handle = timer.schedule(old, move || sender.send(at.now() - start).unwrap()).unwrap();
                clock.advance(age);
                let deadline = clock.now() + new;
                assert!(if absolute { handle.reset_at(deadline) } else { handle.reset(new) });
                if !new.is_zero() {
                    assert_eq!(handle.deadline(), Some(deadline));
                }
                clock.advance(2 * HOUR);
                assert_eq!(received(&receiver), [age + new]);
                let stats = timer.stats();
                assert_eq!((stats.scheduled, stats.fired, stats.resets), (1, 1, 1));
            }
        }
    }
}

#[test]
fn the_last_of_many_resets_counts() {
    let (timer, clock) = in_virtual_time();
    let mut random = Rng::with_seed(3);
    for _ in 0..200 {
        let (sender, receiver) = channel();
        let start = clock.now();
        let at = clock.clone();
        let handle = timer.schedule(SEC, move || sender.send(at.now() - start).unwrap()).unwrap();
        let mut due = SEC;
        for _ in 0..random.u64(..6) {
            let passed = random.u64(..900) as u32 * MS;
            if (clock.now() - start) + passed >= due {
                break;
            }
            clock.advance(passed);
            let delay = (random.u64(..100_000) + 1) as u32 * MS;
            assert!(handle.reset(delay));
            due = clock.now() - start + delay;
        }
        clock.advance(HOUR);
        assert_eq!(received(&receiver), [due]);
    }
}

#[test]
fn a_reset_to_the_past_means_now() {
    let (timer, clock) = in_virtual_time();
    clock.advance(HOUR);
    let handle = timer.schedule(HOUR, || ()).unwrap();
    assert!(handle.reset_at(clock.now() - SEC));
    clock.advance(Duration::ZERO);
    assert!(!handle.is_pending());
    assert_eq!(timer.stats().fired, 1);
}

#[test]
fn a_timer_that_waits_for_a_worker_can_be_reset() {
    let held_jobs = HeldJobs::default();
    let timer = Timer::builder().executor(held_jobs.executor()).build().unwrap();
    let (sender, receiver) = channel();
    let handle = timer.schedule(Duration::ZERO, move || sender.send(()).unwrap()).unwrap();
    eventually("handed over", || held_jobs.len() == 1);
    assert!(handle.reset(HOUR));
    held_jobs.take().pop().unwrap()();
    assert!(handle.is_pending());
    assert_eq!(received(&receiver), []);
    assert!(handle.deadline().unwrap() > timer.now() + HOUR / 2);
    assert!(handle.reset(MS));
    eventually("the timer is handed over again", || held_jobs.len() == 1);
    held_jobs.take().pop().unwrap()();
    assert_eq!(received(&receiver), [()]);
    assert_eq!(timer.stats().fired, 1);
}

#[test]
fn deadline_returns_the_requested_instant() {
    let timer = Timer::new().unwrap();
    let deadline = timer.now() + HOUR + Duration::from_nanos(12_345);
    let handle = timer.schedule_at(deadline, || ()).unwrap();
    assert_eq!(handle.deadline(), Some(deadline));
    let later = deadline + HOUR + Duration::from_nanos(54_321);
    assert!(handle.reset(2 * HOUR) && handle.reset_at(later));
    assert_eq!(handle.deadline(), Some(later));
}

#[test]
fn a_one_shot_is_not_pending_inside_its_own_callback() {
    for executor in every_executor() {
        let (builder, clock) = on_manual_clock();
        let timer = builder.executor(executor).build().unwrap();
        let own = Arc::new(OnceLock::<TimerHandle>::new());
        let (sender, receiver) = channel();
        let handle = own.clone();
        let f = move || {
            let handle = handle.get().unwrap();
            let ended = [handle.is_pending(), handle.cancel(), handle.cancel_and_wait(), handle.reset(SEC)];
            sender.send((ended, handle.deadline())).unwrap();
        };
        own.set(timer.schedule(SEC, f).unwrap()).unwrap();
        clock.advance(HOUR);
        assert_eq!(received(&receiver), [([false; 4], None)]);
        assert_balanced(&timer);
    }
}

/// Promise: exactly once.
#[test]
fn a_dead_handle_stays_dead_when_its_memory_is_reused() {
    let (timer, clock) = in_virtual_time();
    let mut dead = Vec::new();
    for round in 0..20 {
        let fired: Vec<_> = (0..100).map(|_| timer.schedule(MS, || ()).unwrap()).collect();
        clock.advance(MS);
        let cancelled: Vec<_> = (0..100).map(|_| timer.schedule(HOUR, || panic!("cancelled")).unwrap()).collect();
        assert!(cancelled.iter().all(TimerHandle::cancel));
        let alive: Vec<_> = (0..200).map(|_| timer.schedule(SEC, || ()).unwrap()).collect();
        dead.extend(fired.into_iter().chain(cancelled));
        for handle in &dead {
            assert!(!handle.cancel() && !handle.reset(HOUR) && !handle.is_pending() && handle.deadline().is_none());
        }
        assert!(alive.iter().all(TimerHandle::is_pending));
        clock.advance(SEC);
        assert!(!alive.iter().any(TimerHandle::is_pending));
        assert_eq!(timer.stats().fired, 300 * (round + 1));
        // Drop every other handle, so that new timers reuse some of the memory.
        let mut keep = false;
        dead.retain(|_| {
            keep = !keep;
            keep
        });
    }
    assert_eq!(timer.stats().panicked, 0);
    assert_balanced(&timer);
}

#[test]
fn a_dead_handle_stays_dead_after_the_timer_is_dropped() {
    let timer = Timer::new().unwrap();
    let handle = timer.schedule(HOUR, || panic!("dropped")).unwrap();
    let periodic = timer.schedule_at_fixed_rate(HOUR, HOUR, || panic!("dropped")).unwrap();
    let guard = timer.schedule(HOUR, || panic!("dropped")).unwrap().cancel_on_drop();
    drop(timer);
    for handle in [&handle, &periodic, &*guard] {
        assert!(!handle.is_pending() && handle.deadline().is_none());
        assert!(!handle.cancel() && !handle.cancel_and_wait());
        assert!(!handle.reset(MS) && !handle.reset_at(std::time::Instant::now()));
        assert!(!format!("{handle:?}").is_empty());
    }
    drop(guard);
    thread::spawn(move || drop((handle, periodic))).join().unwrap();
}

/// Promise: exactly once.
#[test]
fn exactly_one_of_many_cancels_and_the_firing_wins() {
    for executor in [Executor::Pool { threads: 2 }, Executor::Inline] {
        let timer = Timer::builder().tick(Duration::from_micros(50)).executor(executor).build().unwrap();
        let rounds = 1500;
        let ran = Arc::new(AtomicUsize::new(0));
        let tokens = Tokens::default();
        let handle = Arc::new(std::sync::RwLock::new(None::<TimerHandle>));
        let barrier = Arc::new(Barrier::new(4));
        let cancels: Vec<_> = (0..3_u64)
            .map(|seed| {
                let handle = handle.clone();
                let barrier = barrier.clone();
                let mut random = Rng::with_seed(seed);
                thread::spawn(move || {
                    let mut won = 0;
                    for _ in 0..rounds {
                        barrier.wait();
                        (0..random.u64(..200)).for_each(|_| std::hint::spin_loop());
                        won += usize::from(handle.read().unwrap().as_ref().unwrap().cancel());
                        barrier.wait();
                    }
                    won
                })
            })
            .collect();
        for round in 0..rounds {
            let ran = ran.clone();
            let token = tokens.give();
            let f = move || {
                ran.fetch_add(1, Ordering::SeqCst);
                drop(token);
            };
            let delay = [Duration::ZERO, Duration::from_micros(50), Duration::from_micros(100)][round % 3];
            *handle.write().unwrap() = Some(timer.schedule(delay, f).unwrap());
            barrier.wait();
            barrier.wait();
            handle.read().unwrap().as_ref().unwrap().cancel_and_wait();
            assert_eq!(tokens.alive(), 0);
        }
        let won: usize = cancels.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(won + ran.load(Ordering::SeqCst), rounds);
        let stats = timer.stats();
        assert_eq!((stats.cancelled, stats.completed), (won as u64, (rounds - won) as u64));
        assert_balanced(&timer);
    }
}

/// Promise: repeating runs never overlap.
#[test]
fn cancel_and_wait_returns_after_the_callback() {
    for executor in every_executor() {
        let timer = Timer::builder().executor(executor).build().unwrap();
        let begun = Gate::default();
        let over = Arc::new(AtomicBool::new(false));
        let (begin, end) = (begun.clone(), over.clone());
        let handle = timer
            .schedule(Duration::ZERO, move || {
                begin.open();
                thread::sleep(30 * MS);
                end.store(true, Ordering::SeqCst);
            })
            .unwrap();
        begun.pass();
        assert!(!handle.cancel_and_wait());
        assert!(over.load(Ordering::SeqCst));
    }
}

#[test]
fn several_threads_may_cancel_and_wait() {
    let timer = Timer::new().unwrap();
    let begun = Gate::default();
    let gate = Gate::default();
    let over = Arc::new(AtomicBool::new(false));
    let (begin, pass, end) = (begun.clone(), gate.clone(), over.clone());
    let handle = timer
        .schedule(Duration::ZERO, move || {
            begin.open();
            pass.pass();
            end.store(true, Ordering::SeqCst);
        })
        .unwrap();
    begun.pass();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                assert!(!handle.cancel_and_wait());
                assert!(over.load(Ordering::SeqCst));
            });
        }
        thread::sleep(20 * MS);
        assert!(!over.load(Ordering::SeqCst));
        gate.open();
    });
}

#[test]
fn cancel_and_wait_of_a_pending_timer_does_not_wait() {
    let timer = Timer::new().unwrap();
    let handle = timer.schedule(HOUR, || ()).unwrap();
    assert!(in_time("cancel_and_wait", move || handle.cancel_and_wait()));
}

#[test]
fn cancel_and_wait_of_a_timer_that_waits_for_a_worker_does_not_wait() {
    let executor = Executor::Pool { threads: 1 };
    let timer = Timer::builder().shards(1).executor(executor).max_extra_threads(0).build().unwrap();
    let gate = Gate::default();
    block(&timer, 1, &gate);
    let handle = timer.schedule(Duration::ZERO, || panic!("a cancelled timer ran")).unwrap();
    thread::sleep(10 * MS);
    assert!(in_time("cancel_and_wait", move || handle.cancel_and_wait()));
    gate.open();
}

#[test]
fn a_callback_may_cancel_and_wait_for_another() {
    let timer = Timer::builder().executor(Executor::Pool { threads: 2 }).build().unwrap();
    let begun = Gate::default();
    let (sender, receiver) = channel();
    let (begin, first) = (begun.clone(), sender.clone());
    let slow = timer
        .schedule(Duration::ZERO, move || {
            begin.open();
            thread::sleep(30 * MS);
            first.send("slow").unwrap();
        })
        .unwrap();
    begun.pass();
    timer
        .schedule(Duration::ZERO, move || {
            assert!(!slow.cancel_and_wait());
            sender.send("waiting").unwrap();
        })
        .unwrap();
    assert_eq!([wait_for(&receiver), wait_for(&receiver)], ["slow", "waiting"]);
}

#[test]
fn the_drop_of_a_closure_may_use_its_own_timer() {
    struct Schedules(Timer);
    impl Drop for Schedules {
        fn drop(&mut self) {
            let handle = self.0.schedule(HOUR, || ()).unwrap();
            assert!(handle.reset(2 * HOUR) && handle.cancel_and_wait());
        }
    }
    let (timer, clock) = in_virtual_time();
    let captured = Schedules(timer.clone());
    let handle = timer.schedule(SEC, move || drop(captured)).unwrap();
    assert!(handle.cancel());
    let captured = Schedules(timer.clone());
    timer.schedule(SEC, move || drop(captured)).unwrap();
    clock.advance(SEC);
    let stats = timer.stats();
    assert_eq!((stats.scheduled, stats.fired, stats.cancelled, stats.panicked), (4, 1, 3, 0));
}

#[test]
fn concurrent_resets_leave_one_run_at_one_of_the_deadlines() {
    for round in 0..100 {
        let (builder, clock) = on_manual_clock();
        let timer = builder.shards(1 + round % 2).build().unwrap();
        let start = clock.now();
        let (sender, receiver) = channel();
        let at = clock.clone();
        let handle = timer.schedule(10 * SEC, move || sender.send(at.now() - start).unwrap()).unwrap();
        thread::scope(|scope| {
            for thread in 1..=3_u32 {
                let handle = &handle;
                scope.spawn(move || {
                    for step in 1..=20 {
                        assert!(handle.reset((step * 3 + thread) * SEC));
                    }
                });
            }
        });
        let shown = handle.deadline().unwrap() - start;
        assert!([61 * SEC, 62 * SEC, 63 * SEC].contains(&shown), "{shown:?}");
        clock.advance(HOUR);
        assert_eq!(received(&receiver), [shown]);
        assert_eq!(timer.stats().resets, 60);
    }
}

#[test]
fn handles_are_small_and_can_be_shared() {
    fn shared<T: Send + Sync + std::fmt::Debug + 'static>() {}
    shared::<TimerHandle>();
    shared::<CancelOnDrop>();
    assert!(size_of::<TimerHandle>() <= 32);
}

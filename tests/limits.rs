//! `max_pending`, and the errors that hand the closure back.
#![cfg(feature = "std")]

#[cfg(target_os = "linux")]
#[path = "common/address_space.rs"]
mod address_space;
mod common;

use std::cell::Cell;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

#[cfg(target_os = "linux")]
use address_space::{WITHOUT_SIGNAL_STACKS, limit_memory_to};
use common::*;
use corewheel::{BuildError, DelayQueue, Executor, ScheduleError, ScheduleErrorKind, Timer, TimerHandle};
use fastrand::Rng;

/// Returns how many timers can be scheduled, and cancels them.
fn free_permits(timer: &Timer) -> usize {
    let handles: Vec<_> = std::iter::from_fn(|| timer.schedule(HOUR, || ()).ok()).take(1000).collect();
    assert!(handles.iter().all(TimerHandle::cancel));
    handles.len()
}

#[test]
fn timers_beyond_max_pending_are_refused() {
    for limit in [0, 1, 2, 100] {
        let timer = Timer::builder().shards(3).max_pending(limit).build().unwrap();
        assert_eq!(free_permits(&timer), limit);
        assert_eq!(free_permits(&timer), limit);
        let stats = timer.stats();
        assert_eq!((stats.scheduled, stats.rejected), (2 * limit as u64, 2));
        assert_balanced(&timer);
    }
}

#[test]
fn a_timer_releases_its_permit_however_it_ends() {
    let (builder, clock) = on_manual_clock();
    let timer = builder.max_pending(10).on_panic(drop).build().unwrap();
    let fired = timer.schedule(SEC, || ()).unwrap();
    timer.schedule(SEC, || quiet_panic("ended so")).unwrap();
    let cancelled = timer.schedule(HOUR, || ()).unwrap();
    let guard = timer.schedule(HOUR, || ()).unwrap().cancel_on_drop();
    timer.schedule_recurring(clock.now() + SEC, |_| None).unwrap();
    timer.schedule_at_fixed_rate(SEC, SEC, || quiet_panic("ended so")).unwrap();
    assert_eq!(free_permits(&timer), 4);
    assert!(cancelled.cancel());
    drop(guard);
    assert_eq!(free_permits(&timer), 6);
    clock.advance(SEC);
    assert_eq!(free_permits(&timer), 10);
    assert!(!fired.cancel() && !cancelled.cancel());
    assert_eq!(free_permits(&timer), 10);
}

#[test]
fn a_timer_releases_its_permit_before_its_callback_runs() {
    for executor in every_executor() {
        let (builder, clock) = on_manual_clock();
        let timer = builder.max_pending(1).executor(executor).build().unwrap();
        let weak = timer.downgrade();
        let (sender, receiver) = channel();
        let f = move || sender.send(weak.upgrade().unwrap().schedule(HOUR, || ()).is_ok()).unwrap();
        timer.schedule(SEC, f).unwrap();
        clock.advance(SEC);
        assert_eq!(received(&receiver), [true]);
    }
}

#[test]
fn a_repeating_timer_holds_one_permit_until_it_ends() {
    let (builder, clock) = on_manual_clock();
    let timer = builder.max_pending(3).build().unwrap();
    let weak = timer.downgrade();
    let (sender, receiver) = channel();
    let handle = timer
        .schedule_with_fixed_delay(SEC, SEC, move || {
            sender.send(free_permits(&weak.upgrade().unwrap())).unwrap();
        })
        .unwrap();
    for _ in 0..50 {
        assert_eq!(free_permits(&timer), 2);
        clock.advance(SEC);
        handle.reset(SEC);
    }
    assert_eq!(received(&receiver), [2; 50]);
    assert!(handle.cancel());
    assert_eq!(free_permits(&timer), 3);
}

#[test]
fn the_limit_is_exact_with_concurrent_threads() {
    const LIMIT: usize = 50;
    for executor in [Executor::Pool { threads: 2 }, Executor::Inline] {
        let tick = Duration::from_micros(50);
        let timer = Timer::builder().tick(tick).shards(2).max_pending(LIMIT).executor(executor).build().unwrap();
        // Incremented after a timer is accepted and decremented before it is cancelled, so it never exceeds the pending
        // timers.
        let held = AtomicUsize::new(0);
        thread::scope(|scope| {
            for seed in 0..4 {
                let (timer, held) = (&timer, &held);
                scope.spawn(move || {
                    let mut random = Rng::with_seed(seed);
                    let mut handles: Vec<TimerHandle> = Vec::new();
                    let give_up = |handle: TimerHandle| {
                        held.fetch_sub(1, Ordering::SeqCst);
                        assert!(handle.cancel());
                    };
                    for _ in 0..5000 {
                        match random.u64(..4) {
                            0 => {
                                if let Some(handle) = handles.pop() {
                                    give_up(handle);
                                }
                            }
                            1 => drop(timer.schedule(Duration::from_micros(random.u64(..300)), || ())),
                            _ => {
                                if let Ok(handle) = timer.schedule(HOUR, || ()) {
                                    assert!(held.fetch_add(1, Ordering::SeqCst) < LIMIT);
                                    handles.push(handle);
                                }
                            }
                        }
                    }
                    handles.into_iter().for_each(give_up);
                });
            }
        });
        eventually("all timers have ended", || timer.is_empty());
        assert!(timer.stats().rejected > 0, "the limit was never reached");
        assert_eq!(free_permits(&timer), LIMIT);
        assert_balanced(&timer);
    }
}

#[test]
fn concurrent_schedules_succeed_exactly_up_to_the_limit() {
    for round in 0..50 {
        let timer = Timer::builder().shards(1 + round % 3).max_pending(100).build().unwrap();
        let accepted: usize = thread::scope(|scope| {
            let fill = || (0..60).filter(|_| timer.schedule(HOUR, || ()).is_ok()).count();
            let threads = [(); 4].map(|()| scope.spawn(fill));
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!((accepted, timer.len(), timer.stats().rejected), (100, 100, 140));
    }
}

/// Timers that refuse: one is full, one is shut down.
fn refusing() -> [Timer; 2] {
    let full = Timer::builder().max_pending(0).build().unwrap();
    let shut_down = Timer::new().unwrap();
    drop(shut_down.shutdown());
    [full, shut_down]
}

#[test]
fn a_refused_closure_is_handed_back_intact() {
    for timer in refusing() {
        let tokens = Tokens::default();
        let ran = Arc::default();
        let token = tokens.give();
        let large = [3_u8; 2000];

        let error = timer.schedule(SEC, counting(&ran)).unwrap_err();
        error.into_inner()();
        assert_eq!(ran.swap(0, Ordering::SeqCst), 1);

        let (sender, receiver) = channel();
        let error = timer
            .schedule_at(timer.now(), move || {
                let _captured = &token;
                sender.send(large.iter().map(|&byte| usize::from(byte)).sum::<usize>()).unwrap();
            })
            .unwrap_err();
        assert_eq!(tokens.alive(), 1);
        error.into_inner()();
        assert_eq!((received(&receiver), tokens.alive()), (vec![6000], 0));

        let token = tokens.give();
        let mut runs = 0;
        let error = timer
            .schedule_at_fixed_rate(SEC, SEC, move || {
                let _captured = (&token, &large);
                runs += 1;
                assert!(runs < 3);
            })
            .unwrap_err();
        let mut rate = error.into_inner();
        rate();
        rate();
        assert_eq!(tokens.alive(), 1);
        drop(rate);

        let error = timer.schedule_with_fixed_delay(SEC, SEC, counting(&ran)).unwrap_err();
        let delay = error.into_inner();
        delay();
        delay();
        assert_eq!(ran.load(Ordering::SeqCst), 2);

        let token = tokens.give();
        let error = timer.schedule_recurring(timer.now(), move |due| Some((&token, due + SEC).1)).unwrap_err();
        let mut recurring = error.into_inner();
        let due = timer.now();
        assert_eq!(recurring(due), Some(due + SEC));
        drop(recurring);
        assert_eq!(tokens.alive(), 0);

        let stats = timer.stats();
        assert_eq!((stats.rejected, stats.scheduled, stats.pending), (5, 0, 0));
    }
}

#[test]
fn a_dropped_error_drops_the_closure() {
    for timer in refusing() {
        let tokens = Tokens::default();
        let refuse = || {
            let token = tokens.give();
            timer.schedule(SEC, move || drop(token)).unwrap_err()
        };
        let error = refuse();
        assert_eq!(tokens.alive(), 1);
        drop(error);
        assert_eq!(tokens.alive(), 0);
        let error: ScheduleError<()> = refuse().without_closure();
        assert_eq!(tokens.alive(), 0);
        error.into_inner();
    }
}

/// Timers are accepted as long as the system has memory. The next one is refused, and accepted once another has ended.
/// Promise: memory comes back.
#[test]
#[cfg(target_os = "linux")]
fn without_memory_a_timer_is_refused_and_its_closure_handed_back() {
    const NAME: &str = "without_memory_a_timer_is_refused_and_its_closure_handed_back";
    const LIMIT: u64 = 50 << 20;
    if !is_child(NAME) {
        let child = child(NAME, "", &[]);
        assert!(child.status.success(), "{child:?}");
        return;
    }
    let timer = Timer::builder().shards(1).executor(Executor::Inline).build().unwrap();
    // An allocator may reserve much address space when a thread first allocates.
    timer.schedule(Duration::ZERO, || drop(vec![0_u8; 1000])).unwrap();
    eventually("the driver has allocated something", || timer.stats().completed == 1);
    let mut handles = Vec::with_capacity(1000);
    let tokens = Tokens::default();
    let token = tokens.give();
    limit_memory_to(Some(LIMIT));
    let mut accepted = 0_u64;
    let error = loop {
        match timer.schedule(HOUR, || ()) {
            Ok(handle) if handles.len() < 1000 => handles.push(handle),
            Ok(_) => {}
            Err(error) => break error,
        }
        accepted += 1;
    };
    assert!(error.kind() == ScheduleErrorKind::OutOfMemory && !error.is_full() && !error.is_shutdown());
    assert!(error.to_string().contains("memory"));
    assert!(accepted * 64 > LIMIT * 8 / 10, "{accepted} timers");
    let error = timer.schedule(HOUR, move || drop(token)).unwrap_err();
    assert_eq!(tokens.alive(), 1);
    error.into_inner()();
    assert_eq!(tokens.alive(), 0);
    let stats = timer.stats();
    assert_eq!((stats.scheduled, stats.rejected), (accepted + 1, 2));
    // Timers that end make room.
    assert!(handles.drain(..).all(|handle| handle.cancel()));
    for _ in 0..900 {
        timer.schedule(HOUR, || ()).unwrap();
    }
    // A shutdown would need memory for the timers that it hands back.
    std::process::exit(0);
}

/// Each shard needs half a megabyte of address space, or a quarter where a pointer has 32 bits.
/// Promise: memory comes back.
#[test]
#[cfg(target_os = "linux")]
fn without_memory_for_its_shards_a_timer_is_not_built() {
    const NAME: &str = "without_memory_for_its_shards_a_timer_is_not_built";
    if !is_child(NAME) {
        let child = child(NAME, "", &[]);
        assert!(child.status.success(), "{child:?}");
        return;
    }
    limit_memory_to(Some(400 << 20));
    for executor in every_executor() {
        let builder = Timer::builder().shards(2000).executor(executor);
        let error = builder.build().unwrap_err();
        assert!(matches!(error, BuildError::OutOfMemory(_)) && error.to_string().contains("memory"), "{error:?}");
        let cause = error.source().unwrap().downcast_ref::<std::io::Error>().unwrap();
        assert_eq!(cause.kind(), std::io::ErrorKind::OutOfMemory);
    }
    // What was refused is freed.
    let timer = Timer::builder().shards(1).executor(Executor::Inline).build();
    std::process::exit(i32::from(timer.is_err()));
}

/// A future cannot be refused. Without memory the process aborts, as it does for a `Box`.
/// Promise: memory comes back.
#[test]
#[cfg(target_os = "linux")]
fn without_memory_a_sleep_aborts_the_process() {
    const NAME: &str = "without_memory_a_sleep_aborts_the_process";
    if !is_child(NAME) {
        let child = child(NAME, &format!("ulimit -c 0; {WITHOUT_SIGNAL_STACKS}"), &[]);
        assert!(!child.status.success());
        let error = String::from_utf8_lossy(&child.stderr);
        assert!(error.contains("memory allocation of 64 bytes failed"), "{error}");
        return;
    }
    let timer = Timer::builder().shards(1).executor(Executor::Inline).build().unwrap();
    limit_memory_to(Some(20 << 20));
    while timer.schedule(HOUR, || ()).is_ok() {}
    drop(timer.sleep(HOUR));
    std::process::exit(0);
}

/// What these closures hold is `Send`, but not `Sync`.
#[test]
fn an_error_converts_by_a_question_mark_whatever_its_closure_holds() {
    type Result = std::result::Result<(), Box<dyn Error + Send + Sync>>;
    let tokens = Tokens::default();
    let [full, shut_down] = refusing();
    let receiver = |timer: &Timer| -> Result {
        let (_sender, receiver) = channel::<()>();
        timer.schedule(SEC, move || _ = receiver.recv())?;
        Ok(())
    };
    let cell = |timer: &Timer| -> Result {
        let (token, runs) = (tokens.give(), Cell::new(0));
        timer.schedule_at_fixed_rate(SEC, SEC, move || runs.set(runs.get() + i32::from(size_of_val(&token) > 0)))?;
        Ok(())
    };
    let boxed = |timer: &Timer| -> Result {
        let (token, boxed): (_, Box<dyn FnOnce() + Send>) = (tokens.give(), Box::new(|| ()));
        timer.schedule_at(timer.now(), move || {
            boxed();
            drop(token);
        })?;
        Ok(())
    };
    let value = |timer: &Timer| -> Result {
        DelayQueue::new(timer).push(SEC, Cell::new(1))?;
        Ok(())
    };
    for (timer, word) in [(&full, "max_pending"), (&shut_down, "shut down")] {
        let schedules: [&dyn Fn(&Timer) -> Result; 4] = [&receiver, &cell, &boxed, &value];
        let errors = schedules.map(|schedule| schedule(timer).unwrap_err());
        assert!(errors.iter().all(|error| error.to_string().contains(word)), "{errors:?}");
        assert_eq!(tokens.alive(), 2, "the errors have the closures");
        // As a task that fails on another thread.
        thread::scope(|scope| _ = scope.spawn(|| drop(errors)));
        assert_eq!(tokens.alive(), 0);
    }
    let error = full.schedule(SEC, || ()).unwrap_err();
    assert_eq!(format!("{error:?}"), "ScheduleError { kind: Full, .. }");
}

#[test]
fn an_error_names_its_reason_and_a_remedy() {
    fn is_error<F>(error: ScheduleError<F>, word: &str) -> ScheduleError<()> {
        fn as_error(error: &impl Error) -> &impl Error {
            error
        }
        assert!(as_error(&error).source().is_none());
        assert!(error.to_string().contains(word), "{error}");
        assert!(!format!("{error:?}").is_empty());
        let kind = error.kind();
        let bare = error.without_closure();
        assert_eq!(kind, bare.kind());
        let text = bare.to_string();
        let boxed: Box<dyn Error + Send + Sync> = Box::new(bare);
        assert_eq!(boxed.to_string(), text);
        *boxed.downcast().unwrap()
    }
    let [full, shut_down] = refusing();
    let error = is_error(full.schedule(SEC, || ()).unwrap_err(), "max_pending");
    assert!(error.kind() == ScheduleErrorKind::Full && error.is_full() && !error.is_shutdown());
    let error = is_error(shut_down.schedule(SEC, || ()).unwrap_err(), "shut down");
    assert!(error.kind() == ScheduleErrorKind::Shutdown && error.is_shutdown() && !error.is_full());
    let error = is_error(full.schedule_at_fixed_rate(SEC, Duration::ZERO, || ()).unwrap_err(), "zero");
    assert!(error.kind() == ScheduleErrorKind::ZeroPeriod && !error.is_shutdown() && !error.is_full());
    assert!(error.to_string().contains("schedule_with_fixed_delay"));
}

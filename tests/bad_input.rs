//! Invalid settings, and panics in the caller's code: each has a defined result.
#![cfg(feature = "std")]

mod common;

use std::error::Error;
use std::io::{self, ErrorKind};
use std::panic::{self, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake};
use std::thread;
use std::time::Duration;

use common::*;
use corewheel::{BuildError, Builder, DelayQueue, Executor, Timer};

fn refused(builder: Builder) -> BuildError {
    let error = builder.build().unwrap_err();
    let dynamic: Box<dyn Error + Send + Sync> = Box::new(error);
    assert!(dynamic.source().is_none());
    *dynamic.downcast().unwrap()
}

#[test]
fn a_tick_under_a_microsecond_is_refused() {
    for tick in [Duration::ZERO, Duration::from_nanos(1), Duration::from_nanos(999)] {
        let error = refused(Timer::builder().tick(tick));
        assert!(matches!(error, BuildError::TickTooShort(given) if given == tick));
        assert!(error.to_string().contains("tick") && error.to_string().contains("1µs"), "{error}");
    }
    assert!(Timer::builder().tick(Duration::from_micros(1)).build().is_ok());
}

#[test]
fn zero_shards_are_refused() {
    let error = refused(Timer::builder().shards(0));
    assert!(matches!(error, BuildError::NoShards));
    assert!(error.to_string().contains("shards"), "{error}");
}

#[test]
fn more_shards_than_65536_are_refused() {
    for shards in [65_537, usize::MAX] {
        let error = refused(Timer::builder().shards(shards));
        assert!(matches!(error, BuildError::TooManyShards(given) if given == shards));
        assert_eq!(error.to_string(), format!("{shards} shards are too many: give `shards` at most 65536"));
    }
}

#[test]
fn a_pool_of_all_threads_is_refused() {
    let error = Timer::builder().executor(Executor::Pool { threads: usize::MAX }).build().unwrap_err();
    assert!(matches!(error, BuildError::OutOfMemory(_)) && error.source().is_some(), "{error:?}");
    assert!(error.to_string().contains("pool threads"), "{error}");
}

#[test]
fn a_pool_of_zero_threads_is_refused() {
    let error = refused(Timer::builder().executor(Executor::Pool { threads: 0 }));
    assert!(matches!(error, BuildError::NoPoolThreads));
    assert!(error.to_string().contains("Executor::Pool"), "{error}");
}

#[test]
fn a_nul_in_the_thread_name_is_told_as_such() {
    for executor in every_executor() {
        let error = refused(Timer::builder().thread_name("a\0b").executor(executor));
        assert!(matches!(&error, BuildError::NulInThreadName(name) if name == "a\0b"));
        assert_eq!(
            error.to_string(),
            r#"the thread name "a\0b" contains a NUL character: give `thread_name` one without"#
        );
    }
}

#[test]
fn a_wheel_without_levels_or_with_too_small_levels_is_refused() {
    let error = refused(Timer::builder().wheel(&[]));
    assert!(matches!(error, BuildError::NoLevels));
    assert!(error.to_string().contains("level"), "{error}");
    for (slots, wrong) in [(&[0][..], 0), (&[1], 0), (&[60, 60, 1], 2), (&[2, 0, 1], 1)] {
        let error = refused(Timer::builder().wheel(slots));
        assert!(
            matches!(error, BuildError::TooFewSlots { level, slots: given } if level == wrong && given == slots[wrong])
        );
        assert!(error.to_string().contains(&format!("level {wrong}")), "{error}");
        assert!(error.to_string().contains("at least 2"), "{error}");
    }
}

#[test]
fn every_valid_wheel_is_accepted() {
    for slots in [&[2][..], &[3], &[60, 60, 12], &[10, 60, 60, 12], &[2, 3, 5, 7, 11], &[1 << 16], &[7, 1 << 12]] {
        let (builder, clock) = on_manual_clock();
        let timer = builder.wheel(slots).build().unwrap();
        let start = clock.now();
        let (sender, receiver) = channel();
        let delays = [1, 2, 3, 9, 10, 59, 60, 61, 3599, 3600, 43_199, 43_200, 43_201, 1_000_003, 86_400_000];
        for delay in delays {
            let (sender, at) = (sender.clone(), clock.clone());
            timer.schedule(delay * MS, move || sender.send(at.now() - start).unwrap()).unwrap();
        }
        let never = timer.schedule(Duration::MAX, || ()).unwrap();
        clock.advance(24 * HOUR);
        assert_eq!(received(&receiver), delays.map(|delay| delay * MS), "{slots:?}");
        assert!(never.is_pending());
    }
}

#[test]
fn unusual_valid_settings_are_accepted() {
    let tick = Duration::MAX;
    let timer = Timer::builder().tick(tick).shards(40).pin_cores(false).thread_name("").max_pending(usize::MAX).build();
    let timer = timer.unwrap();
    let (sender, receiver) = channel();
    timer.schedule(Duration::ZERO, move || sender.send(()).unwrap()).unwrap();
    wait_for(&receiver);
    let far = timer.schedule(Duration::from_nanos(1), || panic!("early")).unwrap();
    std::thread::sleep(MS);
    assert!(far.cancel());
    let odd = "a name that is much longer than what the system shows, and has ünïcödë in it \u{1f552}";
    assert!(Timer::builder().thread_name(odd).build().is_ok());
}

#[test]
fn scheduling_after_a_shutdown_is_refused() {
    let timer = Timer::new().unwrap();
    let handle = timer.schedule(HOUR, || ()).unwrap();
    drop(timer.shutdown());
    for timer in [timer.clone(), timer] {
        assert!(timer.schedule(SEC, || ()).unwrap_err().is_shutdown());
        assert!(timer.schedule_at(timer.now(), || ()).unwrap_err().is_shutdown());
        assert!(timer.schedule_at_fixed_rate(SEC, SEC, || ()).unwrap_err().is_shutdown());
        assert!(timer.schedule_with_fixed_delay(SEC, SEC, || ()).unwrap_err().is_shutdown());
        assert!(timer.schedule_recurring(timer.now(), |_| None).unwrap_err().is_shutdown());
        assert!(!handle.cancel() && !handle.reset(SEC) && !handle.cancel_and_wait());
    }
}

/// Returns a timer, and a count of the panics that it reports to `on_panic`.
fn counting_panics(builder: Builder) -> (Timer, Arc<AtomicUsize>) {
    let reported = Arc::new(AtomicUsize::new(0));
    let count = reported.clone();
    let hook = move |_| {
        count.fetch_add(1, Ordering::SeqCst);
    };
    (builder.on_panic(hook).build().unwrap(), reported)
}

fn bomb() -> impl FnOnce() + Send {
    let bomb = Bomb;
    let ballast = [0_u8; 100];
    move || drop((bomb, ballast[0]))
}

#[test]
fn a_panic_names_its_callback_and_its_shard() {
    const NAME: &str = "a_panic_names_its_callback_and_its_shard";
    for executor in every_executor() {
        let (builder, clock) = on_manual_clock();
        let (sender, panics) = channel();
        let builder = builder.shards(2).executor(executor);
        let timer = builder.on_panic(move |panicked| sender.send(panicked).unwrap()).build().unwrap();
        let next = |payload: &str| {
            let panicked = wait_for(&panics);
            let name = panicked.callback.expect(payload);
            assert!(name.contains(NAME) || name.contains("bomb"), "{name}");
            assert_eq!(panicked.to_string(), format!("{name} has panicked: {payload}"));
            assert!(panics.try_recv().is_err());
            panicked.shard
        };
        // Two threads that live at the same time have different homes.
        timer.schedule(SEC, || ()).unwrap();
        thread::scope(|scope| _ = scope.spawn(|| timer.schedule(SEC, || quiet_panic("elsewhere")).unwrap()));
        clock.advance(SEC);
        let other = next("elsewhere");
        let ballast = [0_u8; 100];
        timer.schedule(SEC, move || assert!(ballast[0] != 0 || quiet_panic("in a box"))).unwrap();
        clock.advance(SEC);
        let home = next("in a box");
        assert_eq!([other.min(home), other.max(home)], [Some(0), Some(1)]);
        timer.schedule_with_delays(SEC, || quiet_panic("again")).unwrap();
        clock.advance(3 * SEC);
        assert_eq!(next("again"), home);
        let cancelled = timer.schedule(HOUR, bomb()).unwrap();
        cancelled.cancel();
        assert_eq!(next("bomb"), home);
        timer.schedule(HOUR, bomb()).unwrap();
        drop(timer);
        assert_eq!(next("bomb"), None, "of the whole timer");
    }
}

#[test]
fn a_panic_of_a_waker_or_a_value_names_no_callback() {
    let (builder, clock) = on_manual_clock();
    let (sender, panics) = channel();
    let timer = builder.shards(1).on_panic(move |panicked| sender.send(panicked).unwrap()).build().unwrap();
    let next = |payload: &str| {
        let panicked = wait_for(&panics);
        assert_eq!((panicked.payload_as_str(), panicked.callback), (Some(payload), None));
        assert!(format!("{panicked:?}").contains("callback: None"), "{panicked:?}");
        panicked.shard
    };
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            quiet_panic("a waker");
        }
    }
    let waker = Arc::new(Panics).into();
    let mut sleep = timer.sleep(SEC);
    assert!(Pin::new(&mut sleep).poll(&mut Context::from_waker(&waker)).is_pending());
    clock.advance(SEC);
    assert_eq!(next("a waker"), Some(0));
    let queue = DelayQueue::new(&timer);
    assert!(queue.poll_pop(&mut Context::from_waker(&waker)).is_pending());
    queue.push(HOUR, Bomb).unwrap();
    queue.close();
    drop(queue);
    assert_eq!(next("bomb"), None);
}

#[test]
fn a_closure_whose_drop_panics_is_contained_by_cancel() {
    let (timer, reported) = counting_panics(Timer::builder());
    assert!(timer.schedule(HOUR, bomb()).unwrap().cancel());
    assert!(timer.schedule(HOUR, bomb()).unwrap().cancel_and_wait());
    drop(timer.schedule(HOUR, bomb()).unwrap().cancel_on_drop());
    let captured = Bomb;
    let repeating = timer.schedule_at_fixed_rate(HOUR, HOUR, move || assert_eq!(size_of_val(&captured), 0)).unwrap();
    assert!(repeating.cancel());
    let stats = timer.stats();
    assert_eq!((stats.cancelled, stats.panicked, reported.load(Ordering::SeqCst)), (4, 4, 4));
    let (sender, receiver) = channel();
    timer.schedule(Duration::ZERO, move || sender.send(()).unwrap()).unwrap();
    wait_for(&receiver);
    assert_balanced(&timer);
}

#[test]
fn a_closure_whose_drop_panics_is_contained_when_it_runs() {
    for executor in every_executor() {
        let (builder, clock) = on_manual_clock();
        let (timer, reported) = counting_panics(builder.executor(executor));
        timer.schedule(SEC, bomb()).unwrap();
        let captured = Bomb;
        timer
            .schedule_recurring(clock.now() + SEC, move |_| {
                let _captured = &captured;
                None
            })
            .unwrap();
        timer.schedule(SEC, || ()).unwrap();
        clock.advance(HOUR);
        let stats = timer.stats();
        assert_eq!((stats.completed, stats.panicked, reported.load(Ordering::SeqCst)), (3, 2, 2));
        assert_balanced(&timer);
    }
}

#[test]
fn closures_whose_drop_panics_are_contained_when_the_timer_is_dropped() {
    let (timer, _) = counting_panics(Timer::builder().thread_name("bad-drop"));
    let tokens = Tokens::default();
    for _ in 0..5 {
        timer.schedule(HOUR, bomb()).unwrap();
        let token = tokens.give();
        timer.schedule(HOUR, move || drop(token)).unwrap();
    }
    drop(timer);
    assert_eq!(tokens.alive(), 0);
    eventually("the threads have ended", || threads_named("bad-drop") == 0);
}

#[test]
fn a_timer_and_a_guard_may_be_dropped_while_their_thread_panics() {
    let (timer, reported) = counting_panics(Timer::builder());
    let guard = timer.schedule(HOUR, bomb()).unwrap().cancel_on_drop();
    let other = Timer::new().unwrap();
    other.schedule(HOUR, || ()).unwrap();
    let panicked = panic::catch_unwind(AssertUnwindSafe(move || {
        let _dropped = (other, guard);
        quiet_panic("while both are alive");
    }));
    assert!(panicked.is_err());
    assert_eq!(timer.stats().cancelled, 1);
    // A `Bomb` does not panic while its thread is panicking.
    assert_eq!(reported.load(Ordering::SeqCst), 0);
}

#[test]
fn a_panic_in_the_drop_of_a_handed_back_closure_reaches_the_caller() {
    let timer = Timer::new().unwrap();
    let tokens = Tokens::default();
    timer.schedule(HOUR, bomb()).unwrap();
    for _ in 0..3 {
        let token = tokens.give();
        timer.schedule(HOUR, move || drop(token)).unwrap();
    }
    let unfired = timer.shutdown();
    assert_eq!(unfired.len(), 4);
    assert!(panic::catch_unwind(AssertUnwindSafe(|| drop(unfired))).is_err());
    assert_eq!(tokens.alive(), 0);
    assert_eq!(timer.stats().panicked, 0);
}

#[test]
fn a_panic_in_an_unfired_timer_reaches_the_caller() {
    let timer = Timer::new().unwrap();
    timer.schedule(HOUR, || quiet_panic("on the caller's thread")).unwrap();
    timer.schedule_at_fixed_rate(2 * HOUR, SEC, || quiet_panic("on the caller's thread")).unwrap();
    for unfired in timer.shutdown() {
        assert!(panic::catch_unwind(AssertUnwindSafe(|| unfired.run())).is_err());
    }
    assert_eq!(timer.stats().panicked, 0);
}

/// Promise: panics stay inside.
#[test]
fn a_panic_hook_that_panics_is_contained() {
    for executor in every_executor() {
        let (builder, clock) = on_manual_clock();
        let timer = builder.executor(executor).on_panic(|_| quiet_panic("in the hook")).build().unwrap();
        for _ in 0..10 {
            timer.schedule(SEC, || quiet_panic("first")).unwrap();
            timer.schedule(SEC, || ()).unwrap();
        }
        timer.schedule_at_fixed_rate(SEC, SEC, || quiet_panic("repeating")).unwrap();
        assert!(timer.schedule(HOUR, bomb()).unwrap().cancel());
        clock.advance(HOUR);
        let stats = timer.stats();
        assert_eq!((stats.completed, stats.panicked, stats.pending), (21, 12, 0));
        assert_balanced(&timer);
    }
}

#[test]
fn a_payload_whose_drop_panics_is_contained() {
    for executor in every_executor() {
        let (builder, clock) = on_manual_clock();
        let timer = builder.executor(executor).build().unwrap();
        timer.schedule(SEC, || panic::resume_unwind(Box::new(Bomb))).unwrap();
        timer.schedule(SEC, || ()).unwrap();
        clock.advance(HOUR);
        let stats = timer.stats();
        assert_eq!((stats.completed, stats.panicked), (2, 1));
    }
}

#[test]
fn a_hook_may_use_the_timer() {
    let weak = Arc::new(std::sync::OnceLock::<corewheel::WeakTimer>::new());
    let own = weak.clone();
    let (sender, receiver) = channel();
    let (builder, clock) = on_manual_clock();
    let timer = builder
        .on_panic(move |_| {
            let timer = once_set(&own).upgrade().unwrap();
            let sender = sender.clone();
            timer.schedule(SEC, move || sender.send(()).unwrap()).unwrap();
        })
        .build()
        .unwrap();
    weak.set(timer.downgrade()).unwrap();
    timer.schedule(SEC, || quiet_panic("reported")).unwrap();
    assert!(timer.schedule(HOUR, bomb()).unwrap().cancel());
    clock.advance(3 * SEC);
    assert_eq!(received(&receiver), [(), ()]);
}

/// The place that a panic names is the caller's, in this file.
#[test]
fn an_interval_without_a_period_names_the_line_of_the_call() {
    let (timer, _clock) = in_virtual_time();
    let places: Arc<Mutex<Vec<(String, u32)>>> = Arc::default();
    let sees = places.clone();
    let this = thread::current().id();
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if thread::current().id() == this {
            let place = info.location().unwrap();
            sees.lock().unwrap().push((place.file().to_owned(), place.line()));
        }
    }));
    let panics = |f: &dyn Fn()| {
        let result = panic::catch_unwind(AssertUnwindSafe(f));
        assert!(result.is_err());
    };
    let first = line!();
    panics(&|| _ = timer.interval(Duration::ZERO));
    panics(&|| _ = timer.interval_at(timer.now(), Duration::ZERO));
    panic::set_hook(before);
    let places = places.lock().unwrap();
    let lines: Vec<_> = places.iter().map(|(file, line)| (file.ends_with("bad_input.rs"), line - first)).collect();
    assert_eq!(lines, [(true, 1), (true, 2)]);
}

#[test]
fn errors_convert_to_io_errors_that_keep_the_reason() {
    let refused = io::Error::from(ErrorKind::WouldBlock);
    let started = io::Error::from(BuildError::ThreadStart(refused));
    assert_eq!(started.kind(), ErrorKind::WouldBlock);
    let error = io::Error::from(Timer::builder().shards(0).build().unwrap_err());
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.get_ref().unwrap().downcast_ref::<BuildError>().is_some());
}

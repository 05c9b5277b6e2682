//! Timers in destructors of thread-local values: before and after the destructors of the crate's own thread-local
//! values, and on threads that never used a timer before.
#![cfg(feature = "std")]

mod common;

use std::any::Any;
use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use common::*;
use corewheel::{DelayQueue, Driver, Executor, Interval, Sleep, Timer, TimerHandle};

/// When the destructor runs.
#[derive(Clone, Copy, Debug)]
enum When {
    /// Before the crate's own destructors.
    Before,
    /// After the crate's own destructors.
    After,
    /// As the first use of a timer on its thread.
    Alone,
}

const EVERY_ORDER: [When; 3] = [When::Before, When::After, When::Alone];

/// Calls `f` in the destructor of a thread-local value on a new thread, and waits until the thread has ended. A panic
/// there would abort the process.
fn at_thread_exit(timer: &Timer, when: When, f: impl FnOnce() + Send + 'static) {
    let timer = timer.clone();
    let use_timer = move || assert!(timer.schedule(HOUR, || ()).unwrap().cancel());
    thread::spawn(move || {
        // Destructors run in the reverse order of first use.
        match when {
            When::Before => {
                use_timer();
                keep_until_exit(f);
            }
            When::After => {
                keep_until_exit(f);
                use_timer();
            }
            When::Alone => keep_until_exit(f),
        }
    })
    .join()
    .unwrap();
}

/// Calls `f` when the calling thread ends.
fn keep_until_exit(f: impl FnOnce() + 'static) {
    thread_local! {
        static KEPT: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
    }
    let mut f = Some(f);
    let at_exit = OnDrop(move || {
        if let Some(f) = f.take() {
            f();
        }
    });
    KEPT.with_borrow_mut(|kept| kept.push(Box::new(at_exit)));
}

/// Counts how often the task is woken.
#[derive(Default)]
struct Task(AtomicUsize);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn is_ready(sleep: &mut Sleep, task: &Arc<Task>) -> bool {
    Pin::new(sleep).poll(&mut Context::from_waker(&Waker::from(task.clone()))).is_ready()
}

fn poll_tick(interval: &mut Interval, task: &Arc<Task>) -> Poll<Instant> {
    interval.poll_tick(&mut Context::from_waker(&Waker::from(task.clone())))
}

#[test]
fn a_destructor_may_schedule_reset_and_cancel_timers() {
    for when in EVERY_ORDER {
        let (builder, clock) = on_manual_clock();
        let timer = builder.shards(2).max_pending(1000).build().unwrap();
        let runs = Arc::new(AtomicUsize::new(0));
        let tokens = Tokens::default();
        let (used, count, give) = (timer.clone(), runs.clone(), tokens.clone());
        let (sender, receiver) = channel();
        at_thread_exit(&timer, when, move || {
            let schedule = || {
                let count = counting(&count);
                let token = give.give();
                let f = move || {
                    let _captured = &token;
                    count();
                };
                used.schedule(HOUR, f).unwrap()
            };
            // More timers than a cache holds.
            let handles: Vec<_> = (0..300).map(|_| schedule()).collect();
            let moved = handles[..100].iter().filter(|handle| handle.reset(SEC)).count();
            let cancelled = handles[100..].iter().filter(|handle| handle.cancel()).count();
            let waited = handles.iter().skip(90).filter(|handle| handle.cancel_and_wait()).count();
            drop(handles);
            drop(schedule().cancel_on_drop());
            let repeating = used.schedule_at_fixed_rate(SEC, SEC, counting(&count)).unwrap();
            sender.send((moved, cancelled, waited, used.len(), repeating)).unwrap();
        });
        let (moved, cancelled, waited, pending, repeating) = wait_for(&receiver);
        assert_eq!((moved, cancelled, waited, pending), (100, 200, 10, 91), "{when:?}");
        assert_eq!(tokens.alive(), 90);
        clock.advance(3 * SEC);
        assert_eq!((runs.load(Ordering::SeqCst), tokens.alive()), (93, 0));
        assert!(repeating.cancel());
        let stats = timer.stats();
        let before = u64::from(!matches!(when, When::Alone));
        assert_eq!((stats.scheduled, stats.cancelled), (302 + before, 212 + before));
        assert_balanced(&timer);
        assert_eq!(
            (0..1001).filter(|_| timer.schedule(HOUR, || ()).is_ok()).count(),
            1000,
            "not all permits are released"
        );
    }
}

#[test]
fn a_destructor_may_create_poll_and_drop_futures() {
    for when in EVERY_ORDER {
        let (timer, clock) = in_virtual_time();
        let task = Arc::new(Task::default());
        let (sender, receiver) = channel();
        let (used, polls) = (timer.clone(), task.clone());
        at_thread_exit(&timer, when, move || {
            let dropped = (0..200).filter(|_| !is_ready(&mut used.sleep(HOUR), &polls)).count();
            let mut sleep = used.sleep(SEC);
            let mut moved = used.sleep(HOUR);
            let ready = [&mut sleep, &mut moved].map(|sleep| is_ready(sleep, &polls));
            let deadline = used.now() + 2 * SEC;
            Pin::new(&mut moved).reset(deadline);
            let mut interval = used.interval(3 * SEC);
            let ticks = [(); 2].map(|()| poll_tick(&mut interval, &polls).is_ready());
            sender.send((dropped, ready, ticks, sleep, moved, interval)).unwrap();
        });
        let (dropped, ready, ticks, mut sleep, mut moved, mut interval) = wait_for(&receiver);
        assert_eq!((dropped, ready, ticks), (200, [false; 2], [true, false]), "{when:?}");
        for woken in 1..=3 {
            clock.advance(SEC);
            assert_eq!(task.0.load(Ordering::SeqCst), woken);
        }
        assert!(is_ready(&mut sleep, &task) && is_ready(&mut moved, &task));
        assert_eq!(poll_tick(&mut interval, &task), Poll::Ready(clock.now()));
        drop(interval);
        assert_eq!((timer.len(), Arc::strong_count(&task)), (0, 1));
        assert_balanced(&timer);
    }
}

#[test]
fn a_destructor_may_drive() {
    let timer = Timer::builder().shards(1).build().unwrap();
    let queue = DelayQueue::new(&timer);
    let (used, values) = (timer.clone(), queue.clone());
    let drive = move |driver: &mut Driver| {
        values.push(Duration::ZERO, ()).unwrap();
        assert_eq!(driver.drive(), 1);
    };
    thread::spawn(move || {
        let kept = Rc::new(RefCell::new(None));
        let drive_last = drive.clone();
        let driver = kept.clone();
        keep_until_exit(move || drive_last(driver.borrow_mut().as_mut().unwrap()));
        // What a turn needs is destroyed before.
        drive(kept.borrow_mut().insert(used.take_driver().unwrap()));
    })
    .join()
    .unwrap();
    assert_eq!([(); 3].map(|()| queue.try_pop().is_some()), [true, true, false]);
}

/// A thread whose counters have been destroyed has others for each call.
#[test]
fn threads_that_end_at_the_same_time_count_each_timer() {
    // They take long enough that the threads run at the same time for a while, also beside other programs.
    const TIMERS: u64 = 20_000;
    let (timer, _clock) = in_virtual_time();
    let barrier = Arc::new(Barrier::new(2));
    thread::scope(|scope| {
        for _ in 0..2 {
            let (used, barrier) = (timer.clone(), barrier.clone());
            let ending = move || {
                barrier.wait();
                (0..TIMERS).for_each(|_| assert!(used.schedule(HOUR, || ()).unwrap().cancel()));
            };
            scope.spawn(|| at_thread_exit(&timer, When::After, ending));
        }
    });
    let timers = 2 * (TIMERS + 1);
    assert_eq!((timer.stats().scheduled, timer.stats().cancelled), (timers, timers));
}

/// A waker that panics when it is dropped without having been called.
struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Panics {
    fn drop(&mut self) {
        quiet_panic("dropped");
    }
}

#[test]
fn a_panic_of_a_waker_that_is_dropped_in_a_destructor_is_counted() {
    for when in EVERY_ORDER {
        let (timer, _clock) = in_virtual_time();
        let mut sleep = timer.sleep(HOUR);
        let waker = Waker::from(Arc::new(Panics));
        assert!(Pin::new(&mut sleep).poll(&mut Context::from_waker(&waker)).is_pending());
        drop(waker);
        at_thread_exit(&timer, when, move || drop(sleep));
        assert_eq!((timer.len(), timer.stats().panicked), (0, 1), "{when:?}");
        assert_balanced(&timer);
    }
}

#[test]
fn a_destructor_may_drop_handles_guards_and_futures() {
    for when in EVERY_ORDER {
        for shut_down in [false, true] {
            let (timer, clock) = in_virtual_time();
            let task = Arc::new(Task::default());
            let runs = Arc::new(AtomicUsize::new(0));
            let detached = timer.schedule(SEC, counting(&runs)).unwrap();
            let guard =
                timer.schedule(SEC, || panic!("a timer ran after its guard was dropped")).unwrap().cancel_on_drop();
            let mut sleep = timer.sleep(SEC);
            let mut interval = timer.interval_at(clock.now() + SEC, SEC);
            assert!(!is_ready(&mut sleep, &task) && poll_tick(&mut interval, &task).is_pending());
            let ended = shut_down.then(|| timer.clone());
            at_thread_exit(&timer, when, move || {
                drop(ended.map(|timer| timer.shutdown()));
                drop((detached, guard, sleep, interval));
            });
            assert_eq!((Arc::strong_count(&task), timer.is_shutdown()), (1, shut_down));
            assert_balanced(&timer);
            clock.advance(2 * SEC);
            let fired = usize::from(!shut_down);
            assert_eq!((runs.load(Ordering::SeqCst), timer.len(), timer.stats().panicked), (fired, 0, 0), "{when:?}");
        }
    }
}

#[test]
fn the_last_clone_is_dropped_in_a_destructor_and_then_its_handles() {
    for when in EVERY_ORDER {
        for executor in every_executor() {
            let timer = Timer::builder().shards(2).thread_name("local-last").executor(executor).build().unwrap();
            let weak = timer.downgrade();
            let other = Timer::new().unwrap();
            let (sender, receiver) = channel();
            let handles: Vec<TimerHandle> = (1..100).map(|n| timer.schedule(n * HOUR, || ()).unwrap()).collect();
            at_thread_exit(&other, when, move || {
                drop(timer);
                let pending = handles.iter().filter(|handle| handle.is_pending() || handle.cancel_and_wait()).count();
                drop(handles);
                sender.send(pending).unwrap();
            });
            assert_eq!(wait_for(&receiver), 0);
            assert!(weak.upgrade().is_none());
            eventually("the threads have ended", || threads_named("local-last") == 0);
        }
    }
}

/// The drop of the last handle frees the shard, and so the hooks.
/// Promise: panics stay inside.
#[test]
fn a_destructor_may_drop_hooks_that_panic() {
    let (on_panic, on_slow) = (Bomb, Bomb);
    let builder = Timer::builder().shards(1).on_panic(move |_| _ = &on_panic).on_slow(HOUR, move |_| _ = &on_slow);
    let timer = builder.build().unwrap();
    let handle = timer.schedule(HOUR, || ()).unwrap();
    drop(timer);
    thread::spawn(move || keep_until_exit(move || drop(handle))).join().unwrap();
}

#[test]
fn the_threads_of_a_timer_may_use_it_when_they_end() {
    // The threads of the global pool never end.
    for executor in every_executor().into_iter().filter(|executor| !matches!(executor, Executor::RayonGlobal)) {
        let timer = Timer::builder().shards(1).thread_name("local-own").executor(executor.clone()).build().unwrap();
        let kept = timer.clone();
        let handle = timer.schedule(HOUR, || ()).unwrap();
        let (sender, receiver) = channel();
        let mut sleep = timer.sleep(HOUR);
        assert!(!is_ready(&mut sleep, &Arc::default()));
        let callback = move || {
            keep_until_exit(move || {
                let accepted = kept.schedule(HOUR, || ()).is_ok();
                let unfired = kept.shutdown().len();
                drop((handle, sleep, kept));
                sender.send((accepted, unfired)).unwrap();
            });
        };
        let callback = timer.schedule(Duration::ZERO, callback).unwrap();
        eventually("the callback has run", || !callback.is_pending());
        callback.cancel_and_wait();
        let unfired = in_time("shutdown", move || timer.shutdown().len());
        drop(executor);
        // A thread that lives for one callback ends before the shutdown.
        let (accepted, unfired_before) = wait_for(&receiver);
        assert_eq!(unfired + unfired_before, 1 + usize::from(accepted));
        eventually("the threads have ended", || threads_named("local-own") == 0);
    }
}

#[test]
fn a_destructor_may_run_jobs() {
    for when in EVERY_ORDER {
        let held_jobs = HeldJobs::default();
        let timer = Timer::builder().shards(1).executor(held_jobs.executor()).build().unwrap();
        let runs = Arc::new(AtomicUsize::new(0));
        let weak = timer.downgrade();
        let (sender, receiver) = channel();
        let own = Arc::new(OnceLock::<TimerHandle>::new());
        let handle = own.clone();
        let f = move || {
            let timer = weak.upgrade().unwrap();
            let inner = timer.schedule(HOUR, || ()).unwrap();
            sender.send((once_set(&handle).cancel_and_wait(), inner.cancel_and_wait())).unwrap();
        };
        own.set(timer.schedule_with_fixed_delay(Duration::ZERO, HOUR, f).unwrap()).unwrap();
        timer.schedule(Duration::ZERO, counting(&runs)).unwrap();
        eventually("handed over", || held_jobs.len() == 2);
        let jobs = held_jobs.take();
        at_thread_exit(&timer, when, move || jobs.into_iter().for_each(|job| job()));
        assert_eq!(received(&receiver), [(true, true)]);
        assert_eq!((runs.load(Ordering::SeqCst), timer.len(), timer.stats().panicked), (1, 0, 0), "{when:?}");
        assert_balanced(&timer);
    }
}

#[test]
fn an_ended_thread_has_no_home_shard() {
    for (when, ended) in EVERY_ORDER.into_iter().flat_map(|when| (1..=4).map(move |ended| (when, ended))) {
        let timer = Timer::builder().shards(3).build().unwrap();
        timer.schedule(HOUR, || ()).unwrap();
        for _ in 0..ended {
            let used = timer.clone();
            at_thread_exit(&timer, when, move || assert!(used.schedule(HOUR, || ()).unwrap().cancel()));
        }
        // Three threads that live at the same time, this one and two more, have a shard each.
        let barrier = Barrier::new(2);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    timer.schedule(HOUR, || ()).unwrap();
                    barrier.wait();
                });
            }
        });
        let pending: Vec<_> = timer.stats().shards().iter().map(|shard| shard.pending).collect();
        assert_eq!(pending, [1; 3], "{ended} {when:?}");
        assert_balanced(&timer);
    }
}

//! Sleeps, timeouts and intervals: when they complete, which tasks they wake, and that they leave nothing behind.
#![cfg(feature = "std")]

mod common;
#[path = "common/thread_time.rs"]
mod thread_time;

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::{self, Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use common::*;
use corewheel::{Elapsed, Executor, Interval, ManualClock, MissedTickBehavior, Sleep, Timeout, Timer};
use fastrand::Rng;
use futures::FutureExt;
use futures::channel::oneshot;
use futures::executor::{LocalPool, block_on};
use futures::future::{Either, select};
use futures::task::LocalSpawnExt;
use thread_time::thread_time;

/// Polls the future from `task`, and returns its output if it is ready.
fn ready<F: Future + Unpin>(future: &mut F, task: &Arc<Task>) -> Option<F::Output> {
    let waker = Waker::from(task.clone());
    match Pin::new(future).poll(&mut Context::from_waker(&waker)) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// Polls the interval from `task`, and returns its tick if that is ready.
fn tick(interval: &mut Interval, task: &Arc<Task>) -> Option<Instant> {
    let waker = Waker::from(task.clone());
    match interval.poll_tick(&mut Context::from_waker(&waker)) {
        Poll::Ready(tick) => Some(tick),
        Poll::Pending => None,
    }
}

#[test]
fn futures_are_send_and_a_sleep_is_sync() {
    fn is_send<T: Send + 'static>() {}
    fn is_sync<T: Sync>() {}
    is_send::<Sleep>();
    is_sync::<Sleep>();
    is_send::<Timeout<future::Ready<()>>>();
    is_send::<Interval>();
    is_sync::<Interval>();
    is_send::<Elapsed>();
}

#[test]
fn sleeps_and_intervals_may_be_moved_between_polls() {
    fn is_unpin<T: Unpin>() {}
    is_unpin::<Sleep>();
    is_unpin::<Interval>();
    is_unpin::<Timeout<future::Ready<()>>>();
    let (timer, clock) = in_virtual_time();
    let mut sleep = timer.sleep(SEC);
    let mut interval = timer.interval(SEC);
    let task = Task::new();
    assert_eq!(ready(&mut sleep, &task), None);
    assert_eq!(tick(&mut interval, &task), Some(clock.now()));
    assert_eq!(tick(&mut interval, &task), None);
    let (mut sleep, mut interval) = (Box::new(sleep), Box::new(interval));
    clock.advance(SEC);
    assert_eq!((task.woken(), ready(&mut sleep, &task)), (2, Some(())));
    assert_eq!(tick(&mut interval, &task), Some(clock.now()));
}

#[test]
fn a_sleep_completes_at_its_deadline_and_not_before() {
    let (timer, clock) = in_virtual_time();
    let mut sleep = timer.sleep(5 * SEC);
    let task = Task::new();
    assert_eq!(sleep.deadline(), clock.now() + 5 * SEC);
    assert_eq!(ready(&mut sleep, &task), None);
    clock.advance(5 * SEC - MS);
    assert_eq!((ready(&mut sleep, &task), task.woken(), sleep.is_elapsed()), (None, 0, false));
    clock.advance(MS);
    assert_eq!((task.woken(), sleep.is_elapsed(), sleep.is_shutdown()), (1, true, false));
    assert_eq!(ready(&mut sleep, &task), Some(()));
    assert_eq!(ready(&mut sleep, &task), Some(()), "a later poll returned something else");
    let stats = timer.stats();
    assert_eq!((stats.scheduled, stats.fired, stats.completed, stats.pending), (1, 1, 1, 0));
    assert_balanced(&timer);
}

#[test]
fn a_future_that_is_due_is_ready_at_once() {
    let (timer, clock) = in_virtual_time();
    clock.advance(HOUR);
    let task = Task::new();
    assert_eq!(ready(&mut timer.sleep(Duration::ZERO), &task), Some(()));
    assert_eq!(ready(&mut timer.sleep_until(clock.now()), &task), Some(()));
    assert_eq!(ready(&mut timer.sleep_until(clock.now() - SEC), &task), Some(()));
    assert_eq!(timer.stats().scheduled, 0);
}

#[test]
fn a_sleep_that_is_never_polled_schedules_no_timer() {
    let (timer, clock) = in_virtual_time();
    let sleeps: Vec<_> = (0..100).map(|_| timer.sleep(SEC)).collect();
    assert_eq!((timer.stats().scheduled, timer.len()), (0, 0));
    clock.advance(2 * SEC);
    assert!(sleeps.iter().all(|sleep| sleep.is_elapsed()));
    drop(sleeps);
    assert_eq!((timer.stats().scheduled, timer.stats().cancelled), (0, 0));
}

#[test]
fn dropping_a_sleep_cancels_it_and_drops_the_waker() {
    let (timer, clock) = in_virtual_time();
    let mut sleep = timer.sleep(SEC);
    let task = Task::new();
    assert_eq!(ready(&mut sleep, &task), None);
    assert_eq!((timer.len(), Arc::strong_count(&task)), (1, 2));
    drop(sleep);
    assert_eq!((timer.len(), Arc::strong_count(&task)), (0, 1));
    clock.advance(2 * SEC);
    assert_eq!((task.woken(), timer.stats().cancelled), (0, 1));
    assert_balanced(&timer);
}

#[test]
fn the_task_that_polled_last_is_woken() {
    let (timer, clock) = in_virtual_time();
    let mut sleep = timer.sleep(SEC);
    let first = Task::new();
    let second = Task::new();
    for task in [&first, &second, &first, &second] {
        assert_eq!(ready(&mut sleep, task), None);
    }
    assert_eq!((Arc::strong_count(&first), timer.len()), (1, 1));
    clock.advance(SEC);
    assert_eq!((first.woken(), second.woken()), (0, 1));
    assert_eq!((timer.stats().scheduled, timer.stats().cancelled), (1, 0));
    assert_balanced(&timer);
}

#[test]
fn a_reset_of_a_pending_sleep_keeps_its_waker() {
    let (timer, clock) = in_virtual_time();
    let mut sleep = timer.sleep(5 * SEC);
    let task = Task::new();
    assert_eq!(ready(&mut sleep, &task), None);
    let start = clock.now();
    Pin::new(&mut sleep).reset(start + 9 * SEC);
    assert_eq!(sleep.deadline(), start + 9 * SEC);
    clock.advance(8 * SEC);
    assert_eq!(task.woken(), 0);
    Pin::new(&mut sleep).reset(start + 8 * SEC + MS);
    clock.advance(MS);
    assert_eq!((task.woken(), ready(&mut sleep, &task)), (1, Some(())));
    assert_eq!((timer.stats().scheduled, timer.stats().resets), (1, 2));
}

#[test]
fn a_reset_after_a_delay_counts_from_now() {
    let (timer, clock) = in_virtual_time();
    let mut sleep = timer.sleep(5 * SEC);
    let task = Task::new();
    assert_eq!(ready(&mut sleep, &task), None);
    clock.advance(4 * SEC);
    Pin::new(&mut sleep).reset_after(2 * SEC);
    assert_eq!(sleep.deadline(), clock.now() + 2 * SEC);
    clock.advance(2 * SEC - MS);
    assert_eq!(task.woken(), 0);
    clock.advance(MS);
    assert_eq!((task.woken(), ready(&mut sleep, &task)), (1, Some(())));
    Pin::new(&mut sleep).reset_after(Duration::MAX);
    assert!(sleep.deadline() > clock.now() + 1000 * 24 * HOUR);
}

/// In every phase: before the first poll, while it is pending, and after it has completed.
#[test]
fn a_sleep_reset_to_the_past_is_ready_at_the_next_poll() {
    let (timer, clock) = in_virtual_time();
    clock.advance(HOUR);
    let task = Task::new();
    let past = clock.now() - SEC;
    for (polls, completes) in [(0, false), (1, false), (2, false), (1, true)] {
        let mut sleep = timer.sleep(SEC);
        for _ in 0..polls {
            assert_eq!((ready(&mut sleep, &task), sleep.is_elapsed()), (None, false));
        }
        if completes {
            clock.advance(SEC);
            assert_eq!(ready(&mut sleep, &task), Some(()));
            Pin::new(&mut sleep).reset(clock.now() + SEC);
            assert!(!sleep.is_elapsed());
        }
        Pin::new(&mut sleep).reset(past);
        assert!(sleep.is_elapsed() && !sleep.is_shutdown());
        assert_eq!(sleep.deadline(), past);
        assert_eq!(ready(&mut sleep, &task), Some(()));
        assert!(sleep.is_elapsed());
    }
    assert_balanced(&timer);
}

/// Less than a tick in the past, and with the driver at work. A future that completes without having waited gives way
/// once in a while.
#[test]
fn a_sleep_reset_to_the_past_waits_for_no_tick_on_the_real_clock() {
    const ROUNDS: usize = 2000;
    for tick in [Duration::from_micros(1), MS, SEC] {
        let timer = Timer::builder().shards(1).tick(tick).build().unwrap();
        let mut sleep = timer.sleep(HOUR);
        let task = Task::new();
        let mut at_once = 0;
        for round in 0..ROUNDS as u32 {
            Pin::new(&mut sleep).reset(timer.now() + HOUR);
            // The one after a reset may give way to other tasks.
            assert_eq!((ready(&mut sleep, &task), sleep.is_elapsed()), (None, false));
            Pin::new(&mut sleep).reset(timer.now() - Duration::from_nanos(10) * (round % 200));
            assert!(sleep.is_elapsed());
            at_once += usize::from(ready(&mut sleep, &task).is_some());
        }
        assert!(at_once >= ROUNDS / 100 * 99, "{at_once} of {ROUNDS} with a tick of {tick:?}");
    }
}

#[test]
fn a_deadline_between_two_ticks_comes_with_the_later_one() {
    let clock = ManualClock::new();
    let timer = Timer::builder().clock(clock.clone()).tick(10 * MS).build().unwrap();
    let mut sleep = timer.sleep(11 * MS);
    let task = Task::new();
    clock.advance(19 * MS);
    assert!(sleep.deadline() < clock.now());
    assert_eq!((sleep.is_elapsed(), ready(&mut sleep, &task)), (false, None));
    clock.advance(MS);
    assert_eq!((sleep.is_elapsed(), ready(&mut sleep, &task)), (true, Some(())));
}

#[test]
fn a_sleep_can_be_used_again() {
    let (timer, clock) = in_virtual_time();
    let mut sleep = timer.sleep(SEC);
    let task = Task::new();
    for round in 1..=3 {
        assert_eq!(ready(&mut sleep, &task), None);
        clock.advance(SEC);
        assert_eq!((ready(&mut sleep, &task), task.woken()), (Some(()), round));
        Pin::new(&mut sleep).reset(clock.now() + SEC);
        assert!(!sleep.is_elapsed());
    }
    // The sleep has not been polled since its reset, so it wakes no task.
    clock.advance(2 * SEC);
    assert_eq!((task.woken(), sleep.is_elapsed()), (3, true));
    assert_eq!(timer.stats().completed, 3);
    assert_balanced(&timer);
}

#[test]
fn a_sleep_that_never_completes_has_a_distant_deadline() {
    let (timer, clock) = in_virtual_time();
    let mut sleep = timer.sleep(Duration::MAX);
    let task = Task::new();
    assert_eq!(ready(&mut sleep, &task), None);
    assert!(sleep.deadline() > clock.now() + 30 * YEAR);
    clock.advance(50 * YEAR);
    assert_eq!(ready(&mut sleep, &task), None);
    let mut timeout = timer.timeout(Duration::MAX, future::pending::<()>());
    assert_eq!(ready(&mut timeout, &task), None);
}

#[test]
fn a_shutdown_completes_pending_futures() {
    let (timer, _clock) = in_virtual_time();
    let task = Task::new();
    let (mut pending, mut unpolled, mut timeout) =
        (timer.sleep(SEC), timer.sleep(SEC), timer.timeout(SEC, future::pending::<()>()));
    assert_eq!(ready(&mut pending, &task), None);
    assert_eq!(ready(&mut timeout, &task), None);
    assert_eq!(timer.shutdown().len(), 0, "a sleep is not handed back");
    assert_eq!(task.woken(), 2);
    assert!([&pending, &unpolled].iter().all(|sleep| sleep.is_shutdown() && sleep.is_elapsed()), "without a poll");
    for sleep in [&mut pending, &mut unpolled] {
        assert_eq!(ready(sleep, &task), Some(()));
        assert!(sleep.is_shutdown() && sleep.is_elapsed());
    }
    assert!(ready(&mut timeout, &task).unwrap().unwrap_err().is_shutdown());
    assert_eq!(task.woken(), 2);
    assert_eq!((timer.stats().scheduled, timer.stats().completed, timer.stats().fired), (2, 2, 0));
    assert_balanced(&timer);
}

#[test]
fn a_sleep_that_a_shutdown_completed_stays_complete() {
    let (timer, clock) = in_virtual_time();
    let mut sleep = timer.sleep(SEC);
    let task = Task::new();
    assert_eq!(ready(&mut sleep, &task), None);
    drop(timer.shutdown());
    assert_eq!((ready(&mut sleep, &task), sleep.is_shutdown()), (Some(()), true));
    clock.advance(2 * SEC);
    assert!(sleep.is_shutdown());
}

/// Ways to end the service.
const ENDS: [fn(Timer); 2] = [|timer| drop(timer.shutdown()), drop];

/// Promise: after the shutdown.
#[test]
fn a_deadline_set_after_the_end_completes_only_a_poll_that_finds_it_passed() {
    for end in ENDS {
        let (timer, clock) = in_virtual_time();
        let task = Task::new();
        let (mut polled, unpolled) = (timer.sleep(SEC), timer.sleep(SEC));
        assert_eq!(ready(&mut polled, &task), None);
        end(timer);
        assert_eq!((ready(&mut polled, &task), task.woken()), (Some(()), 1));
        for mut sleep in [polled, unpolled] {
            for delay in [SEC, HOUR] {
                Pin::new(&mut sleep).reset_after(delay);
                for _ in 0..3 {
                    assert_eq!((sleep.is_elapsed(), sleep.is_shutdown()), (false, true));
                    assert_eq!(ready(&mut sleep, &task), None);
                }
                assert_eq!(sleep.deadline(), clock.now() + delay);
                clock.advance(delay);
                assert_eq!((sleep.is_elapsed(), sleep.is_shutdown()), (true, false));
                assert_eq!(ready(&mut sleep, &task), Some(()));
            }
            Pin::new(&mut sleep).reset(clock.now());
            assert_eq!((ready(&mut sleep, &task), sleep.is_shutdown()), (Some(()), false));
        }
        assert_eq!(task.woken(), 1, "a deadline woke the task");
    }
}

/// Promise: after the shutdown.
#[test]
fn a_sleep_made_after_a_shutdown_completes_only_a_poll_that_finds_its_deadline_passed() {
    let (timer, clock) = in_virtual_time();
    let task = Task::new();
    drop(timer.shutdown());
    let mut sleeps = [timer.sleep(SEC), timer.sleep_until(clock.now() + SEC)];
    for sleep in &mut sleeps {
        assert_eq!((ready(sleep, &task), sleep.is_elapsed(), sleep.is_shutdown()), (None, false, true));
    }
    clock.advance(SEC);
    for sleep in &mut sleeps {
        assert_eq!((sleep.is_elapsed(), ready(sleep, &task), sleep.is_shutdown()), (true, Some(()), false));
    }
    assert_eq!((ready(&mut timer.sleep(Duration::ZERO), &task), task.woken()), (Some(()), 0));
    assert_eq!(timer.stats().scheduled, 0);
}

/// Promise: after the shutdown.
#[test]
fn a_timeout_made_after_a_shutdown_goes_on_with_its_future_alone() {
    let (timer, clock) = in_virtual_time();
    let task = Task::new();
    drop(timer.shutdown());
    assert_eq!(ready(&mut timer.timeout(SEC, future::ready(7)), &task), Some(Ok(7)));
    for delay in [Duration::ZERO, SEC] {
        let (sender, receiver) = oneshot::channel();
        let mut timeout = timer.timeout(delay, receiver);
        assert_eq!(ready(&mut timeout, &task), None);
        clock.advance(HOUR);
        assert_eq!((ready(&mut timeout, &task), task.woken()), (None, 0));
        sender.send(7).unwrap();
        assert_eq!((ready(&mut timeout, &task), task.woken()), (Some(Ok(Ok(7))), 1));
        task.0.store(0, Ordering::SeqCst);
    }
}

/// Promise: after the shutdown.
#[test]
fn a_shutdown_completes_one_tick_and_no_later_one() {
    let (timer, clock) = in_virtual_time();
    let task = Task::new();
    let [mut waits, mut unpolled] = [(); 2].map(|()| timer.interval_at(clock.now() + SEC, SEC));
    let first = clock.now() + SEC;
    assert_eq!(tick(&mut waits, &task), None);
    assert!(!waits.is_shutdown());
    drop(timer.shutdown());
    assert_eq!((tick(&mut waits, &task), tick(&mut unpolled, &task), task.woken()), (Some(first), Some(first), 1));
    for mut interval in [waits, unpolled, timer.interval(SEC), timer.interval_at(first, SEC)] {
        assert!(interval.is_shutdown());
        let resets: [fn(&mut Interval); 3] = [|_| (), Interval::reset, Interval::reset_immediately];
        for reset in resets {
            reset(&mut interval);
            assert_eq!(tick(&mut interval, &task), None);
            clock.advance(HOUR);
            assert_eq!(tick(&mut interval, &task), None);
        }
    }
    assert_eq!(task.woken(), 1, "a tick woke the task");
    assert_balanced(&timer);
}

/// Promise: after the shutdown.
#[test]
fn an_interval_keeps_the_service_alive() {
    let (timer, clock) = in_virtual_time();
    let (task, tokens, runs) = (Task::new(), Tokens::default(), Arc::new(AtomicUsize::new(0)));
    let weak = timer.downgrade();
    timer.schedule(SEC, counting(&runs)).unwrap();
    let token = tokens.give();
    timer.schedule(HOUR, move || drop(token)).unwrap();
    let mut sleep = timer.sleep(HOUR);
    assert_eq!(ready(&mut sleep, &task), None);
    let mut interval = timer.interval(SEC);
    drop(timer);
    for _ in 0..3 {
        assert_eq!((tick(&mut interval, &task), tick(&mut interval, &task)), (Some(clock.now()), None));
        clock.advance(SEC);
    }
    assert_eq!((runs.load(Ordering::SeqCst), task.woken(), interval.is_shutdown()), (1, 3, false));
    drop(interval);
    assert_eq!((weak.upgrade().is_none(), tokens.alive(), ready(&mut sleep, &task)), (true, 0, Some(())));
}

/// Promise: after the shutdown.
#[test]
fn a_shutdown_ends_the_service_of_an_interval() {
    let (timer, _clock) = in_virtual_time();
    let weak = timer.downgrade();
    timer.schedule(SEC, || ()).unwrap();
    let mut interval = timer.interval_at(timer.now() + SEC, SEC);
    drop(timer);
    let task = Task::new();
    assert_eq!(tick(&mut interval, &task), None);
    assert_eq!(weak.upgrade().unwrap().shutdown().len(), 1);
    assert_eq!((task.woken(), interval.is_shutdown()), (1, true));
    assert!(tick(&mut interval, &task).is_some() && tick(&mut interval, &task).is_none());
    drop(interval);
    assert!(weak.upgrade().is_none());
}

/// Promise: after the shutdown.
#[cfg(feature = "futures-core")]
#[test]
fn a_stream_of_ticks_ends_at_the_shutdown() {
    use futures::{FutureExt, StreamExt};
    let (timer, clock) = in_virtual_time();
    let [mut waits, mut overdue, mut unpolled] = [(); 3].map(|()| timer.interval_at(clock.now() + SEC, SEC));
    assert_eq!((waits.next().now_or_never(), overdue.next().now_or_never()), (None, None));
    clock.advance(SEC);
    assert_eq!(waits.next().now_or_never(), Some(Some(clock.now())));
    assert_eq!(waits.next().now_or_never(), None);
    drop(timer.shutdown());
    for interval in [&mut waits, &mut overdue, &mut unpolled, &mut timer.interval(SEC)] {
        assert_eq!(interval.next().now_or_never(), Some(None));
        assert_eq!(interval.next().now_or_never(), Some(None), "a later poll returned something else");
    }
}

/// Creates a future of a loop over a timer.
type Again = Box<dyn FnMut() -> Pin<Box<dyn Future<Output = ()>>>>;

/// Loops over a timer that end only when another task ends them.
fn loops(timer: &Timer, clock: &ManualClock) -> Vec<(&'static str, Again)> {
    fn shared<T: 'static>(value: T) -> impl Fn() -> Rc<RefCell<T>> {
        let value = Rc::new(RefCell::new(value));
        move || value.clone()
    }
    let beginning = clock.now();
    clock.advance(1000 * HOUR);
    let overdue = shared(timer.interval_at(beginning, MS));
    let beside = shared((timer.interval_at(beginning, MS), timer.sleep(HOUR)));
    let over = shared(timer.sleep(Duration::ZERO));
    let moved = shared(timer.sleep(HOUR));
    let (of_zero, of_timeouts, fresh) = (timer.clone(), timer.clone(), timer.clone());
    let (of_two, of_one, of_other) = (timer.clone(), timer.clone(), in_virtual_time().0);
    let elapsed = shared([(); 2].map(|()| timer.sleep(Duration::ZERO)));
    let intervals = shared([(); 2].map(|()| timer.interval_at(beginning, MS)));
    let now = timer.now();
    vec![
        (
            "overdue ticks",
            Box::new(move || {
                let interval = overdue();
                Box::pin(async move { _ = poll_fn(|context| interval.borrow_mut().poll_tick(context)).await })
            }),
        ),
        (
            "overdue ticks beside a sleep",
            Box::new(move || {
                let beside = beside();
                Box::pin(poll_fn(move |context| {
                    let (interval, sleep) = &mut *beside.borrow_mut();
                    if Pin::new(&mut *sleep).poll(context).is_ready() {
                        Pin::new(sleep).reset_after(HOUR);
                    }
                    interval.poll_tick(context).map(drop)
                }))
            }),
        ),
        ("sleeps of zero", Box::new(move || Box::pin(of_zero.sleep(Duration::ZERO)))),
        (
            "timeouts of zero",
            Box::new(move || {
                let timeout = of_timeouts.timeout(Duration::ZERO, future::pending::<()>());
                Box::pin(async { _ = timeout.await })
            }),
        ),
        (
            "an elapsed sleep",
            Box::new(move || {
                let over = over();
                Box::pin(poll_fn(move |context| Pin::new(&mut *over.borrow_mut()).poll(context)))
            }),
        ),
        (
            "a pending sleep that is reset to the past",
            Box::new(move || {
                let sleep = moved();
                let mut context = Context::from_waker(Waker::noop());
                Pin::new(&mut *sleep.borrow_mut()).reset_after(HOUR);
                _ = Pin::new(&mut *sleep.borrow_mut()).poll(&mut context);
                Pin::new(&mut *sleep.borrow_mut()).reset(now);
                Box::pin(poll_fn(move |context| Pin::new(&mut *sleep.borrow_mut()).poll(context)))
            }),
        ),
        (
            "two new sleeps",
            Box::new(move || {
                let [one, two] = [(); 2].map(|()| of_two.sleep(Duration::ZERO));
                Box::pin(select(one, two).map(drop))
            }),
        ),
        (
            "two new sleeps of two timers",
            Box::new(move || Box::pin(select(of_one.sleep(Duration::ZERO), of_other.sleep(Duration::ZERO)).map(drop))),
        ),
        (
            "two elapsed sleeps, polled by hand",
            Box::new(move || {
                let sleeps = elapsed();
                Box::pin(poll_fn(move |context| {
                    let mut polls = sleeps.borrow_mut().each_mut().map(|sleep| Pin::new(sleep).poll(context));
                    if polls.iter_mut().any(|poll| poll.is_ready()) { Poll::Ready(()) } else { Poll::Pending }
                }))
            }),
        ),
        (
            "two overdue intervals",
            Box::new(move || {
                let intervals = intervals();
                Box::pin(poll_fn(move |context| {
                    let mut polls = intervals.borrow_mut();
                    polls
                        .iter_mut()
                        .map(|interval| interval.poll_tick(context))
                        .find(Poll::is_ready)
                        .map_or(Poll::Pending, |poll| poll.map(drop))
                }))
            }),
        ),
        (
            "new sleeps",
            Box::new(move || Box::pin(fresh.sleep(if fresh.is_shutdown() { HOUR } else { Duration::ZERO }))),
        ),
    ]
}

/// On a single-threaded executor, a task beside each loop makes progress, before and after the shutdown.
/// Promise: no loop over timers keeps its executor.
#[test]
fn a_loop_over_timers_does_not_starve_other_tasks() {
    for shut_down in [false, true] {
        let (timer, clock) = in_virtual_time();
        for (what, mut again) in loops(&timer, &clock) {
            if shut_down {
                drop(timer.shutdown());
            }
            let mut pool = LocalPool::new();
            let (sender, end) = oneshot::channel();
            let turns = Rc::new(Cell::new(0));
            let counted = turns.clone();
            let looping = Box::pin(async move {
                while counted.get() < 10_000 {
                    again().await;
                    counted.set(counted.get() + 1);
                }
            });
            let looping = pool.spawner().spawn_local_with_handle(select(end, looping)).unwrap();
            pool.spawner().spawn_local(async { sender.send(()).unwrap() }).unwrap();
            pool.run_until(looping);
            assert!(turns.get() < 600, "{what}: {} turns, after a shutdown: {shut_down}", turns.get());
        }
    }
}

/// Loops on a single-threaded executor until another thread ends that after `LOOPED`. Returns how often the loop turned.
fn turns_of(what: &str, mut again: impl AsyncFnMut()) -> u32 {
    let (sender, end) = oneshot::channel();
    let ends = thread::spawn(move || {
        thread::sleep(LOOPED);
        sender.send(()).unwrap();
    });
    let (turns, mut polls) = (Cell::new(0), 0);
    let busy = thread_time();
    let looping = async {
        loop {
            again().await;
            turns.set(turns.get() + 1);
        }
    };
    let mut looping = pin!(looping);
    let counted = poll_fn(|context| {
        polls += 1;
        looping.as_mut().poll(context)
    });
    let ended: Either<_, (Infallible, _)> = LocalPool::new().run_until(select(end, counted));
    assert!(matches!(ended, Either::Left(_)));
    let busy = thread_time() - busy;
    ends.join().unwrap();
    assert!(polls <= 2 * turns.get() + 2, "{what}: {polls} polls for {} turns", turns.get());
    assert!(busy < LOOPED / 4, "{what}: {busy:?} of processor time");
    turns.get()
}

const LOOPED: Duration = Duration::from_millis(200);

/// Each loop waits beside the signal of its own end.
/// Promise: after the shutdown.
#[test]
fn after_the_end_no_loop_spins_or_hurries() {
    for end in ENDS {
        let timer = Timer::builder().shards(1).build().unwrap();
        let mut sleep = timer.sleep(HOUR);
        assert_eq!(ready(&mut sleep, &Task::new()), None);
        end(timer);
        let turns = turns_of("a sleep that is reset after each turn", async || {
            (&mut sleep).await;
            Pin::new(&mut sleep).reset_after(10 * MS);
        });
        assert_eq!(turns, 1, "the end completes a sleep once");
        let reset = turns_of("a sleep that is reset before each turn", async || {
            Pin::new(&mut sleep).reset_after(10 * MS);
            (&mut sleep).await;
        });
        assert_eq!(reset, 0);
    }
    let timer = Timer::builder().shards(1).build().unwrap();
    let mut interval = timer.interval_at(timer.now() + HOUR, 10 * MS);
    drop(timer.shutdown());
    let never = || timer.timeout(10 * MS, future::pending::<()>());
    assert_eq!(turns_of("new sleeps", async || timer.sleep(10 * MS).await), 0);
    assert_eq!(turns_of("new timeouts", async || _ = never().await), 0);
    assert_eq!(turns_of("ticks", async || _ = interval.tick().await), 1);
}

/// The end of a program's last clone is not the end of its ticks.
/// Promise: after the shutdown.
#[test]
fn a_loop_over_ticks_keeps_its_pace_without_a_timer() {
    const PERIOD: Duration = Duration::from_millis(20);
    let mut interval = Timer::builder().shards(1).build().unwrap().interval(PERIOD);
    let start = Instant::now();
    let turns = turns_of("ticks", async || _ = interval.tick().await);
    assert!(turns > 1 && start.elapsed() >= (turns - 1) * PERIOD, "{turns} turns in {:?}", start.elapsed());
}

/// Promise: no loop over timers keeps its executor.
#[test]
fn a_tick_that_yields_is_not_lost() {
    let (timer, clock) = in_virtual_time();
    let mut interval = timer.interval(MS);
    let task = Task::new();
    let start = clock.now();
    clock.advance(2 * SEC);
    let waker = Waker::from(task.clone());
    let (mut ticks, mut put_off) = (0, 0);
    while ticks <= 2000 {
        match interval.poll_tick(&mut Context::from_waker(&waker)) {
            Poll::Ready(tick) => {
                assert_eq!(tick, start + ticks * MS);
                ticks += 1;
            }
            Poll::Pending => put_off += 1,
        }
    }
    assert!((1..=2001 / 100).contains(&put_off), "{put_off} times");
    assert_eq!(task.woken(), put_off);
    assert_eq!(ready(&mut pin!(interval.tick()), &task), None, "the next tick is not due");
    assert_eq!(task.woken(), put_off);
}

/// More futures than the budget of a thread: they neither need nor spend it.
/// Promise: no loop over timers keeps its executor.
#[test]
fn a_future_that_has_waited_does_not_yield() {
    let (timer, clock) = in_virtual_time();
    let task = Task::new();
    for woken in 1..=300 {
        let mut sleep = timer.sleep(SEC);
        assert_eq!(ready(&mut sleep, &task), None);
        clock.advance(SEC);
        assert_eq!((ready(&mut sleep, &task), task.woken()), (Some(()), woken));
    }
}

/// Also after it has waited once.
/// Promise: no loop over timers keeps its executor.
#[test]
fn an_elapsed_sleep_yields_when_it_is_polled_repeatedly() {
    let (timer, clock) = in_virtual_time();
    let mut sleep = timer.sleep(SEC);
    let task = Task::new();
    assert_eq!(ready(&mut sleep, &task), None);
    clock.advance(SEC);
    let put_off = (0..300).filter(|_| ready(&mut sleep, &task).is_none()).count();
    assert!((1..=3).contains(&put_off), "{put_off} times");
    assert_eq!(task.woken(), 1 + put_off);
}

/// Whatever else completes on the thread in between.
/// Promise: no loop over timers keeps its executor.
#[test]
fn a_future_that_yielded_is_ready_at_the_next_poll() {
    let (timer, _clock) = in_virtual_time();
    let task = Task::new();
    for others in 0..300 {
        let mut sleeps = (0..1000).map(|_| timer.sleep(Duration::ZERO));
        let mut put_off = sleeps.find_map(|mut sleep| ready(&mut sleep, &task).is_none().then_some(sleep)).unwrap();
        for _ in 0..others {
            _ = ready(&mut timer.sleep(Duration::ZERO), &task);
        }
        assert_eq!(ready(&mut put_off, &task), Some(()));
    }
}

/// A task makes many completions and then a sleep, and drops what is pending. So the sleep would come at the end of the
/// budget in each round.
/// Promise: no loop over timers keeps its executor.
#[test]
fn a_sleep_that_is_made_anew_is_not_put_off_for_ever() {
    for (batch, keeps) in [128, 257, 386].into_iter().flat_map(|batch| [(batch, false), (batch, true)]) {
        let (timer, _clock) = in_virtual_time();
        let task = Task::new();
        let mut kept: Vec<_> = (0..batch).map(|_| timer.sleep(Duration::ZERO)).collect();
        let rounds = (1..1000).find(|_| {
            for sleep in &mut kept {
                if !keeps {
                    *sleep = timer.sleep(Duration::ZERO);
                }
                _ = ready(sleep, &task);
            }
            ready(&mut timer.sleep(Duration::ZERO), &task).is_some()
        });
        assert!(rounds.is_some_and(|rounds| rounds < 20), "batches of {batch}, kept: {keeps}: {rounds:?}");
    }
}

/// Nor one that is reset before each poll.
#[test]
fn a_sleep_that_is_reset_is_not_put_off_for_ever() {
    for batch in [0, 128, 257, 386] {
        let (timer, _clock) = in_virtual_time();
        let task = Task::new();
        let mut sleep = timer.sleep(Duration::ZERO);
        let mut put_off = 0;
        for _ in 0..1000 {
            Pin::new(&mut sleep).reset(timer.now());
            (0..batch).for_each(|_| _ = ready(&mut timer.sleep(Duration::ZERO), &task));
            put_off = if ready(&mut sleep, &task).is_some() { 0 } else { put_off + 1 };
            assert!(put_off < 20, "batches of {batch}");
        }
    }
}

/// What gives way is kept, or goes on elsewhere: the others still complete at their second poll.
#[test]
fn a_future_that_gives_way_and_is_not_polled_again_delays_no_other_twice() {
    let (timer, _clock) = in_virtual_time();
    let task = Task::new();
    let mut kept = Vec::new();
    for _ in 0..1000 {
        let mut sleep = timer.sleep(Duration::ZERO);
        if ready(&mut sleep, &task).is_none() {
            kept.push(sleep);
            let mut next = timer.sleep(Duration::ZERO);
            assert_eq!([ready(&mut next, &task), ready(&mut next, &task)], [None, Some(())]);
        }
    }
}

/// Returns a timer on the system's clock whose only driver is blocked until the gate is opened.
fn with_blocked_driver() -> (Timer, Gate) {
    let timer = Timer::builder().shards(1).executor(Executor::Inline).build().unwrap();
    let gate = Gate::default();
    block(&timer, 1, &gate);
    (timer, gate)
}

/// Promise: due now.
#[test]
fn a_sleep_past_its_deadline_is_ready_although_the_driver_is_late() {
    let (timer, gate) = with_blocked_driver();
    let task = Task::new();
    let [mut waits, mut moved, mut left] = [SEC / 2, HOUR, SEC / 2].map(|delay| timer.sleep(delay));
    for sleep in [&mut waits, &mut moved, &mut left] {
        assert_eq!((ready(sleep, &task), sleep.is_elapsed()), (None, false));
    }
    let passed = timer.now() - SEC;
    Pin::new(&mut moved).reset(passed);
    thread::sleep(SEC / 2 + 10 * MS);
    for sleep in [&mut waits, &mut moved] {
        assert!(sleep.is_elapsed() && !sleep.is_shutdown());
        assert_eq!(ready(sleep, &task), Some(()));
    }
    let stats = timer.stats();
    assert_eq!((task.woken(), stats.fired, stats.completed, stats.pending), (0, 1, 3, 1), "the polls end the timers");
    gate.open();
    eventually("the sleep that is left wakes its task", || task.woken() == 1);
    assert_eq!(ready(&mut left, &task), Some(()));
    assert_eq!((timer.stats().completed, timer.stats().cancelled), (4, 0));
    drop((waits, moved, left));
    assert_eq!(Arc::strong_count(&task), 1);
    assert_balanced(&timer);
}

/// For any tick, and for every way to read the clock.
/// Promise: due now.
#[test]
fn a_future_that_is_due_is_ready_at_once_on_the_real_clock() {
    const ROUNDS: usize = 2000;
    for tick in [Duration::from_micros(1), MS] {
        let timer = Timer::builder().shards(1).tick(tick).build().unwrap();
        let task = Task::new();
        let mut sleep = timer.sleep(Duration::ZERO);
        let mut at_once = 0;
        for _ in 0..ROUNDS {
            at_once += usize::from(ready(&mut timer.sleep(Duration::ZERO), &task).is_some());
            at_once += usize::from(ready(&mut timer.sleep_until(Instant::now()), &task).is_some());
            Pin::new(&mut sleep).reset(Instant::now());
            at_once += usize::from(ready(&mut sleep, &task).is_some());
        }
        assert!(at_once >= ROUNDS * 3 / 100 * 99, "{at_once} of {}", ROUNDS * 3);
    }
}

#[test]
fn futures_do_not_keep_the_service_alive() {
    let (timer, _clock) = in_virtual_time();
    let weak = timer.downgrade();
    let task = Task::new();
    let (mut polled, mut unpolled) = (timer.sleep(SEC), timer.sleep(SEC));
    assert_eq!(ready(&mut polled, &task), None);
    drop(timer);
    assert!(weak.upgrade().is_none());
    assert_eq!((task.woken(), ready(&mut polled, &task), ready(&mut unpolled, &task)), (1, Some(()), Some(())));
    thread::spawn(|| drop((polled, unpolled))).join().unwrap();
}

#[test]
fn futures_do_not_count_towards_max_pending() {
    let (builder, clock) = on_manual_clock();
    let timer = builder.max_pending(1).build().unwrap();
    let task = Task::new();
    let mut sleeps: Vec<_> = (0..10).map(|_| timer.sleep(SEC)).collect();
    assert!(sleeps.iter_mut().all(|sleep| ready(sleep, &task).is_none()));
    let one = timer.schedule(HOUR, || ()).unwrap();
    assert!(timer.schedule(HOUR, || ()).unwrap_err().is_full());
    sleeps.truncate(5);
    clock.advance(SEC);
    assert_eq!(task.woken(), 5);
    assert!(timer.schedule(HOUR, || ()).unwrap_err().is_full(), "the end of a sleep releases no permit");
    assert!(one.cancel());
    timer.schedule(HOUR, || ()).unwrap();
}

#[test]
fn wakers_are_called_on_the_shards_own_thread() {
    struct Name(Mutex<Option<String>>);
    impl Wake for Name {
        fn wake(self: Arc<Self>) {
            *self.0.lock().unwrap() = thread::current().name().map(str::to_owned);
        }
    }
    let timer = Timer::builder().shards(1).thread_name("futures").build().unwrap();
    let name = Arc::new(Name(Mutex::new(None)));
    let waker = Waker::from(name.clone());
    let mut sleep = pin!(timer.sleep(100 * MS));
    assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    eventually("the waker is called", || name.0.lock().unwrap().is_some());
    assert_eq!(name.0.lock().unwrap().as_deref(), Some("futures-0"));
}

/// Promise: panics stay inside.
#[test]
fn a_waker_that_panics_affects_no_other_task() {
    struct Panics(Token);
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            let _ = &self.0;
            quiet_panic("waker");
        }
    }
    let (builder, clock) = on_manual_clock();
    let caught = Arc::new(AtomicUsize::new(0));
    let count = caught.clone();
    let timer = builder.shards(1).on_panic(move |_| _ = count.fetch_add(1, Ordering::SeqCst)).build().unwrap();
    let tokens = Tokens::default();
    let mut sleeps = [timer.sleep(SEC), timer.sleep(SEC)];
    for sleep in &mut sleeps {
        let waker = Waker::from(Arc::new(Panics(tokens.give())));
        assert!(Pin::new(sleep).poll(&mut Context::from_waker(&waker)).is_pending());
    }
    let mut other = timer.sleep(SEC);
    let task = Task::new();
    assert_eq!(ready(&mut other, &task), None);
    clock.advance(SEC);
    assert_eq!((task.woken(), caught.load(Ordering::SeqCst), timer.stats().panicked), (1, 2, 2));
    assert_eq!(tokens.alive(), 0);
    assert!(sleeps.iter_mut().all(|sleep| ready(sleep, &task).is_some()));
}

/// A waker that polls its future again, drops others and creates new ones inside the call: like a task that runs on the
/// timer's thread.
/// Promise: any thread, no lock.
#[test]
fn a_waker_may_use_the_timer() {
    struct Busy {
        timer: Timer,
        sleeps: Mutex<Vec<Sleep>>,
        rounds: AtomicUsize,
    }
    impl Wake for Busy {
        fn wake(self: Arc<Self>) {
            if self.rounds.fetch_add(1, Ordering::SeqCst) < 5 {
                let waker = Waker::from(self.clone());
                let mut context = Context::from_waker(&waker);
                let mut sleeps = self.sleeps.lock().unwrap();
                // This task's own entry is in use by the call that wakes it, so the sleep needs another entry.
                let mut woken = sleeps.remove(0);
                assert!(Pin::new(&mut woken).poll(&mut context).is_ready());
                let deadline = woken.deadline() + SEC;
                Pin::new(&mut woken).reset(deadline);
                assert!(Pin::new(&mut woken).poll(&mut context).is_pending());
                sleeps.push(woken);
                drop(self.timer.sleep(HOUR));
            } else {
                self.sleeps.lock().unwrap().clear();
            }
        }
    }
    let (timer, clock) = in_virtual_time();
    let busy = Arc::new(Busy { timer: timer.clone(), sleeps: Mutex::default(), rounds: AtomicUsize::new(0) });
    let mut sleep = timer.sleep(SEC);
    let waker = Waker::from(busy.clone());
    assert!(Pin::new(&mut sleep).poll(&mut Context::from_waker(&waker)).is_pending());
    drop(waker);
    busy.sleeps.lock().unwrap().push(sleep);
    clock.advance(10 * SEC);
    assert_eq!((busy.rounds.load(Ordering::SeqCst), timer.len()), (6, 0));
    assert_eq!((timer.stats().completed, Arc::strong_count(&busy)), (6, 1));
    assert_balanced(&timer);
}

#[test]
fn a_timeout_polls_its_future_first() {
    let (timer, clock) = in_virtual_time();
    let task = Task::new();
    assert_eq!(ready(&mut timer.timeout(Duration::ZERO, future::ready(7)), &task), Some(Ok(7)));
    let mut late = timer.timeout_at(clock.now() + SEC, future::pending::<()>());
    assert_eq!(ready(&mut late, &task), None);
    clock.advance(SEC);
    let elapsed = ready(&mut late, &task).unwrap().unwrap_err();
    assert!(!elapsed.is_shutdown() && task.woken() == 1);
    assert!(elapsed.to_string().contains("deadline"));
    let mut both = timer.timeout(SEC, timer.sleep(SEC));
    assert_eq!(ready(&mut both, &task), None);
    clock.advance(SEC);
    assert_eq!(ready(&mut both, &task), Some(Ok(())), "the inner future is ready, although the deadline has passed");
}

/// Returns the instants of ticks, and when each was awaited, in milliseconds since the start. The ticks are awaited 50
/// ms apart, except for a pause of 120 ms after the first.
fn missed(behavior: MissedTickBehavior) -> (Vec<u128>, Vec<u128>) {
    let (timer, clock) = in_virtual_time();
    let start = timer.now();
    let mut interval = timer.interval(50 * MS);
    interval.set_missed_tick_behavior(behavior);
    assert_eq!((interval.missed_tick_behavior(), interval.period()), (behavior, 50 * MS));
    let mut due = Vec::new();
    let mut came = Vec::new();
    let task = Task::new();
    while due.len() < 6 {
        let waker = Waker::from(task.clone());
        match interval.poll_tick(&mut Context::from_waker(&waker)) {
            Poll::Ready(tick) => {
                due.push((tick - start).as_millis());
                came.push((timer.now() - start).as_millis());
                if due.len() == 2 {
                    clock.advance(120 * MS);
                }
            }
            Poll::Pending => clock.advance(MS),
        }
    }
    (due, came)
}

#[test]
fn missed_ticks_follow_the_chosen_behavior() {
    assert_eq!(missed(MissedTickBehavior::Burst), (vec![0, 50, 100, 150, 200, 250], vec![0, 50, 170, 170, 200, 250]));
    assert_eq!(missed(MissedTickBehavior::Delay), (vec![0, 50, 100, 220, 270, 320], vec![0, 50, 170, 220, 270, 320]));
    assert_eq!(missed(MissedTickBehavior::Skip), (vec![0, 50, 100, 200, 250, 300], vec![0, 50, 170, 200, 250, 300]));
}

#[test]
fn a_tick_that_is_a_little_late_is_not_missed() {
    let (timer, clock) = in_virtual_time();
    let task = Task::new();
    let waker = Waker::from(task.clone());
    let mut context = Context::from_waker(&waker);
    let mut interval = timer.interval_at(clock.now() + SEC, SEC);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let first = clock.now() + SEC;
    clock.advance(SEC + 5 * MS);
    assert_eq!(interval.poll_tick(&mut context), Poll::Ready(first));
    clock.advance(SEC - 5 * MS);
    assert_eq!(interval.poll_tick(&mut context), Poll::Ready(first + SEC), "no delay");
    clock.advance(SEC / 2);
    interval.reset();
    clock.advance(SEC - MS);
    assert!(interval.poll_tick(&mut context).is_pending());
    clock.advance(MS);
    assert!(interval.poll_tick(&mut context).is_ready());
    let mut interval = timer.interval_at(clock.now() + 5 * MS, 5 * MS);
    interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let first = clock.now() + 5 * MS;
    clock.advance(10 * MS);
    assert_eq!(interval.poll_tick(&mut context), Poll::Ready(first));
    assert_eq!(interval.poll_tick(&mut context), Poll::Ready(first + 5 * MS), "no tick is skipped");
}

/// After each reset, the ticks follow one period apart from the new one on, and the waker of the last poll is woken.
#[test]
fn a_reset_of_an_interval_moves_all_its_ticks() {
    let (timer, clock) = in_virtual_time();
    type Reset = fn(&mut Interval, Instant);
    let resets: [(&str, Duration, Reset); 6] = [
        ("reset", 10 * SEC, |interval, _| interval.reset()),
        ("immediately", Duration::ZERO, |interval, _| interval.reset_immediately()),
        ("after a second", SEC, |interval, _| interval.reset_after(SEC)),
        ("after a minute", 60 * SEC, |interval, _| interval.reset_after(60 * SEC)),
        ("at", 3 * SEC, |interval, now| interval.reset_at(now + 3 * SEC)),
        ("at a later instant", 60 * SEC, |interval, now| interval.reset_at(now + 60 * SEC)),
    ];
    for (name, delay, reset) in resets {
        let mut interval = timer.interval(10 * SEC);
        let task = Task::new();
        assert_eq!(tick(&mut interval, &task), Some(clock.now()));
        clock.advance(5 * SEC);
        assert_eq!(tick(&mut interval, &task), None);
        reset(&mut interval, clock.now());
        let next = clock.now() + delay;
        if !delay.is_zero() {
            clock.advance(delay - MS);
            assert_eq!((tick(&mut interval, &task), task.woken()), (None, 0), "{name}");
            clock.advance(MS);
            assert_eq!(task.woken(), 1, "{name}");
        }
        assert_eq!(tick(&mut interval, &task), Some(next), "{name}");
        clock.advance(10 * SEC - MS);
        assert_eq!(tick(&mut interval, &task), None, "{name}");
        clock.advance(MS);
        assert_eq!(tick(&mut interval, &task), Some(next + 10 * SEC), "{name}");
        assert_eq!(interval.period(), 10 * SEC);
    }
}

/// A passed instant is returned as it was given; with `Burst`, the ticks since then follow at once, as tokio's do.
#[test]
fn an_interval_reset_to_the_past_catches_up() {
    let (timer, clock) = in_virtual_time();
    clock.advance(HOUR);
    let mut interval = timer.interval(10 * SEC);
    let task = Task::new();
    let past = clock.now() - 25 * SEC;
    interval.reset_at(past);
    for missed in 0..3 {
        assert_eq!(tick(&mut interval, &task), Some(past + missed * 10 * SEC));
    }
    assert_eq!(tick(&mut interval, &task), None);
    interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    interval.reset_at(past);
    assert_eq!(tick(&mut interval, &task), Some(past));
    assert_eq!(tick(&mut interval, &task), None);
    interval.reset_after(Duration::MAX);
    clock.advance(YEAR);
    assert_eq!(tick(&mut interval, &task), None, "it never ticks");
}

#[test]
fn an_elapsed_timeout_is_an_io_error() {
    let (timer, clock) = in_virtual_time();
    let mut timeouts = [SEC, HOUR].map(|delay| timer.timeout(delay, future::pending::<()>()));
    let task = Task::new();
    assert!(timeouts.iter_mut().all(|timeout| ready(timeout, &task).is_none()));
    clock.advance(SEC);
    drop(timer.shutdown());
    for (timeout, is_shutdown) in timeouts.iter_mut().zip([false, true]) {
        let elapsed = ready(timeout, &task).unwrap().unwrap_err();
        let error = std::io::Error::from(elapsed);
        assert_eq!((error.kind(), error.to_string()), (std::io::ErrorKind::TimedOut, elapsed.to_string()));
        assert_eq!(error.downcast::<Elapsed>().unwrap().is_shutdown(), is_shutdown);
    }
}

#[test]
#[should_panic(expected = "a period of zero")]
fn an_interval_needs_a_period() {
    let (timer, _clock) = in_virtual_time();
    timer.interval(Duration::ZERO);
}

#[cfg(feature = "futures-core")]
#[test]
fn an_interval_is_a_stream() {
    use futures::StreamExt;
    let timer = Timer::new().unwrap();
    let ticks: Vec<Instant> = block_on(timer.interval(MS).take(3).collect());
    assert!(ticks.windows(2).all(|pair| pair[1] - pair[0] == MS));
}

/// Promise: never early.
#[test]
fn no_future_is_early_by_the_real_clock() {
    let timer = Timer::new().unwrap();
    thread::scope(|scope| {
        for seed in 0..4 {
            let timer = &timer;
            scope.spawn(move || {
                let mut random = Rng::with_seed(seed);
                for _ in 0..100 {
                    let delay = Duration::from_nanos(random.u64(..3_000_000));
                    let start = Instant::now();
                    block_on(timer.sleep(delay));
                    assert!(start.elapsed() >= delay);
                    let deadline = Instant::now() + delay;
                    block_on(timer.sleep_until(deadline));
                    assert!(Instant::now() >= deadline);
                }
            });
        }
    });
    assert_balanced(&timer);
}

/// Sleeps complete while several threads poll them with changing tasks, reset and drop them. Every task that still
/// waits is woken.
/// Promise: no timer is forgotten.
#[test]
fn no_wake_up_is_lost_in_a_storm() {
    let timer = Timer::builder().shards(2).build().unwrap();
    let tokens = Tokens::default();
    thread::scope(|scope| {
        for seed in 0..4 {
            let timer = &timer;
            let tokens = tokens.clone();
            scope.spawn(move || {
                let mut random = Rng::with_seed(seed + 10);
                for _ in 0..300 {
                    let mut sleep = timer.sleep(Duration::from_micros(random.u64(..3000)));
                    for _ in 0..random.u64(..4) {
                        let task = Arc::new(Noted(tokens.give()));
                        let waker = Waker::from(task);
                        let _ = Pin::new(&mut sleep).poll(&mut Context::from_waker(&waker));
                        if random.u64(..2) == 0 {
                            let deadline = timer.now() + Duration::from_micros(random.u64(..3000));
                            Pin::new(&mut sleep).reset(deadline);
                        }
                    }
                    match random.u64(..3) {
                        0 => drop(sleep),
                        1 => block_on(sleep),
                        _ => {
                            let timer = timer.clone();
                            thread::scope(|other| other.spawn(|| block_on(timer.timeout(SEC, sleep))).join().unwrap())
                                .expect("it completes before the timeout");
                        }
                    }
                }
            });
        }
    });
    eventually("every waker is dropped", || tokens.alive() == 0);
    assert_eq!(timer.len(), 0);
    assert_balanced(&timer);
}

struct Noted(Token);

impl Wake for Noted {
    fn wake(self: Arc<Self>) {
        let _ = &self.0;
    }
}

#[test]
fn futures_implement_debug() {
    let (timer, _clock) = in_virtual_time();
    assert!(format!("{:?}", timer.sleep(SEC)).starts_with("Sleep { deadline:"));
    assert!(format!("{:?}", timer.interval(SEC)).contains("period: 1s"));
    assert!(format!("{:?}", timer.timeout(SEC, future::ready(1))).contains("Sleep"));
}

//! The life of a timer: build, clones, drop, shutdown, and the timers that are handed back.
#![cfg(feature = "std")]

mod common;

use std::cell::RefCell;
use std::iter;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Barrier, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use common::*;
use corewheel::{
    BuildError, Execute, Executor, Timer, TimerHandle, TimerKind, Unfired, UnfiredTimer, WeakTimer, rayon,
};

#[test]
fn the_global_timer_is_unique_and_outlives_its_clones() {
    let timers: Vec<_> = (0..4).map(|_| thread::spawn(Timer::global)).collect();
    let timers: Vec<_> = timers.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert!(timers.iter().all(|timer| std::ptr::eq(*timer, timers[0])));
    drop(Timer::global().clone());
    let (sender, receiver) = channel();
    Timer::global().schedule(MS, move || sender.send(()).unwrap()).unwrap();
    wait_for(&receiver);
    assert!(!Timer::global().is_shutdown());
}

#[test]
fn clones_share_one_service_which_ends_with_the_last() {
    let (timer, clock) = in_virtual_time();
    let clone = timer.clone();
    let handle = timer.schedule(SEC, || ()).unwrap();
    assert_eq!(clone.len(), 1);
    drop(timer);
    assert!(handle.is_pending() && !clone.is_shutdown());
    clock.advance(SEC);
    assert_eq!(clone.stats().fired, 1);
    let handle = clone.schedule(SEC, || ()).unwrap();
    drop(clone);
    assert!(!handle.is_pending());
}

#[test]
fn a_sleeping_driver_wakes_for_a_timer_and_for_the_shutdown() {
    let live = || {
        let timer = Timer::builder().shards(1).executor(Executor::Inline).build().unwrap();
        thread::sleep(20 * MS);
        let (sender, receiver) = channel();
        timer.schedule(MS, move || sender.send(()).unwrap()).unwrap();
        wait_for(&receiver);
        thread::sleep(20 * MS);
    };
    in_time("the life of a timer", live);
}

#[test]
fn handles_and_weak_timers_keep_nothing_alive() {
    let timer = Timer::builder().thread_name("life-weak").build().unwrap();
    let weak = timer.downgrade();
    let tokens = Tokens::default();
    let token = tokens.give();
    let handle = timer.schedule(HOUR, move || drop(token)).unwrap();
    assert!(weak.upgrade().is_some());
    drop(timer);
    assert!(weak.upgrade().is_none() && weak.clone().upgrade().is_none());
    assert_eq!(tokens.alive(), 0);
    eventually("the threads have ended", || threads_named("life-weak") == 0);
    drop(handle);
}

#[test]
fn a_callback_that_captures_its_timer_keeps_it_alive_until_it_has_run() {
    let (timer, clock) = in_virtual_time();
    let weak = timer.downgrade();
    let captured = timer.clone();
    timer.schedule(SEC, move || drop(captured)).unwrap();
    drop(timer);
    assert!(weak.upgrade().is_some());
    in_time("the last clone is dropped inside a callback", move || clock.advance(SEC));
    assert!(weak.upgrade().is_none());
}

#[test]
fn dropping_the_timer_ends_its_threads() {
    for executor in every_executor() {
        let timer = Timer::builder().shards(3).thread_name("life-drop").executor(executor).build().unwrap();
        for delay in [Duration::ZERO, MS, HOUR] {
            timer.schedule(delay, || ()).unwrap();
        }
        eventually("the threads have started", || threads_named("life-drop") >= 3);
        drop(timer);
        eventually("the threads have ended", || threads_named("life-drop") == 0);
    }
}

/// Promise: the shutdown loses nothing.
#[test]
fn a_shutdown_ends_the_threads_although_clones_and_handles_exist() {
    let timer =
        Timer::builder().shards(2).thread_name("life-shut").executor(Executor::Pool { threads: 2 }).build().unwrap();
    let clone = timer.clone();
    let handle = timer.schedule(HOUR, || ()).unwrap();
    eventually("the threads have started", || threads_named("life-shut") == 4);
    assert_eq!(timer.shutdown().len(), 1);
    eventually("the threads have ended", || threads_named("life-shut") == 0);
    assert!(clone.is_shutdown() && !handle.is_pending());
    assert!(clone.schedule(MS, || ()).unwrap_err().is_shutdown());
    assert_eq!((clone.len(), clone.stats().unfired, clone.stats().rejected), (0, 1, 1));
}

#[test]
fn a_shutdown_waits_for_the_end_of_the_pools_threads() {
    type AtTheEnd = OnDrop<Box<dyn FnMut()>>;
    thread_local! {
        static AT_THE_END: RefCell<Option<AtTheEnd>> = const { RefCell::new(None) };
    }
    let timer = Timer::builder().executor(Executor::Pool { threads: 1 }).build().unwrap();
    let has_ended = Arc::new(AtomicBool::new(false));
    let (sender, receiver) = channel();
    let ends = has_ended.clone();
    let end_slowly = move || {
        thread::sleep(50 * MS);
        ends.store(true, Ordering::SeqCst);
    };
    let leave_it_to_the_thread = move || {
        AT_THE_END.set(Some(OnDrop(Box::new(end_slowly.clone()))));
        sender.send(()).unwrap();
    };
    timer.schedule(MS, leave_it_to_the_thread).unwrap();
    wait_for(&receiver);
    timer.shutdown();
    assert!(has_ended.load(Ordering::SeqCst));
}

#[test]
fn a_shutdown_is_prompt_with_the_next_deadline_an_hour_away() {
    for executor in every_executor() {
        let timer = Timer::builder().executor(executor).build().unwrap();
        timer.schedule(HOUR, || ()).unwrap();
        timer.schedule(Duration::MAX, || ()).unwrap();
        thread::sleep(10 * MS);
        let unfired = in_time("shutdown", move || timer.shutdown().len());
        assert_eq!(unfired, 2);
    }
}

/// Promise: the shutdown loses nothing.
#[test]
fn a_shutdown_hands_back_every_timer_in_order_with_its_deadline_and_closure() {
    let (timer, _clock) = in_virtual_time();
    let start = timer.now();
    let (sender, receiver) = channel();
    for secs in [5, 3, 9, 1] {
        let sender = sender.clone();
        timer.schedule(secs * SEC, move || sender.send(secs).unwrap()).unwrap();
    }
    let cancelled = timer.schedule(2 * SEC, || panic!("a cancelled timer ran")).unwrap();
    let moved = timer.schedule(2 * SEC, || ()).unwrap();
    assert!(cancelled.cancel() && moved.reset(20 * SEC));
    let mut unfired: Unfired = timer.shutdown();
    assert!(timer.is_shutdown() && timer.is_empty());
    assert!(!moved.is_pending() && !moved.cancel() && !moved.reset(SEC));
    assert_eq!((unfired.len(), unfired.size_hint()), (5, (5, Some(5))));
    let first: UnfiredTimer = unfired.next().unwrap();
    assert_eq!(unfired.len(), 4);
    assert_eq!(first.deadline, start + SEC);
    first.run();
    let deadlines: Vec<_> = unfired
        .map(|timer| {
            let deadline = timer.deadline - start;
            timer.run();
            deadline
        })
        .collect();
    assert_eq!(deadlines, [3, 5, 9, 20].map(|secs| secs * SEC));
    assert_eq!(received(&receiver), [1, 3, 5, 9]);
    let stats = timer.stats();
    assert_eq!((stats.unfired, stats.cancelled, stats.fired, stats.pending), (5, 1, 0, 0));
    assert_balanced(&timer);
}

#[test]
fn a_deadline_is_handed_back_rounded_up_by_less_than_a_tick() {
    let timer = Timer::new().unwrap();
    let deadline = timer.now() + HOUR;
    timer.schedule_at(deadline, || ()).unwrap();
    let never = timer.now() + 30 * YEAR;
    timer.schedule(Duration::MAX, || ()).unwrap();
    let mut unfired = timer.shutdown();
    let back = unfired.next().unwrap().deadline;
    assert!(back >= deadline && back < deadline + MS);
    assert!(unfired.next().unwrap().deadline >= never);
}

#[test]
fn timers_that_are_never_due_are_handed_back_last() {
    let (timer, _clock) = in_virtual_time();
    for delay in [Duration::MAX, 200 * YEAR, SEC] {
        timer.schedule(delay, || ()).unwrap();
    }
    let deadlines: Vec<_> = timer.shutdown().map(|unfired| unfired.deadline - timer.now()).collect();
    assert_eq!(deadlines[..2], [SEC, 200 * YEAR]);
    assert!(deadlines.is_sorted());
}

#[test]
fn dropping_an_unfired_timer_drops_its_closure() {
    let timer = Timer::new().unwrap();
    let tokens = Tokens::default();
    for _ in 0..10 {
        let token = tokens.give();
        timer.schedule(HOUR, move || drop(token)).unwrap();
    }
    let mut unfired = timer.shutdown();
    assert_eq!(tokens.alive(), 10);
    drop(unfired.next());
    assert_eq!(tokens.alive(), 9);
    unfired.next().unwrap().run();
    assert_eq!(tokens.alive(), 8);
    drop(unfired);
    assert_eq!(tokens.alive(), 0);
}

#[test]
fn unfired_timers_run_on_any_thread_after_their_timer_is_gone() {
    let timer = Timer::new().unwrap();
    let (sender, receiver) = channel();
    let large = [7_u8; 1000];
    timer.schedule(HOUR, move || sender.send(large[999]).unwrap()).unwrap();
    let unfired = timer.shutdown();
    drop(timer);
    thread::spawn(move || unfired.for_each(UnfiredTimer::run)).join().unwrap();
    assert_eq!(received(&receiver), [7]);
}

#[test]
fn a_second_shutdown_returns_empty() {
    let timer = Timer::new().unwrap();
    timer.schedule(HOUR, || ()).unwrap();
    assert_eq!(timer.shutdown().len(), 1);
    assert_eq!(timer.shutdown().len(), 0);
    assert!(timer.clone().shutdown().next().is_none());
    assert!(timer.is_shutdown());
}

#[test]
fn one_of_several_concurrent_shutdowns_gets_all_timers() {
    for round in 0..50 {
        let timer = Timer::builder().shards(1 + round % 3).build().unwrap();
        for _ in 0..50 {
            timer.schedule(HOUR, || ()).unwrap();
        }
        let barrier = Barrier::new(3);
        let mut found: Vec<_> = thread::scope(|scope| {
            let shutdown = || {
                barrier.wait();
                timer.shutdown().len()
            };
            let threads = [(); 3].map(|()| scope.spawn(shutdown));
            threads.map(|thread| thread.join().unwrap()).into()
        });
        found.sort_unstable();
        assert_eq!(found, [0, 0, 50]);
    }
}

/// Promise: the shutdown loses nothing.
#[test]
fn a_second_shutdown_returns_at_once_while_the_first_waits() {
    let timer = Timer::new().unwrap();
    let gate = Gate::default();
    block(&timer, 1, &gate);
    let first = timer.clone();
    let first = thread::spawn(move || first.shutdown().len());
    eventually("the first shutdown has begun", || timer.is_shutdown());
    let second = timer.clone();
    assert_eq!(in_time("the second shutdown", move || second.shutdown().len()), 0);
    thread::sleep(10 * MS);
    assert!(!first.is_finished(), "it does not wait for a running callback");
    gate.open();
    assert_eq!(first.join().unwrap(), 0);
    assert_eq!(timer.stats().completed, 1);
}

#[test]
fn a_shutdown_waits_for_callbacks_that_have_started() {
    for executor in every_executor() {
        let timer = Timer::builder().executor(executor).build().unwrap();
        let begun = Gate::default();
        let over = Arc::new(AtomicBool::new(false));
        let (begin, end) = (begun.clone(), over.clone());
        timer
            .schedule(Duration::ZERO, move || {
                begin.open();
                thread::sleep(30 * MS);
                end.store(true, Ordering::SeqCst);
            })
            .unwrap();
        begun.pass();
        assert_eq!(timer.shutdown().len(), 0);
        assert!(over.load(Ordering::SeqCst));
    }
}

/// How long a shutdown with a limit may take longer than its limit, on a machine under load.
const SLACK: Duration = Duration::from_secs(10);

/// Calls `shutdown_timeout`. Fails if it does not return about in time.
fn shut_down_within(timer: &Timer, limit: Duration) -> Unfired {
    let timer = timer.clone();
    let start = Instant::now();
    let unfired = in_time("a shutdown with a limit", move || timer.shutdown_timeout(limit));
    assert!(start.elapsed() < limit + SLACK, "{:?} for a limit of {limit:?}", start.elapsed());
    unfired
}

/// And what the callback holds ends with it; its thread, too.
/// Promise: a shutdown with a limit.
#[test]
fn a_shutdown_with_a_limit_leaves_a_callback_that_blocks() {
    for (limit, executor) in [Duration::ZERO, 30 * MS]
        .into_iter()
        .flat_map(|limit| every_executor().into_iter().map(move |executor| (limit, executor)))
    {
        let name = "life-limit";
        let timer = Timer::builder().shards(2).thread_name(name).executor(executor).build().unwrap();
        let gate = Gate::default();
        let tokens = Tokens::default();
        let token = tokens.give();
        let pass = gate.clone();
        let (sender, receiver) = channel();
        let blocks = move || {
            sender.send(()).unwrap();
            pass.pass();
            drop(token);
        };
        let running = timer.schedule(Duration::ZERO, blocks).unwrap();
        wait_for(&receiver);
        let token = tokens.give();
        let pending = timer.schedule(HOUR, move || drop(token)).unwrap();
        let start = Instant::now();
        let unfired = shut_down_within(&timer, limit);
        assert!(start.elapsed() >= limit, "it waits for the callback");
        assert_eq!((unfired.len(), tokens.alive()), (1, 2));
        drop(unfired);
        assert_eq!(tokens.alive(), 1);
        assert!(!running.is_pending() && !running.cancel() && !pending.cancel());
        // Later calls return empty and at once, also those without a limit; and so does the drop.
        assert_eq!((shut_down_within(&timer, HOUR).len(), timer.shutdown().len()), (0, 0));
        assert!(timer.schedule(MS, || ()).unwrap_err().is_shutdown());
        let stats = timer.stats();
        assert_eq!((stats.scheduled, stats.fired, stats.unfired, stats.pending), (2, 1, 1, 0));
        let weak = timer.downgrade();
        in_time("the drop", move || drop(timer));
        assert!(weak.upgrade().is_none());
        assert_eq!(tokens.alive(), 1);
        gate.open();
        assert!(!running.cancel_and_wait(), "a handle can still wait for the run");
        eventually("the callback has ended", || tokens.alive() == 0);
        eventually("the threads have ended", || threads_named(name) == 0 && threads_named("corewheel-shutd") == 0);
    }
}

/// Promise: a shutdown with a limit.
#[test]
fn a_shutdown_with_a_limit_that_is_not_reached_is_a_shutdown() {
    let limits = [HOUR, Duration::MAX].into_iter();
    for (limit, executor) in limits.flat_map(|limit| every_executor().into_iter().map(move |kind| (limit, kind))) {
        let name = "life-within";
        let timer = Timer::builder().shards(2).thread_name(name).executor(executor).build().unwrap();
        let begun = Gate::default();
        let over = Arc::new(AtomicBool::new(false));
        let (begin, end) = (begun.clone(), over.clone());
        let slow = move || {
            begin.open();
            thread::sleep(30 * MS);
            end.store(true, Ordering::SeqCst);
        };
        timer.schedule(Duration::ZERO, slow).unwrap();
        timer.schedule(HOUR, || ()).unwrap();
        timer.schedule_at_fixed_rate(HOUR, HOUR, || ()).unwrap();
        begun.pass();
        let start = Instant::now();
        assert_eq!(timer.shutdown_timeout(limit).len(), 2);
        assert!(over.load(Ordering::SeqCst) && start.elapsed() < SLACK);
        eventually("the threads have ended", || threads_named(name) == 0 && threads_named("corewheel-shutd") == 0);
        assert_balanced(&timer);
    }
}

/// A thread for each job. The drop waits for the gate, as that of an executor that joins its threads.
struct DropWaits(Gate);

impl Execute for DropWaits {
    fn execute(&self, job: Box<dyn FnOnce() + Send>) {
        thread::spawn(job);
    }
}

impl Drop for DropWaits {
    fn drop(&mut self) {
        self.0.pass();
    }
}

/// Promise: a shutdown with a limit.
#[test]
fn a_shutdown_with_a_limit_does_not_wait_for_the_drop_of_an_executor() {
    let gate = Gate::default();
    let name = "life-exec-drop";
    let executor = Executor::Custom(Arc::new(DropWaits(gate.clone())));
    let timer = Timer::builder().thread_name(name).executor(executor).build().unwrap();
    block(&timer, 1, &gate);
    shut_down_within(&timer, 30 * MS);
    gate.open();
    eventually("the threads have ended", || threads_named(name) == 0 && threads_named("corewheel-shutd") == 0);
}

/// The callback is the first timer's. Whether its thread drops the last reference to the executor depends on which thread
/// of that timer ends last.
#[test]
fn the_end_of_timers_inside_a_callback_does_not_wait_for_the_drop_of_their_executor() {
    const TRIES: usize = 10;
    let ends: [fn(Timer); 3] = [drop, |timer| drop(timer.shutdown()), |timer| drop(timer.shutdown_timeout(HOUR))];
    for (timers, end) in [1, 2].into_iter().flat_map(|timers| ends.map(|end| (timers, end))) {
        for _ in 0..TRIES {
            let gate = Gate::default();
            let executor = Arc::new(DropWaits(gate.clone()));
            let build = |_| {
                let builder = Timer::builder().shards(1).thread_name("life-drop-inside");
                builder.executor(Executor::Custom(executor.clone())).build().unwrap()
            };
            let timers: Vec<_> = (0..timers).map(build).collect();
            drop(executor);
            let (give, take) = channel::<Vec<Timer>>();
            let (sender, receiver) = channel();
            let end_all = move || {
                take.recv().unwrap().into_iter().for_each(end);
                sender.send(()).unwrap();
            };
            timers[0].schedule(Duration::ZERO, end_all).unwrap();
            give.send(timers).unwrap();
            wait_for(&receiver);
            gate.open();
        }
    }
}

#[test]
fn the_drop_of_the_last_driver_inside_a_callback_does_not_wait_for_the_drop_of_its_executor() {
    let gate = Gate::default();
    let executor = Executor::Custom(Arc::new(DropWaits(gate.clone())));
    let timer = Timer::builder().thread_name("life-drop-driver").executor(executor).build().unwrap();
    let driver = timer.take_driver().unwrap();
    timer.shutdown();
    drop(timer);
    eventually("the threads have ended", || threads_named("life-drop-driver") == 0);
    let other = Timer::new().unwrap();
    let (sender, receiver) = channel();
    let drops = move || {
        drop(driver);
        sender.send(()).unwrap();
    };
    other.schedule(Duration::ZERO, drops).unwrap();
    wait_for(&receiver);
    gate.open();
}

/// It ends with the run: it is neither returned nor run again.
/// Promise: a shutdown with a limit.
#[test]
fn a_shutdown_with_a_limit_ends_a_repeating_timer_that_blocks() {
    for executor in every_executor() {
        let timer = Timer::builder().executor(executor).build().unwrap();
        let gate = Gate::default();
        let tokens = Tokens::default();
        let runs = Arc::new(AtomicUsize::new(0));
        let token = tokens.give();
        let pass = gate.clone();
        let count = runs.clone();
        let (sender, receiver) = channel();
        let blocks = move || {
            let _captured = &token;
            count.fetch_add(1, Ordering::SeqCst);
            let _ = sender.send(());
            pass.pass();
        };
        let repeating = timer.schedule_at_fixed_rate(Duration::ZERO, MS, blocks).unwrap();
        wait_for(&receiver);
        assert_eq!(shut_down_within(&timer, 10 * MS).len(), 0);
        assert!(!repeating.is_pending() && !repeating.reset(SEC));
        assert_eq!((timer.stats().cancelled, timer.len(), tokens.alive()), (1, 0, 1));
        gate.open();
        eventually("the closure is dropped", || tokens.alive() == 0);
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        assert_balanced(&timer);
    }
}

/// Promise: a shutdown with a limit.
#[test]
fn a_shutdown_with_a_limit_completes_sleeps_and_returns_what_has_not_started() {
    let timer = Timer::builder().shards(1).executor(Executor::Pool { threads: 1 }).max_extra_threads(0);
    let timer = timer.build().unwrap();
    let gate = Gate::default();
    let tokens = Tokens::default();
    block(&timer, 1, &gate);
    // Due, and behind the callback that blocks.
    for _ in 0..600 {
        let token = tokens.give();
        timer.schedule(Duration::ZERO, move || drop(token)).unwrap();
    }
    let sleeping = timer.clone();
    let (sender, receiver) = channel();
    let sleeper = thread::spawn(move || {
        futures::executor::block_on(async {
            let sleep = sleeping.sleep(HOUR);
            sender.send(()).unwrap();
            sleep.await;
        });
    });
    wait_for(&receiver);
    eventually("the sleep is pending", || timer.len() == 601);
    let unfired = shut_down_within(&timer, 10 * MS);
    assert_eq!((unfired.len(), tokens.alive()), (600, 600));
    in_time("the sleep", move || sleeper.join().unwrap());
    unfired.for_each(UnfiredTimer::run);
    assert_eq!(tokens.alive(), 0);
    gate.open();
    assert_balanced(&timer);
}

/// It does not wait for that callback, and no longer than the limit for others.
/// Promise: a shutdown with a limit.
#[test]
fn a_shutdown_with_a_limit_inside_a_callback_waits_for_others_up_to_the_limit() {
    let timer = Timer::builder().executor(Executor::Pool { threads: 2 }).thread_name("life-inside").build().unwrap();
    let gate = Gate::default();
    block(&timer, 1, &gate);
    let weak = timer.downgrade();
    let (sender, receiver) = channel();
    let shuts_down = move || {
        let timer = weak.upgrade().unwrap();
        let start = Instant::now();
        let unfired = timer.shutdown_timeout(30 * MS).len();
        sender.send((unfired, start.elapsed())).unwrap();
    };
    timer.schedule(HOUR, || ()).unwrap();
    timer.schedule(Duration::ZERO, shuts_down).unwrap();
    let (unfired, took) = wait_for(&receiver);
    assert_eq!(unfired, 1);
    assert!((30 * MS..SLACK).contains(&took), "{took:?}");
    gate.open();
    eventually("the threads have ended", || threads_named("life-inside") == 0);
}

/// Work that a callback left behind keeps a thread of the pool. A shutdown waits for it, up to the limit.
/// Promise: a shutdown with a limit.
#[test]
fn a_shutdown_with_a_limit_leaves_rayon_tasks_and_thread_locals() {
    let name = "life-tasks";
    let timer = Timer::builder().shards(1).executor(Executor::Pool { threads: 1 }).thread_name(name).build().unwrap();
    let gate = Gate::default();
    let (sender, receiver) = channel();
    let pass = gate.clone();
    let leaves_a_task = move || {
        rayon::spawn(move || {
            sender.send(()).unwrap();
            pass.pass();
        });
    };
    timer.schedule(Duration::ZERO, leaves_a_task).unwrap();
    wait_for(&receiver);
    let start = Instant::now();
    assert_eq!(shut_down_within(&timer, 30 * MS).len(), 0);
    assert!(start.elapsed() >= 30 * MS);
    gate.open();
    eventually("the threads have ended", || threads_named(name) == 0 && threads_named("corewheel-shutd") == 0);
}

/// Returns a timer with two shards. This thread has scheduled in one of them, and a new thread in the other.
fn in_two_shards(schedule_in_first: impl FnOnce(&Timer), schedule_in_second: impl FnOnce(&Timer) + Send) -> Timer {
    let timer = Timer::builder().shards(2).executor(Executor::Pool { threads: 4 }).build().unwrap();
    schedule_in_first(&timer);
    thread::scope(|scope| _ = scope.spawn(|| schedule_in_second(&timer)));
    assert!(timer.stats().shards().iter().all(|shard| shard.scheduled > 0));
    timer
}

/// Promise: the shutdown loses nothing.
#[test]
fn a_shutdown_stops_every_shard_before_it_waits_for_one() {
    for blocked_is_first in [true, false] {
        let begun = Gate::default();
        let gate = Gate::default();
        let runs = Arc::new(AtomicUsize::new(0));
        let begin = begun.clone();
        let pass = gate.clone();
        let count = counting(&runs);
        let block = move |timer: &Timer| {
            let blocks = move || {
                begin.open();
                pass.pass();
            };
            timer.schedule(Duration::ZERO, blocks).unwrap();
        };
        let fire = move |timer: &Timer| {
            timer.schedule_with_fixed_delay(Duration::ZERO, Duration::ZERO, count).unwrap();
        };
        let timer = if blocked_is_first { in_two_shards(block, fire) } else { in_two_shards(fire, block) };
        begun.pass();
        eventually("the other shard fires", || runs.load(Ordering::SeqCst) > 10);
        let shutting = timer.clone();
        let shutdown = thread::spawn(move || shutting.shutdown());
        eventually("the shutdown has begun", || timer.is_shutdown());
        eventually("the other shard has stopped", || {
            let before = runs.load(Ordering::SeqCst);
            thread::sleep(50 * MS);
            runs.load(Ordering::SeqCst) == before
        });
        assert!(!shutdown.is_finished(), "it does not wait for the running callback");
        gate.open();
        assert_eq!(shutdown.join().unwrap().len(), 1);
        assert_balanced(&timer);
    }
}

#[test]
fn a_shutdown_completes_the_sleeps_of_every_shard_before_it_waits_for_one() {
    let (begun, gate) = (Gate::default(), Gate::default());
    let (begin, pass) = (begun.clone(), gate.clone());
    let blocks = move || {
        begin.open();
        pass.pass();
    };
    let timer = in_two_shards(
        |timer| _ = timer.schedule(Duration::ZERO, blocks).unwrap(),
        |timer| {
            timer.schedule(HOUR, || ()).unwrap();
        },
    );
    begun.pass();
    let sleepers: Vec<_> = (0..4)
        .map(|_| {
            let sleep = timer.sleep(HOUR);
            thread::spawn(move || futures::executor::block_on(sleep))
        })
        .collect();
    eventually("all sleep", || timer.len() == 5);
    let shutting = timer.clone();
    let shutdown = thread::spawn(move || shutting.shutdown());
    sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
    assert!(!shutdown.is_finished(), "it does not wait for the running callback");
    gate.open();
    assert_eq!(shutdown.join().unwrap().len(), 1);
}

const REPORTED: &str = "the_drop_of_the_last_clone_reports_what_it_drops";

/// A program that loses its timer by accident learns why nothing happens.
#[test]
fn the_drop_of_the_last_clone_reports_what_it_drops() {
    if is_child(REPORTED) {
        let timer = Timer::new().unwrap();
        timer.schedule(HOUR, || ()).unwrap();
        (0..2).for_each(|_| drop(timer.schedule_at_fixed_rate(HOUR, HOUR, often).unwrap()));
        drop((timer.clone(), timer));
        let silent = [Timer::new(), Timer::builder().report_dropped(false).build(), Timer::new()].map(Result::unwrap);
        silent.iter().skip(1).for_each(|timer| drop(timer.schedule(HOUR, || ()).unwrap()));
        let [_empty, _told, shut_down] = silent;
        return drop(shut_down.shutdown());
    }
    let errors = String::from_utf8(child(REPORTED, "", &[]).stderr).unwrap();
    let lines: Vec<_> = errors.lines().filter(|line| line.starts_with("corewheel")).collect();
    if cfg!(debug_assertions) {
        assert_eq!(lines.len(), 1, "{errors}");
        assert!(lines[0].contains("drops pending callbacks: 3") && lines[0].contains("often"), "{errors}");
    } else {
        assert!(lines.is_empty(), "{errors}");
    }
}

fn often() {}

/// Promise: the shutdown loses nothing.
#[test]
fn the_drop_of_the_last_clone_drops_closures_before_it_waits_for_callbacks() {
    let timer = Timer::builder().executor(Executor::Pool { threads: 2 }).build().unwrap();
    let begun = Gate::default();
    let (sender, receiver) = channel::<()>();
    let begin = begun.clone();
    // The callback ends when the closure of the other timer is dropped.
    let waits = move || {
        begin.open();
        assert!(receiver.recv_timeout(TIMEOUT).is_err_and(|error| error == RecvTimeoutError::Disconnected));
    };
    let waiting = timer.schedule(Duration::ZERO, waits).unwrap();
    timer.schedule(HOUR, move || drop(sender)).unwrap();
    begun.pass();
    let start = Instant::now();
    in_time("the drop", move || drop(timer));
    assert!(start.elapsed() < TIMEOUT / 2, "the closure was not dropped while the callback waited");
    assert!(!waiting.cancel_and_wait());
}

/// As after a shutdown, whose result is dropped.
/// Promise: the shutdown loses nothing.
#[test]
fn the_drop_of_the_last_clone_ends_all_timers_before_it_drops_closures() {
    let ends: [fn(Timer); 2] = [drop, |timer| drop(timer.shutdown())];
    for end in ends {
        let timer = Timer::builder().shards(2).build().unwrap();
        let handles = Arc::new(OnceLock::<Vec<TimerHandle>>::new());
        let (sender, receiver) = channel();
        let schedule = |number: usize| {
            let (handles, sender) = (handles.clone(), sender.clone());
            let cancels = OnDrop(move || {
                let handles = handles.get().unwrap();
                sender.send(handles.iter().filter(|handle| handle.cancel() || handle.is_pending()).count()).unwrap();
            });
            let schedule = || match number % 2 {
                0 => timer.schedule(HOUR, move || _ = &cancels).unwrap(),
                _ => timer.schedule_at_fixed_rate(HOUR, HOUR, move || _ = &cancels).unwrap(),
            };
            // Each new thread has the next shard as its home.
            thread::scope(|scope| scope.spawn(schedule).join().unwrap())
        };
        handles.set((0..6).map(schedule).collect()).unwrap();
        end(timer);
        assert_eq!(received(&receiver), [0; 6], "a `cancel` ended a timer that the drop had ended");
    }
}

/// Promise: the shutdown loses nothing.
#[test]
fn the_drop_of_the_last_clone_completes_sleeps_before_it_drops_closures() {
    let (timer, _clock) = in_virtual_time();
    let tokens = Tokens::default();
    let token = tokens.give();
    // The closure has the lower address, and its drop waits for the sleep.
    let slot = Arc::new(OnceLock::<thread::JoinHandle<()>>::new());
    let mut joins = Some(slot.clone());
    let joins = OnDrop(move || {
        let sleeper = Arc::into_inner(joins.take().unwrap()).unwrap().into_inner().unwrap();
        sleeper.join().unwrap();
        let _held = &token;
    });
    timer.schedule(HOUR, move || _ = &joins).unwrap();
    let sleep = timer.sleep(HOUR);
    slot.set(thread::spawn(move || futures::executor::block_on(sleep))).unwrap();
    drop(slot);
    eventually("it sleeps", || timer.len() == 2);
    in_time("the drop", move || drop(timer));
    assert_eq!(tokens.alive(), 0);
}

#[test]
fn a_closure_that_panics_when_the_last_clone_is_dropped_affects_no_other() {
    let panics = Arc::new(AtomicUsize::new(0));
    let tokens = Tokens::default();
    let count = counting(&panics);
    let count = std::sync::Mutex::new(count);
    let timer = Timer::builder().on_panic(move |_| (count.lock().unwrap())()).build().unwrap();
    for number in 0..10 {
        let token = tokens.give();
        let bomb = (number % 2 == 0).then(|| Bomb);
        timer.schedule(HOUR, move || drop((token, bomb))).unwrap();
    }
    drop(timer);
    assert_eq!((tokens.alive(), panics.load(Ordering::SeqCst)), (0, 5));
}

/// Promise: the shutdown loses nothing.
#[test]
fn a_shutdown_in_a_joined_half_of_a_callback_does_not_deadlock() {
    for repeating in [false, true] {
        let builder = Timer::builder().shards(1).thread_name("life-join");
        let timer = builder.executor(Executor::Pool { threads: 2 }).build().unwrap();
        timer.schedule(HOUR, || ()).unwrap();
        let weak = timer.downgrade();
        let (sender, receiver) = channel();
        let tokens = Tokens::default();
        let token = tokens.give();
        let shuts_down = move || {
            let _captured = &token;
            rayon::join(|| (), || sender.send(weak.upgrade().unwrap().shutdown().len()).unwrap());
        };
        let handle = if repeating {
            timer.schedule_at_fixed_rate(Duration::ZERO, MS, shuts_down).unwrap()
        } else {
            timer.schedule(Duration::ZERO, shuts_down).unwrap()
        };
        assert_eq!(wait_for(&receiver), 1, "the repeating timer ended with its run, so the shutdown hands back one");
        eventually("the closure is dropped", || tokens.alive() == 0);
        assert!(!handle.cancel_and_wait());
        eventually("the threads have ended", || threads_named("life-join") == 0);
        assert_balanced(&timer);
    }
}

#[test]
fn a_dispatched_timer_that_has_not_started_is_handed_back() {
    let executor = Executor::Pool { threads: 1 };
    let timer = Timer::builder().shards(1).executor(executor).max_extra_threads(0).build().unwrap();
    let gate = Gate::default();
    block(&timer, 1, &gate);
    let (sender, receiver) = channel();
    for number in 0..100 {
        let sender = sender.clone();
        timer.schedule(Duration::ZERO, move || sender.send(number).unwrap()).unwrap();
    }
    timer.schedule_at_fixed_rate(Duration::ZERO, SEC, move || sender.send(100).unwrap()).unwrap();
    thread::sleep(20 * MS);
    let shutting = timer.clone();
    let unfired = thread::spawn(move || shutting.shutdown());
    eventually("the shutdown has begun", || timer.stats().unfired == 101);
    gate.open();
    let unfired = unfired.join().unwrap();
    assert_eq!(received(&receiver), []);
    assert_eq!(unfired.len(), 101);
    unfired.for_each(UnfiredTimer::run);
    let mut ran = received(&receiver);
    ran.sort_unstable();
    assert_eq!(ran, (0..=100).collect::<Vec<_>>());
    let stats = timer.stats();
    assert_eq!((stats.completed, stats.unfired, stats.pending), (1, 101, 0));
    assert_balanced(&timer);
}

#[test]
fn an_unfired_repeating_timer_has_its_next_deadline_and_runs_once() {
    let (timer, clock) = in_virtual_time();
    let start = clock.now();
    let (sender, receiver) = channel();
    let send = |name| {
        let sender = sender.clone();
        move || sender.send(name).unwrap()
    };
    timer.schedule_at_fixed_rate(SEC, 10 * SEC, send("rate")).unwrap();
    timer.schedule_with_fixed_delay(SEC, 11 * SEC, send("delay")).unwrap();
    let recur = send("recurring");
    timer
        .schedule_recurring(start + 2 * SEC, move |deadline| {
            recur();
            Some(deadline + 12 * SEC)
        })
        .unwrap();
    clock.advance(5 * SEC);
    assert_eq!(received(&receiver).len(), 3);
    let unfired: Vec<_> = timer.shutdown().collect();
    let deadlines: Vec<_> = unfired.iter().map(|timer| timer.deadline - start).collect();
    assert_eq!(deadlines, [11 * SEC, 12 * SEC, 14 * SEC]);
    unfired.into_iter().for_each(UnfiredTimer::run);
    assert_eq!(received(&receiver), ["rate", "delay", "recurring"]);
    assert_eq!(timer.stats().fired, 3);
}

#[test]
fn an_unfired_recurring_timer_runs_for_its_deadline() {
    let (timer, clock) = in_virtual_time();
    let (sender, receiver) = channel();
    let first = clock.now() + SEC + MS / 3;
    let run = move |due| {
        sender.send(due).unwrap();
        Some(due + SEC)
    };
    timer.schedule_recurring(first, run).unwrap();
    timer.shutdown().for_each(UnfiredTimer::run);
    assert_eq!(received(&receiver), [first]);
}

#[test]
fn a_shutdown_during_a_repeating_run_lets_it_finish_and_hands_the_timer_back() {
    let timer = Timer::builder().build().unwrap();
    let begun = Gate::default();
    let gate = Gate::default();
    let runs = Arc::new(AtomicUsize::new(0));
    let (begin, pass, count) = (begun.clone(), gate.clone(), runs.clone());
    let first = timer.now();
    timer
        .schedule_recurring(first, move |deadline| {
            begin.open();
            pass.pass();
            count.fetch_add(1, Ordering::SeqCst);
            Some(deadline + HOUR)
        })
        .unwrap();
    begun.pass();
    let shutting = timer.clone();
    let unfired = thread::spawn(move || shutting.shutdown());
    eventually("the shutdown has begun", || timer.is_shutdown());
    gate.open();
    let unfired: Vec<_> = unfired.join().unwrap().collect();
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert_eq!(unfired.len(), 1);
    assert!(unfired[0].deadline >= first + HOUR && unfired[0].deadline < first + HOUR + 2 * MS);
    unfired.into_iter().for_each(UnfiredTimer::run);
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    let stats = timer.stats();
    assert_eq!((stats.fired, stats.unfired, stats.completed), (1, 1, 0));
}

#[test]
fn a_repeating_timer_whose_callback_shuts_down_has_ended() {
    for executor in every_executor() {
        let (builder, clock) = on_manual_clock();
        let timer = builder.executor(executor).build().unwrap();
        let tokens = Tokens::default();
        let weak = timer.downgrade();
        let token = tokens.give();
        let (sender, receiver) = channel();
        let handle = timer
            .schedule_at_fixed_rate(SEC, SEC, move || {
                let _captured = &token;
                sender.send(weak.upgrade().unwrap().shutdown().len()).unwrap();
            })
            .unwrap();
        timer.schedule(HOUR, || ()).unwrap();
        in_time("advance", move || clock.advance(10 * SEC));
        assert_eq!(received(&receiver), [1]);
        assert!(!handle.is_pending() && !handle.cancel_and_wait());
        eventually("the closure is dropped", || tokens.alive() == 0);
        let stats = timer.stats();
        assert_eq!((stats.fired, stats.unfired, stats.pending), (1, 1, 0));
        assert_balanced(&timer);
    }
}

#[test]
fn a_shutdown_inside_a_callback_does_not_deadlock() {
    for executor in every_executor() {
        let timer = Timer::builder().shards(2).thread_name("life-inside").executor(executor).build().unwrap();
        let weak = timer.downgrade();
        let (sender, receiver) = channel();
        for _ in 0..10 {
            timer.schedule(HOUR, || ()).unwrap();
        }
        timer.schedule(MS, move || sender.send(weak.upgrade().unwrap().shutdown().len()).unwrap()).unwrap();
        assert_eq!(wait_for(&receiver), 10);
        assert!(timer.is_shutdown());
        eventually("the threads have ended", || threads_named("life-inside") == 0);
        assert_balanced(&timer);
    }
}

#[test]
fn a_drop_inside_a_callback_does_not_deadlock() {
    for executor in every_executor() {
        for repeating in [false, true] {
            let timer = Timer::builder().shards(2).thread_name("life-own").executor(executor.clone()).build().unwrap();
            let tokens = Tokens::default();
            let token = tokens.give();
            timer.schedule(HOUR, move || drop(token)).unwrap();
            let mut own = Some(timer.clone());
            let (sender, receiver) = channel();
            let gate = Gate::default();
            let pass = gate.clone();
            let last = move || {
                pass.pass();
                let timer: Timer = own.take().unwrap();
                drop(timer);
                sender.send(()).unwrap();
            };
            let handle = if repeating {
                timer.schedule_at_fixed_rate(MS, MS, last).unwrap()
            } else {
                timer.schedule(MS, last).unwrap()
            };
            drop(timer);
            gate.open();
            wait_for(&receiver);
            assert_eq!(tokens.alive(), 0);
            eventually("the threads have ended", || threads_named("life-own") == 0);
            assert!(!handle.cancel_and_wait());
        }
    }
}

#[test]
fn callbacks_that_shut_down_at_the_same_time_do_not_deadlock() {
    for threads in [1, 2, 4] {
        let timer = Timer::builder().shards(2).executor(Executor::Pool { threads }).build().unwrap();
        let (sender, receiver) = channel();
        let gate = Gate::default();
        for _ in 0..4 {
            let weak = timer.downgrade();
            let sender = sender.clone();
            let gate = gate.clone();
            timer
                .schedule(MS, move || {
                    gate.pass();
                    let unfired = weak.upgrade().map_or(0, |timer| timer.shutdown().len());
                    sender.send(1 + unfired).unwrap();
                })
                .unwrap();
        }
        drop(sender);
        gate.open();
        // Callbacks that ran and timers that were handed back to one of them.
        let accounted: usize = iter::from_fn(|| receiver.recv_timeout(TIMEOUT).ok()).sum();
        assert_eq!(accounted, 4);
        assert_balanced(&timer);
    }
}

#[test]
fn a_shutdown_from_the_shards_own_thread_outside_a_callback_does_not_deadlock() {
    // Shuts down inside `execute`, on the shard's thread.
    let weak = Arc::new(OnceLock::<WeakTimer>::new());
    let (sender, receiver) = channel();
    let own = weak.clone();
    let sender = std::sync::Mutex::new(sender);
    let shuts_down = move |job: Job| {
        let unfired = once_set(&own).upgrade().unwrap().shutdown().len();
        sender.lock().unwrap().send(unfired).unwrap();
        drop(job);
    };
    let timer = Timer::builder()
        .shards(2)
        .thread_name("life-execute")
        .executor(Executor::Custom(Arc::new(ExecuteFn(shuts_down))))
        .build()
        .unwrap();
    weak.set(timer.downgrade()).unwrap();
    timer.schedule(HOUR, || ()).unwrap();
    timer.schedule(Duration::ZERO, || ()).unwrap();
    assert_eq!(wait_for(&receiver), 2);
    eventually("the threads have ended", || threads_named("life-execute") == 0);
    assert_eq!(timer.stats().panicked, 0);
}

#[test]
fn a_closure_dropped_by_the_executor_may_drop_the_last_clone() {
    let panics = Arc::new(AtomicUsize::new(0));
    let count = panics.clone();
    let gate = Gate::default();
    let pass = gate.clone();
    let drops = move |job: Job| {
        pass.pass();
        drop(job);
    };
    let timer = Timer::builder()
        .shards(2)
        .thread_name("life-discard")
        .executor(Executor::Custom(Arc::new(ExecuteFn(drops))))
        .on_panic(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
        })
        .build()
        .unwrap();
    let captured = timer.clone();
    timer.schedule(Duration::ZERO, move || drop(captured)).unwrap();
    drop(timer);
    gate.open();
    eventually("the threads have ended", || threads_named("life-discard") == 0);
    assert_eq!(panics.load(Ordering::SeqCst), 0);
}

#[test]
fn a_pool_thread_outside_a_callback_may_drop_the_last_clone() {
    let timer = Timer::builder().thread_name("life-spawned").executor(Executor::Pool { threads: 2 }).build().unwrap();
    let (sender, receiver) = channel();
    let captured = timer.clone();
    timer
        .schedule(Duration::ZERO, move || {
            corewheel::rayon::spawn(move || {
                thread::sleep(20 * MS);
                let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(captured)));
                sender.send(dropped.is_ok()).unwrap();
            });
        })
        .unwrap();
    drop(timer);
    assert!(wait_for(&receiver), "it panicked");
    eventually("the threads have ended", || threads_named("life-spawned") == 0);
}

/// Promise: the shutdown loses nothing.
#[test]
fn a_shutdown_races_with_the_firing_and_loses_no_timer() {
    for round in 0..300 {
        let timer = Timer::builder().tick(Duration::from_micros(10)).build().unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        let handles: Vec<TimerHandle> =
            (0..40).map(|number| timer.schedule(Duration::from_micros(number * 10), counting(&ran)).unwrap()).collect();
        spin(Duration::from_micros(round));
        let unfired = timer.shutdown().len();
        assert_eq!(ran.load(Ordering::SeqCst) + unfired, 40);
        assert!(handles.iter().all(|handle| !handle.is_pending() && !handle.cancel()));
        assert_balanced(&timer);
    }
}

const NO_THREAD: &str = "a_thread_that_cannot_be_started_is_an_error_with_its_cause";

#[test]
fn a_thread_that_cannot_be_started_is_an_error_with_its_cause() {
    use std::error::Error;
    if is_child(NO_THREAD) {
        // The standard library reads the size of stacks from the environment: so large that no thread starts, or only
        // some.
        let before = threads_named("life-none");
        for executor in [Executor::Pool { threads: 30 }, Executor::Inline] {
            let builder = Timer::builder().shards(30).thread_name("life-none").executor(executor);
            let error = builder.build().unwrap_err();
            assert!(matches!(error, BuildError::ThreadStart(_)), "{error:?}");
            let cause = error
                .source()
                .expect("an error without a cause")
                .downcast_ref::<std::io::Error>()
                .expect("the cause is no I/O error");
            assert!(cause.raw_os_error().is_some(), "{cause:?}");
            eventually("the threads that started have ended", || threads_named("life-none") == before);
        }
        println!("the child has passed");
        return;
    }
    let none = child_without_threads(NO_THREAD);
    let some = child(NO_THREAD, "ulimit -v 16000000;", &[("RUST_MIN_STACK", "1000000000")]);
    for output in [none, some] {
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("the child has passed"), "{text}");
    }
}

#[test]
fn an_unfired_timer_tells_whether_it_repeats() {
    for executor in every_executor() {
        let (builder, clock) = on_manual_clock();
        let timer = builder.executor(executor).build().unwrap();
        timer.schedule(2 * SEC, || ()).unwrap();
        timer.schedule_at_fixed_rate(3 * SEC, SEC, || ()).unwrap();
        timer.schedule_with_fixed_delay(4 * SEC, SEC, || ()).unwrap();
        timer.schedule_recurring(clock.now() + 5 * SEC, |_| None).unwrap();
        timer.schedule_with_delays(6 * SEC, || None).unwrap();
        let ballast = [0_u8; 100];
        timer.schedule_at(clock.now() + 7 * SEC, move || assert_eq!(ballast[0], 0)).unwrap();
        clock.advance(SEC);
        let kinds: Vec<_> = timer.shutdown().map(|unfired| unfired.kind()).collect();
        let [once, repeating] = [TimerKind::Callback, TimerKind::Repeating];
        assert_eq!(kinds, [once, repeating, repeating, repeating, repeating, once]);
    }
}

#[test]
fn an_unfired_timer_names_the_function_that_scheduled_it() {
    let (timer, _clock) = in_virtual_time();
    let large = [1_u64; 16];
    timer.schedule(SEC, || ()).unwrap();
    timer.schedule(2 * SEC, move || assert_eq!(large, [1; 16])).unwrap();
    timer.schedule_at_fixed_rate(3 * SEC, SEC, || ()).unwrap();
    timer.schedule_recurring(timer.now() + 4 * SEC, |_| None).unwrap();
    let names: Vec<_> = timer.shutdown().map(|unfired| (unfired.callback(), format!("{unfired:?}"))).collect();
    assert_eq!(names.len(), 4);
    for (name, debug) in names {
        assert!(name.ends_with("an_unfired_timer_names_the_function_that_scheduled_it::{{closure}}"), "{name}");
        assert!(name.starts_with("lifecycle::") && debug.contains(name), "{debug}");
    }
}

//! `on_slow`: which runs it reports, with which values, and what the hook may do.
#![cfg(feature = "std")]

mod common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use common::*;
use corewheel::{Builder, Executor, SlowCallback, Timer, TimerHandle, WeakTimer};

/// Less time than every slow callback of these tests takes.
const OVER: Duration = MS;
const SLOW: Duration = Duration::from_millis(5);

/// Runs for longer than `OVER`.
fn be_slow() {
    thread::sleep(SLOW);
}

/// Adds a hook that sends what it receives.
fn reporting(builder: Builder) -> (Builder, Receiver<SlowCallback>) {
    let (sender, receiver) = channel();
    (builder.on_slow(OVER, move |slow| sender.send(slow).unwrap()), receiver)
}

/// A timer whose hook acts once, on the timer or on the handle of the slow callback.
struct Acting {
    timer: Timer,
    handle: Arc<OnceLock<TimerHandle>>,
    /// What the action of the hook returned.
    outcome: Receiver<String>,
}

/// An action of the hook, on the timer and on the handle of the slow callback.
type Act = fn(&WeakTimer, &TimerHandle) -> String;

impl Acting {
    fn new(executor: Executor, act: Act) -> Self {
        let own = Arc::new(OnceLock::<WeakTimer>::new());
        let handle = Arc::new(OnceLock::new());
        let weak = own.clone();
        let its = handle.clone();
        let (sender, outcome) = channel();
        let acted = AtomicBool::new(false);
        let builder = Timer::builder().shards(2).executor(executor);
        let hook = move |_| {
            if !acted.swap(true, Ordering::SeqCst) {
                sender.send(act(once_set(&weak), once_set(&its))).unwrap();
            }
        };
        let timer = builder.on_slow(OVER, hook).build().unwrap();
        own.set(timer.downgrade()).unwrap();
        Self { timer, handle, outcome }
    }

    fn once(&self) {
        self.handle.set(self.timer.schedule(MS, be_slow).unwrap()).unwrap();
    }

    fn repeating(&self) {
        self.handle.set(self.timer.schedule_at_fixed_rate(MS, HOUR, be_slow).unwrap()).unwrap();
    }
}

#[test]
fn each_slow_run_is_reported_on_its_thread_by_every_executor() {
    for executor in every_executor() {
        let kind = format!("{executor:?}");
        let (builder, clock) = on_manual_clock();
        let (sender, reports) = channel();
        let hook = move |slow: SlowCallback| sender.send((slow, thread::current().id())).unwrap();
        let timer = builder.shards(1).executor(executor).on_slow(OVER, hook).build().unwrap();
        let (sender, runs) = channel();
        let slow = move || {
            be_slow();
            sender.send(thread::current().id()).unwrap();
        };
        timer.schedule(SEC, slow.clone()).unwrap();
        clock.advance(SEC);
        let rate = timer.schedule_at_fixed_rate(SEC, SEC, slow.clone()).unwrap();
        clock.advance(3 * SEC);
        assert!(rate.cancel());
        let delay = timer.schedule_with_fixed_delay(SEC, SEC, slow.clone()).unwrap();
        clock.advance(2 * SEC);
        assert!(delay.cancel());
        let recurring = move |_| {
            slow();
            None
        };
        timer.schedule_recurring(timer.now() + SEC, recurring).unwrap();
        clock.advance(SEC);

        // `advance` waits for the hook.
        let (reports, runs) = (received(&reports), received(&runs));
        assert_eq!((reports.len(), runs.len()), (7, 7), "{kind}");
        for ((slow, thread), ran_on) in reports.into_iter().zip(runs) {
            assert_eq!(thread, ran_on, "{kind}");
            assert!(slow.took >= SLOW && slow.took < TIMEOUT, "{kind}: {slow:?}");
            assert_eq!((slow.late, slow.shard), (Duration::ZERO, 0), "{kind}: late in virtual time");
        }
        assert_eq!(timer.stats().panicked, 0);
        assert_balanced(&timer);
    }
}

#[test]
fn a_run_that_is_fast_enough_is_not_reported() {
    let (builder, clock) = on_manual_clock();
    let reported = Arc::new(AtomicUsize::new(0));
    let count = reported.clone();
    let timer = builder.on_slow(HOUR, move |_| _ = count.fetch_add(1, Ordering::SeqCst)).build().unwrap();
    timer.schedule(SEC, be_slow).unwrap();
    timer.schedule_at_fixed_rate(SEC, SEC, be_slow).unwrap();
    clock.advance(2 * SEC);
    assert_eq!((timer.stats().fired, reported.load(Ordering::SeqCst)), (3, 0));
}

#[test]
fn the_shard_is_the_one_that_counts_the_run() {
    let (builder, clock) = on_manual_clock();
    let (builder, reports) = reporting(builder.shards(3));
    let timer = builder.build().unwrap();
    for runs in 1..=3 {
        // The home of each new thread is the shard with the fewest threads.
        let schedule = || (0..runs).for_each(|_| drop(timer.schedule(SEC, be_slow).unwrap()));
        let (ready, go_on) = (Gate::default(), Gate::default());
        thread::scope(|scope| {
            scope.spawn(|| {
                schedule();
                ready.open();
                go_on.pass();
            });
            ready.pass();
            clock.advance(SEC);
            go_on.open();
        });
    }
    let reports = received(&reports);
    let by_shard: Vec<_> =
        (0..3).map(|shard| reports.iter().filter(|slow| slow.shard == shard).count() as u64).collect();
    assert_eq!(by_shard, timer.stats().shards().iter().map(|shard| shard.fired).collect::<Vec<_>>());
    assert_eq!(by_shard.iter().sum::<u64>(), 6);
    assert!(by_shard.iter().filter(|&&runs| runs > 0).count() > 1, "{by_shard:?}: only one shard was used");
}

#[test]
fn late_is_the_lateness_sample() {
    let held_jobs = HeldJobs::default();
    let (builder, reports) = reporting(Timer::builder().shards(1).executor(held_jobs.executor()));
    let timer = builder.build().unwrap();
    timer.schedule(MS, be_slow).unwrap();
    eventually("the timer is handed over", || held_jobs.len() == 1);
    thread::sleep(30 * MS);
    held_jobs.take().into_iter().for_each(|job| job());
    let slow = wait_for(&reports);
    let lateness = timer.stats().lateness;
    assert_eq!((lateness.count(), lateness.max()), (1, slow.late));
    assert!(slow.late >= 29 * MS && slow.took >= SLOW, "{slow:?}");
}

#[test]
fn a_run_that_panics_is_reported_without_the_time_of_the_panic_hook() {
    let (builder, clock) = on_manual_clock();
    let (builder, reports) = reporting(builder.shards(1).executor(Executor::Inline));
    let (sender, panics) = channel();
    let report_panic = move |_| {
        sender.send(Instant::now()).unwrap();
        be_slow();
    };
    let timer = builder.on_panic(report_panic).build().unwrap();
    let panics_slowly = || {
        be_slow();
        quiet_panic("slowly")
    };
    for repeating in [false, true] {
        let before = Instant::now();
        if repeating {
            timer.schedule_at_fixed_rate(SEC, SEC, panics_slowly).unwrap();
        } else {
            timer.schedule(SEC, panics_slowly).unwrap();
        }
        clock.advance(SEC);
        let panicked_at = wait_for(&panics);
        let slow = wait_for(&reports);
        assert!(slow.took >= SLOW && slow.took <= panicked_at - before, "{slow:?}");
    }
    clock.advance(HOUR);
    assert_eq!((received(&reports).len(), timer.stats().fired, timer.stats().panicked), (0, 2, 2));
}

/// Promise: panics stay inside.
#[test]
fn a_hook_that_panics_is_reported_and_ends_no_timer() {
    for executor in every_executor() {
        let (builder, clock) = on_manual_clock();
        let (sender, payloads) = channel();
        let timer = builder
            .executor(executor)
            .on_slow(OVER, |_| quiet_panic("too slow"))
            .on_panic(move |panicked| {
                let payload = *panicked.payload.downcast_ref::<&str>().unwrap();
                let is_hook = payload == "too slow";
                sender.send((payload, panicked.callback.is_none() == is_hook)).unwrap();
            })
            .build()
            .unwrap();
        let runs = Arc::new(AtomicUsize::new(0));
        let run = counting(&runs);
        let repeating = timer
            .schedule_at_fixed_rate(SEC, SEC, move || {
                be_slow();
                run();
            })
            .unwrap();
        timer.schedule(SEC, be_slow).unwrap();
        clock.advance(2 * SEC);
        assert!(repeating.is_pending() && runs.load(Ordering::SeqCst) == 2);
        assert_eq!(received(&payloads), [("too slow", true); 3], "a hook is no callback");
        let stats = timer.stats();
        assert_eq!((stats.fired, stats.completed, stats.panicked, stats.pending), (3, 1, 3, 1));
        // A callback that panics and a hook that panics count as two panics.
        timer
            .schedule(Duration::ZERO, || {
                be_slow();
                quiet_panic("both")
            })
            .unwrap();
        clock.advance(MS);
        assert_eq!(received(&payloads), [("both", true), ("too slow", true)]);
        assert_balanced(&timer);
    }
}

/// Promise: the shutdown loses nothing.
#[test]
fn waiting_for_a_run_includes_its_hook() {
    let waits: [fn(&Timer, &TimerHandle); 2] =
        [|_, handle| _ = handle.cancel_and_wait(), |timer, _| drop(timer.shutdown())];
    for wait in waits {
        for executor in every_executor() {
            for repeating in [false, true] {
                let begun = Gate::default();
                let done = Arc::new(AtomicBool::new(false));
                let (begin, end) = (begun.clone(), done.clone());
                let hook = move |_| {
                    begin.open();
                    thread::sleep(30 * MS);
                    end.store(true, Ordering::SeqCst);
                };
                let timer = Timer::builder().shards(1).executor(executor.clone()).on_slow(OVER, hook).build().unwrap();
                let handle = if repeating {
                    timer.schedule_at_fixed_rate(MS, HOUR, be_slow).unwrap()
                } else {
                    timer.schedule(MS, be_slow).unwrap()
                };
                begun.pass();
                wait(&timer, &handle);
                assert!(done.load(Ordering::SeqCst), "{executor:?}, repeating: {repeating}");
            }
        }
    }
}

#[test]
fn the_next_run_starts_after_the_hook_of_the_last() {
    let in_hook = Arc::new(AtomicBool::new(false));
    let enter = in_hook.clone();
    let seen = in_hook;
    let (sender, receiver) = channel();
    let hook = move |_| {
        enter.store(true, Ordering::SeqCst);
        thread::sleep(2 * SLOW);
        enter.store(false, Ordering::SeqCst);
    };
    let timer = Timer::builder().executor(Executor::Pool { threads: 3 }).on_slow(OVER, hook).build().unwrap();
    let run = move || {
        _ = sender.send(seen.load(Ordering::SeqCst));
        be_slow();
    };
    let every = timer.schedule_at_fixed_rate(Duration::ZERO, MS, run).unwrap();
    assert_eq!([(); 5].map(|()| wait_for(&receiver)), [false; 5]);
    assert!(every.cancel_and_wait());
}

/// Performs `act` in a hook, for a one-shot and for a repeating timer, and checks what it returns.
#[track_caller]
fn assert_acts(what: &str, act: Act, of_once: &str, of_repeating: &str) {
    for executor in every_executor() {
        for (repeating, expected) in [(false, of_once), (true, of_repeating)] {
            let acting = Acting::new(executor.clone(), act);
            let expected = expected.to_owned();
            let kind = format!("{what}, {executor:?}, repeating: {repeating}");
            in_time(&kind.clone(), move || {
                if repeating {
                    acting.repeating();
                } else {
                    acting.once();
                }
                assert_eq!(wait_for(&acting.outcome), expected, "{kind}");
                drop(acting.timer.shutdown());
                assert_eq!(acting.timer.stats().panicked, 0);
                assert_balanced(&acting.timer);
            });
        }
    }
}

/// Promise: the shutdown loses nothing.
#[test]
fn a_hook_may_cancel_its_timer_and_wait() {
    let cancels = |_: &WeakTimer, handle: &TimerHandle| format!("{}", handle.cancel_and_wait());
    assert_acts("cancel_and_wait", cancels, "false", "true");
    let cancels = |_: &WeakTimer, handle: &TimerHandle| format!("{} {}", handle.cancel(), handle.is_pending());
    assert_acts("cancel", cancels, "false false", "true false");
}

#[test]
fn a_hook_may_reset_its_timer() {
    let resets = |_: &WeakTimer, handle: &TimerHandle| format!("{} {}", handle.reset(MS), handle.is_pending());
    assert_acts("reset", resets, "false false", "true true");
    // The reset sets when the next run is due.
    let acting = Acting::new(Executor::default(), |_, handle| handle.reset(MS).to_string());
    acting.repeating();
    assert_eq!(wait_for(&acting.outcome), "true");
    eventually("the next run", || acting.timer.stats().fired == 2);
}

#[test]
fn a_hook_may_schedule() {
    let schedules = |timer: &WeakTimer, _: &TimerHandle| {
        let handle = timer.upgrade().unwrap().schedule(HOUR, || ()).unwrap();
        format!("{} {}", handle.is_pending(), handle.cancel_and_wait())
    };
    assert_acts("schedule", schedules, "true true", "true true");
}

/// Promise: the shutdown loses nothing.
#[test]
fn a_hook_may_shut_the_timer_down() {
    let shuts_down = |timer: &WeakTimer, _: &TimerHandle| {
        let timer = timer.upgrade().unwrap();
        timer.schedule(HOUR, || ()).unwrap();
        format!("{} {}", timer.shutdown().len(), timer.shutdown().len())
    };
    assert_acts("shutdown", shuts_down, "1 0", "1 0");
}

/// Promise: the shutdown loses nothing.
#[test]
fn a_hook_may_drop_the_last_timer() {
    for executor in every_executor() {
        for repeating in [false, true] {
            let slot = Arc::new(Mutex::new(None::<Timer>));
            let (sender, receiver) = channel();
            let last = slot.clone();
            let hook = move |_| {
                let last = last.lock().unwrap().take();
                drop(last);
                sender.send(()).unwrap();
            };
            let builder = Timer::builder().shards(2).thread_name("slow-last").executor(executor.clone());
            let timer = builder.on_slow(OVER, hook).build().unwrap();
            let weak = timer.downgrade();
            let tokens = Tokens::default();
            let gate = Gate::default();
            let token = tokens.give();
            let waits = gate.clone();
            timer.schedule(HOUR, move || drop(token)).unwrap();
            let slow = move || {
                waits.pass();
                be_slow();
            };
            if repeating {
                timer.schedule_at_fixed_rate(MS, HOUR, slow).unwrap();
            } else {
                timer.schedule(MS, slow).unwrap();
            }
            *slot.lock().unwrap() = Some(timer);
            gate.open();
            wait_for(&receiver);
            assert!(weak.upgrade().is_none());
            assert_eq!(tokens.alive(), 0);
            eventually("the threads have ended", || threads_named("slow-last") == 0);
        }
    }
}

#[test]
fn a_hook_that_advances_its_own_clock_panics() {
    let (builder, clock) = on_manual_clock();
    let own = clock.clone();
    let (sender, payloads) = channel();
    let timer = builder
        .on_slow(OVER, move |_| own.advance(SEC))
        .on_panic(move |panicked| drop(sender.send(panicked)))
        .build()
        .unwrap();
    timer.schedule(SEC, be_slow).unwrap();
    in_time("the advance", move || clock.advance(SEC));
    assert_eq!((received(&payloads).len(), timer.stats().panicked), (1, 1));
}

#[test]
fn an_ended_timer_is_not_pending_inside_the_hook() {
    for panics in [false, true] {
        let acting = Acting::new(Executor::default(), |timer, handle| {
            let stats = timer.upgrade().unwrap().stats();
            let (completed, panicked) = (stats.completed, stats.panicked);
            format!("{completed} {panicked} {} {} {}", handle.is_pending(), handle.reset(HOUR), handle.cancel())
        });
        let last_run = move |_| {
            be_slow();
            if panics { quiet_panic("the last run") } else { None }
        };
        let handle = acting.timer.schedule_recurring(acting.timer.now() + MS, last_run).unwrap();
        acting.handle.set(handle).unwrap();
        assert_eq!(wait_for(&acting.outcome), format!("1 {} false false false", u64::from(panics)));
        drop(acting.timer.shutdown());
        assert_eq!((acting.timer.stats().completed, acting.timer.stats().cancelled), (1, 0));
        assert_balanced(&acting.timer);
    }
}

/// A task whose waker is slow.
struct SlowTask;

impl Wake for SlowTask {
    fn wake(self: Arc<Self>) {
        be_slow();
    }
}

#[test]
fn wakers_and_unfired_timers_are_not_reported() {
    let (builder, clock) = on_manual_clock();
    let (builder, reports) = reporting(builder.shards(1));
    let timer = builder.build().unwrap();
    let waker = Waker::from(Arc::new(SlowTask));
    let mut sleep = Box::pin(timer.sleep(SEC));
    assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    clock.advance(SEC);
    assert_eq!(timer.stats().fired, 1, "the waker was called");
    timer.schedule(SEC, be_slow).unwrap();
    timer.shutdown().for_each(|unfired| unfired.run());
    assert!(received(&reports).is_empty());
}

#[test]
fn the_hook_is_dropped_with_the_timer() {
    let tokens = Tokens::default();
    let token = tokens.give();
    let hook = move |_| _ = &token;
    let timer = Timer::builder().on_slow(OVER, hook).build().unwrap();
    timer.schedule(HOUR, be_slow).unwrap();
    drop(timer);
    eventually("the hook is dropped", || tokens.alive() == 0);
}

#[test]
fn a_report_names_the_function_that_scheduled_the_callback() {
    let (builder, clock) = on_manual_clock();
    let (builder, reports) = reporting(builder.shards(1).executor(Executor::Inline));
    let timer = builder.build().unwrap();
    let large = [1_u64; 16];
    timer.schedule(SEC, be_slow).unwrap();
    let check_large = move || {
        be_slow();
        assert_eq!(large, [1; 16]);
    };
    timer.schedule(2 * SEC, check_large).unwrap();
    timer.schedule_with_fixed_delay(3 * SEC, HOUR, be_slow).unwrap();
    clock.advance(3 * SEC);
    let names: Vec<_> = reports.try_iter().map(|slow| slow.callback).collect();
    let closure = "slow::a_report_names_the_function_that_scheduled_the_callback::{{closure}}";
    assert_eq!(names, ["slow::be_slow", closure, "slow::be_slow"]);
}

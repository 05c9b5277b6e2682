//! Deadlines by clocks that jump: in virtual time, and on the system's clocks, which no test sets.
#![cfg(feature = "wall")]

mod common;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use common::*;
use corewheel::wall::{WallHandle, WallSleep, WallTimer};
use corewheel::{Executor, ManualClock, ScheduleErrorKind, Timer, TimerKind};

/// Returns a wall timer in virtual time, with its timer and the clock.
fn wall_in_virtual_time() -> (WallTimer, Timer, ManualClock) {
    let (timer, clock) = in_virtual_time();
    (WallTimer::new(&timer), timer, clock)
}

/// Returns a wall timer in virtual time, with its timer, the clock, and the executor, which runs nothing by itself.
fn wall_with_held_jobs() -> (WallTimer, Timer, ManualClock, HeldJobs) {
    let jobs = HeldJobs::default();
    let (builder, clock) = on_manual_clock();
    let timer = builder.executor(jobs.executor()).build().unwrap();
    (WallTimer::new(&timer), timer, clock, jobs)
}

fn poll(sleep: &mut WallSleep, waker: &Arc<Task>) -> Poll<()> {
    Pin::new(sleep).poll(&mut Context::from_waker(&Waker::from(waker.clone())))
}

/// Promise: wall timers are never early.
#[test]
fn a_time_of_day_comes_by_the_advance_of_the_clock() {
    let (wall, _timer, clock) = wall_in_virtual_time();
    let runs = Arc::new(AtomicUsize::new(0));
    let at = wall.now() + HOUR;
    let seen = Arc::new(Mutex::new(None));
    let (of_callback, seen_there) = (wall.clone(), seen.clone());
    wall.schedule_at(at, move || *seen_there.lock().unwrap() = Some(of_callback.now())).unwrap();
    let handle = wall.schedule_at(at, counting(&runs)).unwrap();
    clock.advance(HOUR - MS);
    assert!(handle.is_pending() && wall.len() == 2 && !wall.is_empty());
    clock.advance(MS);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert!(!handle.is_pending() && !handle.cancel() && wall.is_empty());
    assert!(seen.lock().unwrap().is_some_and(|now| now >= at && now <= at + MS));
}

/// Promise: wall timers follow a clock that is set.
#[test]
fn a_clock_that_is_set_forward_past_a_deadline_runs_it() {
    let (wall, timer, clock) = wall_in_virtual_time();
    let runs = Arc::new(AtomicUsize::new(0));
    let at = wall.now() + 100 * YEAR;
    let now = timer.now();
    wall.schedule_at(at, counting(&runs)).unwrap();
    clock.set_time_of_day(at - Duration::from_nanos(100));
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    clock.set_time_of_day(at);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert_eq!((wall.now(), timer.now()), (at, now));
}

/// Promise: wall timers follow a clock that is set.
#[test]
fn a_clock_that_is_set_back_makes_a_deadline_wait_anew() {
    let (wall, _timer, clock) = wall_in_virtual_time();
    let runs = Arc::new(AtomicUsize::new(0));
    let at = wall.now() + HOUR;
    wall.schedule_at(at, counting(&runs)).unwrap();
    clock.advance(HOUR / 2);
    clock.set_time_of_day(at - 3 * HOUR);
    clock.advance(3 * HOUR - MS);
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    clock.advance(MS);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

/// Promise: wall timers are never early.
#[test]
fn a_clock_that_is_set_back_before_the_run_starts_makes_it_wait_anew() {
    let (wall, _timer, clock, jobs) = wall_with_held_jobs();
    let runs = Arc::new(AtomicUsize::new(0));
    let at = wall.now();
    let handle = wall.schedule_at(at, counting(&runs)).unwrap();
    run_look(&jobs);
    let clock_set = clock.clone();
    let setter = thread::spawn(move || clock_set.set_time_of_day(at - HOUR));
    eventually("the clock is set", || wall.now() < at);
    // The setter waits for this job.
    while !setter.is_finished() {
        jobs.take().into_iter().for_each(|job| job());
        thread::sleep(MS);
    }
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    assert!(handle.is_pending());
    let advancer = thread::spawn(move || clock.advance(HOUR));
    while !advancer.is_finished() {
        jobs.take().into_iter().for_each(|job| job());
        thread::sleep(MS);
    }
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

/// Runs the look, which gives a run to the executor.
fn run_look(jobs: &HeldJobs) {
    eventually("the look is due", || jobs.len() == 1);
    jobs.take().into_iter().for_each(|look| look());
    eventually("the run is due", || jobs.len() == 1);
}

/// Promise: wall timers can be cancelled until they run.
#[test]
fn what_a_look_has_found_due_can_be_cancelled_and_reset_until_it_runs() {
    let (wall, _timer, _clock, jobs) = wall_with_held_jobs();
    let tokens = Tokens::default();
    let token = tokens.give();
    let cancelled = wall.schedule_at(wall.now(), move || drop(token)).unwrap();
    run_look(&jobs);
    assert!(cancelled.is_pending() && wall.len() == 1);
    assert!(cancelled.cancel() && !cancelled.cancel());
    assert_eq!((tokens.alive(), wall.len()), (0, 0), "the closure is dropped by the cancel");
    jobs.take().into_iter().for_each(|job| job());

    let runs = Arc::new(AtomicUsize::new(0));
    let later = wall.schedule_at(wall.now(), counting(&runs)).unwrap();
    run_look(&jobs);
    assert!(later.reset_after(HOUR));
    jobs.take().into_iter().for_each(|job| job());
    assert!(later.is_pending() && runs.load(Ordering::SeqCst) == 0);
    assert!(later.reset_at(wall.now()));
    run_look(&jobs);
    jobs.take().into_iter().for_each(|job| job());
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

/// Promise: wall timers count a suspend.
#[test]
fn a_delay_counts_a_suspend_and_no_set_of_the_clock() {
    let (wall, timer, clock) = wall_in_virtual_time();
    let runs = Arc::new(AtomicUsize::new(0));
    let lease = wall.schedule_after(10 * SEC, counting(&runs)).unwrap();
    let awake = timer.schedule(10 * SEC, || ()).unwrap();
    let (day, now) = (wall.now(), timer.now());
    clock.suspend(4 * SEC);
    assert_eq!((wall.now(), timer.now()), (day + 4 * SEC, now));
    clock.set_time_of_day(day + YEAR);
    clock.set_time_of_day(day - YEAR);
    clock.advance(4 * SEC);
    clock.suspend(2 * SEC - MS);
    assert!(lease.is_pending());
    clock.suspend(MS);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert!(awake.is_pending());
}

/// Promise: wall timers run in order.
#[test]
fn what_one_jump_makes_due_runs_in_the_order_of_the_times() {
    let (wall, _timer, clock) = wall_in_virtual_time();
    let (sender, names) = channel();
    let callback = |name| {
        let sender = sender.clone();
        move || sender.send(name).unwrap()
    };
    let now = wall.now();
    wall.schedule_at(now + 40 * SEC, callback("day 40")).unwrap();
    wall.schedule_at(now + 10 * SEC, callback("day 10")).unwrap();
    wall.schedule_after(30 * SEC, callback("suspend 30")).unwrap();
    wall.schedule_after(20 * SEC, callback("suspend 20")).unwrap();
    wall.schedule_at(now + 20 * SEC, callback("day 20, later")).unwrap();
    wall.schedule_at(now + 10 * SEC, callback("day 10, later")).unwrap();
    clock.suspend(HOUR);
    let expected = ["day 10", "day 10, later", "suspend 20", "day 20, later", "suspend 30", "day 40"];
    assert_eq!(received(&names), expected);
}

#[test]
fn a_reset_moves_a_callback_to_either_clock() {
    let (wall, _timer, clock) = wall_in_virtual_time();
    let runs = Arc::new(AtomicUsize::new(0));
    let handle = wall.schedule_at(wall.now() + SEC, counting(&runs)).unwrap();
    assert!(handle.reset_after(2 * SEC));
    clock.set_time_of_day(wall.now() + HOUR);
    assert!(handle.is_pending());
    assert!(handle.reset_at(wall.now() + 10 * SEC));
    clock.advance(10 * SEC - MS);
    assert!(handle.is_pending());
    clock.advance(MS);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert!(!handle.reset_after(SEC) && !handle.reset_at(wall.now()));
}

/// Promise: a wall timer takes one timer of its service.
#[test]
fn all_deadlines_take_one_timer_of_the_service() {
    let (wall, timer, clock) = wall_in_virtual_time();
    let handles: Vec<_> = (1..=100).map(|n| wall.schedule_after(n * SEC, || ()).unwrap()).collect();
    let other = WallTimer::new(&timer);
    assert_eq!((wall.len(), timer.len(), timer.stats().pending), (100, 1, 1));
    assert_eq!(clock.next_deadline(), Some(clock.now() + SEC));
    clock.advance(50 * SEC);
    assert_eq!((wall.len(), timer.len()), (50, 1));
    handles.iter().for_each(|handle| _ = handle.cancel());
    assert_eq!((wall.len(), timer.len(), clock.next_deadline()), (0, 0, None));
    assert!(other.is_empty());
    assert_balanced(&timer);
}

/// Promise: wall timers run as any callback.
#[test]
fn a_callback_that_panics_or_blocks_keeps_no_other_from_running() {
    for executor in [Executor::Pool { threads: 2 }, Executor::Custom(Arc::new(ThreadPerJob))] {
        let (sender, panics) = channel();
        let (runs, run) = channel();
        let hook = Mutex::new(sender);
        let timer = Timer::builder().executor(executor).on_panic(move |p| hook.lock().unwrap().send(p).unwrap());
        let timer = timer.build().unwrap();
        let wall = WallTimer::new(&timer);
        let gate = Gate::default();
        let (at, blocks) = (wall.now() + 20 * MS, gate.clone());
        wall.schedule_at(at, || quiet_panic("a defect")).unwrap();
        wall.schedule_at(at, move || blocks.pass()).unwrap();
        wall.schedule_at(at, move || runs.send(()).unwrap()).unwrap();
        wait_for(&run);
        let panicked = wait_for(&panics);
        assert_eq!(panicked.payload_as_str(), Some("a defect"));
        let name = panicked.callback.unwrap();
        assert!(name.contains("keeps_no_other_from_running"), "{name}");
        gate.open();
        eventually("all have run", || wall.is_empty() && timer.is_empty());
        assert_balanced(&timer);
    }
}

/// The service forgets those that were dropped, when its list of them grows.
#[test]
fn a_shutdown_ends_each_of_many_wall_timers() {
    let timer = Timer::new().unwrap();
    let tokens = Tokens::default();
    let walls: Vec<_> = (0..20).map(|_| WallTimer::new(&timer)).collect();
    for wall in &walls {
        let token = tokens.give();
        wall.schedule_after(HOUR, move || drop(token)).unwrap();
    }
    timer.shutdown();
    assert_eq!(tokens.alive(), 0);
}

/// Promise: wall timers run as any callback.
#[test]
fn a_closure_whose_drop_panics_harms_no_call() {
    let bomb = || {
        let bomb = Bomb;
        move || drop(bomb)
    };
    let timer = Timer::new().unwrap();
    let wall = WallTimer::new(&timer);
    assert!(wall.schedule_after(HOUR, bomb()).unwrap().cancel());
    assert_eq!((timer.stats().panicked, wall.len()), (1, 0));
    wall.schedule_after(HOUR, bomb()).unwrap();
    wall.schedule_after(HOUR, bomb()).unwrap();
    timer.shutdown();
    assert_eq!(timer.stats().panicked, 3);
}

/// Promise: wall timers run as any callback.
#[test]
fn a_slow_callback_is_reported_by_a_name_with_its_own() {
    let (sender, slow) = channel();
    let hook = Mutex::new(sender);
    let (builder, clock) = on_manual_clock();
    let timer = builder.on_slow(MS, move |slow| hook.lock().unwrap().send(slow).unwrap()).build().unwrap();
    let wall = WallTimer::new(&timer);
    wall.schedule_after(SEC, || thread::sleep(2 * MS)).unwrap();
    clock.advance(SEC);
    assert!(received(&slow).iter().any(|slow| slow.callback.contains("a_slow_callback_is_reported")));
}

/// Promise: a shutdown ends wall timers.
#[test]
fn a_shutdown_drops_the_closures_and_completes_the_futures() {
    for by_drop in [false, true] {
        let (wall, timer, _clock) = wall_in_virtual_time();
        let tokens = Tokens::default();
        let token = tokens.give();
        let handle = wall.schedule_at(wall.now() + HOUR, move || drop(token)).unwrap();
        let waker = Task::new();
        let [mut polled, mut unpolled] = [wall.sleep(HOUR), wall.sleep_until(wall.now() + HOUR)];
        assert!(poll(&mut polled, &waker).is_pending() && !polled.is_shutdown());
        let weak = timer.downgrade();
        let unfired = if by_drop {
            drop(timer);
            None
        } else {
            Some(timer.shutdown())
        };
        assert_eq!((tokens.alive(), waker.woken()), (0, 1), "also while the unfired timers are kept");
        assert_eq!(weak.upgrade().is_none(), by_drop);
        for sleep in [&mut polled, &mut unpolled] {
            assert!(poll(sleep, &waker).is_ready() && sleep.is_shutdown());
        }
        assert!(!handle.is_pending() && !handle.cancel() && !handle.reset_after(SEC) && wall.is_empty());
        let token = tokens.give();
        let refused = wall.schedule_after(SEC, move || drop(token)).unwrap_err();
        assert!(refused.is_shutdown() && tokens.alive() == 1);
        refused.into_inner()();
        assert_eq!(tokens.alive(), 0);
        let mut later = wall.sleep(HOUR);
        assert!(poll(&mut later, &waker).is_pending() && later.is_shutdown());
        let mut now = wall.sleep(Duration::ZERO);
        assert!(poll(&mut now, &waker).is_ready() && !now.is_shutdown());
        // The one timer of the service, whose run does nothing.
        for unfired in unfired.into_iter().flatten() {
            assert_eq!(unfired.kind(), TimerKind::Repeating);
            unfired.run();
        }
    }
}

/// Promise: a shutdown ends wall timers.
#[test]
fn a_shutdown_drops_what_was_given_to_the_executor_and_has_not_started() {
    let (wall, timer, _clock, jobs) = wall_with_held_jobs();
    let tokens = Tokens::default();
    let token = tokens.give();
    wall.schedule_at(wall.now(), move || drop(token)).unwrap();
    run_look(&jobs);
    drop(timer.shutdown());
    assert_eq!(tokens.alive(), 0);
    jobs.take().into_iter().for_each(|job| job());
}

#[test]
fn the_last_clone_of_a_wall_timer_ends_nothing() {
    let (wall, _timer, clock) = wall_in_virtual_time();
    let runs = Arc::new(AtomicUsize::new(0));
    wall.schedule_at(wall.now() + SEC, counting(&runs)).unwrap();
    drop(wall);
    clock.set_time_of_day(SystemTime::now() + HOUR);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[test]
fn the_drop_of_a_guard_cancels_unless_it_was_detached() {
    let (wall, _timer, clock) = wall_in_virtual_time();
    let runs = Arc::new(AtomicUsize::new(0));
    let guard = wall.schedule_after(SEC, counting(&runs)).unwrap().cancel_on_drop();
    assert!(guard.is_pending());
    drop(guard);
    assert!(wall.is_empty());
    drop(wall.schedule_after(SEC, counting(&runs)).unwrap().cancel_on_drop().detach());
    clock.advance(SEC);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[test]
fn times_that_no_clock_reaches_are_accepted_and_times_before_the_epoch_are_due() {
    let (wall, _timer, clock) = wall_in_virtual_time();
    let runs = Arc::new(AtomicUsize::new(0));
    wall.schedule_at(UNIX_EPOCH - 100 * YEAR, counting(&runs)).unwrap();
    clock.advance(Duration::ZERO);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    let far = wall.now() + 200_000 * YEAR;
    let handles = [wall.schedule_at(far, counting(&runs)), wall.schedule_after(Duration::MAX, counting(&runs))];
    let handles = handles.map(Result::unwrap);
    clock.advance(YEAR);
    clock.set_time_of_day(UNIX_EPOCH - YEAR);
    assert_eq!(wall.now(), UNIX_EPOCH - YEAR);
    clock.suspend(Duration::MAX);
    assert_eq!(runs.load(Ordering::SeqCst), 3, "such a suspend reaches both");
    assert!(!handles.iter().any(WallHandle::is_pending));
    let _ = wall.now();
}

/// Promise: wall timers hold one place of `max_pending`.
#[test]
fn at_max_pending_the_first_deadline_is_refused_and_none_is_stuck() {
    let (builder, clock) = on_manual_clock();
    let timer = builder.max_pending(1).build().unwrap();
    let wall = WallTimer::new(&timer);
    let other = timer.schedule(HOUR, || ()).unwrap();
    let refused = wall.schedule_after(SEC, || ()).unwrap_err();
    assert_eq!(refused.kind(), ScheduleErrorKind::Full);
    refused.into_inner()();
    // A future is not refused: it looks by itself.
    let mut sleep = wall.sleep(SEC);
    let waker = Task::new();
    assert!(poll(&mut sleep, &waker).is_pending());
    clock.advance(SEC);
    assert_eq!(waker.woken(), 1);
    assert!(poll(&mut sleep, &waker).is_ready());
    other.cancel();
    // Each run finds no second place, and schedules the next.
    let runs = Arc::new(AtomicUsize::new(0));
    fn daily(wall: &WallTimer, runs: &Arc<AtomicUsize>) {
        let (again, counted) = (wall.clone(), runs.clone());
        let run = move || {
            if counted.fetch_add(1, Ordering::SeqCst) < 9 {
                daily(&again, &counted);
            }
        };
        wall.schedule_at(wall.now() + 24 * HOUR, run).unwrap();
    }
    daily(&wall, &runs);
    daily(&wall, &runs);
    assert!(timer.schedule(HOUR, || ()).unwrap_err().is_full());
    clock.advance(240 * HOUR);
    assert_eq!(runs.load(Ordering::SeqCst), 11);
    assert!(wall.is_empty() && timer.is_empty());
}

/// Promise: wall timers can be used in callbacks.
#[test]
fn no_lock_is_held_while_foreign_code_runs() {
    struct UsesWall(WallTimer);
    impl Wake for UsesWall {
        fn wake(self: Arc<Self>) {
            self.0.schedule_after(HOUR, || ()).unwrap().cancel();
        }
    }
    let (wall, _timer, clock) = wall_in_virtual_time();
    let uses = |wall: &WallTimer| {
        let wall = wall.clone();
        OnDrop(move || _ = wall.schedule_after(HOUR, || ()).map(|handle| handle.cancel()))
    };
    in_time("callbacks, drops and wakers use the wall timer", move || {
        let at_drop = uses(&wall);
        wall.schedule_after(SEC, move || drop(at_drop)).unwrap();
        let at_cancel = uses(&wall);
        assert!(wall.schedule_after(SEC, move || drop(at_cancel)).unwrap().cancel());
        let waker = Waker::from(Arc::new(UsesWall(wall.clone())));
        let mut sleep = wall.sleep(SEC);
        assert!(Pin::new(&mut sleep).poll(&mut Context::from_waker(&waker)).is_pending());
        clock.advance(SEC);
        assert!(Pin::new(&mut sleep).poll(&mut Context::from_waker(&waker)).is_ready());
    });
}

/// Promise: wall timers can be used in callbacks.
#[test]
fn the_waker_of_a_driver_may_use_the_wall_timer() {
    struct UsesWall(WallTimer, AtomicBool);
    impl Wake for UsesWall {
        fn wake(self: Arc<Self>) {
            self.1.store(self.0.is_told() || !self.0.is_empty(), Ordering::SeqCst);
        }
    }
    let timer = Timer::builder().shards(1).build().unwrap();
    let wall = WallTimer::new(&timer);
    in_time("a waker of a driver uses the wall timer", move || {
        let mut driver = timer.take_driver().unwrap();
        let waker = Arc::new(UsesWall(wall.clone(), AtomicBool::new(false)));
        driver.set_waker(&Waker::from(waker.clone()));
        driver.next_wakeup();
        let scheduling = wall.clone();
        thread::spawn(move || drop(scheduling.schedule_after(MS, || ()).unwrap())).join().unwrap();
        assert!(waker.1.load(Ordering::SeqCst));
    });
}

#[test]
fn a_job_that_is_dropped_drops_its_closure_and_no_other() {
    let (wall, _timer, _clock, jobs) = wall_with_held_jobs();
    let tokens = Tokens::default();
    let [token, other] = [tokens.give(), tokens.give()];
    wall.schedule_at(wall.now(), move || drop(token)).unwrap();
    run_look(&jobs);
    let next = wall.schedule_at(wall.now() + HOUR, move || drop(other)).unwrap();
    drop(jobs.take());
    assert_eq!((tokens.alive(), wall.len()), (1, 1));
    assert!(next.reset_at(wall.now()));
    run_look(&jobs);
    jobs.take().into_iter().for_each(|job| job());
    assert_eq!(tokens.alive(), 0);
}

/// Promise: wall timers are never early.
#[test]
fn a_future_looks_at_its_clock_at_each_poll() {
    let (wall, timer, clock) = wall_in_virtual_time();
    let [first, second] = [(); 2].map(|()| Task::new());
    let at = wall.now() + HOUR;
    let mut sleep = wall.sleep_until(at);
    assert_eq!((wall.len(), timer.len()), (0, 0), "it counts from its first poll");
    assert!(poll(&mut sleep, &first).is_pending() && poll(&mut sleep, &second).is_pending());
    assert_eq!((wall.len(), timer.len()), (1, 1));
    clock.set_time_of_day(at);
    assert_eq!((first.woken(), second.woken(), wall.len()), (0, 1, 0));
    clock.set_time_of_day(at - SEC);
    assert!(poll(&mut sleep, &first).is_pending(), "set back after the wake-up");
    clock.advance(SEC);
    assert_eq!((first.woken(), second.woken()), (1, 1));
    assert!(poll(&mut sleep, &first).is_ready() && !sleep.is_shutdown());
    clock.set_time_of_day(at - SEC);
    assert!(poll(&mut sleep, &first).is_ready(), "it has completed");
    let mut dropped = wall.sleep(SEC);
    assert!(poll(&mut dropped, &first).is_pending());
    drop(dropped);
    assert_eq!((wall.len(), timer.len(), first.woken()), (0, 0, 1));
}

#[test]
fn a_loop_over_futures_that_need_not_wait_gives_way() {
    let (wall, _timer, _clock) = wall_in_virtual_time();
    let waker = Task::new();
    let pending = (0..1000).filter(|_| {
        let mut sleep = wall.sleep(Duration::ZERO);
        poll(&mut sleep, &waker).is_pending()
    });
    assert!(pending.count() > 0);
}

#[test]
fn several_timers_share_the_time_of_day_of_a_clock() {
    let clock = ManualClock::new();
    let timers = [SEC, HOUR].map(|tick| Timer::builder().clock(clock.clone()).tick(tick).build().unwrap());
    let walls = [0, 1, 1].map(|index| WallTimer::new(&timers[index]));
    let runs = Arc::new(AtomicUsize::new(0));
    let at = walls[0].now() + YEAR;
    walls.iter().for_each(|wall| drop(wall.schedule_at(at, counting(&runs)).unwrap()));
    clock.set_time_of_day(at);
    assert_eq!(runs.load(Ordering::SeqCst), 3);
}

#[test]
fn a_panic_of_a_callback_is_that_of_the_set() {
    let (wall, _timer, clock) = wall_in_virtual_time();
    wall.schedule_at(wall.now() + SEC, || quiet_panic("defect")).unwrap();
    let to = wall.now() + SEC;
    let set = std::panic::catch_unwind(|| clock.set_time_of_day(to));
    assert!(set.is_err());
}

/// Promise: wall timers are never early.
#[test]
fn on_the_system_s_clocks_nothing_is_early() {
    let timer = Timer::new().unwrap();
    let wall = WallTimer::new(&timer);
    let (sender, receiver) = channel();
    let (day, start) = (SystemTime::now(), Instant::now());
    for ms in [30, 3, 1, 10, 0, 20] {
        let [by_day, by_delay] = [sender.clone(), sender.clone()];
        let at = day + ms * MS;
        wall.schedule_at(at, move || by_day.send(SystemTime::now() >= at).unwrap()).unwrap();
        wall.schedule_after(ms * MS, move || by_delay.send(start.elapsed() >= ms * MS).unwrap()).unwrap();
    }
    assert!((0..12).all(|_| wait_for(&receiver)));
}

/// Promise: a wall timer is tickless.
#[cfg(target_os = "linux")]
#[test]
fn a_thread_waits_for_sets_only_while_something_is_pending() {
    const NAME: &str = "a_thread_waits_for_sets_only_while_something_is_pending";
    if !is_child(NAME) {
        let output = child(NAME, "", &[]);
        return assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let timer = Timer::new().unwrap();
    let wall = WallTimer::new(&timer).look_every(MS);
    let watches = || tasks_named("corewheel-wall").len();
    assert!(wall.is_told() && watches() == 0);
    let handles = [1, 2].map(|n| wall.schedule_after(n * HOUR, || ()).unwrap());
    assert!(wall.is_told());
    eventually("the thread has its name", || watches() == 1);
    thread::sleep(20 * MS);
    let sleeps = sleeps_of("corewheel");
    thread::sleep(200 * MS);
    assert!(sleeps_of("corewheel") <= sleeps + 4, "nothing looks");
    handles.iter().for_each(|handle| _ = handle.cancel());
    eventually("the thread has ended", || watches() == 0);
    let _handle = wall.schedule_after(HOUR, || ()).unwrap();
    eventually("there is another", || watches() == 1);
    drop(timer);
    eventually("it has ended with the service", || watches() == 0);
}

/// Promise: a wall timer looks where the system does not tell.
#[cfg(target_os = "linux")]
#[test]
fn where_descriptors_are_refused_it_looks() {
    const NAME: &str = "where_descriptors_are_refused_it_looks";
    if !is_child(NAME) {
        let output = child(NAME, "", &[]);
        return assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let timer = Timer::new().unwrap();
    let wall = WallTimer::new(&timer).look_every(10 * MS);
    let (soft, hard) = rlimit::getrlimit(rlimit::Resource::NOFILE).unwrap();
    rlimit::setrlimit(rlimit::Resource::NOFILE, 0, hard).unwrap();
    let far = wall.schedule_after(HOUR, || ()).unwrap();
    assert!(!wall.is_told());
    let fired = timer.stats().fired;
    eventually("it looks", || timer.stats().fired >= fired + 3);
    assert!(far.is_pending());
    let (sender, receiver) = channel();
    let at = SystemTime::now() + 30 * MS;
    wall.schedule_at(at, move || sender.send(SystemTime::now()).unwrap()).unwrap();
    assert!(wait_for(&receiver) >= at);
    // Asked again when something is next pending.
    rlimit::setrlimit(rlimit::Resource::NOFILE, soft, hard).unwrap();
    far.cancel();
    eventually("nothing is pending", || wall.is_empty() && timer.is_empty());
    let _far = wall.schedule_after(HOUR, || ()).unwrap();
    assert!(wall.is_told());
}

/// Promise: a wall timer looks where the system does not tell.
#[cfg(target_os = "linux")]
#[test]
fn where_a_thread_is_refused_it_looks() {
    const NAME: &str = "where_a_thread_is_refused_it_looks";
    if !is_child(NAME) {
        let output = child(NAME, "", &[]);
        return assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let timer = Timer::builder().executor(Executor::Inline).shards(1).build().unwrap();
    let wall = WallTimer::new(&timer).look_every(10 * MS);
    // Leaves memory for the next timers.
    timer.schedule(HOUR, || ()).unwrap().cancel();
    let (soft, hard) = rlimit::getrlimit(rlimit::Resource::AS).unwrap();
    let (sender, receiver) = channel();
    rlimit::setrlimit(rlimit::Resource::AS, 1 << 20, hard).unwrap();
    let scheduled = wall.schedule_after(20 * MS, move || sender.send(()).unwrap());
    let is_told = wall.is_told();
    rlimit::setrlimit(rlimit::Resource::AS, soft, hard).unwrap();
    scheduled.unwrap();
    assert!(!is_told);
    wait_for(&receiver);
}

/// Promise: wall timers run exactly once.
#[test]
fn threads_that_schedule_reset_and_cancel_lose_nothing() {
    let timer = Timer::new().unwrap();
    let wall = WallTimer::new(&timer);
    let tokens = Tokens::default();
    let [runs, cancels] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let threads: Vec<_> = (0..4)
        .map(|seed| {
            let (wall, tokens, runs, cancels) = (wall.clone(), tokens.clone(), runs.clone(), cancels.clone());
            thread::spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                for _ in 0..300 {
                    let (token, run, wait) = (tokens.give(), counting(&runs), random.u32(0..5) * MS);
                    let f = move || {
                        run();
                        drop(token);
                    };
                    let handle = match random.bool() {
                        true => wall.schedule_at(SystemTime::now() + wait, f),
                        false => wall.schedule_after(wait, f),
                    };
                    let handle = handle.unwrap();
                    match random.u8(0..4) {
                        0 => _ = handle.reset_after(random.u32(0..5) * MS),
                        1 => _ = handle.reset_at(SystemTime::now() + random.u32(0..5) * MS),
                        2 => _ = cancels.fetch_add(usize::from(handle.cancel()), Ordering::SeqCst),
                        _ => {}
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    eventually("all have ended", || wall.is_empty() && timer.is_empty());
    assert_eq!(tokens.alive(), 0);
    assert_eq!(runs.load(Ordering::SeqCst) + cancels.load(Ordering::SeqCst), 1200);
    assert_balanced(&timer);
}

/// Promise: a shutdown ends wall timers.
#[test]
fn a_shutdown_while_threads_schedule_leaves_no_closure() {
    for _ in 0..30 {
        let timer = Timer::builder().shards(1).build().unwrap();
        let wall = WallTimer::new(&timer);
        let tokens = Tokens::default();
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let (wall, tokens) = (wall.clone(), tokens.clone());
                thread::spawn(move || {
                    let schedule = |n: u32| {
                        let token = tokens.give();
                        wall.schedule_after(n % 2 * HOUR, move || drop(token)).is_ok()
                    };
                    (0..).take_while(|&n| schedule(n)).count()
                })
            })
            .collect();
        thread::sleep(MS);
        drop(timer.shutdown());
        threads.into_iter().for_each(|thread| _ = thread.join().unwrap());
        assert_eq!(tokens.alive(), 0);
    }
}

const _: () = {
    const fn holds<T: Send + Sync + std::fmt::Debug + std::panic::UnwindSafe + std::panic::RefUnwindSafe>() {}
    const fn is_unpin<T: Unpin>() {}
    holds::<WallTimer>();
    holds::<WallHandle>();
    holds::<WallSleep>();
    is_unpin::<WallSleep>();
};

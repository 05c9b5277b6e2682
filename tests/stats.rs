//! Statistics: what is counted in which shard, and that the counters balance.
#![cfg(feature = "std")]

mod common;

use std::thread;
use std::time::Duration;

use common::*;
use corewheel::{
    BuildError, Builder, CancelOnDrop, Execute, Executor, Lateness, ManualClock, ScheduleError, ShardStats, Stats,
    Timer, TimerHandle, Unfired, UnfiredTimer, WeakTimer,
};
use fastrand::Rng;
use futures::FutureExt;

#[test]
fn every_outcome_of_a_timer_is_counted() {
    let (builder, clock) = on_manual_clock();
    let timer = builder.shards(2).max_pending(7).on_panic(drop).build().unwrap();
    let zero = timer.stats();
    assert_eq!((zero.scheduled, zero.fired, zero.pending, zero.resets, zero.rejected), (0, 0, 0, 0, 0));
    assert_eq!((zero.lateness.count(), zero.lateness.quantile(0.5), zero.lateness.max()), Default::default());

    let one_shot = timer.schedule(SEC, || ()).unwrap();
    let panics = timer.schedule(SEC, || quiet_panic("counted")).unwrap();
    let cancelled = timer.schedule(SEC, || ()).unwrap();
    timer.schedule_at_fixed_rate(SEC, SEC, || ()).unwrap();
    let mut left = 3;
    let recurring = timer.schedule_recurring(clock.now() + SEC, move |deadline| {
        left -= 1;
        (left > 0).then(|| deadline + SEC)
    });
    recurring.unwrap();
    timer.schedule_with_fixed_delay(SEC, SEC, || quiet_panic("counted")).unwrap();
    timer.schedule(HOUR, || ()).unwrap();
    assert!(timer.schedule(SEC, || ()).is_err() && timer.schedule_at_fixed_rate(SEC, Duration::ZERO, || ()).is_err());
    assert!(one_shot.reset(2 * SEC) && panics.reset_at(clock.now() + SEC) && cancelled.cancel());
    assert!(!cancelled.reset(SEC) && !cancelled.cancel());
    assert_eq!((timer.stats().pending, timer.len(), timer.is_empty()), (6, 6, false));
    clock.advance(10 * SEC);
    assert_eq!(timer.shutdown().len(), 2);
    assert!(timer.schedule(SEC, || ()).is_err());

    let stats = timer.stats();
    assert_eq!(stats.scheduled, 7);
    assert_eq!(stats.fired, 1 + 1 + 10 + 3 + 1);
    assert_eq!(stats.completed, 4);
    assert_eq!(stats.cancelled, 1);
    assert_eq!(stats.unfired, 2);
    assert_eq!(stats.pending, 0);
    assert_eq!(stats.resets, 2);
    assert_eq!(stats.panicked, 2);
    assert_eq!(stats.rejected, 3);
    assert!(stats.wakeups > 0);
    assert_eq!(stats.lateness.count(), stats.fired);
    assert_balanced(&timer);
}

#[test]
fn callbacks_that_have_not_returned_are_running() {
    for executor in every_executor() {
        let is_inline = matches!(executor, Executor::Inline);
        let timer = Timer::builder().executor(executor).shards(2).build().unwrap();
        let (weak, (sender, receiver)) = (timer.downgrade(), channel());
        timer.schedule(MS, move || sender.send(weak.upgrade().unwrap().stats().running).unwrap()).unwrap();
        assert_eq!(wait_for(&receiver), 1, "it runs itself");
        eventually("it has returned", || timer.stats().running == 0);

        let gate = Gate::default();
        block(&timer, 1, &gate);
        let before = timer.stats();
        assert_eq!((before.running, before.pending), (1, 0), "a one-shot ends when it starts");
        assert_eq!(before.shards().iter().map(|shard| shard.running).sum::<u64>(), 1);
        assert_eq!(timer.stats().since(&before).running, 1, "a gauge has no difference");
        if !is_inline {
            timer.schedule_at_fixed_rate(MS, MS, || ()).unwrap();
        }
        gate.open();
        eventually("it has returned", || timer.stats().running == 0);
        timer.shutdown();
        assert_eq!(timer.stats().running, 0);
    }
}

#[test]
fn a_callback_that_panics_is_not_running() {
    let (builder, clock) = on_manual_clock();
    let timer = builder.build().unwrap();
    timer.schedule(SEC, || quiet_panic("counted")).unwrap();
    timer.schedule_at_fixed_rate(SEC, SEC, || quiet_panic("counted")).unwrap();
    assert!(timer.sleep(SEC).now_or_never().is_none());
    clock.advance(SEC);
    assert_eq!((timer.stats().panicked, timer.stats().running), (2, 0));
}

#[test]
fn stats_have_a_part_for_each_shard_and_threads_spread_over_shards() {
    let timer = Timer::builder().shards(3).build().unwrap();
    for _ in 0..6 {
        let timer = timer.clone();
        let schedule = move || (0..10).for_each(|_| drop(timer.schedule(HOUR, || ()).unwrap()));
        thread::spawn(schedule).join().unwrap();
    }
    let stats = timer.stats();
    let parts: Vec<_> = stats.shards().iter().map(|shard| shard.scheduled).collect();
    assert_eq!(parts.len(), 3);
    assert_eq!(parts.iter().sum::<u64>(), 60);
    assert!(parts.iter().all(|&part| part > 0), "{parts:?}");
    assert_balanced(&timer);
}

/// Promise: counts are exact.
#[test]
fn a_thread_that_sees_the_end_of_a_timer_sees_its_run() {
    for _ in 0..300 {
        // A new timer each time, because the first run of a thread takes longest to count.
        let timer = Timer::builder().shards(1).executor(Executor::Inline).build().unwrap();
        timer.schedule(Duration::ZERO, || ()).unwrap();
        let watching = timer.clone();
        in_time("the timer ends", move || while !watching.is_empty() {});
        assert_balanced(&timer);
    }
}

/// Promise: counts are exact.
#[test]
fn counts_outlive_their_threads() {
    let timer = Timer::builder().shards(2).build().unwrap();
    for round in 1..=50 {
        let own = timer.clone();
        let cancels = move || {
            let handle = own.schedule(HOUR, || ()).unwrap();
            handle.reset(2 * HOUR) && handle.cancel()
        };
        assert!(thread::spawn(cancels).join().unwrap());
        let stats = timer.stats();
        assert_eq!((stats.scheduled, stats.resets, stats.cancelled), (round, round, round));
    }
    assert_balanced(&timer);
}

#[test]
fn lateness_is_the_start_of_a_run_minus_its_due_tick() {
    let held_jobs = HeldJobs::default();
    let clock = ManualClock::new();
    let timer = Timer::builder().clock(clock.clone()).tick(MS).executor(held_jobs.executor()).build().unwrap();
    timer.schedule(Duration::ZERO, || ()).unwrap();
    eventually("handed over", || held_jobs.len() == 1);
    let moves = clock.clone();
    let advance = thread::spawn(move || moves.advance(5 * SEC));
    thread::sleep(20 * MS);
    held_jobs.take().pop().unwrap()();
    advance.join().unwrap();
    assert_eq!(timer.stats().lateness.count(), 1);
    assert_eq!(timer.stats().lateness.max(), Duration::ZERO);

    let timer = Timer::builder().executor(held_jobs.executor()).build().unwrap();
    for late in [0, 40] {
        // It has passed, so the lateness counts from the call.
        timer.schedule_at(timer.now() - TIMEOUT, || ()).unwrap();
        eventually("handed over", || held_jobs.len() == 1);
        thread::sleep(late * MS);
        held_jobs.take().pop().unwrap()();
    }
    let lateness = timer.stats().lateness;
    assert_eq!(lateness.count(), 2);
    assert!(lateness.max() >= 40 * MS && lateness.max() < TIMEOUT);
    assert!(lateness.quantile(1.0) >= 40 * MS && lateness.quantile(1.0) <= lateness.max() * 9 / 8);
    assert!(lateness.quantile(0.0) <= lateness.quantile(0.5) && lateness.quantile(0.5) <= lateness.quantile(1.0));
}

/// `pending` and `max` are as of the later reading; everything else is the difference, for each shard, too.
#[test]
fn since_is_the_difference_of_two_readings() {
    let (builder, clock) = on_manual_clock();
    let timer = builder.shards(2).max_pending(6).on_panic(drop).build().unwrap();
    let live = |timers: u32| {
        let handles: Vec<_> = (0..timers).map(|_| timer.schedule(SEC, || ()).unwrap()).collect();
        assert!(handles[0].cancel() && handles[1].reset(2 * SEC));
        timer.schedule(SEC, || quiet_panic("counted")).unwrap();
        timer.schedule(YEAR, || ()).unwrap();
        while let Ok(handle) = timer.schedule(HOUR, || ()) {
            drop(handle);
        }
        clock.advance(2 * SEC);
    };
    let zero = timer.stats();
    live(2);
    let before = timer.stats();
    clock.advance(HOUR);
    live(3);
    let after = timer.stats();
    let since = after.since(&before);
    macro_rules! assert_differences {
        ($($field:ident)*) => {$(
            assert_eq!(since.$field, after.$field - before.$field, stringify!($field));
            for ((since, before), after) in since.shards().iter().zip(before.shards()).zip(after.shards()) {
                assert_eq!(since.$field, after.$field - before.$field, stringify!($field));
            }
        )*};
    }
    assert_differences!(scheduled fired completed cancelled unfired resets enqueued panicked rejected wakeups);
    assert!(since.fired > 0 && since.resets == 1 && since.cancelled == 1 && since.panicked == 1 && since.rejected == 1);
    assert_eq!((since.pending, since.shards().len()), (after.pending, 2));
    assert_eq!(since.scheduled + before.pending, since.completed + since.cancelled + since.unfired + since.pending);
    assert_eq!(since.lateness.count(), since.fired);
    // From the beginning, it is all; between equal readings, nothing but what is.
    for earlier in [&zero, &Stats::default()] {
        let all = after.since(earlier);
        assert_eq!((all.scheduled, all.fired, all.pending), (after.scheduled, after.fired, after.pending));
        assert_eq!(all.shards().len(), 2);
    }
    let none = after.since(&after);
    assert_eq!((none.scheduled, none.fired, none.rejected, none.lateness.count()), (0, 0, 0, 0));
    assert_eq!((none.pending, none.shards()[0].pending), (after.pending, after.shards()[0].pending));
    // The wrong way round is no panic.
    assert_eq!(before.since(&after).fired, 0);
}

#[cfg(target_os = "linux")]
#[test]
fn since_has_the_extra_threads_of_the_later_reading() {
    let timer = Timer::builder().shards(1).executor(Executor::Pool { threads: 1 }).build().unwrap();
    let gate = Gate::default();
    block(&timer, 3, &gate);
    let before = timer.stats();
    block(&timer, 1, &gate);
    let after = timer.stats();
    let since = after.since(&before);
    assert_eq!(since.extra_threads, after.extra_threads);
    assert_eq!(since.extra_threads_needed, after.extra_threads_needed - before.extra_threads_needed);
    assert!(before.extra_threads_needed > 0 && since.extra_threads_needed > 0);
    gate.open();
}

#[test]
fn the_lateness_since_a_reading_has_only_the_runs_since_then() {
    let held_jobs = HeldJobs::default();
    let timer = Timer::builder().shards(1).executor(held_jobs.executor()).build().unwrap();
    let run = |late: Duration| {
        timer.schedule(Duration::ZERO, || ()).unwrap();
        eventually("handed over", || held_jobs.len() == 1);
        thread::sleep(late);
        held_jobs.take().pop().unwrap()();
        timer.stats().lateness
    };
    let first = run(200 * MS);
    let second = run(Duration::ZERO);
    let since = second.since(&first);
    assert_eq!((first.count(), second.count(), since.count()), (1, 2, 1));
    assert_eq!(since.max(), second.max(), "a maximum has no difference");
    assert!(since.max() >= 200 * MS);
    // The one run was hardly as late as the first, unless the machine stood still.
    let (bound, 1) = since.buckets().next().unwrap() else { panic!("{since:?}") };
    assert_eq!(since.quantile(0.5), since.quantile(1.0));
    assert!(since.quantile(1.0) <= bound);
    let counts = |lateness: &Lateness| lateness.buckets().map(|(_, runs)| runs).sum::<u64>();
    assert_eq!((counts(&first), counts(&second), counts(&since)), (1, 2, 1));
    assert!(second.buckets().is_sorted_by_key(|(bound, _)| bound));
    assert!(second.buckets().last().unwrap().0 >= second.max());
    assert_eq!(first.since(&first).buckets().count(), 0);
    assert_eq!(Lateness::default().since(&first).count(), 0);
    assert_eq!(first.since(&Lateness::default()).count(), 1);
}

#[test]
fn every_run_of_a_repeating_timer_is_one_sample() {
    let (timer, clock) = in_virtual_time();
    timer.schedule_at_fixed_rate(SEC, SEC, || ()).unwrap();
    clock.advance(100 * SEC);
    let stats = timer.stats();
    assert_eq!((stats.fired, stats.lateness.count()), (100, 100));
}

/// Promise: counts are exact.
#[test]
fn the_counters_balance_during_concurrent_updates() {
    let timer = Timer::builder().tick(Duration::from_micros(50)).shards(2).build().unwrap();
    thread::scope(|scope| {
        let writers = [1, 2].map(|seed| {
            let timer = &timer;
            scope.spawn(move || {
                let mut random = Rng::with_seed(seed);
                for _ in 0..5000 {
                    let handle = timer.schedule(Duration::from_micros(random.u64(..50)), || ()).unwrap();
                    match random.u64(..3) {
                        0 => drop(handle.cancel()),
                        1 => drop(handle.reset(Duration::from_micros(random.u64(..500)))),
                        _ => {}
                    }
                }
            })
        });
        let mut last = 0;
        while !writers.iter().all(|writer| writer.is_finished()) {
            let stats = timer.stats();
            assert!(stats.scheduled >= last && stats.scheduled <= 10_000);
            assert_eq!(stats.scheduled, stats.completed + stats.cancelled + stats.unfired + stats.pending, "{stats:?}");
            last = stats.scheduled;
        }
    });
    eventually("all timers have ended", || timer.is_empty());
    assert_eq!(timer.stats().scheduled, 10_000);
    assert_balanced(&timer);
}

#[test]
fn public_types_implement_the_expected_traits() {
    fn sendable<T: Send + 'static>() {}
    fn shared<T: Send + Sync + 'static>() {}
    fn cloned<T: Clone>() {}
    fn shown<T: std::fmt::Debug>() {}
    fn error<T: std::error::Error>() {}
    fn exact<T: ExactSizeIterator<Item = UnfiredTimer>>() {}
    /// A type that implements none of the traits below.
    struct Plain(#[allow(dead_code, reason = "makes it what it is")] std::rc::Rc<()>);

    shared::<Timer>();
    shared::<WeakTimer>();
    shared::<TimerHandle>();
    shared::<CancelOnDrop>();
    shared::<ManualClock>();
    shared::<Executor>();
    shared::<Box<dyn Execute>>();
    shared::<BuildError>();
    shared::<ScheduleError<()>>();
    shared::<Stats>();
    shared::<ShardStats>();
    sendable::<Builder>();
    sendable::<Unfired>();
    sendable::<UnfiredTimer>();
    cloned::<Timer>();
    cloned::<WeakTimer>();
    cloned::<ManualClock>();
    cloned::<Executor>();
    cloned::<Stats>();
    shown::<Timer>();
    shown::<WeakTimer>();
    shown::<TimerHandle>();
    shown::<CancelOnDrop>();
    shown::<ManualClock>();
    shown::<Executor>();
    shown::<Builder>();
    shown::<Unfired>();
    shown::<UnfiredTimer>();
    shown::<Stats>();
    shown::<ShardStats>();
    shown::<ScheduleError<Plain>>();
    error::<ScheduleError<Plain>>();
    error::<BuildError>();
    exact::<Unfired>();
}

#[test]
fn debug_output_shows_the_settings_and_the_state() {
    let (timer, clock) = in_virtual_time();
    let handle = timer.schedule(SEC, || ()).unwrap();
    assert!(format!("{timer:?}").starts_with("Timer"));
    assert!(format!("{:?}", timer.downgrade()).starts_with("WeakTimer"));
    assert!(format!("{clock:?}").starts_with("ManualClock"));
    assert!(format!("{:?}", timer.stats()).contains("scheduled: 1"));
    assert!(format!("{:?}", Timer::builder().tick(7 * MS)).contains("7ms"));
    let pending = format!("{handle:?}");
    assert!(pending.starts_with("TimerHandle"));
    let guard = handle.cancel_on_drop();
    assert!(format!("{guard:?}").starts_with("CancelOnDrop"));
    guard.cancel();
    assert_ne!(format!("{:?}", guard.detach()), pending);
    timer.schedule(SEC, || ()).unwrap();
    let mut unfired = timer.shutdown();
    assert!(format!("{unfired:?}").starts_with("Unfired"));
    assert!(format!("{:?}", unfired.next().unwrap()).contains("deadline"));
    for executor in every_executor() {
        assert!(!format!("{executor:?}").is_empty());
    }
}

/// Schedules and cancels `pairs` timers, 256 of which are pending at any time.
fn churn(timer: &Timer, ring: &mut [Option<TimerHandle>], pairs: usize, delay: impl Fn(usize) -> Duration) {
    for turn in 0..pairs {
        let slot = &mut ring[turn % 256];
        let old = slot.replace(timer.schedule(delay(turn), || ()).unwrap());
        assert!(old.is_none_or(|handle| handle.cancel()));
    }
}

/// Promise: any thread, no lock.
#[test]
fn timeouts_in_a_steady_state_enqueue_nothing() {
    let timer = Timer::builder().shards(1).build().unwrap();
    let mut ring: Vec<_> = (0..256).map(|_| None).collect();
    churn(&timer, &mut ring, 1000, |_| 30 * SEC);
    // The driver collects the new entries.
    thread::sleep(200 * MS);
    let before = timer.stats();
    churn(&timer, &mut ring, 100_000, |_| 30 * SEC);
    let after = timer.stats();
    assert_eq!(after.scheduled - before.scheduled, 100_000);
    // The driver may have unlinked the one timer that was cancelled but not yet reused.
    let enqueued = after.enqueued - before.enqueued;
    assert!(enqueued <= 1, "{enqueued} timers did not reuse a cancelled one");
    assert_eq!(after.wakeups - before.wakeups, 0);
}

#[test]
fn timeouts_of_different_lengths_reach_a_steady_state() {
    let timer = Timer::builder().shards(1).build().unwrap();
    let mut ring: Vec<_> = (0..256).map(|_| None).collect();
    let delay = |turn: usize| 5 * SEC + Duration::from_millis(turn as u64 * 7919 % 25_000);
    churn(&timer, &mut ring, 10_000, delay);
    thread::sleep(200 * MS);
    let before = timer.stats().enqueued;
    churn(&timer, &mut ring, 100_000, delay);
    let enqueued = timer.stats().enqueued - before;
    assert!(enqueued < 2000, "{enqueued} of 100,000 timers did not reuse a cancelled one");
}

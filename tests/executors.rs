//! Executors: the timer's own pool, a rayon pool, inline, and custom ones, well-behaved or not.
#![cfg(feature = "std")]

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use common::*;
use corewheel::{Execute, Executor, Timer, rayon};

/// Returns the names of the threads that run callbacks.
fn callback_threads(timer: &Timer) -> Vec<String> {
    let (sender, receiver) = channel();
    for _ in 0..20 {
        let sender = sender.clone();
        let name = move || sender.send(thread::current().name().unwrap_or_default().to_owned()).unwrap();
        timer.schedule(Duration::ZERO, name).unwrap();
    }
    (0..20).map(|_| wait_for(&receiver)).collect()
}

#[test]
fn the_timers_own_pool_runs_callbacks_on_its_named_threads() {
    // Callbacks that take long, as under a sanitizer, would start more threads.
    let timer = Timer::builder()
        .shards(2)
        .thread_name("exec-own")
        .executor(Executor::Pool { threads: 2 })
        .max_extra_threads(0)
        .build()
        .unwrap();
    for name in callback_threads(&timer) {
        assert!(name.starts_with("exec-own"), "{name}");
    }
    eventually("2 drivers and 2 workers have the name", || threads_named("exec-own") == 4);
    drop(timer);
    eventually("the threads have ended", || threads_named("exec-own") == 0);
}

#[test]
fn a_pool_runs_as_many_callbacks_at_once_as_it_has_threads() {
    let (builder, clock) = on_manual_clock();
    let timer = builder.shards(1).executor(Executor::Pool { threads: 5 }).build().unwrap();
    let barrier = Arc::new(Barrier::new(5));
    for _ in 0..5 {
        let barrier = barrier.clone();
        timer.schedule(MS, move || _ = barrier.wait()).unwrap();
    }
    in_time("an advance over five callbacks that wait for each other", move || clock.advance(MS));
    assert_eq!(timer.stats().completed, 5);
}

#[test]
fn callbacks_use_the_pool_beside_a_steady_stream_of_timers() {
    let timer = Timer::builder().shards(2).executor(Executor::Pool { threads: 2 }).build().unwrap();
    // Each thread has its own home shard, so there are always batches for both workers.
    let stream = || [(); 8].map(|()| timer.schedule_at_fixed_rate(MS, MS, || thread::sleep(MS / 4)).unwrap());
    let streams = thread::scope(|scope| [(); 2].map(|()| scope.spawn(stream)).map(|thread| thread.join().unwrap()));
    let (sender, receiver) = channel();
    for _ in 0..20 {
        let sender = sender.clone();
        timer.schedule(MS, move || rayon::spawn(move || sender.send(()).unwrap())).unwrap();
        wait_for(&receiver);
    }
    assert!(streams.iter().flatten().all(|timer| timer.cancel()));
}

#[test]
fn the_callers_pool_runs_callbacks_and_outlives_the_timer() {
    let named = |index| format!("exec-theirs-{index}");
    let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(2).thread_name(named).build().unwrap());
    let timer = Timer::builder().executor(Executor::Rayon(pool.clone())).build().unwrap();
    for name in callback_threads(&timer) {
        assert!(name.starts_with("exec-theirs"), "{name}");
    }
    drop(timer);
    assert_eq!(pool.install(|| 7), 7);
    assert_eq!(Arc::strong_count(&pool), 1);
}

#[test]
fn inline_runs_callbacks_on_the_shards_own_threads() {
    let timer = Timer::builder().shards(2).thread_name("exec-inline").executor(Executor::Inline).build().unwrap();
    for name in callback_threads(&timer) {
        assert!(name.starts_with("exec-inline"), "{name}");
    }
    eventually("only the drivers have the name", || threads_named("exec-inline") == 2);
}

#[test]
fn one_executor_may_serve_many_timers() {
    let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap());
    let custom: Arc<dyn Execute> = Arc::new(ThreadPerJob);
    for executor in [Executor::Rayon(pool), Executor::Custom(custom)] {
        let timers: Vec<_> =
            (0..4).map(|_| Timer::builder().shards(1).executor(executor.clone()).build().unwrap()).collect();
        let (sender, receiver) = channel();
        for timer in timers.iter().cycle().take(100) {
            let sender = sender.clone();
            timer.schedule(MS, move || sender.send(()).unwrap()).unwrap();
        }
        for _ in 0..100 {
            wait_for(&receiver);
        }
    }
}

#[test]
fn a_custom_executor_that_blocks_delays_no_pinned_neighbour() {
    let gate = Gate::default();
    let (names, name) = channel();
    let pass = gate.clone();
    let names = Mutex::new(names);
    let first = AtomicUsize::new(0);
    let blocks_once = move |job: Job| {
        let is_first = first.fetch_add(1, Ordering::SeqCst) == 0;
        names.lock().unwrap().send(thread::current().name().unwrap().to_owned()).unwrap();
        if is_first {
            pass.pass();
        }
        job();
    };
    let executor = Executor::Custom(Arc::new(ExecuteFn(blocks_once)));
    let builder = Timer::builder().shards(2).pin_cores(true).thread_name("exec-custom");
    let timer = builder.executor(executor).build().unwrap();
    timer.schedule(Duration::ZERO, || ()).unwrap();
    assert!(wait_for(&name).starts_with("exec-custom"));
    // At least one of the next two threads has its home in the other shard.
    let (sender, receiver) = channel();
    for _ in 0..2 {
        let (timer, sender) = (timer.clone(), sender.clone());
        let schedule = move || drop(timer.schedule(Duration::ZERO, move || sender.send(()).unwrap()).unwrap());
        thread::spawn(schedule).join().unwrap();
    }
    wait_for(&receiver);
    gate.open();
    wait_for(&receiver);
}

/// Promise: exactly once.
#[test]
fn a_dropped_job_cancels_its_timers_and_drops_their_closures() {
    let (builder, clock) = on_manual_clock();
    let (panics, panicked) = channel();
    let panics = Mutex::new(panics);
    let timer = builder
        .executor(Executor::Custom(Arc::new(ExecuteFn(drop))))
        .on_panic(move |_| panics.lock().unwrap().send(()).unwrap())
        .max_pending(12)
        .build()
        .unwrap();
    let tokens = Tokens::default();
    let mut handles = Vec::new();
    for _ in 0..10 {
        let token = tokens.give();
        handles.push(timer.schedule(MS, move || panic!("{}", (token, "dropped").1)).unwrap());
    }
    let token = tokens.give();
    let repeating = move || panic!("{}", (&token, "dropped").1);
    handles.push(timer.schedule_at_fixed_rate(MS, MS, repeating).unwrap());
    let bomb = Bomb;
    handles.push(timer.schedule(MS, move || drop(bomb)).unwrap());
    in_time("an advance over dropped jobs", move || clock.advance(SEC));
    assert_eq!(tokens.alive(), 0);
    for handle in &handles {
        assert!(!handle.is_pending() && !handle.cancel() && !handle.cancel_and_wait() && !handle.reset(SEC));
    }
    let stats = timer.stats();
    assert_eq!((stats.fired, stats.completed, stats.cancelled, stats.panicked, stats.pending), (0, 0, 12, 1, 0));
    assert_eq!(received(&panicked), [()]);
    assert_balanced(&timer);
    let permits = (0..13).filter(|_| timer.schedule(HOUR, || ()).is_ok()).count();
    assert_eq!(permits, 12, "not all permits are released");
}

/// The timer stays pending. Its job is stale, whether it is run or dropped.
/// Promise: exactly once.
#[test]
fn a_timer_that_is_reset_while_its_job_waits_fires_at_its_new_deadline() {
    for (repeats, drops) in [(false, false), (false, true), (true, false), (true, true)] {
        let held_jobs = HeldJobs::default();
        let (builder, clock) = on_manual_clock();
        let timer = builder.shards(1).executor(held_jobs.executor()).max_pending(1).build().unwrap();
        let start = clock.now();
        let runs = Arc::default();
        let handle = if repeats {
            timer.schedule_at_fixed_rate(SEC, HOUR, counting(&runs)).unwrap()
        } else {
            timer.schedule(SEC, counting(&runs)).unwrap()
        };
        // `advance` waits for the job, so call it on another thread.
        let advance = || {
            let clock = clock.clone();
            thread::spawn(move || clock.advance(SEC))
        };
        let advancing = advance();
        eventually("the job is handed over", || held_jobs.len() == 1);
        assert!(handle.reset(SEC));
        held_jobs.take().into_iter().for_each(|job| if drops { drop(job) } else { job() });
        in_time("an advance over a stale job", move || advancing.join().unwrap());
        let kind = format!("repeats: {repeats}, job dropped: {drops}");
        assert!(handle.is_pending(), "{kind}");
        assert_eq!(handle.deadline(), Some(start + 2 * SEC), "{kind}");
        let stats = timer.stats();
        assert_eq!((stats.fired, stats.cancelled, stats.resets, stats.pending), (0, 0, 1, 1), "{kind}");
        assert!(timer.schedule(SEC, || ()).unwrap_err().is_full(), "{kind}");

        let advancing = advance();
        eventually("a second job is handed over", || held_jobs.len() == 1);
        assert_eq!(clock.now(), start + 2 * SEC);
        held_jobs.take().into_iter().for_each(|job| job());
        in_time("an advance over the second job", move || advancing.join().unwrap());
        assert_eq!((runs.load(Ordering::SeqCst), handle.cancel()), (1, repeats), "{kind}");
        assert_balanced(&timer);
    }
}

/// Promise: panics stay inside.
#[test]
fn a_panic_in_execute_is_caught_and_affects_no_other_job() {
    let calls = AtomicUsize::new(0);
    let executor = ExecuteFn(move |job: Job| {
        if calls.fetch_add(1, Ordering::SeqCst) % 2 == 0 {
            quiet_panic("in execute");
        }
        job();
    });
    let (builder, clock) = on_manual_clock();
    let (payloads, payload): (Sender<&str>, Receiver<_>) = channel();
    let timer = builder
        .shards(1)
        .executor(Executor::Custom(Arc::new(executor)))
        .on_panic(move |panicked| {
            assert_eq!((panicked.callback, panicked.shard), (None, None));
            payloads.send(panicked.payload.downcast_ref::<&str>().unwrap()).unwrap();
        })
        .build()
        .unwrap();
    let tokens = Tokens::default();
    for _ in 0..10 {
        let token = tokens.give();
        timer.schedule(MS, move || drop(token)).unwrap();
    }
    clock.advance(SEC);
    assert_eq!(tokens.alive(), 0);
    assert_eq!(received(&payload), ["in execute"; 5]);
    let stats = timer.stats();
    assert_eq!((stats.panicked, stats.completed, stats.cancelled, stats.pending), (5, 5, 5, 0));
    assert_balanced(&timer);
}

#[test]
fn a_job_may_run_late_on_any_thread_and_its_timers_stay_pending() {
    let held_jobs = HeldJobs::default();
    let timer = Timer::builder().shards(1).executor(held_jobs.executor()).build().unwrap();
    let (sender, receiver) = channel();
    let handles: Vec<_> = (0..5)
        .map(|number| {
            let sender = sender.clone();
            timer.schedule(number * MS, move || sender.send(number).unwrap()).unwrap()
        })
        .collect();
    eventually("all jobs are handed over", || held_jobs.len() == 5);
    assert_eq!(timer.len(), 5);
    assert!(handles[3].cancel());
    let jobs = held_jobs.take();
    thread::spawn(move || jobs.into_iter().for_each(|job| job())).join().unwrap();
    assert_eq!(received(&receiver), [0, 1, 2, 4]);
    assert!(handles.iter().all(|handle| !handle.is_pending()));
    assert_balanced(&timer);
}

#[test]
fn a_job_that_outlives_the_timer_does_nothing() {
    let held_jobs = HeldJobs::default();
    let timer = Timer::builder().shards(1).executor(held_jobs.executor()).build().unwrap();
    let tokens = Tokens::default();
    for _ in 0..2 {
        let token = tokens.give();
        timer.schedule(Duration::ZERO, move || panic!("{}", (token, "the job was dropped").1)).unwrap();
    }
    eventually("handed over", || held_jobs.len() == 2);
    drop(timer);
    assert_eq!(tokens.alive(), 0);
    let mut jobs = held_jobs.take();
    jobs.pop().unwrap()();
    drop(jobs);
}

#[test]
fn execute_may_use_the_timer() {
    struct Uses(Arc<Mutex<Option<corewheel::WeakTimer>>>);
    impl Execute for Uses {
        fn execute(&self, job: Job) {
            let timer = self.0.lock().unwrap().as_ref().and_then(corewheel::WeakTimer::upgrade).unwrap();
            let handle = timer.schedule(HOUR, || ()).unwrap();
            assert!(handle.reset(2 * HOUR) && handle.cancel_and_wait());
            job();
        }
    }
    let weak = Arc::default();
    let (builder, clock) = on_manual_clock();
    let timer = builder.executor(Executor::Custom(Arc::new(Uses(Arc::clone(&weak))))).build().unwrap();
    *weak.lock().unwrap() = Some(timer.downgrade());
    timer.schedule(MS, || ()).unwrap();
    clock.advance(SEC);
    let stats = timer.stats();
    assert_eq!((stats.completed, stats.cancelled, stats.panicked), (1, 1, 0));
}

#[test]
fn a_callback_may_use_the_pool_that_it_runs_on() {
    for threads in [1, 2] {
        let (builder, clock) = on_manual_clock();
        let timer = builder.executor(Executor::Pool { threads }).build().unwrap();
        let (sender, receiver) = channel();
        for number in 0..100_u64 {
            let sender = sender.clone();
            let callback = move || {
                let (left, right) = rayon::join(|| number, || number);
                sender.send(left + right).unwrap();
            };
            timer.schedule(MS, callback).unwrap();
        }
        clock.advance(MS);
        let mut sums = received(&receiver);
        sums.sort_unstable();
        assert_eq!(sums, (0..100).map(|number| 2 * number).collect::<Vec<_>>());
    }
}

/// Promise: the shutdown loses nothing.
#[test]
fn the_consumer_of_a_bounded_executor_may_shut_down_while_execute_waits_for_room() {
    let name = "exec-bounded";
    for from_job in [false, true] {
        let (jobs, consumer) = mpsc::sync_channel::<Job>(1);
        let calls = Arc::new(AtomicUsize::new(0));
        let called = calls.clone();
        let send = move |job| {
            called.fetch_add(1, Ordering::SeqCst);
            jobs.send(job).unwrap();
        };
        let executor = Executor::Custom(Arc::new(ExecuteFn(send)));
        let timer = Timer::builder().shards(1).thread_name(name).executor(executor).build().unwrap();
        let at = timer.now() + MS;
        let handles = [(); 6].map(|()| timer.schedule_at(at, || ()).unwrap());
        eventually("one job is queued, and execute waits with the next", || calls.load(Ordering::SeqCst) == 2);
        let weak = timer.downgrade();
        if from_job {
            timer.schedule(HOUR, || ()).unwrap();
        }
        let (unfired, consumer) = in_time("shutdown while execute waits", move || {
            if from_job {
                consumer.recv().unwrap()();
            }
            (weak.upgrade().unwrap().shutdown().len(), consumer)
        });
        assert_eq!(unfired, 6);
        // Taking a job made room, so `execute` may have returned.
        assert!(from_job || threads_named(name) == 1, "execute still waits");
        // The consumer finds in the queue only what was put there.
        assert!(consumer.into_iter().map(|job| job()).count() <= 2);
        eventually("the thread has ended", || threads_named(name) == 0);
        assert!(handles.iter().all(|handle| !handle.is_pending()));
        assert_balanced(&timer);
    }
}

#[test]
fn the_executor_is_dropped_with_the_timer() {
    let ends: [fn(&Timer); 3] = [|_| (), |timer| drop(timer.shutdown()), |timer| drop(timer.shutdown_timeout(HOUR))];
    for end in ends {
        let tokens = Tokens::default();
        let token = tokens.give();
        let executor = ExecuteFn(move |job: Job| {
            let _captured = &token;
            job();
        });
        let timer = Timer::builder().executor(Executor::Custom(Arc::new(executor))).build().unwrap();
        let handle = timer.schedule(HOUR, || ()).unwrap();
        end(&timer);
        drop(timer);
        assert_eq!(tokens.alive(), 0);
        drop(handle);
    }
}

/// The last reference is a shutdown's, a driver's, or that of a thread of the timer's.
#[test]
fn a_panic_in_the_drop_of_an_executor_is_caught() {
    for last in ["shutdown", "driver", "thread"] {
        let panics = Arc::new(AtomicUsize::new(0));
        let count = counting(&panics);
        let bomb = Bomb;
        let executor = ExecuteFn(move |job: Job| {
            let _captured = &bomb;
            job();
        });
        let builder = Timer::builder().shards(1).executor(Executor::Custom(Arc::new(executor)));
        let timer = builder.on_panic(move |_| count()).build().unwrap();
        let driver = (last == "driver").then(|| timer.take_driver().unwrap());
        if last == "thread" {
            timer.clone().schedule(Duration::ZERO, move || drop(timer.shutdown())).unwrap();
        } else {
            drop(timer);
        }
        drop(driver);
        eventually("the panic is reported", || panics.load(Ordering::SeqCst) == 1);
    }
}

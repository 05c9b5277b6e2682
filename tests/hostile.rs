//! Callbacks that block, recurse, wait for each other and shut their own timer down. Closures of any size, and closures
//! whose drop does as much as their run.
//!
//! Promise: panics stay inside.
#![cfg(feature = "std")]

mod common;

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use common::*;
use corewheel::{Executor, Timer, TimerHandle, UnfiredTimer, WeakTimer, rayon};
use futures::executor::block_on;

static LOADS_RUN: AtomicUsize = AtomicUsize::new(0);
static LOADS_DROPPED: AtomicUsize = AtomicUsize::new(0);

/// All that a closure captures, with some size and alignment.
struct Load<T>(T);

impl<T: AsRef<[u8]>> Load<T> {
    fn run(&self) {
        assert!(self.0.as_ref().iter().all(|&byte| byte == 7));
        LOADS_RUN.fetch_add(1, Ordering::SeqCst);
    }
}

impl<T> Drop for Load<T> {
    fn drop(&mut self) {
        assert_eq!(ptr::from_ref(self).addr() % align_of::<Self>(), 0);
        LOADS_DROPPED.fetch_add(1, Ordering::SeqCst);
    }
}

macro_rules! aligned {
    ($($name:ident $size:literal $align:literal)*) => {$(
        #[derive(Clone, Copy)]
        #[repr(align($align))]
        struct $name([u8; $size]);

        impl AsRef<[u8]> for $name {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }
    )*};
}

aligned! { Nothing16 0 16 Nothing4096 0 4096 Aligned16 16 16 Aligned64 64 64 Aligned4096 4096 4096 }

/// Ends closures with this load in every way.
fn end_with_load<T: AsRef<[u8]> + Copy + Send + 'static>(value: T) {
    let closure = || {
        let load = Load(value);
        move || load.run()
    };
    assert_eq!(size_of_val(&closure()), size_of::<T>());
    let check = |runs, end: &dyn Fn()| {
        let before = [&LOADS_RUN, &LOADS_DROPPED].map(|count| count.swap(0, Ordering::SeqCst));
        end();
        let after = [&LOADS_RUN, &LOADS_DROPPED].map(|count| count.load(Ordering::SeqCst));
        assert_eq!(after, [runs, 1], "{} bytes, after {before:?}", size_of::<T>());
    };
    let (timer, clock) = in_virtual_time();
    check(1, &|| {
        timer.schedule(SEC, closure()).unwrap();
        clock.advance(SEC);
    });
    check(0, &|| assert!(timer.schedule(SEC, closure()).unwrap().cancel()));
    check(3, &|| {
        let handle = timer.schedule_at_fixed_rate(SEC, SEC, closure()).unwrap();
        clock.advance(3 * SEC);
        assert!(handle.cancel());
    });
    check(1, &|| {
        let (timer, _clock) = in_virtual_time();
        timer.schedule(SEC, closure()).unwrap();
        timer.shutdown().for_each(UnfiredTimer::run);
    });
    check(0, &|| {
        let (timer, _clock) = in_virtual_time();
        timer.schedule(SEC, closure()).unwrap();
    });
    check(0, &|| {
        let (builder, clock) = on_manual_clock();
        let timer = builder.executor(Executor::Custom(Arc::new(ExecuteFn(drop)))).build().unwrap();
        timer.schedule(SEC, closure()).unwrap();
        clock.advance(SEC);
    });
    drop(timer.shutdown());
    check(1, &|| timer.schedule(SEC, closure()).unwrap_err().into_inner()());
    check(2, &|| {
        let refused = timer.schedule_at_fixed_rate(SEC, SEC, closure()).unwrap_err().into_inner();
        refused();
        refused();
    });
    check(0, &|| drop(timer.schedule_with_fixed_delay(SEC, SEC, closure()).unwrap_err()));
    assert_eq!(timer.stats().panicked, 0);
}

#[test]
fn closures_of_any_size_and_alignment_end_once_in_every_way() {
    end_with_load([7; 0]);
    end_with_load([7; 1]);
    end_with_load([7; 23]);
    end_with_load([7; 24]);
    end_with_load([7; 25]);
    end_with_load([7; 32]);
    end_with_load([7; 4096]);
    end_with_load(Nothing16([]));
    end_with_load(Nothing4096([]));
    end_with_load(Aligned16([7; 16]));
    end_with_load(Aligned64([7; 64]));
    end_with_load(Aligned4096([7; 4096]));
}

/// Executors that run one callback at a time if there is one shard.
fn one_at_a_time() -> [Executor; 3] {
    [Executor::Pool { threads: 1 }, Executor::Inline, Executor::Custom(Arc::new(RunInPlace))]
}

/// Schedules a zero-delay callback that schedules itself again until `stop` is set.
fn chain(weak: WeakTimer, stop: Arc<AtomicBool>, runs: Arc<AtomicUsize>) {
    let Some(timer) = weak.upgrade() else { return };
    let link = move || {
        runs.fetch_add(1, Ordering::SeqCst);
        if !stop.load(Ordering::SeqCst) {
            chain(weak, stop, runs);
        }
    };
    timer.schedule(Duration::ZERO, link).unwrap();
}

#[test]
fn callbacks_that_reschedule_at_once_starve_no_other_callback() {
    for executor in every_executor() {
        let timer = Timer::builder().shards(1).executor(executor).build().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let runs = Arc::new(AtomicUsize::new(0));
        for _ in 0..3 {
            chain(timer.downgrade(), stop.clone(), runs.clone());
        }
        eventually("they run", || runs.load(Ordering::SeqCst) > 100);
        for delay in [Duration::ZERO, MS, 5 * MS] {
            let (sender, receiver) = channel();
            timer.schedule(delay, move || sender.send(()).unwrap()).unwrap();
            wait_for(&receiver);
            // Either result is right; the call must return.
            timer.schedule(delay, || ()).unwrap().cancel_and_wait();
        }
        assert!(timer.schedule(HOUR, || ()).unwrap().cancel_and_wait());
        let sleep = timer.sleep(MS);
        let (sender, receiver) = channel();
        thread::spawn(move || {
            block_on(sleep);
            sender.send(()).unwrap();
        });
        wait_for(&receiver);
        let runs_then = runs.load(Ordering::SeqCst);
        eventually("the chain continues", || runs.load(Ordering::SeqCst) > runs_then + 100);
        stop.store(true, Ordering::SeqCst);
        eventually("the chain has ended", || timer.is_empty());
        assert_balanced(&timer);
    }
}

#[test]
fn a_chain_of_zero_delay_callbacks_takes_no_stack_and_no_time() {
    const LENGTH: u64 = 5_000;
    fn link(timer: &Timer, left: u64) {
        let weak = timer.downgrade();
        let next = move || {
            if left > 1 {
                link(&weak.upgrade().unwrap(), left - 1);
            }
        };
        timer.schedule(Duration::ZERO, next).unwrap();
    }
    for executor in one_at_a_time() {
        let (builder, clock) = on_manual_clock();
        let timer = builder.shards(1).executor(executor).build().unwrap();
        let start = clock.now();
        link(&timer, LENGTH);
        clock.advance(Duration::ZERO);
        assert_eq!((timer.stats().completed, timer.len(), clock.now()), (LENGTH, 0, start));
    }
}

#[test]
fn callbacks_that_schedule_two_more_each_run_once() {
    const DEPTH: u32 = 14;
    fn grow(timer: &Timer, depth: u32) {
        let weak = timer.downgrade();
        let more = move || {
            if depth > 1 {
                let timer = weak.upgrade().unwrap();
                (0..2).for_each(|_| grow(&timer, depth - 1));
            }
        };
        timer.schedule(Duration::ZERO, more).unwrap();
    }
    for executor in [Executor::Pool { threads: 2 }, Executor::Inline] {
        let timer = Timer::builder().shards(2).executor(executor).build().unwrap();
        grow(&timer, DEPTH);
        eventually("all callbacks have run", || timer.stats().completed == (1 << DEPTH) - 1);
        assert_eq!((timer.len(), timer.stats().panicked), (0, 0));
        assert_balanced(&timer);
    }
}

#[test]
fn everything_but_callbacks_works_while_every_worker_is_blocked() {
    let executor = Executor::Pool { threads: 2 };
    let timer = Timer::builder().shards(1).executor(executor).max_extra_threads(0).build().unwrap();
    let gate = Gate::default();
    let (sender, receiver) = channel();
    for _ in 0..2 {
        let (pass, begun) = (gate.clone(), sender.clone());
        let blocks = move || {
            begun.send("begun").unwrap();
            pass.pass();
        };
        timer.schedule(Duration::ZERO, blocks).unwrap();
    }
    assert_eq!([(); 2].map(|()| wait_for(&receiver)), ["begun"; 2]);
    timer.schedule(Duration::ZERO, move || sender.send("late").unwrap()).unwrap();
    let handles: Vec<_> = (0..1000).map(|n| timer.schedule(n * MS / 1000, || panic!("cancelled")).unwrap()).collect();
    block_on(async {
        timer.sleep(5 * MS).await;
        assert!(timer.timeout(MS, std::future::pending::<()>()).await.is_err());
        let mut interval = timer.interval(MS);
        for _ in 0..3 {
            interval.tick().await;
        }
    });
    assert!(handles.iter().take(300).all(|handle| handle.reset(HOUR)));
    in_time("cancels", move || assert!(handles.iter().all(TimerHandle::cancel_and_wait)));
    assert_eq!((timer.len(), received(&receiver)), (1, vec![]));
    gate.open();
    assert_eq!(wait_for(&receiver), "late");
    eventually("all timers have ended", || timer.is_empty());
    assert_balanced(&timer);
}

#[test]
fn an_inline_callback_blocks_no_pinned_neighbour() {
    let timer = Timer::builder().shards(2).pin_cores(true).executor(Executor::Inline).build().unwrap();
    let gate = Gate::default();
    let (sender, receiver) = channel();
    let (pass, begun) = (gate.clone(), sender.clone());
    let blocks = move || {
        begun.send("begun").unwrap();
        pass.pass();
    };
    timer.schedule(Duration::ZERO, blocks).unwrap();
    assert_eq!(wait_for(&receiver), "begun");
    let same = sender.clone();
    timer.schedule(Duration::ZERO, move || same.send("same shard").unwrap()).unwrap();
    // A new thread has its home in the other shard.
    let other = timer.clone();
    thread::spawn(move || other.schedule(MS, move || sender.send("other shard").unwrap()).unwrap()).join().unwrap();
    assert_eq!(wait_for(&receiver), "other shard");
    assert!(receiver.try_recv().is_err());
    gate.open();
    assert_eq!(wait_for(&receiver), "same shard");
}

#[test]
fn when_two_callbacks_cancel_each_other_the_first_wins() {
    for executor in one_at_a_time() {
        let (builder, clock) = on_manual_clock();
        let timer = builder.shards(1).executor(executor).build().unwrap();
        let handles = Arc::new([OnceLock::<TimerHandle>::new(), OnceLock::new()]);
        let (sender, receiver) = channel();
        for number in 0..2 {
            let (others, sender) = (handles.clone(), sender.clone());
            let cancels = move || {
                let [own, other] = [&others[number], &others[1 - number]].map(once_set);
                sender.send((other.cancel_and_wait(), other.cancel(), own.cancel_and_wait())).unwrap();
            };
            handles[number].set(timer.schedule(SEC, cancels).unwrap()).unwrap();
        }
        clock.advance(SEC);
        assert_eq!(received(&receiver), [(true, false, false)]);
        assert_eq!((timer.stats().fired, timer.stats().cancelled), (1, 1));
    }
}

#[test]
fn callbacks_may_wait_for_each_other_in_a_chain() {
    const LENGTH: usize = 5;
    for executor in [Executor::Pool { threads: LENGTH }, Executor::Custom(Arc::new(ThreadPerJob))] {
        let timer = Timer::builder().shards(1).executor(executor).build().unwrap();
        let gate = Gate::default();
        let (sender, receiver) = channel();
        let pass = gate.clone();
        let mut before = None::<TimerHandle>;
        for number in 0..LENGTH {
            let sender = sender.clone();
            let pass = pass.clone();
            let (begin, begun) = channel();
            let waits = before.take();
            let callback = move || {
                begin.send(()).unwrap();
                match waits {
                    Some(before) => assert!(!before.cancel_and_wait()),
                    None => pass.pass(),
                }
                sender.send(number).unwrap();
            };
            before = Some(timer.schedule(Duration::ZERO, callback).unwrap());
            wait_for(&begun);
        }
        assert!(receiver.try_recv().is_err());
        gate.open();
        assert!(!before.unwrap().cancel_and_wait());
        assert_eq!(received(&receiver), [0, 1, 2, 3, 4]);
        assert_eq!(timer.stats().panicked, 0);
    }
}

/// A custom executor may spawn jobs into a rayon pool. There a worker that waits inside rayon runs another callback
/// meanwhile, on top of the first on the same stack.
#[test]
fn a_nested_callback_waits_neither_for_the_outer_one_nor_for_itself() {
    let ends: [fn(&Timer, &TimerHandle, bool); 3] = [
        |_, below, repeating| assert_eq!(below.cancel_and_wait(), repeating),
        |timer, below, _| {
            assert_eq!(timer.shutdown().len(), 1);
            assert!(!below.cancel_and_wait());
        },
        |timer, below, repeating| {
            assert_eq!(below.reset(HOUR), repeating);
            assert_eq!(timer.clone().shutdown().len(), 1);
        },
    ];
    for (end, repeating) in ends.into_iter().flat_map(|end| [(end, false), (end, true)]) {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let executor = Executor::Custom(Arc::new(ExecuteFn(move |job: Job| pool.spawn(job))));
        let timer = Timer::builder().shards(1).executor(executor).build().unwrap();
        timer.schedule(HOUR, || ()).unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let begun = Gate::default();
        let (done, begin) = (over.clone(), begun.clone());
        let yields = move || {
            begin.open();
            let start = Instant::now();
            while !done.load(Ordering::SeqCst) && start.elapsed() < TIMEOUT {
                rayon::yield_now();
            }
        };
        let below = if repeating {
            timer.schedule_at_fixed_rate(Duration::ZERO, HOUR, yields).unwrap()
        } else {
            timer.schedule(Duration::ZERO, yields).unwrap()
        };
        begun.pass();
        let weak = timer.downgrade();
        let (sender, receiver) = channel();
        let on_top = move || {
            end(&weak.upgrade().unwrap(), &below, repeating);
            over.store(true, Ordering::SeqCst);
            sender.send(()).unwrap();
        };
        timer.schedule(Duration::ZERO, on_top).unwrap();
        wait_for(&receiver);
        drop(timer.shutdown());
        assert_eq!(timer.stats().panicked, 0);
        assert_balanced(&timer);
    }
}

#[test]
fn the_drop_of_a_closure_may_use_timers() {
    let ends: [fn(&Timer, &TimerHandle); 4] = [
        |_, own| assert!(own.cancel()),
        |_, own| assert!(own.cancel_and_wait()),
        |_, own| assert!(own.reset(Duration::ZERO)),
        |timer, _| drop(timer.shutdown()),
    ];
    for executor in every_executor().into_iter().chain([Executor::Custom(Arc::new(ExecuteFn(drop)))]) {
        for (end, repeating) in ends.into_iter().flat_map(|end| [(end, false), (end, true)]) {
            let timer = Timer::builder().shards(2).executor(executor.clone()).build().unwrap();
            let own = Arc::new(OnceLock::<TimerHandle>::new());
            let (sender, receiver) = channel();
            let neighbour = timer.schedule(HOUR, || ()).unwrap();
            let weak = timer.downgrade();
            let handle = own.clone();
            let captured = OnDrop(move || {
                let own = once_set(&handle);
                assert!(!own.is_pending() && !own.cancel() && !own.cancel_and_wait() && !own.reset(SEC));
                let timer = weak.upgrade().unwrap();
                let scheduled = timer.schedule(HOUR, || ()).is_ok_and(|handle| handle.reset(SEC) && handle.cancel());
                sender.send((neighbour.cancel_and_wait(), scheduled, timer.is_shutdown())).unwrap();
            });
            let scheduled = if repeating {
                let ends = move |_| {
                    let _captured = &captured;
                    None
                };
                timer.schedule_recurring(timer.now() + HOUR, ends).map_err(drop)
            } else {
                timer.schedule(HOUR, move || drop(captured)).map_err(drop)
            };
            own.set(scheduled.unwrap()).unwrap();
            end(&timer, once_set(&own));
            let (neighbour, scheduled, shut_down) = wait_for(&receiver);
            assert_eq!((neighbour, scheduled), (!shut_down, !shut_down));
            eventually("all timers have ended", || timer.is_empty());
            assert_eq!(timer.stats().panicked, 0);
            assert_balanced(&timer);
        }
    }
}

/// A cancelled closure drops the guard that it owns, which cancels the next.
#[test]
fn guards_that_closures_own_cancel_in_a_chain() {
    for executor in [Executor::Inline, Executor::Custom(Arc::new(ExecuteFn(drop)))] {
        let (builder, clock) = on_manual_clock();
        let timer = builder.shards(1).executor(executor).build().unwrap();
        for run in [false, true] {
            let mut guard = None;
            for _ in 0..500 {
                let next = guard.take();
                guard = Some(timer.schedule(SEC, move || drop(next)).unwrap().cancel_on_drop());
            }
            if run {
                let first = guard.unwrap().detach();
                assert!(first.reset(MS));
                clock.advance(MS);
            } else {
                drop(guard);
            }
            assert_eq!(timer.len(), 0);
        }
        let stats = timer.stats();
        assert_eq!((stats.fired + stats.cancelled, stats.panicked), (1000, 0));
        assert_balanced(&timer);
    }
}

#[test]
fn the_drop_of_a_closure_may_end_its_own_service() {
    let ends: [fn(TimerHandle); 4] = [
        |handle| assert!(handle.cancel()),
        |handle| assert!(handle.cancel_and_wait()),
        |handle| drop(handle.cancel_on_drop()),
        |handle| {
            assert!(handle.cancel());
            assert!(!handle.cancel_and_wait() && !handle.reset(SEC) && !handle.is_pending());
        },
    ];
    for end in ends {
        for executor in every_executor() {
            let timer = Timer::builder().shards(2).thread_name("host-drop").executor(executor).build().unwrap();
            let weak = timer.downgrade();
            let last = timer.clone();
            let tokens = Tokens::default();
            let token = tokens.give();
            timer.schedule(HOUR, move || drop(token)).unwrap();
            let handle = timer.schedule(HOUR, move || drop(last)).unwrap();
            drop(timer);
            assert!(weak.upgrade().is_some());
            in_time("a cancel that drops the last clone", move || end(handle));
            assert!(weak.upgrade().is_none());
            assert_eq!(tokens.alive(), 0);
            eventually("the threads have ended", || threads_named("host-drop") == 0);
        }
    }
}

#[test]
fn a_panic_hook_may_end_the_service() {
    for executor in every_executor() {
        for cancelled in [false, true] {
            let own = Arc::new(OnceLock::<WeakTimer>::new());
            let weak = own.clone();
            let (sender, receiver) = channel();
            let timer = Timer::builder()
                .shards(2)
                .thread_name("host-hook")
                .executor(executor.clone())
                .on_panic(move |_| sender.send(once_set(&weak).upgrade().unwrap().shutdown().len()).unwrap())
                .build()
                .unwrap();
            own.set(timer.downgrade()).unwrap();
            timer.schedule(HOUR, || ()).unwrap();
            let bomb = Bomb;
            let handle = timer.schedule(HOUR, move || drop(bomb)).unwrap();
            if cancelled {
                assert!(handle.cancel());
            } else {
                assert!(handle.reset(Duration::ZERO));
            }
            assert_eq!(wait_for(&receiver), 1);
            eventually("the threads have ended", || threads_named("host-hook") == 0);
            assert_eq!(timer.stats().panicked, 1);
            assert_balanced(&timer);
        }
    }
}

//! Memory: entries of cancelled timers are reused, and dropped timers leave no memory. A test binary of its own,
//! because it counts every allocation; its tests run one at a time.

#[path = "../common/mod.rs"]
mod common;
#[allow(dead_code)]
#[path = "../common/counting_allocator.rs"]
mod counting_allocator;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering;
use std::sync::{Barrier, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use common::*;
use corewheel::{Driver, Executor, ManualClock, Timer, TimerHandle};
use counting_allocator::ALLOCATED;
use fastrand::Rng;

fn alone<R>(test: impl FnOnce() -> R) -> R {
    // Large vectors return to the system when they are freed, instead of during the next test.
    #[cfg(target_os = "linux")]
    // SAFETY: `mallopt` only sets an option of the allocator.
    let _ = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 17) };
    counting_allocator::alone(test)
}

/// Returns the number of allocated bytes.
fn allocated() -> isize {
    ALLOCATED.load(Ordering::Relaxed)
}

/// Returns the resident memory of the process, including the pages of timers.
#[cfg(target_os = "linux")]
fn resident() -> isize {
    // Free memory that the allocator retains does not count.
    // SAFETY: `malloc_trim` releases only free memory.
    unsafe { libc::malloc_trim(0) };
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<isize>().unwrap() * 4096
}

#[cfg(not(target_os = "linux"))]
fn resident() -> isize {
    allocated()
}

const MB: isize = 1 << 20;
/// Number of timers of a burst: 3 MB at 64 bytes each.
const BURST: usize = 50_000;
/// Number of bursts after the first.
const MORE: usize = 10;
/// Maximum growth by these bursts: half of what they would take without reuse. While a driver that returns memory
/// is preempted, two or three of them may take new memory.
const GROWTH: isize = (MORE * BURST * 64 / 2) as isize;
/// How long the memory of cancelled timers may be unusable, with a margin.
const REUSE: Duration = Duration::from_millis(200);

/// Schedules a burst of timers and cancels them all.
fn burst(timer: &Timer, delay: Duration) {
    let handles: Vec<_> = (0..BURST).map(|_| timer.schedule(delay, || ()).unwrap()).collect();
    assert!(handles.iter().all(TimerHandle::cancel));
}

/// Asserts that the bursts after the first took hardly any memory of their own.
#[track_caller]
fn assert_growth_is_small(after_one: isize) {
    let grown = resident() - after_one;
    assert!(grown < GROWTH, "grown by {grown} bytes in {MORE} bursts of {BURST}");
}

/// Asserts that consecutive bursts take the memory of one.
fn assert_reuse(timer: &Timer, delay: Duration) {
    burst(timer, delay);
    thread::sleep(REUSE);
    let after_one = resident();
    for _ in 0..MORE {
        burst(timer, delay);
        thread::sleep(REUSE);
    }
    assert_growth_is_small(after_one);
}

/// Promise: memory comes back.
#[test]
fn the_memory_of_cancelled_timers_is_reused_whatever_their_deadline() {
    alone(|| {
        for delay in [10 * SEC, 24 * HOUR, Duration::MAX] {
            let timer = Timer::builder().shards(1).build().unwrap();
            assert_reuse(&timer, delay);
        }
    });
}

#[test]
fn the_memory_of_cancelled_timers_is_reused_with_a_coarse_tick() {
    alone(|| {
        let timer = Timer::builder().shards(1).tick(60 * SEC).build().unwrap();
        // The driver sleeps until the next tick, and nothing else wakes it.
        timer.schedule(SEC, || ()).unwrap();
        assert_reuse(&timer, HOUR);
    });
}

#[test]
fn the_memory_of_cancelled_timers_is_reused_by_other_threads() {
    alone(|| {
        let timer = Timer::builder().shards(1).build().unwrap();
        let bursts = |times: usize| {
            for _ in 0..times {
                let handles: Vec<_> = (0..BURST).map(|_| timer.schedule(HOUR, || ()).unwrap()).collect();
                thread::scope(|scope| scope.spawn(move || handles.iter().all(TimerHandle::cancel)).join().unwrap());
                thread::sleep(REUSE);
            }
        };
        bursts(1);
        let after_one = resident();
        bursts(MORE);
        assert_growth_is_small(after_one);
    });
}

/// A thread takes a page of entries for its first timer, and returns the entries when it ends. A thread that uses a
/// timer in a thread-local destructor, after the crate's own destructors, does both at each use.
#[test]
fn the_memory_of_ended_threads_is_reused() {
    const TIMES: usize = 5000;
    thread_local! {
        static KEPT: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
    }
    fn use_once(timer: &Timer) {
        assert!(timer.schedule(HOUR, || ()).unwrap().cancel());
    }
    alone(|| {
        let timer = Timer::builder().shards(1).build().unwrap();
        let use_elsewhere = || thread::scope(|scope| scope.spawn(|| use_once(&timer)).join().unwrap());
        (0..100).for_each(|_| use_elsewhere());
        let before = resident();
        (0..TIMES).for_each(|_| use_elsewhere());
        let ends = timer.clone();
        let at_exit = OnDrop(move || (0..TIMES).for_each(|_| use_once(&ends)));
        let ends = timer.clone();
        let thread = thread::spawn(move || {
            KEPT.set(Some(Box::new(at_exit)));
            use_once(&ends);
        });
        thread.join().unwrap();
        assert_eq!(timer.stats().cancelled, 2 * TIMES as u64 + 101);
        let grown = resident() - before;
        assert!(grown < (TIMES * 4096 / 4) as isize, "grown by {grown} bytes");
    });
}

#[test]
fn the_memory_of_fired_timers_is_reused() {
    alone(|| {
        let timer = Timer::builder().shards(1).build().unwrap();
        let fire = || {
            (0..BURST).for_each(|_| drop(timer.schedule(MS, || ()).unwrap()));
            eventually("all timers have fired", || timer.is_empty());
            thread::sleep(20 * MS);
        };
        fire();
        let after_one = resident();
        (0..MORE).for_each(|_| fire());
        assert_growth_is_small(after_one);
    });
}

/// Asserts that the memory of a burst is returned as time passes. The timers are cancelled in random order, so no page
/// is free before almost all timers are cancelled.
#[cfg(target_os = "linux")]
fn assert_returned_to_the_system(timer: &Timer, pass_time: impl Fn()) {
    let mut handles = Vec::with_capacity(8 * BURST);
    // Touch the pages now, so that they do not count.
    handles.extend((0..8 * BURST).map(|_| None));
    burst(timer, HOUR);
    pass_time();
    let before = resident();
    thread::scope(|scope| {
        for handles in handles.chunks_mut(4 * BURST) {
            scope.spawn(move || {
                // In the wheel, the driver finds this timer before those that are cancelled.
                drop(timer.schedule(HOUR / 2, || ()).unwrap());
                handles.fill_with(|| Some(timer.schedule(HOUR, || ()).unwrap()));
            });
        }
    });
    pass_time();
    let grown = resident() - before;
    assert!(grown > 20 * MB, "{grown} bytes are less than 64 per timer, without those that the first burst left");
    let mut random = Rng::with_seed(3);
    for last in (1..handles.len()).rev() {
        handles.swap(last, random.u64(..last as u64 + 1) as usize);
    }
    assert!(handles.iter().flatten().all(TimerHandle::cancel));
    handles.fill_with(|| None);
    eventually("nine tenths are returned", || {
        pass_time();
        resident() - before < grown / 10
    });
}

/// Promise: memory comes back.
#[test]
#[cfg(target_os = "linux")]
fn the_memory_of_a_burst_is_returned_to_the_system() {
    alone(|| {
        let timer = Timer::builder().shards(2).build().unwrap();
        assert_returned_to_the_system(&timer, || thread::sleep(REUSE));
    });
}

#[test]
#[cfg(target_os = "linux")]
fn the_memory_of_a_burst_is_returned_to_the_system_in_virtual_time() {
    alone(|| {
        let (builder, clock) = on_manual_clock();
        let timer = builder.shards(2).build().unwrap();
        assert_returned_to_the_system(&timer, || clock.advance(MS));
    });
}

/// Its loop has not driven since the timers were cancelled.
#[test]
#[cfg(target_os = "linux")]
fn the_memory_of_a_burst_is_returned_when_a_driver_is_dropped() {
    alone(|| {
        let timer = Timer::builder().shards(1).build().unwrap();
        let driver = RefCell::new(timer.take_driver());
        let times = Cell::new(0);
        let pass_time = || {
            times.set(times.get() + 1);
            if times.get() > 2 {
                driver.take();
            }
            thread::sleep(REUSE);
            let drive_all = |driver: &mut Driver| {
                while driver.next_wakeup().is_some_and(|at| at <= Instant::now()) {
                    driver.drive();
                }
            };
            if let Some(driver) = driver.borrow_mut().as_mut() {
                drive_all(driver);
            }
        };
        assert_returned_to_the_system(&timer, pass_time);
    });
}

/// Many threads end a burst, each timers of every shard. When the threads end, what is left in their caches keeps no page.
/// Promise: memory comes back.
#[test]
#[cfg(target_os = "linux")]
fn the_memory_of_a_burst_that_many_threads_end_is_returned() {
    const THREADS: usize = 100;
    const TIMERS: usize = 16 * BURST;
    alone(|| {
        let timer = Timer::builder().shards(8).build().unwrap();
        let mut handles: Vec<Option<TimerHandle>> = Vec::with_capacity(TIMERS);
        // Touch the pages now, so that they do not count.
        handles.extend((0..TIMERS).map(|_| None));
        let before = resident();
        thread::scope(|scope| {
            for handles in handles.chunks_mut(TIMERS / THREADS) {
                let timer = &timer;
                scope.spawn(move || handles.fill_with(|| Some(timer.schedule(HOUR, || ()).unwrap())));
            }
        });
        let taken = resident() - before;
        assert!(taken > (TIMERS * 64) as isize, "{taken} bytes");
        let mut random = Rng::with_seed(7);
        for last in (1..TIMERS).rev() {
            handles.swap(last, random.u64(..last as u64 + 1) as usize);
        }
        // All threads live until the last timer has ended.
        let ended = Barrier::new(THREADS);
        thread::scope(|scope| {
            for handles in handles.chunks_mut(TIMERS / THREADS) {
                let ended = &ended;
                scope.spawn(move || {
                    assert!(handles.iter_mut().all(|handle| handle.take().unwrap().cancel()));
                    ended.wait();
                });
            }
        });
        eventually("nine tenths are returned", || {
            thread::sleep(REUSE);
            resident() - before < taken / 10
        });
    });
}

/// As before, but the threads live on. Each keeps entries of its home, and a few of each other shard.
/// Promise: memory comes back.
#[test]
#[cfg(target_os = "linux")]
fn the_memory_of_a_burst_that_idle_threads_have_ended_is_returned() {
    const THREADS: usize = 25;
    const TIMERS: usize = 32 * BURST;
    alone(|| {
        let timer = Timer::builder().shards(16).build().unwrap();
        let mut handles: Vec<Option<TimerHandle>> = Vec::with_capacity(TIMERS);
        // Touch the pages now, so that they do not count.
        handles.extend((0..TIMERS).map(|_| None));
        let before = resident();
        // Threads that hold timers of all shards, so that each has another home.
        thread::scope(|scope| {
            for handles in handles.chunks_mut(TIMERS / 16) {
                let timer = &timer;
                scope.spawn(move || handles.fill_with(|| Some(timer.schedule(HOUR, || ()).unwrap())));
            }
        });
        let taken = resident() - before;
        assert!(taken > (TIMERS * 64) as isize, "{taken} bytes");
        let mut random = Rng::with_seed(7);
        for last in (1..TIMERS).rev() {
            handles.swap(last, random.u64(..last as u64 + 1) as usize);
        }
        let idle = RwLock::new(());
        let returned = thread::scope(|scope| {
            let _until_returned = idle.write();
            for handles in handles.chunks_mut(TIMERS / THREADS) {
                let (timer, idle) = (&timer, &idle);
                scope.spawn(move || {
                    // The thread has a home.
                    drop(timer.schedule(HOUR, || ()).unwrap().cancel_on_drop());
                    assert!(handles.iter_mut().all(|handle| handle.take().unwrap().cancel()));
                    drop(idle.read());
                });
            }
            let returned = |_| {
                thread::sleep(REUSE);
                resident() - before < taken * 3 / 10
            };
            (0..20).any(returned)
        });
        assert!(returned, "three tenths of {taken} bytes stay");
    });
}

/// Each timer is alone in its page of slots.
/// Promise: memory comes back.
#[test]
#[cfg(target_os = "linux")]
fn the_slots_of_a_burst_are_returned() {
    const TIMERS: u32 = 20_000;
    fn assert_returned(end: impl FnOnce(&ManualClock, &[TimerHandle])) {
        let (builder, clock) = on_manual_clock();
        let timer = builder.wheel(&[1 << 24]).shards(1).build().unwrap();
        let before = resident();
        let handles: Vec<_> = (1..=TIMERS).map(|at| timer.schedule(at * 800 * MS, || ()).unwrap()).collect();
        // So that the driver links them all.
        timer.schedule(MS, || ()).unwrap();
        clock.advance(MS);
        let taken = resident() - before;
        assert!(taken > 50 * MB, "{taken} bytes");
        end(&clock, &handles);
        drop(handles);
        eventually("nine tenths are returned", || {
            clock.advance(MS);
            thread::sleep(MS);
            resident() - before < taken / 10
        });
    }
    alone(|| {
        assert_returned(|clock, _| clock.advance(TIMERS * 800 * MS));
        assert_returned(|_, handles| assert!(handles.iter().all(TimerHandle::cancel)));
    });
}

/// Lets `percent` of a burst survive, at random positions. Then each survivor is replaced by a new timer, and the
/// memory must shrink.
#[cfg(target_os = "linux")]
fn assert_survivors_are_compacted(percent: usize) {
    const TIMERS: usize = 20 * BURST;
    let timer = Timer::builder().shards(1).build().unwrap();
    let mut random = Rng::with_seed(5);
    let mut handles: Vec<Option<TimerHandle>> = Vec::with_capacity(TIMERS);
    // Touch the pages now, so that they do not count.
    handles.extend((0..TIMERS).map(|_| None));
    let before = resident();
    handles.fill_with(|| Some(timer.schedule(HOUR, || ()).unwrap()));
    for last in (1..TIMERS).rev() {
        handles.swap(last, random.u64(..last as u64 + 1) as usize);
    }
    let (survivors, others) = handles.split_at_mut(TIMERS * percent / 100);
    assert!(others.iter_mut().all(|handle| handle.take().unwrap().cancel()));
    let need = survivors.len() as isize * 64;
    let mut kept = 0;
    eventually("the memory is at most three times what the survivors need", || {
        thread::sleep(REUSE);
        for handle in survivors.iter_mut() {
            let next = timer.schedule(HOUR, || ()).unwrap();
            assert!(handle.replace(next).unwrap().cancel());
            // And a timer that ends at once.
            assert!(timer.schedule(HOUR, || ()).unwrap().cancel());
        }
        kept = resident() - before;
        kept < 3 * need + 2 * MB
    });
    assert_eq!(timer.len(), survivors.len());
}

/// Promise: memory comes back.
#[test]
#[cfg(target_os = "linux")]
fn the_memory_of_a_burst_is_returned_as_its_survivors_are_replaced() {
    alone(|| [1, 5].into_iter().for_each(assert_survivors_are_compacted));
}

/// Promise: memory comes back.
#[test]
#[cfg(target_os = "linux")]
fn a_shutdown_does_not_reclaim_returned_memory() {
    alone(|| {
        let timer = Timer::builder().shards(1).build().unwrap();
        let before = resident();
        let mut handles = Vec::with_capacity(8 * BURST);
        handles.extend((0..8 * BURST).map(|_| timer.schedule(HOUR, || ()).unwrap()));
        assert!(resident() - before > 20 * MB);
        assert!(handles.iter().all(TimerHandle::cancel));
        drop(handles);
        eventually("most of the memory is returned", || resident() - before < 3 * MB);
        timer.schedule(HOUR, || ()).unwrap();
        assert_eq!(timer.shutdown().len(), 1);
        let after = resident() - before;
        assert!(after < 5 * MB, "{after} bytes");
    });
}

/// Has `timers` pending at once, in two shards; half of them are cancelled, half fire. Returns the memory that they
/// take, and how much of it is kept afterwards.
#[cfg(target_os = "linux")]
fn taken_and_kept(timers: usize) -> (isize, isize) {
    let timer = Timer::builder().shards(2).build().unwrap();
    let mut handles: Vec<Option<TimerHandle>> = Vec::with_capacity(timers);
    // Touch the pages now, so that they do not count.
    handles.extend((0..timers).map(|_| None));
    let before = resident();
    thread::scope(|scope| {
        for handles in handles.chunks_mut(timers / 2) {
            let timer = &timer;
            scope.spawn(move || handles.fill_with(|| Some(timer.schedule(HOUR, || ()).unwrap())));
        }
    });
    assert_eq!(timer.len(), timers);
    let taken = resident() - before;
    for (number, handle) in handles.iter().flatten().enumerate() {
        assert!(if number % 2 == 0 { handle.cancel() } else { handle.reset(Duration::ZERO) });
    }
    eventually("all timers have ended", || timer.is_empty());
    handles.fill_with(|| None);
    eventually("nine tenths are returned", || resident() - before < taken / 10);
    assert_eq!((timer.stats().fired, timer.stats().cancelled), (timers as u64 / 2, timers as u64 / 2));
    (taken, resident() - before)
}

#[test]
#[cfg(target_os = "linux")]
fn a_million_pending_timers_take_a_cache_line_each_and_return_it() {
    alone(|| {
        let (taken, _) = taken_and_kept(1_000_000);
        assert!(taken < 80 * 1_000_000, "{taken} bytes");
    });
}

#[test]
#[cfg(target_os = "linux")]
#[ignore = "takes 1 GB"]
fn ten_million_pending_timers_take_a_cache_line_each_and_return_it() {
    alone(|| {
        let (taken, kept) = taken_and_kept(10_000_000);
        println!("{} MB taken, {} MB kept", taken / MB, kept / MB);
        assert!(taken < 80 * 10_000_000, "{taken} bytes");
    });
}

#[test]
fn a_timer_that_is_reset_repeatedly_takes_no_more_memory() {
    alone(|| {
        let (timer, clock) = in_virtual_time();
        let handle = timer.schedule(HOUR, || ()).unwrap();
        let before = allocated();
        for round in 0..100_000_u32 {
            handle.reset((round % 7 + 1) * SEC);
            if round % 1000 == 0 {
                clock.advance(SEC / 2);
            }
        }
        assert!(handle.is_pending());
        assert!(allocated() - before < MB / 10);
    });
}

#[test]
fn a_repeating_timer_takes_no_more_memory_with_every_run() {
    alone(|| {
        let (timer, clock) = in_virtual_time();
        timer.schedule_at_fixed_rate(3 * SEC, 3 * SEC, || ()).unwrap();
        clock.advance(HOUR / 4);
        let before = allocated();
        clock.advance(HOUR);
        assert!(allocated() - before < MB / 10);
        assert_eq!(timer.stats().fired, 1500);
    });
}

#[test]
fn a_dropped_timer_leaves_no_memory() {
    alone(|| {
        let life = |executor: Executor| {
            let timer = Timer::builder().shards(2).max_pending(2 * BURST).executor(executor).build().unwrap();
            let ballast = [7_u8; 200];
            let handles: Vec<_> =
                (0..BURST / 2).map(|_| timer.schedule(HOUR, move || assert_eq!(ballast[0], 7)).unwrap()).collect();
            timer.schedule_at_fixed_rate(HOUR, HOUR, move || assert_eq!(ballast[0], 7)).unwrap();
            (0..100).for_each(|_| drop(timer.schedule(Duration::ZERO, || ()).unwrap()));
            eventually("fired", || timer.stats().fired == 100);
            drop(timer);
            drop(handles);
        };
        let lives = || every_executor().into_iter().for_each(life);
        lives();
        let before = (allocated(), resident());
        lives();
        // The entries alone took four times as much.
        eventually("the memory is freed", || allocated() - before.0 < MB / 2 && resident() - before.1 < 2 * MB);
    });
}

#[test]
fn a_clock_keeps_no_memory_of_dropped_timers() {
    alone(|| {
        let clock = ManualClock::new();
        let life = || {
            let timer = Timer::builder().clock(clock.clone()).shards(4).executor(Executor::Inline).build().unwrap();
            timer.schedule(HOUR, || ()).unwrap();
        };
        let lives = || (0..100).for_each(|_| life());
        lives();
        let before = allocated();
        lives();
        // 400 shards of at least 2 KiB were created. This thread may still refer to those of the last timer.
        eventually("the memory is freed", || allocated() - before < 32 * 1024);
        clock.advance(HOUR);
    });
}

#[test]
fn dropping_the_last_handle_frees_the_rest_of_a_dropped_timer() {
    alone(|| {
        let life = || {
            let timer = Timer::builder().shards(1).build().unwrap();
            let handles: Vec<_> = (0..BURST).map(|_| timer.schedule(HOUR, || ()).unwrap()).collect();
            drop(timer);
            handles.into_iter().nth(BURST / 2).unwrap()
        };
        drop(life());
        let before = resident();
        for _ in 0..10 {
            drop(life());
            let handle = life();
            thread::spawn(move || drop(handle)).join().unwrap();
        }
        // The entries of all timers took 64 MB; the allocator retains some of the rest.
        eventually("the memory is freed", || resident() - before < 20 * MB);
    });
}

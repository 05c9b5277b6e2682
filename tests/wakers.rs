//! Wakers that panic, block, or shut the timer down while they are cloned, called or dropped.
//!
//! Promise: panics stay inside.
#![cfg(feature = "std")]

mod common;

use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};
use std::thread;
use std::time::Duration;

use common::*;
use corewheel::{DelayQueue, Executor, Expired, ManualClock, Sleep, Timer};

/// An action that runs once, if it has been set.
#[derive(Default)]
struct Action(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Action {
    fn set(&self, f: impl FnOnce() + Send + 'static) {
        *self.0.lock().unwrap() = Some(Box::new(f));
    }

    fn run(&self) {
        let f = self.0.lock().unwrap().take();
        if let Some(f) = f {
            f();
        }
    }
}

/// A task whose wakers run an action when they are cloned, called, or dropped without being called.
#[derive(Default)]
struct Task {
    on_clone: Action,
    on_wake: Action,
    on_drop: Action,
    woken: Mutex<usize>,
}

impl Task {
    const VTABLE: RawWakerVTable = RawWakerVTable::new(
        |task| {
            // SAFETY: the pointer of a waker comes from an `Arc`, and the waker owns one count of it.
            unsafe { Arc::increment_strong_count(task.cast::<Task>()) };
            // SAFETY: this takes over the count that was added above.
            let task = unsafe { Arc::from_raw(task.cast::<Task>()) };
            task.on_clone.run();
            RawWaker::new(Arc::into_raw(task).cast(), &Self::VTABLE)
        },
        |task| {
            // SAFETY: as above; the waker ends here, and this takes over its count.
            let task = unsafe { Arc::from_raw(task.cast::<Task>()) };
            *task.woken.lock().unwrap() += 1;
            task.on_wake.run();
        },
        |task| {
            // SAFETY: as above; the waker keeps its count.
            *unsafe { &*task.cast::<Task>() }.woken.lock().unwrap() += 1;
        },
        |task| {
            // SAFETY: as above; the waker ends here, and this takes over its count.
            let task = unsafe { Arc::from_raw(task.cast::<Task>()) };
            task.on_drop.run();
        },
    );

    fn new() -> Arc<Self> {
        Arc::default()
    }

    fn woken(&self) -> usize {
        *self.woken.lock().unwrap()
    }

    /// Polls the sleep from this task, and returns whether it is over.
    fn polls(self: &Arc<Self>, sleep: &mut Sleep) -> bool {
        self.poll(|context| Pin::new(sleep).poll(context)).is_ready()
    }

    fn poll<R>(self: &Arc<Self>, poll: impl FnOnce(&mut Context<'_>) -> R) -> R {
        // SAFETY: the functions of the table expect a pointer to a `Task` inside an `Arc`, and are as thread-safe as
        // that `Arc`. This waker owns no count, so it is never dropped.
        let waker = ManuallyDrop::new(unsafe { Waker::new(Arc::as_ptr(self).cast(), &Self::VTABLE) });
        poll(&mut Context::from_waker(&waker))
    }
}

/// Returns a timer in virtual time with two shards, its clock, and the number of panics that it has reported.
fn reporting() -> (Timer, ManualClock, Arc<AtomicUsize>) {
    let (builder, clock) = on_manual_clock();
    let panics = Arc::new(AtomicUsize::new(0));
    let count = panics.clone();
    let timer = builder.shards(2).on_panic(move |_| _ = count.fetch_add(1, Ordering::SeqCst)).build().unwrap();
    (timer, clock, panics)
}

#[test]
fn a_panic_in_clone_reaches_the_poller_and_changes_nothing() {
    let (timer, clock, panics) = reporting();
    let (good, odd) = (Task::new(), Task::new());
    let panics_when_polled = |sleep: &mut Sleep| {
        odd.on_clone.set(|| quiet_panic("clone"));
        catch_unwind(AssertUnwindSafe(|| odd.polls(sleep))).is_err()
    };
    let (mut unpolled, mut armed) = (timer.sleep(SEC), timer.sleep(SEC));
    assert!(!good.polls(&mut armed));
    assert!(panics_when_polled(&mut unpolled) && panics_when_polled(&mut armed));
    assert_eq!((timer.len(), timer.stats().scheduled), (1, 1));
    assert!(!odd.polls(&mut unpolled));
    clock.advance(SEC);
    assert_eq!((good.woken(), odd.woken()), (1, 1));
    assert!(good.polls(&mut unpolled) && good.polls(&mut armed));
    assert_eq!((panics.load(Ordering::SeqCst), timer.stats().panicked), (0, 0));
    assert_balanced(&timer);
}

#[test]
fn a_panic_in_drop_is_contained() {
    let (timer, clock, panics) = reporting();
    let (good, odd) = (Task::new(), Task::new());
    let mut replaced = timer.sleep(SEC);
    let mut dropped = timer.sleep(SEC);
    assert!(!odd.polls(&mut replaced) && !odd.polls(&mut dropped));
    odd.on_drop.set(|| quiet_panic("replaced"));
    assert!(!good.polls(&mut replaced));
    odd.on_drop.set(|| quiet_panic("dropped"));
    drop(dropped);
    assert_eq!((panics.load(Ordering::SeqCst), Arc::strong_count(&odd)), (2, 1));
    clock.advance(SEC);
    assert_eq!((good.woken(), odd.woken()), (1, 0));
    let stats = timer.stats();
    assert_eq!((stats.completed, stats.cancelled, stats.panicked), (1, 1, 2));
    assert_balanced(&timer);
}

/// Polls a queue from this task, and returns the value that comes out.
fn pops(task: &Arc<Task>, queue: &DelayQueue<u32>) -> Option<u32> {
    match task.poll(|context| queue.poll_pop(context)) {
        Poll::Ready(Some(Expired { value, .. })) => Some(value),
        Poll::Ready(None) => panic!("the timer is not shut down"),
        Poll::Pending => None,
    }
}

/// Promise: delay queues.
#[test]
fn a_panic_in_the_drop_of_a_consumers_waker_loses_no_value() {
    let (timer, clock, panics) = reporting();
    let (good, odd) = (Task::new(), Task::new());
    let queue = DelayQueue::new(&timer);
    let consumer = queue.clone();
    assert_eq!((pops(&good, &queue), pops(&odd, &consumer)), (None, None));
    odd.on_drop.set(|| quiet_panic("replaced"));
    assert_eq!(pops(&odd, &consumer), None);
    queue.push(SEC, 7).unwrap();
    clock.advance(SEC);
    assert_eq!((good.woken(), odd.woken()), (1, 0));
    odd.on_drop.set(|| quiet_panic("not needed any more"));
    assert_eq!((pops(&odd, &consumer), queue.len()), (Some(7), 0));
    assert_eq!(pops(&odd, &consumer), None);
    odd.on_drop.set(|| quiet_panic("dropped"));
    drop(consumer);
    assert_eq!((panics.load(Ordering::SeqCst), timer.stats().panicked, Arc::strong_count(&odd)), (3, 3, 1));
}

/// Promise: delay queues.
#[test]
fn a_consumers_waker_may_use_the_queue_when_it_is_dropped() {
    let popped = in_time("the poll returns", || {
        let (timer, clock, _) = reporting();
        let queue = DelayQueue::new(&timer);
        let task = Task::new();
        queue.push(SEC, 7).unwrap();
        clock.advance(SEC);
        let inside = queue.clone();
        task.on_drop.set(move || assert!(inside.try_pop().is_none()));
        pops(&task, &queue)
    });
    assert_eq!(popped, Some(7));
}

#[test]
fn a_panic_of_a_waker_at_the_shutdown_is_contained() {
    let (timer, _clock, panics) = reporting();
    let (good, odd) = (Task::new(), Task::new());
    let mut sleeps = [(); 3].map(|()| timer.sleep(SEC));
    odd.on_wake.set(|| quiet_panic("wake"));
    for (sleep, task) in std::iter::zip(&mut sleeps, [&good, &odd, &good]) {
        assert!(!task.polls(sleep));
    }
    assert_eq!(timer.shutdown().len(), 0);
    assert_eq!((good.woken(), odd.woken(), panics.load(Ordering::SeqCst)), (2, 1, 1));
    assert!(sleeps.iter().all(Sleep::is_shutdown));
    assert_balanced(&timer);
}

/// Ways to end the service: by its last clone, or by a shutdown.
fn ends_of_service() -> [fn(Timer); 2] {
    [drop, |timer| drop(timer.shutdown())]
}

#[test]
fn a_waker_may_end_the_service_where_it_is_called() {
    for end in ends_of_service() {
        let (timer, clock, panics) = reporting();
        let weak = timer.downgrade();
        let good = Task::new();
        let odd = Task::new();
        let mut first = timer.sleep(SEC);
        let mut second = timer.sleep(HOUR);
        assert!(!odd.polls(&mut first) && !good.polls(&mut second));
        timer.schedule(HOUR, || ()).unwrap();
        odd.on_wake.set(move || end(timer));
        in_time("the service ends in a waker", move || clock.advance(2 * SEC));
        assert!(weak.upgrade().is_none());
        assert_eq!((odd.woken(), good.woken(), panics.load(Ordering::SeqCst)), (1, 1, 0));
        assert!(good.polls(&mut first) && good.polls(&mut second));
        assert!(!first.is_shutdown() && second.is_shutdown());
    }
}

#[test]
fn a_waker_may_end_the_service_where_it_is_dropped() {
    for end in ends_of_service() {
        for replaced in [false, true] {
            let (timer, _clock, panics) = reporting();
            let weak = timer.downgrade();
            let good = Task::new();
            let odd = Task::new();
            let mut first = timer.sleep(SEC);
            let mut second = timer.sleep(HOUR);
            assert!(!odd.polls(&mut first) && !good.polls(&mut second));
            odd.on_drop.set(move || end(timer));
            in_time("the service ends in a waker", move || {
                if replaced {
                    assert!(Task::new().polls(&mut first) && first.is_shutdown());
                }
            });
            assert!(weak.upgrade().is_none());
            assert_eq!((odd.woken(), good.woken(), panics.load(Ordering::SeqCst)), (0, 1, 0));
            assert!(good.polls(&mut second) && second.is_shutdown());
        }
    }
}

/// A shutdown wakes the sleeps one after the other. The first waker resets the other sleep, whose timer the shutdown
/// has not taken yet.
#[test]
fn a_waker_may_reset_another_sleep_during_a_shutdown() {
    for polled in [false, true] {
        let (builder, _clock) = on_manual_clock();
        let timer = builder.shards(1).build().unwrap();
        let tasks = [Task::new(), Task::new()];
        let late = Task::new();
        let sleeps = [(); 2].map(|()| Arc::new(Mutex::new(timer.sleep(SEC))));
        for (index, task) in tasks.iter().enumerate() {
            assert!(!task.polls(&mut sleeps[index].lock().unwrap()));
            let other = sleeps[1 - index].clone();
            let late = late.clone();
            task.on_wake.set(move || {
                let mut other = other.lock().unwrap();
                Pin::new(&mut *other).reset_after(HOUR);
                assert!(!polled || !late.polls(&mut other));
            });
        }
        assert_eq!(timer.shutdown().len(), 0);
        assert_eq!((tasks[0].woken(), tasks[1].woken()), (1, 1));
        assert!(sleeps.iter().all(|sleep| sleep.lock().unwrap().is_shutdown()));
        drop(sleeps);
        assert_eq!(late.woken(), 0, "a sleep that was reset during the shutdown woke its task");
        for task in tasks.iter().chain([&late]) {
            assert_eq!(Arc::strong_count(task), 1);
        }
        assert_balanced(&timer);
    }
}

/// A poll after the deadline ends the timer itself if the driver is late, and drops its waker.
#[test]
fn a_waker_may_end_the_service_where_a_poll_ends_its_timer() {
    let panics = Arc::new(AtomicUsize::new(0));
    let count = panics.clone();
    let builder = Timer::builder().shards(1).executor(Executor::Inline);
    let timer = builder.on_panic(move |_| _ = count.fetch_add(1, Ordering::SeqCst)).build().unwrap();
    let gate = Gate::default();
    block(&timer, 1, &gate);
    let good = Task::new();
    let odd = Task::new();
    let mut sleep = timer.sleep(HOUR);
    assert!(!odd.polls(&mut sleep));
    Pin::new(&mut sleep).reset(timer.now());
    let ends = timer.clone();
    odd.on_drop.set(move || {
        gate.open();
        assert_eq!(ends.shutdown().len(), 0);
        quiet_panic("dropped");
    });
    let (ready, sleep) = in_time("the service ends in a waker", move || (good.polls(&mut sleep), sleep));
    assert!(ready && sleep.is_elapsed() && !sleep.is_shutdown());
    let stats = timer.stats();
    assert_eq!((stats.fired, stats.completed, odd.woken(), panics.load(Ordering::SeqCst)), (1, 2, 0, 1));
    assert_eq!(Arc::strong_count(&odd), 1);
    assert_balanced(&timer);
}

/// The service ends during the poll, so the tick that was polled for is not due.
#[cfg(feature = "futures-core")]
#[test]
fn a_waker_may_end_the_service_where_a_stream_is_polled() {
    let (timer, clock) = in_virtual_time();
    let task = Task::new();
    let mut interval = timer.interval_at(clock.now() + SEC, SEC);
    task.on_clone.set(move || drop(timer.shutdown()));
    let tick = task.poll(|context| futures::Stream::poll_next(Pin::new(&mut interval), context));
    assert_eq!(tick, std::task::Poll::Ready(None));
}

#[test]
fn a_panic_after_the_end_of_the_service_is_contained() {
    for end in ends_of_service() {
        let (timer, _clock, _) = reporting();
        let weak = timer.downgrade();
        let odd = Task::new();
        let mut sleep = timer.sleep(SEC);
        assert!(!odd.polls(&mut sleep));
        odd.on_drop.set(move || {
            end(timer);
            quiet_panic("after the end of the service");
        });
        in_time("the service ends in a waker", move || drop(sleep));
        assert_eq!((weak.upgrade().is_none(), Arc::strong_count(&odd)), (true, 1));
    }
}

/// The service ends during the poll: when the new waker is cloned, or when the previous one is dropped.
#[test]
fn a_waker_that_is_registered_too_late_is_dropped_and_may_panic() {
    for renewed in [false, true] {
        let (timer, _clock, panics) = reporting();
        let (before, late) = (Task::new(), Task::new());
        let mut sleep = timer.sleep(SEC);
        let shuts_down = {
            let timer = timer.clone();
            move || drop(timer.shutdown())
        };
        if renewed {
            assert!(!before.polls(&mut sleep));
            before.on_drop.set(shuts_down);
        } else {
            late.on_clone.set(shuts_down);
        }
        late.on_drop.set(|| quiet_panic("late"));
        assert!(late.polls(&mut sleep) && sleep.is_shutdown());
        assert_eq!((Arc::strong_count(&late), Arc::strong_count(&before)), (1, 1));
        let stats = timer.stats();
        assert_eq!((panics.load(Ordering::SeqCst), stats.panicked), (1, 1));
        assert_eq!((stats.scheduled, stats.completed), (renewed.into(), renewed.into()));
        assert_balanced(&timer);
    }
}

/// Pinned shards have a thread each. One thread drives all folded ones.
/// Promise: no starvation by a neighbour.
#[test]
fn a_waker_that_blocks_delays_what_its_thread_drives_until_it_returns() {
    for (executor, is_folded) in
        [(Executor::Inline, true), (Executor::Inline, false), (Executor::Pool { threads: 1 }, true)]
    {
        let timer = Timer::builder().shards(2).executor(executor).pin_cores(!is_folded).build().unwrap();
        let gate = Gate::default();
        let begun = Gate::default();
        let odd = Task::new();
        let (pass, begin) = (gate.clone(), begun.clone());
        odd.on_wake.set(move || {
            begin.open();
            pass.pass();
        });
        let at = timer.now() + SEC / 4;
        let late = Task::new();
        // The second is due in the same turn, the third in another.
        let [mut blocks, mut together, mut delayed] = [at, at, at + 5 * MS].map(|at| timer.sleep_until(at));
        assert!(!odd.polls(&mut blocks) && !late.polls(&mut together) && !late.polls(&mut delayed));
        begun.pass();
        let elsewhere = Task::new();
        let arm = || {
            // A new thread has its home in the other shard.
            let mut sleep = timer.sleep(5 * MS);
            assert!(!elsewhere.polls(&mut sleep));
            sleep
        };
        let _elsewhere = thread::scope(|scope| scope.spawn(arm).join().unwrap());
        if is_folded {
            thread::sleep(50 * MS);
            assert_eq!(elsewhere.woken(), 0);
        } else {
            eventually("the other shard is not delayed", || elsewhere.woken() == 1);
        }
        gate.open();
        eventually("all are woken", || late.woken() == 2 && elsewhere.woken() == 1);
    }
}

/// A pool has the callbacks before wakers are called. A driver runs callbacks itself after the wakers.
#[test]
fn a_waker_and_a_callback_of_one_turn_may_wait_for_each_other() {
    for (executor, waker_waits) in [(Executor::Pool { threads: 1 }, true), (Executor::Inline, false)] {
        let timer = Timer::builder().shards(1).executor(executor).build().unwrap();
        let gate = Gate::default();
        let task = Task::new();
        let at = timer.now() + 20 * MS;
        let (opens, passes) = (gate.clone(), gate.clone());
        let opens = move || opens.open();
        let passes = move || passes.pass();
        let mut sleep = timer.sleep_until(at);
        if waker_waits {
            task.on_wake.set(passes);
            timer.schedule_at(at, opens).unwrap();
        } else {
            task.on_wake.set(opens);
            timer.schedule_at(at, passes).unwrap();
        }
        assert!(!task.polls(&mut sleep));
        gate.pass();
        eventually("both have ended", || timer.stats().completed == 2);
        assert_eq!(timer.stats().panicked, 0);
    }
}

/// The thread of the second shard calls the waker that blocks. The leader checks the pool.
/// Promise: no starvation by a neighbour.
#[test]
fn a_waker_that_blocks_delays_no_callback_of_another_pinned_shard() {
    for _ in 0..3 {
        let builder = Timer::builder().shards(2).pin_cores(true).executor(Executor::Pool { threads: 2 });
        let timer = builder.build().unwrap();
        let gate = Gate::default();
        let odd = Task::new();
        let at = timer.now() + 20 * MS;
        let pass = gate.clone();
        let (sender, receiver) = channel();
        odd.on_wake.set(move || pass.pass());
        // Of two callbacks that are due together, each waits for the other.
        let meeting = [Gate::default(), Gate::default()];
        let meet = |mine: usize| {
            let (meeting, sender) = (meeting.clone(), sender.clone());
            let meet = move || {
                meeting[mine].open();
                meeting[1 - mine].pass();
                sender.send(()).unwrap();
            };
            timer.schedule_at(at + MS, meet).unwrap();
        };
        // This thread's home is the first shard.
        (0..2).for_each(meet);
        let elsewhere = || {
            let mut blocks = timer.sleep_until(at);
            assert!(!odd.polls(&mut blocks));
            blocks
        };
        let _blocks = thread::scope(|scope| scope.spawn(elsewhere).join().unwrap());
        (0..2).for_each(|_| wait_for(&receiver));
        gate.open();
    }
}

/// The clock advances after the poll has read it and before the timer is armed, by nearly all of virtual time.
#[test]
fn a_waker_that_advances_the_clock_by_decades_loses_no_sleep() {
    const TICK: Duration = Duration::from_micros(1);
    const JUMP: Duration = Duration::from_micros((1 << 48) - 10);
    for dropped in [false, true] {
        let (builder, clock) = on_manual_clock();
        let timer = builder.tick(TICK).shards(1).executor(Executor::Inline).build().unwrap();
        let mut sleep = timer.sleep(5 * TICK);
        let (first, second) = (Task::new(), Task::new());
        let moves = clock.clone();
        let jump = move || moves.advance(JUMP);
        if dropped {
            first.on_drop.set(jump);
            assert!(!first.polls(&mut sleep));
        } else {
            second.on_clone.set(jump);
        }
        assert!(!second.polls(&mut sleep));
        clock.advance(Duration::ZERO);
        assert_eq!((first.woken(), second.woken()), (0, 1));
        assert!(second.polls(&mut sleep));
    }
}

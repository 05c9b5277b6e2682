//! Delay queues: what comes out, when, to whom, and how it is counted.
#![cfg(feature = "std")]

mod common;

use std::collections::HashSet;
use std::future::poll_fn;
use std::num::NonZeroU32;
use std::panic::{self, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use common::*;
use corewheel::{DelayKey, DelayQueue, Executor, Expired, ManualClock, Timer, TimerHandle};
use fastrand::Rng;

/// The waker of a task that calls a function.
struct WakeFn<F>(F);

impl<F: Fn() + Send + Sync> Wake for WakeFn<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

/// Polls the queue for a task.
fn poll<T: Send>(queue: &DelayQueue<T>, task: &Arc<Task>) -> Poll<Option<T>> {
    queue.poll_pop(&mut Context::from_waker(&Waker::from(task.clone()))).map(|due| due.map(|due| due.value))
}

/// Returns the values that are due.
fn drain<T: Send>(queue: &DelayQueue<T>) -> Vec<T> {
    std::iter::from_fn(|| queue.try_pop()).map(|due| due.value).collect()
}

/// Returns a queue of a timer in virtual time.
fn queue<T: Send>() -> (DelayQueue<T>, Timer, ManualClock) {
    let (timer, clock) = in_virtual_time();
    (DelayQueue::new(&timer), timer, clock)
}

/// Starts threads that block in `pop` until the queue is over, and returns what each received.
fn consumers<T: Send>(queue: &DelayQueue<T>, threads: usize) -> Vec<thread::JoinHandle<Vec<T>>> {
    let consume = |queue: DelayQueue<T>| std::iter::from_fn(|| queue.pop()).map(|due| due.value).collect();
    (0..threads).map(|_| queue.clone()).map(|queue| thread::spawn(move || consume(queue))).collect()
}

/// Promise: delay queues.
#[test]
fn values_come_out_in_the_order_of_their_deadlines_and_not_before() {
    let (queue, timer, clock) = queue();
    for (secs, value) in [(3, 'c'), (1, 'a'), (2, 'b'), (7200, 'd')] {
        queue.push(secs * SEC, value).unwrap();
    }
    assert_eq!((queue.len(), timer.len()), (4, 4));
    clock.advance(SEC - MS);
    assert!(queue.try_pop().is_none(), "never early");
    clock.advance(MS);
    assert_eq!((drain(&queue), queue.len(), timer.len()), (vec!['a'], 3, 3));
    clock.advance(HOUR);
    assert_eq!(drain(&queue), ['b', 'c']);
    clock.advance(HOUR);
    assert_eq!((drain(&queue), queue.is_empty()), (vec!['d'], true));
}

#[test]
fn many_values_come_out_in_the_order_of_their_ticks() {
    let (queue, _timer, clock) = queue();
    let mut random = Rng::with_seed(7);
    for number in 0..5000 {
        let delay = random.u64(..2000) as u32;
        let key = queue.push(delay * MS, (delay, number)).unwrap();
        if random.u64(..3) == 0 {
            assert_eq!(key.remove(), Some((delay, number)));
        }
    }
    clock.advance(3 * SEC);
    let out = drain(&queue);
    assert!(out.len() > 3000 && out.is_sorted_by_key(|&(delay, _)| delay), "{} values", out.len());
}

#[test]
fn a_value_reports_the_deadline_that_it_was_given() {
    let (builder, clock) = on_manual_clock();
    let timer = builder.shards(1).build().unwrap();
    let queue = DelayQueue::new(&timer);
    let odd = Duration::from_micros(10_300);
    let start = clock.now();
    let reset = queue.push(HOUR, "reset").unwrap();
    let earlier = queue.push(2 * odd, "earlier").unwrap();
    assert_eq!(reset.deadline(), Some(start + HOUR));
    assert!(reset.reset(odd + 2 * MS) && earlier.reset(odd));
    queue.push(odd, "delay").unwrap();
    queue.push_at(start + odd + MS, "instant").unwrap();
    clock.advance(20 * MS);
    let mut out: Vec<_> = std::iter::from_fn(|| queue.try_pop()).map(|due| (due.value, due.deadline - start)).collect();
    out.sort();
    let expected = [("delay", odd), ("earlier", odd), ("instant", odd + MS), ("reset", odd + 2 * MS)];
    assert_eq!(out, expected);
    assert_eq!((reset.deadline(), earlier.deadline()), (None, None));
}

#[test]
fn what_is_overdue_when_it_is_pushed_is_due_at_once() {
    let timer = Timer::new().unwrap();
    let queue = DelayQueue::new(&timer);
    let past = Instant::now() - 10 * MS;
    queue.push_at(past, "past").unwrap();
    let due = queue.pop_timeout(TIMEOUT).unwrap();
    assert_eq!((due.value, due.deadline), ("past", past));
    queue.push(Duration::ZERO, "now").unwrap();
    assert_eq!(queue.pop_timeout(TIMEOUT).unwrap().value, "now");
    let (virtual_queue, _timer, _clock) = self::queue();
    virtual_queue.push(Duration::ZERO, "now").unwrap();
    assert_eq!(virtual_queue.pop_timeout(TIMEOUT).unwrap().value, "now", "without an advance");
}

#[test]
fn a_delay_too_long_to_represent_is_never() {
    let (queue, timer, clock) = queue();
    let never = queue.push(Duration::MAX, ()).unwrap();
    assert!(never.deadline().unwrap() > timer.now() + 30 * YEAR);
    clock.advance(200 * YEAR);
    assert!(queue.try_pop().is_none());
    assert!(never.reset(SEC));
    clock.advance(SEC);
    assert!(queue.try_pop().is_some());
}

#[test]
fn a_key_removes_its_value_once_before_and_after_it_is_due() {
    let (queue, timer, clock) = queue();
    let (waits, due, popped) =
        (queue.push(2 * SEC, 1).unwrap(), queue.push(SEC, 2).unwrap(), queue.push(SEC / 2, 3).unwrap());
    clock.advance(SEC);
    assert_eq!(queue.try_pop().map(|due| due.value), Some(3));
    assert_eq!((popped.remove(), due.remove(), waits.remove()), (None, Some(2), Some(1)));
    assert_eq!((queue.len(), timer.len(), queue.try_pop()), (0, 0, None));
    clock.advance(2 * SEC);
    assert!(queue.try_pop().is_none());
    let stats = timer.stats();
    assert_eq!((stats.scheduled, stats.fired, stats.completed, stats.cancelled), (3, 2, 2, 1));
    assert_balanced(&timer);
}

#[test]
fn a_reset_moves_what_is_not_due_and_nothing_else() {
    let (queue, timer, clock) = queue();
    let (later, earlier, due) =
        (queue.push(SEC, "later").unwrap(), queue.push(HOUR, "earlier").unwrap(), queue.push(MS, "due").unwrap());
    assert!(later.reset(3 * SEC) && earlier.reset(2 * SEC));
    clock.advance(MS);
    assert!(!due.reset(SEC), "it is due");
    clock.advance(2 * SEC - MS);
    assert_eq!(drain(&queue), ["due", "earlier"]);
    clock.advance(SEC);
    assert_eq!(drain(&queue), ["later"]);
    assert!(!later.reset(SEC), "it has come out");
    assert_eq!(timer.stats().resets, 2);
}

#[test]
fn the_next_deadline_is_that_of_the_value_that_is_due_first() {
    let (queue, timer, clock) = queue();
    let start = clock.now();
    assert_eq!((queue.now(), queue.next_deadline()), (start, None));
    clock.advance(MS / 3);
    assert_eq!(queue.now(), clock.now());
    // Neither an instant of a tick, nor rounded to one.
    let exact = queue.now() + SEC + Duration::from_nanos(7);
    let first = queue.push_at(exact, "first").unwrap();
    let later = queue.push(HOUR, "later").unwrap();
    queue.push(Duration::MAX, "never").unwrap().remove();
    assert_eq!(queue.next_deadline(), Some(exact));
    assert!(later.reset_at(exact - MS / 7));
    assert_eq!(queue.next_deadline(), Some(exact - MS / 7));
    assert!(later.reset(HOUR));
    assert_eq!(queue.next_deadline(), Some(exact), "a reset to later counts, too");
    clock.advance(2 * SEC);
    assert_eq!(queue.next_deadline(), Some(exact), "it is due, and still in the queue");
    let past = start - SEC;
    queue.push_at(past, "past").unwrap();
    assert_eq!(queue.next_deadline(), Some(past));
    clock.advance(Duration::ZERO);
    assert_eq!(queue.next_deadline(), Some(past));
    let deadlines = [(); 2].map(|()| {
        let (next, popped) = (queue.next_deadline(), queue.try_pop().unwrap());
        (popped.value, next.unwrap())
    });
    assert_eq!(deadlines, [("first", past), ("past", past)], "in the order in which they became due");
    assert_eq!(first.remove(), None);
    assert_eq!(queue.next_deadline(), later.deadline());
    let left = later.deadline();
    timer.shutdown();
    assert_eq!(queue.next_deadline(), left, "a shutdown leaves it in the queue");
    assert_eq!(later.remove(), Some("later"));
    assert_eq!(queue.next_deadline(), None);
}

/// A random program, whose values a list in the test has, too.
#[test]
fn the_next_deadline_is_exact_in_real_time() {
    let timer = Timer::new().unwrap();
    let queue = DelayQueue::new(&timer);
    let mut random = Rng::with_seed(7);
    let mut values: Vec<(Instant, DelayKey<u64>)> = Vec::new();
    for value in 0..2000 {
        let deadline = queue.now() + HOUR + Duration::from_nanos(random.u64(..1 << 40));
        let chosen = random.usize(..=values.len());
        match (random.u64(..4), values.get_mut(chosen)) {
            (0, Some((old, key))) => {
                assert!(key.reset_at(deadline));
                *old = deadline;
            }
            (1, Some(_)) => assert!(values.swap_remove(chosen).1.remove().is_some()),
            _ => values.push((deadline, queue.push_at(deadline, value).unwrap())),
        }
        assert_eq!(queue.next_deadline(), values.iter().map(|&(deadline, _)| deadline).min());
    }
}

#[test]
fn a_reset_to_an_instant_moves_what_is_not_due() {
    let (queue, timer, clock) = queue();
    let start = clock.now();
    let (later, earlier) = (queue.push(SEC, "later").unwrap(), queue.push(HOUR, "earlier").unwrap());
    assert!(later.reset_at(start + 3 * SEC) && earlier.reset_at(start + 2 * SEC));
    assert_eq!([&later, &earlier].map(|key| key.deadline()), [Some(start + 3 * SEC), Some(start + 2 * SEC)]);
    clock.advance(2 * SEC);
    assert_eq!(drain(&queue), ["earlier"]);
    assert!(!earlier.reset_at(start + HOUR), "it has come out");
    assert!(later.reset_at(start), "a deadline that has passed is now");
    clock.advance(MS);
    assert_eq!(drain(&queue), ["later"]);
    let left = queue.push(SEC, "left").unwrap();
    timer.shutdown();
    assert!(!left.reset_at(start + HOUR), "the timer is shut down");
    assert_eq!(left.remove(), Some("left"));
}

/// Promise: delay queues.
#[test]
fn a_value_counts_as_a_one_shot_until_it_is_due() {
    let (builder, clock) = on_manual_clock();
    let timer = builder.shards(1).max_pending(2).build().unwrap();
    let queue = DelayQueue::new(&timer);
    queue.push(SEC, 1).unwrap();
    let second = queue.push(2 * SEC, 2).unwrap();
    let refused = queue.push(SEC, 3).unwrap_err();
    assert!(refused.is_full() && refused.into_inner() == 3);
    assert!(timer.schedule(SEC, || ()).unwrap_err().is_full(), "the limit is that of the timer");
    assert_eq!((queue.len(), timer.len(), timer.stats().rejected), (2, 2, 2));
    clock.advance(SEC);
    assert_eq!((queue.len(), timer.len()), (2, 1), "what is due counts in the queue alone");
    queue.push(SEC, 4).unwrap();
    assert_eq!(second.remove(), Some(2));
    queue.push(SEC, 5).unwrap();
    clock.advance(SEC);
    let mut out = drain(&queue);
    out.sort_unstable();
    assert_eq!(out, [1, 4, 5], "those of one tick in any order");
    let stats = timer.stats();
    assert_eq!((stats.scheduled, stats.fired, stats.completed, stats.cancelled), (4, 3, 3, 1));
    assert_eq!((stats.lateness.count(), stats.pending), (3, 0));
    assert_balanced(&timer);
}

/// Promise: delay queues.
#[test]
fn values_do_not_pass_through_the_executor() {
    let jobs = HeldJobs::default();
    let (builder, clock) = on_manual_clock();
    let timer = builder.executor(jobs.executor()).build().unwrap();
    let queue = DelayQueue::new(&timer);
    queue.push(SEC, "due").unwrap();
    // It would wait for a job of the executor.
    in_time("advance", move || clock.advance(SEC));
    assert_eq!((drain(&queue), jobs.len()), (vec!["due"], 0));
    let timer = Timer::builder().executor(Executor::Pool { threads: 1 }).max_extra_threads(0).build().unwrap();
    let queue = DelayQueue::new(&timer);
    let gate = Gate::default();
    block(&timer, 1, &gate);
    queue.push(MS, "beside a blocked worker").unwrap();
    assert!(queue.pop_timeout(TIMEOUT).is_some());
    gate.open();
}

#[test]
fn a_blocked_consumer_is_woken_when_a_value_is_due() {
    let (queue, timer, clock) = queue();
    let consumer = consumers(&queue, 1).pop().unwrap();
    thread::sleep(10 * MS);
    for value in 0..3 {
        queue.push(SEC, value).unwrap();
        clock.advance(SEC);
        eventually("all values come out", || queue.is_empty());
    }
    timer.shutdown();
    assert_eq!(consumer.join().unwrap(), [0, 1, 2]);
}

#[test]
fn pop_timeout_waits_for_its_limit() {
    let timer = Timer::new().unwrap();
    let queue = DelayQueue::new(&timer);
    let start = Instant::now();
    assert!(queue.pop_timeout(20 * MS).is_none() && start.elapsed() >= 20 * MS);
    let key = queue.push(20 * MS, 7).unwrap();
    assert!(queue.pop_timeout(MS).is_none(), "it is not due");
    let due = queue.pop_timeout(Duration::MAX).unwrap();
    assert!(due.value == 7 && Instant::now() >= due.deadline && due.deadline >= start + 40 * MS);
    assert_eq!(key.remove(), None);
}

#[test]
fn pop_timeout_looks_once_more_at_its_limit() {
    let timer = Timer::new().unwrap();
    let queue = DelayQueue::new(&timer);
    let idle_task = Task::new();
    let idle = queue.clone();
    assert_eq!(poll(&idle, &idle_task), Poll::Pending);
    let _key = queue.push(10 * MS, 7).unwrap();
    assert_eq!(queue.pop_timeout(SEC).map(|due| due.value), Some(7));
    assert_eq!(idle_task.woken(), 1, "it ignores its wake-up");
}

/// Promise: delay queues.
#[test]
fn values_are_never_early_by_the_system_clock_and_each_comes_out_once() {
    let timer = Timer::builder().shards(2).build().unwrap();
    let queue = DelayQueue::new(&timer);
    let consumers: Vec<_> = (0..3)
        .map(|_| queue.clone())
        .map(|queue| {
            thread::spawn(move || {
                let mut received = Vec::new();
                while let Some(Expired { deadline, value: (asked, number), .. }) = queue.pop() {
                    let now = Instant::now();
                    assert!(now >= deadline && now >= asked, "{number} is early");
                    received.push(number);
                }
                received
            })
        })
        .collect();
    thread::scope(|scope| {
        for producer in 0..2_u64 {
            let queue = &queue;
            scope.spawn(move || {
                let mut random = Rng::with_seed(producer);
                for number in 0..2000 {
                    let delay = Duration::from_micros(random.u64(..30_000));
                    queue.push(delay, (Instant::now() + delay, producer * 2000 + number)).unwrap();
                }
            });
        }
    });
    eventually("all values come out", || queue.is_empty());
    timer.shutdown();
    let received: Vec<_> = consumers.into_iter().flat_map(|consumer| consumer.join().unwrap()).collect();
    assert_eq!((received.len(), received.iter().collect::<HashSet<_>>().len()), (4000, 4000));
    assert_balanced(&timer);
}

/// Promise: delay queues.
#[test]
fn one_task_is_woken_for_each_value_in_turn() {
    let (queue, _timer, clock) = queue();
    let clones: Vec<_> = (0..4).map(|_| queue.clone()).collect();
    let tasks: Vec<_> = (0..4).map(|_| Task::new()).collect();
    for (queue, task) in clones.iter().zip(&tasks) {
        assert_eq!(poll(queue, task), Poll::Pending);
    }
    let woken = || tasks.iter().map(|task| task.woken()).collect::<Vec<_>>();
    queue.push(SEC - MS, 1).unwrap();
    queue.push(SEC, 2).unwrap();
    clock.advance(SEC);
    assert_eq!(woken(), [1, 1, 0, 0]);
    assert_eq!(poll(&clones[1], &tasks[1]), Poll::Ready(Some(1)));
    assert_eq!(poll(&clones[0], &tasks[0]), Poll::Ready(Some(2)));
    queue.push(SEC, 3).unwrap();
    clock.advance(SEC);
    assert_eq!(woken(), [1, 1, 1, 0]);
    // A consumer that does not wait takes it. The one that was woken waits again.
    assert_eq!(drain(&queue), [3]);
    assert_eq!(poll(&clones[2], &tasks[2]), Poll::Pending);
    queue.push(SEC, 4).unwrap();
    queue.push(SEC, 5).unwrap();
    clock.advance(SEC);
    assert_eq!(woken(), [1, 1, 2, 1]);
}

/// Promise: delay queues.
#[test]
fn a_woken_consumer_that_goes_away_passes_the_wake_up_on() {
    let (queue, _timer, clock) = queue();
    let tasks: Vec<_> = (0..3).map(|_| Task::new()).collect();
    let mut clones: Vec<_> = tasks
        .iter()
        .map(|task| {
            let clone = queue.clone();
            assert_eq!(poll(&clone, task), Poll::Pending);
            clone
        })
        .collect();
    queue.push(SEC, "due").unwrap();
    drop(clones.remove(1));
    clock.advance(SEC);
    let woken = || tasks.iter().map(|task| task.woken()).collect::<Vec<_>>();
    assert_eq!(woken(), [1, 0, 0]);
    drop(clones.remove(0));
    assert_eq!(woken(), [1, 0, 1], "one that has gone away is not woken");
    assert_eq!(poll(&clones[0], &tasks[2]), Poll::Ready(Some("due")));
    // Nothing is left to be passed on.
    assert_eq!(poll(&queue, &tasks[0]), Poll::Pending);
    drop(clones);
    assert_eq!(woken(), [1, 0, 1]);
}

#[test]
fn a_consumer_that_ignores_its_wake_up_keeps_later_values_from_nobody() {
    let (queue, _timer, clock) = queue();
    let (idle, active) = (queue.clone(), queue.clone());
    let (idle_task, active_task) = (Task::new(), Task::new());
    assert_eq!(poll(&idle, &idle_task), Poll::Pending);
    queue.push(SEC, 0).unwrap();
    clock.advance(SEC);
    assert_eq!((idle_task.woken(), poll(&active, &active_task)), (1, Poll::Ready(Some(0))));
    for value in 1..4 {
        assert_eq!(poll(&active, &active_task), Poll::Pending);
        queue.push(SEC, value).unwrap();
        clock.advance(SEC);
        assert_eq!(active_task.woken(), value, "it is the only one that waits");
        assert_eq!(poll(&active, &active_task), Poll::Ready(Some(value)));
    }
}

#[test]
fn the_waker_of_the_last_poll_is_called() {
    let (queue, _timer, clock) = queue();
    let (old, new) = (Task::new(), Task::new());
    assert_eq!((poll(&queue, &old), poll(&queue, &new)), (Poll::Pending, Poll::Pending));
    assert_eq!(Arc::strong_count(&old), 1, "its waker is dropped");
    queue.push(SEC, ()).unwrap();
    clock.advance(SEC);
    assert_eq!((old.woken(), new.woken()), (0, 1));
}

#[test]
fn a_loop_over_values_gives_way_to_other_tasks() {
    let (queue, _timer, clock) = queue();
    let task = Task::new();
    (0..300).for_each(|value| _ = queue.push(SEC, value).unwrap());
    clock.advance(SEC);
    let (mut out, mut pauses) = (0, 0);
    while out < 300 {
        match poll(&queue, &task) {
            Poll::Ready(value) => out += usize::from(value.is_some()),
            Poll::Pending => pauses += 1,
        }
        assert_eq!(task.woken(), pauses, "a pause wakes its task");
    }
    assert!((2..=3).contains(&pauses), "{pauses} pauses");
}

/// A task that takes from whichever queue has a value first is pending once both give way.
/// Promise: no loop over timers keeps its executor.
#[test]
fn a_loop_over_two_queues_gives_way_to_other_tasks() {
    let ((one, _timer, clock), (two, _other, other_clock)) = (queue(), queue());
    (0..3000).for_each(|value| _ = (one.push(SEC, value).unwrap(), two.push(SEC, value).unwrap()));
    clock.advance(SEC);
    other_clock.advance(SEC);
    let task = Task::new();
    let (mut out, mut pauses) = (0, 0);
    while out < 3000 {
        match (poll(&one, &task), poll(&two, &task)) {
            (Poll::Pending, Poll::Pending) => pauses += 1,
            _ => out += 1,
        }
    }
    assert!(pauses > 5, "{pauses} pauses");
}

#[test]
fn a_loop_over_a_queue_that_is_over_gives_way_to_other_tasks() {
    let (queue, timer, _clock) = queue::<()>();
    timer.shutdown();
    let task = Task::new();
    let polls: Vec<_> = (0..1000).map(|_| poll(&queue, &task)).collect();
    let pauses = polls.iter().filter(|poll| poll.is_pending()).count();
    assert!((5..10).contains(&pauses), "{pauses} pauses");
    assert!(polls.iter().all(|poll| matches!(poll, Poll::Pending | Poll::Ready(None))));
}

#[cfg(feature = "futures-core")]
#[test]
fn two_streams_that_are_merged_give_way_to_other_tasks() {
    use futures::StreamExt;
    let (queue, timer, clock) = queue();
    (0..1000).for_each(|value| _ = queue.push(SEC, value).unwrap());
    let ticks = timer.interval(SEC / 1000);
    clock.advance(SEC);
    let mut merged = futures::stream::select(queue.map(drop), ticks.map(drop));
    let task = Task::new();
    let waker = Waker::from(task);
    let mut polls = (0..1500).map(|_| merged.poll_next_unpin(&mut Context::from_waker(&waker)));
    let pauses = polls.by_ref().filter(|poll| poll.is_pending()).count();
    assert!(pauses > 5, "{pauses} pauses");
}

#[test]
fn a_task_awaits_values_on_any_executor() {
    let timer = Timer::new().unwrap();
    let queue = DelayQueue::new(&timer);
    let producer = queue.clone();
    let pushes = thread::spawn(move || (0..50).for_each(|value| _ = producer.push(value * MS / 10, value).unwrap()));
    let mut out = Vec::new();
    futures::executor::block_on(async {
        while out.len() < 50 {
            out.extend(poll_fn(|cx| queue.poll_pop(cx)).await.map(|due| due.value));
        }
    });
    pushes.join().unwrap();
    out.sort_unstable();
    assert!(out.into_iter().eq(0..50));
}

#[cfg(feature = "futures-core")]
#[test]
fn a_queue_is_a_stream_that_ends_with_the_timer() {
    use futures::StreamExt;
    let (queue, timer, clock) = queue();
    (0..3_u32).for_each(|value| _ = queue.push(SEC - value * MS, 2 - value).unwrap());
    _ = queue.push(HOUR, 9).unwrap();
    clock.advance(SEC);
    timer.shutdown();
    let values = queue.clone().map(|due| due.value).collect::<Vec<_>>();
    assert_eq!(futures::executor::block_on(std::pin::pin!(values)), [0, 1, 2]);
    assert_eq!(queue.len(), 1);
}

/// Promise: delay queues.
#[test]
fn after_a_shutdown_consumers_receive_what_was_due_and_then_none() {
    let (queue, timer, clock) = queue();
    let task = Task::new();
    let waits = queue.clone();
    assert_eq!(poll(&waits, &task), Poll::Pending);
    let left = queue.push(HOUR, "left").unwrap();
    timer.schedule(HOUR, || ()).unwrap();
    // One that is blocked, while nothing is due.
    let blocked = consumers(&queue, 2);
    thread::sleep(10 * MS);
    assert_eq!(timer.shutdown().len(), 1, "values are not in `Unfired`");
    assert!(blocked.into_iter().all(|consumer| consumer.join().unwrap().is_empty()));
    assert_eq!((task.woken(), poll(&waits, &task)), (1, Poll::Ready(None)));
    assert_eq!((queue.pop(), queue.pop_timeout(TIMEOUT), queue.try_pop()), (None, None, None));
    let refused = queue.push(SEC, "refused").unwrap_err();
    assert!(refused.is_shutdown() && refused.into_inner() == "refused" && timer.stats().rejected == 1);
    assert_eq!((queue.len(), timer.len(), timer.stats().unfired), (1, 0, 2));
    assert!(!left.reset(SEC) && left.deadline().is_none());
    assert_eq!((left.remove(), queue.len(), timer.stats().cancelled), (Some("left"), 0, 0));
    assert_balanced(&timer);
    clock.advance(HOUR);

    let (queue, timer, clock) = self::queue();
    (0..3_u32).for_each(|value| _ = queue.push(SEC + value * MS, value).unwrap());
    clock.advance(2 * SEC);
    timer.shutdown();
    assert_eq!((queue.pop().map(|due| due.value), drain(&queue), queue.pop()), (Some(0), vec![1, 2], None));
    let late: DelayQueue<i32> = DelayQueue::new(&timer);
    assert!(late.pop().is_none() && late.push(SEC, 5).unwrap_err().is_shutdown());
}

/// The waker of a task that waits for a callback.
struct WaitForCallback {
    callback: TimerHandle,
    has_waited: Sender<()>,
}

impl Wake for WaitForCallback {
    fn wake(self: Arc<Self>) {
        self.callback.cancel_and_wait();
        self.has_waited.send(()).unwrap();
    }
}

/// Returns the waker of a task that waits for a callback that is blocked in `pop`, and a receiver of the end of its wait.
fn waker_that_waits_for_pop(timer: &Timer, queue: &DelayQueue<char>) -> (Waker, Receiver<()>) {
    let queue = queue.clone();
    let started = Gate::default();
    let (has_waited, waited) = channel();
    let is_started = started.clone();
    let pop = move || {
        is_started.open();
        queue.pop();
    };
    let callback = timer.schedule(Duration::ZERO, pop).unwrap();
    started.pass();
    thread::sleep(MS);
    (Waker::from(Arc::new(WaitForCallback { callback, has_waited })), waited)
}

/// Has a task sleep or wait for a value, and returns what it awaits.
fn wait<F: Future + Unpin>(mut future: F, waker: &Waker) -> F {
    assert!(Pin::new(&mut future).poll(&mut Context::from_waker(waker)).is_pending());
    future
}

fn timer_with_a_shard() -> Timer {
    Timer::builder().shards(1).executor(Executor::Pool { threads: 2 }).build().unwrap()
}

/// Promise: delay queues.
#[test]
fn a_waker_may_wait_for_a_callback_that_waits_for_a_value_of_the_same_turn() {
    let run = |value_first: bool| {
        let timer = timer_with_a_shard();
        let queue = DelayQueue::new(&timer);
        let (waker, waited) = waker_that_waits_for_pop(&timer, &queue);
        let at = Instant::now() + 30 * MS;
        let push = || queue.push_at(at, 'a').unwrap();
        let early = value_first.then(push);
        let sleep = wait(timer.sleep_until(at), &waker);
        let late = (!value_first).then(push);
        wait_for(&waited);
        drop((early, sleep, late));
    };
    in_time("turns", move || [false, true].map(run));
}

/// Promise: delay queues.
#[test]
fn a_consumers_waker_may_wait_for_a_callback_that_waits_for_a_value_of_the_same_turn() {
    let run = |(own_queue, value_first)| {
        let timer = timer_with_a_shard();
        let queue = DelayQueue::new(&timer);
        let tasks_queue = if own_queue { DelayQueue::new(&timer) } else { queue.clone() };
        let at = Instant::now() + 30 * MS;
        // The task is first in line.
        let waker = Arc::new(Mutex::new(None::<Waker>));
        let relay = waker.clone();
        let relay = Waker::from(Arc::new(WakeFn(move || relay.lock().unwrap().take().unwrap().wake())));
        let task = wait(poll_fn(|cx| tasks_queue.poll_pop(cx)), &relay);
        let (waits, waited) = waker_that_waits_for_pop(&timer, &queue);
        *waker.lock().unwrap() = Some(waits);
        let mut queues = [&queue, &tasks_queue];
        if value_first {
            queues.reverse();
        }
        for queue in queues {
            queue.push_at(at, 'a').unwrap();
        }
        wait_for(&waited);
        drop(task);
    };
    in_time("turns", move || [(true, false), (true, true), (false, false)].map(run));
}

/// Promise: delay queues.
#[test]
fn a_waker_of_a_shutdown_may_wait_for_a_callback_that_waits_for_a_value() {
    let run = |[is_consumer, value_first, closes]: [bool; 3]| {
        let timer = timer_with_a_shard();
        let tasks_queue = DelayQueue::<char>::new(&timer);
        let queue = DelayQueue::new(&timer);
        let push = || queue.push(HOUR, 'a').unwrap();
        let early = value_first.then(push);
        let (waker, waited) = waker_that_waits_for_pop(&timer, &queue);
        let task = is_consumer.then(|| wait(poll_fn(|cx| tasks_queue.poll_pop(cx)), &waker));
        let sleep = (!is_consumer).then(|| wait(timer.sleep(HOUR), &waker));
        let late = (!value_first).then(push);
        let left = closes.then(|| tasks_queue.push(HOUR, 'b').unwrap());
        if closes {
            tasks_queue.close();
        }
        timer.shutdown();
        wait_for(&waited);
        drop((early, sleep, task, late, left));
    };
    in_time("shutdowns", move || {
        for case in 0..8 {
            run([1, 2, 4].map(|bit| case & bit != 0));
        }
    });
}

/// The thread that ends the queue wakes the task that the driver has chosen.
/// Promise: delay queues.
#[test]
fn a_task_behind_a_waker_that_blocks_is_woken_by_the_shutdown() {
    let timer = Timer::builder().shards(1).executor(Executor::Inline).build().unwrap();
    let queue = DelayQueue::new(&timer);
    let (entered, is_entered) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let block = move || {
        entered.send(()).unwrap();
        _ = released.lock().unwrap().recv();
    };
    let blocks = Waker::from(Arc::new(WakeFn(block)));
    let first = queue.clone();
    let second = queue.clone();
    let task = Task::new();
    assert!(first.poll_pop(&mut Context::from_waker(&blocks)).is_pending());
    assert!(poll(&second, &task).is_pending());
    let at = Instant::now() + 20 * MS;
    (0..2).for_each(|value| _ = queue.push_at(at, value).unwrap());
    wait_for(&is_entered);
    let ends = timer.clone();
    let end = thread::spawn(move || ends.shutdown().count());
    eventually("the task is woken", || task.woken() == 1);
    drop(release);
    end.join().unwrap();
    assert_eq!((drain(&second).len(), poll(&second, &task)), (2, Poll::Ready(None)));
}

#[test]
fn a_queue_does_not_keep_the_timer_alive() {
    let (queue, timer, _clock) = queue();
    let weak = timer.downgrade();
    let key = queue.push(SEC, "left").unwrap();
    let consumer = consumers(&queue, 1).pop().unwrap();
    drop(timer);
    assert!(weak.upgrade().is_none() && consumer.join().unwrap().is_empty());
    assert!(queue.push(SEC, "refused").unwrap_err().is_shutdown());
    assert_eq!(key.remove(), Some("left"));
}

#[test]
fn a_shutdown_is_not_held_up_by_a_callback_that_waits_for_a_value() {
    let timer = Timer::new().unwrap();
    let queue: DelayQueue<()> = DelayQueue::new(&timer);
    let (sender, receiver) = mpsc::channel();
    let consumer = queue.clone();
    timer
        .schedule(Duration::ZERO, move || sender.send((sender.send(None).ok(), consumer.pop()).1.map(|_| ())).unwrap())
        .unwrap();
    receiver.recv_timeout(TIMEOUT).unwrap();
    timer.shutdown();
    assert_eq!(receiver.recv_timeout(TIMEOUT).unwrap(), None);
}

/// Promise: delay queues.
#[test]
fn values_are_dropped_with_the_last_clone_and_their_timers_cancelled() {
    let (queue, timer, clock) = queue();
    let token = Arc::new(());
    let keys: Vec<_> = (1..=4).map(|secs| queue.push(secs * SEC, token.clone()).unwrap()).collect();
    _ = queue.push(HOUR, token.clone()).unwrap();
    let other = queue.clone();
    clock.advance(SEC);
    drop(queue);
    assert_eq!((Arc::strong_count(&token), other.len()), (6, 5));
    drop(other);
    assert_eq!(Arc::strong_count(&token), 1, "waiting and due, with keys and without");
    assert_eq!((timer.len(), timer.stats().cancelled), (0, 4));
    assert!(keys.into_iter().all(|key| !key.reset(SEC) && key.deadline().is_none() && key.remove().is_none()));
    assert_balanced(&timer);

    let (queue, timer, _clock) = self::queue();
    _ = queue.push(HOUR, token.clone()).unwrap();
    timer.shutdown();
    assert_eq!((queue.len(), Arc::strong_count(&token)), (1, 2), "it stays");
    drop(queue);
    assert_eq!(Arc::strong_count(&token), 1);
}

/// Promise: delay queues.
#[test]
fn of_a_remove_a_pop_and_the_deadline_one_has_the_value() {
    let timer = Timer::builder().shards(1).tick(Duration::from_micros(50)).build().unwrap();
    let queue = DelayQueue::new(&timer);
    let popper = consumers(&queue, 1).pop().unwrap();
    let mut removed = Vec::new();
    let mut random = Rng::with_seed(3);
    for number in 0..5000 {
        let key = queue.push(Duration::from_micros(random.u64(..200)), number).unwrap();
        (0..random.u64(..300)).for_each(|_| std::hint::spin_loop());
        removed.extend(key.remove());
    }
    eventually("all values come out", || queue.is_empty());
    timer.shutdown();
    let mut all = popper.join().unwrap();
    all.extend(removed);
    all.sort_unstable();
    assert!(all.into_iter().eq(0..5000));
    assert_balanced(&timer);
}

#[test]
fn memory_of_values_that_are_removed_when_due_is_not_kept_for_a_consumer() {
    let (queue, _timer, clock) = queue();
    let count = Arc::new(());
    for _ in 0..200 {
        let keys: Vec<_> = (0..100).map(|_| queue.push(MS, count.clone()).unwrap()).collect();
        clock.advance(MS);
        assert!(keys.into_iter().all(|key| key.remove().is_some()));
    }
    assert_eq!((queue.len(), Arc::strong_count(&count), queue.try_pop()), (0, 1, None));
}

#[test]
fn a_waker_and_a_value_that_panic_harm_nobody_else() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            quiet_panic("a waker")
        }
    }
    struct PanicsOnDrop;
    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            quiet_panic("a drop")
        }
    }
    let (builder, clock) = on_manual_clock();
    let timer = builder.shards(1).build().unwrap();
    let queue = DelayQueue::new(&timer);
    let bad = queue.clone();
    let good = queue.clone();
    let task = Task::new();
    let waker = Waker::from(Arc::new(Panics));
    assert!(bad.poll_pop(&mut Context::from_waker(&waker)).is_pending());
    assert!(poll(&good, &task).is_pending());
    (0..2).for_each(|_| _ = queue.push(SEC, None).unwrap());
    clock.advance(SEC);
    assert_eq!((task.woken(), timer.stats().panicked), (1, 1));
    assert_eq!((drain(&queue).len(), timer.stats().fired), (2, 2));
    (0..3).for_each(|_| _ = queue.push(SEC, Some(PanicsOnDrop)).unwrap());
    drop((good, bad));
    panic::catch_unwind(AssertUnwindSafe(|| drop(queue))).unwrap();
    assert_eq!((timer.stats().panicked, timer.len()), (4, 0));
}

#[test]
fn a_value_may_hold_its_own_queue_until_it_comes_out() {
    struct Job {
        queue: DelayQueue<Job>,
        _token: Arc<()>,
    }
    let (queue, _timer, clock) = queue();
    let token = Arc::new(());
    _ = queue.push(SEC, Job { queue: queue.clone(), _token: token.clone() }).unwrap();
    clock.advance(SEC);
    let Job { queue, .. } = queue.try_pop().unwrap().value;
    drop(queue);
    assert_eq!(Arc::strong_count(&token), 1);
}

#[test]
fn values_need_not_be_sync_and_keys_go_to_other_threads() {
    const fn sync<T: Send + Sync + Unpin>() {}
    sync::<DelayQueue<mpsc::Sender<std::cell::Cell<u8>>>>();
    sync::<DelayKey<std::cell::Cell<u8>>>();
    let (queue, _timer, _clock) = queue();
    let key = queue.push(HOUR, std::cell::Cell::new(5)).unwrap();
    let removed = thread::spawn(move || key.remove().map(std::cell::Cell::into_inner)).join().unwrap();
    assert_eq!(removed, Some(5));
    assert!(format!("{queue:?}").contains("len: 0"));
    let zero_sized: DelayQueue<()> = queue_of_units();
    assert!(zero_sized.is_empty());
    let large: DelayQueue<[NonZeroU32; 200]> = self::queue().0;
    assert!(large.push(HOUR, [NonZeroU32::MIN; 200]).is_err(), "its timer is gone");
}

fn queue_of_units() -> DelayQueue<()> {
    let (queue, _timer, clock) = queue();
    _ = queue.push(SEC, ()).unwrap();
    clock.advance(SEC);
    assert!(queue.try_pop().is_some());
    queue
}

#[test]
fn consumers_and_producers_may_come_from_callbacks() {
    let timer = Timer::new().unwrap();
    let queue = DelayQueue::new(&timer);
    let (sender, receiver) = channel();
    let (producer, consumer) = (queue.clone(), queue.clone());
    timer.schedule(MS, move || _ = producer.push(MS, "from a callback").unwrap()).unwrap();
    timer.schedule(Duration::ZERO, move || sender.send(consumer.pop().map(|due| due.value)).unwrap()).unwrap();
    assert_eq!(wait_for(&receiver), Some("from a callback"));
}

#[test]
fn many_queues_come_and_go_on_one_timer() {
    let (timer, clock) = in_virtual_time();
    let kept: DelayQueue<u32> = DelayQueue::new(&timer);
    for number in 0..500 {
        let queue = DelayQueue::new(&timer);
        _ = queue.push(SEC, number).unwrap();
        _ = kept.push(SEC, number).unwrap();
    }
    assert_eq!(timer.len(), 500);
    clock.advance(SEC);
    assert_eq!(drain(&kept).len(), 500);
}

/// Promise: delay queues.
#[test]
fn consumers_that_give_up_lose_no_value() {
    let timer = Timer::builder().tick(Duration::from_micros(100)).build().unwrap();
    let queue = DelayQueue::new(&timer);
    let received = AtomicUsize::new(0);
    let start = Barrier::new(4);
    thread::scope(|scope| {
        for consumer in 0..3_u64 {
            let (queue, received, start) = (&queue, &received, &start);
            scope.spawn(move || {
                let mut random = Rng::with_seed(consumer);
                start.wait();
                while received.load(Ordering::SeqCst) < 2000 {
                    let limit = Duration::from_micros(random.u64(..500));
                    received.fetch_add(usize::from(queue.pop_timeout(limit).is_some()), Ordering::SeqCst);
                }
            });
        }
        start.wait();
        for value in 0..2000 {
            _ = queue.push(Duration::from_micros(value % 300), value).unwrap();
        }
    });
    assert_eq!((received.into_inner(), queue.len()), (2000, 0));
}

/// Promise: delay queues.
#[test]
fn a_closed_queue_refuses_values_and_ends_when_all_have_come_out() {
    let (queue, timer, clock) = queue();
    let first = queue.push(SEC, 1).unwrap();
    let kept = queue.push(2 * SEC, 2).unwrap();
    let task = Arc::<Task>::default();
    assert!(poll(&queue, &task).is_pending() && !queue.is_closed());
    queue.close();
    queue.clone().close();
    assert!(queue.is_closed() && !timer.is_shutdown());
    let refused = queue.push_at(timer.now(), 3).unwrap_err();
    assert!(refused.to_string().contains("queue was closed"), "the timer still runs: {refused}");
    assert!(refused.is_shutdown() && refused.into_inner() == 3);
    assert_eq!((queue.len(), timer.len(), timer.stats().rejected), (2, 2, 1));
    assert_eq!(queue.pop_timeout(MS), None, "a value may still become due");
    assert!(kept.reset(3 * SEC));
    clock.advance(SEC);
    assert_eq!(poll(&queue, &task), Poll::Ready(Some(1)));
    assert_eq!(first.remove(), None);
    let waits = consumers(&queue, 2);
    assert_eq!(kept.remove(), Some(2));
    waits.into_iter().for_each(|consumer| assert!(consumer.join().unwrap().is_empty(), "they learn of the end"));
    assert_eq!(poll(&queue, &task), Poll::Ready(None));
    assert_balanced(&timer);
}

/// Promise: delay queues.
#[test]
fn a_drain_takes_what_is_due_and_what_is_not() {
    let (queue, timer, clock) = queue();
    let start = timer.now();
    let keys: Vec<_> = (1..=100).map(|value| queue.push(value * SEC, value).unwrap()).collect();
    assert!(keys[99].reset(300 * SEC));
    clock.advance(50 * SEC);
    let mut drained: Vec<_> = queue.drain().collect();
    drained.sort_unstable();
    let deadline = |value| start + if value == 100 { 300 * SEC } else { value * SEC };
    assert_eq!(drained, (1..=100).map(|value| (deadline(value), value)).collect::<Vec<_>>());
    assert_eq!((queue.len(), timer.len(), queue.try_pop()), (0, 0, None));
    assert_eq!((timer.stats().completed, timer.stats().cancelled), (50, 50));
    assert!(keys.into_iter().all(|key| !key.reset(SEC) && key.deadline().is_none() && key.remove().is_none()));
    queue.push(SEC, 101).unwrap();
    clock.advance(SEC);
    assert_eq!(queue.pop().unwrap().value, 101, "the queue is open");
    assert_balanced(&timer);
}

#[test]
fn a_drain_reports_the_deadline_of_the_last_reset_also_when_it_has_come() {
    for shut_down in [false, true] {
        let (queue, timer, clock) = queue();
        clock.advance(SEC);
        let start = clock.now();
        queue.push_at(start - MS, "overdue").unwrap();
        for (value, reset) in [("now", Duration::ZERO), ("soon", 3 * MS / 2), ("never", Duration::MAX)] {
            assert!(queue.push(HOUR, value).unwrap().reset(reset));
        }
        clock.advance(2 * MS);
        if shut_down {
            timer.shutdown();
        }
        let mut drained: Vec<_> = queue.drain().collect();
        drained.sort_unstable();
        assert!(drained.pop().is_some_and(|(deadline, value)| value == "never" && deadline > start + 1000 * HOUR));
        assert_eq!(drained, [(start - MS, "overdue"), (start, "now"), (start + 3 * MS / 2, "soon")]);
    }
}

#[test]
fn a_drain_after_a_close_ends_the_queue_at_once() {
    let (queue, timer, _clock) = queue();
    let waits = consumers(&queue, 2);
    let tokens = Tokens::default();
    let held: DelayQueue<_> = DelayQueue::new(&timer);
    (0..10).for_each(|_| _ = held.push(HOUR, tokens.give()).unwrap());
    let waiting = consumers(&held, 1);
    (0..10).for_each(|value| _ = queue.push(HOUR, value).unwrap());
    queue.close();
    held.close();
    assert_eq!(queue.drain().count(), 10);
    waits.into_iter().for_each(|consumer| assert!(consumer.join().unwrap().is_empty()));
    let mut drained = held.drain();
    drained.next().unwrap();
    assert_eq!(tokens.alive(), 9);
    drop(drained);
    assert_eq!((tokens.alive(), timer.len()), (0, 0));
    waiting.into_iter().for_each(|consumer| assert!(consumer.join().unwrap().is_empty()));
    assert!(queue.drain().next().is_none());
}

#[test]
fn a_shutdown_closes_a_queue_whose_values_can_be_drained() {
    let (queue, timer, clock) = queue();
    (1..=2).for_each(|value| _ = queue.push(value * SEC, value).unwrap());
    clock.advance(SEC);
    assert_eq!(timer.shutdown().len(), 0);
    assert!(queue.is_closed());
    queue.close();
    let mut drained: Vec<_> = queue.drain().map(|(_, value)| value).collect();
    drained.sort_unstable();
    assert_eq!((drained, queue.pop()), (vec![1, 2], None));
}

/// Of each value, either its push was refused, or it is drained or popped.
/// Promise: delay queues.
#[test]
fn a_close_and_drains_beside_producers_lose_no_value() {
    for _ in 0..50 {
        let timer = Timer::new().unwrap();
        let queue = DelayQueue::new(&timer);
        let (drains, closes) = (queue.clone(), queue.clone());
        let producers = [0, 1].map(|first| {
            let queue = queue.clone();
            let push = move |value: u32| queue.push(value % 2 * HOUR, first + 2 * value).is_ok();
            thread::spawn(move || (0..200).filter(|&value| push(value)).count())
        });
        let popped = consumers(&queue, 1);
        let drained = thread::spawn(move || (0..20).map(|_| drains.drain().count()).sum::<usize>());
        closes.close();
        let accepted: usize = producers.map(|producer| producer.join().unwrap()).iter().sum();
        let mut out = drained.join().unwrap() + queue.drain().count();
        out += popped.into_iter().map(|consumer| consumer.join().unwrap().len()).sum::<usize>();
        assert_eq!((out, queue.len(), timer.len()), (accepted, 0, 0));
    }
}

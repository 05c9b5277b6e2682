//! Unit tests of `watch`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::Watcher::{Leader, Loop};
use super::*;
use crate::executor::batch::tests::Callbacks;
use crate::executor::job_queue::state::LATE_AFTER;
use crate::sync::Arc;

/// Returns a queue, and how often its watch has woken the leader.
fn queue() -> (JobQueue, impl Fn() -> usize) {
    let (queue, count) = (JobQueue::new(1, 0), Arc::new(AtomicUsize::new(0)));
    let wakes = count.clone();
    queue.set_waker(move || _ = wakes.fetch_add(1, Ordering::Relaxed));
    (queue, move || count.swap(0, Ordering::Relaxed))
}

fn push(queue: &JobQueue, by: Watcher, now: Instant) {
    queue.push(Arc::new(Callbacks::of(1, || ())), by, now);
}

#[test]
fn the_leader_looks_after_a_dispatch_or_the_loop_that_dispatches_first() {
    let start = Instant::now();
    let micros = |time| start + Duration::from_micros(time);
    for (by, at, next, pushed, expected, wakes) in [
        (Leader, None, Leader, 0, (Leader, 1000), 1),
        (Leader, Some(1000), Leader, 2000, (Leader, 1000), 0),
        (Leader, Some(1501), Leader, 500, (Leader, 1500), 1),
        (Leader, None, Loop(1), 500, (Loop(1), 1500), 0),
        (Leader, Some(1000), Loop(1), 2000, (Leader, 1000), 0),
        (Leader, Some(1501), Loop(1), 500, (Leader, 1500), 1),
        (Loop(1), Some(1000), Leader, 500, (Leader, 1000), 1),
        (Loop(1), Some(1000), Loop(1), 500, (Loop(1), 1000), 0),
        (Loop(1), Some(1501), Loop(1), 500, (Loop(1), 1500), 0),
        (Loop(1), Some(1000), Loop(0), 500, (Leader, 1000), 1),
    ] {
        let (queue, woken) = queue();
        let mut state = lock(&queue.state);
        (state.watch.by, state.watch.at) = (by, at.map(micros));
        drop(state);
        push(&queue, next, micros(pushed));
        let (watcher, time) = expected;
        assert_eq!(queue.watch_at(watcher), Some(micros(time)), "{by:?} {at:?} {next:?}");
        assert_eq!(woken(), wakes, "{by:?} {at:?} {next:?}");
    }
}

#[test]
fn the_watch_is_given_by_the_loop_that_has_it() {
    let (queue, woken) = queue();
    let now = Instant::now();
    queue.give_watch(Loop(0));
    assert_eq!(woken(), 0, "nothing needs a look");
    push(&queue, Loop(1), now);
    queue.give_watch(Loop(0));
    assert_eq!((queue.watch_at(Leader), woken()), (None, 0), "another loop has it");
    queue.give_watch(Loop(1));
    assert_eq!((queue.watch_at(Leader), queue.watch_at(Loop(1)), woken()), (Some(now + LATE_AFTER), None, 1));
}

#[test]
fn an_earlier_look_wakes_the_leader() {
    let (queue, woken) = queue();
    let now = Instant::now();
    let look_by = |micros| {
        lock(&queue.state).watch.look_by(now + Duration::from_micros(micros));
        woken()
    };
    assert_eq!([9, 9, 10, 9, 8].map(look_by), [1, 0, 0, 0, 1]);
    lock(&queue.state).watch.set(None);
    assert_eq!(woken(), 0);
    lock(&queue.state).watch.by = Loop(0);
    lock(&queue.state).watch.at = Some(now);
    assert_eq!(look_by(7), 1, "a loop may be away");
    assert_eq!(queue.watch_at(Leader), Some(now));
}

#[test]
fn a_thread_looks_when_it_is_time_and_it_has_the_watch() {
    for (by, other) in [(Leader, Loop(0)), (Loop(0), Leader), (Loop(0), Loop(1))] {
        let (queue, _) = queue();
        let now = Instant::now();
        let watch = |by, now| queue.watch(by, now, |_| unreachable!("it never grows"));
        assert_eq!(watch(by, now), 0, "nothing needs a look");
        push(&queue, by, now);
        lock(&queue.state).take(now, None, &mut Vec::new());
        assert_eq!(watch(by, now + LATE_AFTER / 2), 0, "too early");
        assert_eq!(watch(other, now + LATE_AFTER), 0, "it has not the watch");
        assert_eq!(watch(by, now + LATE_AFTER), 1, "the batch is late");
        assert_eq!(lock(&queue.state).watch.by, Leader, "a loop looks once");
    }
}

/// The thread of the ticket waits for the lock while another looks.
#[test]
fn a_ticket_that_comes_during_the_look_finds_its_job_late() {
    let queue = JobQueue::new(0, 0);
    let since = Instant::now() + Duration::from_millis(50);
    push(&queue, Leader, since);
    let mut spawned = 0;
    let mut state = lock(&queue.state);
    thread::scope(|scope| {
        let ticket = scope.spawn(|| queue.run_ticket(|| spawned += 1));
        while Instant::now() < since + LATE_AFTER {
            thread::sleep(LATE_AFTER);
        }
        state.check(Instant::now(), &mut Vec::new());
        drop(state);
        ticket.join().unwrap();
    });
    assert_eq!((spawned, queue.watch_at(Leader)), (1, None));
}

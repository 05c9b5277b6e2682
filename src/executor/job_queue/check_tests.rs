//! Unit tests of `check`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::*;
use crate::executor::batch::tests::Callbacks;
use crate::executor::job_queue::jobs::LATE_AFTER;
use crate::sync::Arc;

/// Returns a queue, and how often it has woken the leader.
fn queue() -> (JobQueue, impl Fn() -> usize) {
    let queue = JobQueue::new(0);
    let count = Arc::new(AtomicUsize::new(0));
    let wakes = count.clone();
    queue.set_waker(move || _ = wakes.fetch_add(1, Ordering::Relaxed));
    (queue, move || count.swap(0, Ordering::Relaxed))
}

fn push(queue: &JobQueue, now: Instant) {
    queue.push(Arc::new(Callbacks::of(1, || ())), now);
}

#[test]
fn the_leader_checks_after_a_dispatch() {
    let start = Instant::now();
    let micros = |time| start + Duration::from_micros(time);
    for (at, pushed, expected, wakes) in [(None, 0, 1000, 1), (Some(1000), 2000, 1000, 0), (Some(1501), 500, 1500, 1)] {
        let (queue, woken) = queue();
        lock(&queue.jobs).check_at = at.map(micros);
        push(&queue, micros(pushed));
        assert_eq!((queue.next_check(), woken()), (Some(micros(expected)), wakes), "{at:?}");
    }
}

#[test]
fn an_earlier_check_wakes_the_leader() {
    let (queue, woken) = queue();
    let now = Instant::now();
    let check_by = |micros| {
        lock(&queue.jobs).check_by(now + Duration::from_micros(micros));
        woken()
    };
    assert_eq!([9, 9, 10, 9, 8].map(check_by), [1, 0, 0, 0, 1]);
    lock(&queue.jobs).set_check(None);
    assert_eq!(woken(), 0);
}

#[test]
fn the_leader_checks_when_it_is_time() {
    let (queue, _) = queue();
    let now = Instant::now();
    let check = |now| queue.check(now, |_| unreachable!("it never grows"));
    assert_eq!(check(now), 0, "nothing needs a check");
    push(&queue, now);
    lock(&queue.jobs).take(now, None, &mut Vec::new());
    assert_eq!(check(now + LATE_AFTER / 2), 0, "too early");
    assert_eq!(check(now + LATE_AFTER), 1, "the batch is late");
}

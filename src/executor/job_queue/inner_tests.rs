//! Unit tests of `inner`.

use super::super::JobQueue;
use super::*;
use crate::executor::batch::tests::Callbacks;
use crate::sync::{AtomicBool, Ordering, lock, thread};

/// For tests of other rooms.
impl JobQueue {
    /// Calls `f` under the lock.
    pub(crate) fn while_locked<R>(&self, f: impl FnOnce() -> R) -> R {
        let _locked = lock(&self.inner);
        f()
    }

    /// Counts an extra thread that a test starts.
    pub(crate) fn expect_extra(&self) {
        lock(&self.inner).growth.extras += 1;
    }
}

fn batch() -> Arc<Callbacks> {
    Arc::new(Callbacks::of(1, || ()))
}

/// Takes the next job, and returns its batch and whether it is late.
fn take(inner: &mut Inner, now: Instant) -> Option<(Arc<dyn Batch>, bool)> {
    let (batch, place, is_late) = inner.take(now, None, &mut Vec::new())?;
    inner.end(place);
    Some((batch, is_late))
}

fn check(inner: &mut Inner, now: Instant) -> (Option<Duration>, usize) {
    let added = inner.check(now, &mut Vec::new());
    (inner.check_at.map(|at| at - now), added)
}

fn is(taken: Option<(Arc<dyn Batch>, bool)>, batch: &Arc<Callbacks>, late: bool) -> bool {
    taken.is_some_and(|(taken, is_late)| std::ptr::addr_eq(Arc::as_ptr(&taken), Arc::as_ptr(batch)) && is_late == late)
}

#[test]
fn a_late_job_is_put_back_until_it_is_exhausted() {
    let queue = JobQueue::new(0);
    let [late, young] = [(); 2].map(|()| batch());
    let start = Instant::now();
    let now = start + LATE_AFTER;
    queue.push(late.clone(), start);
    queue.push(young.clone(), now);
    let mut inner = lock(&queue.inner);
    inner.idle.extend([(); 2].map(|()| thread::current()));
    assert!(is(take(&mut inner, now), &late, true));
    assert_eq!(inner.idle.len(), 1, "one more worker is woken");
    assert!(is(take(&mut inner, now), &young, false), "the late one is behind it");
    assert!(is(take(&mut inner, now), &late, true));
    assert_eq!(inner.idle.len(), 0);
    late.run(&|| ());
    let mut exhausted = Vec::new();
    assert!(inner.take(now, None, &mut exhausted).is_none());
    assert_eq!((exhausted.len(), Arc::strong_count(&late)), (1, 2), "the caller drops it");
}

#[test]
fn the_queue_of_a_burst_does_not_keep_its_length() {
    let queue = JobQueue::new(0);
    let start = Instant::now();
    (0..4000).for_each(|_| queue.push(batch(), start));
    let mut inner = lock(&queue.inner);
    (0..3990).for_each(|_| assert!(take(&mut inner, start).is_some()));
    assert!(inner.jobs.capacity() <= 2 * RETAINED_JOBS, "{}", inner.jobs.capacity());
}

#[test]
fn a_batch_that_takes_long_is_assisted_once() {
    let queue = JobQueue::new(0);
    let slow = batch();
    let start = Instant::now();
    let now = start + LATE_AFTER;
    queue.push(slow.clone(), start);
    let mut inner = lock(&queue.inner);
    assert_eq!(check(&mut inner, start), (Some(LATE_AFTER), 0), "it may be taken in time");
    let place = inner.take(start, None, &mut Vec::new()).unwrap().1;
    assert_eq!(check(&mut inner, start + LATE_AFTER / 2), (Some(LATE_AFTER / 2), 0));
    assert_eq!(check(&mut inner, now), (None, 1));
    assert_eq!(check(&mut inner, now), (None, 0), "no worker is idle");
    assert!(is(take(&mut inner, now), &slow, true));
    assert_eq!(check(&mut inner, now), (None, 0), "who takes it late puts it back");
    slow.run(&|| ());
    inner.end(place);
    assert!(take(&mut inner, now).is_none());
}

#[test]
fn an_exhausted_batch_is_not_assisted() {
    let queue = JobQueue::new(0);
    let slow = batch();
    let start = Instant::now();
    queue.push(slow.clone(), start);
    let mut inner = lock(&queue.inner);
    assert!(inner.take(start, None, &mut Vec::new()).is_some());
    slow.run(&|| ());
    inner.idle.push(thread::current());
    assert_eq!((check(&mut inner, start + LATE_AFTER), inner.jobs.len()), ((None, 0), 0));
}

#[test]
fn a_dispatch_that_comes_late_delays_no_check_of_a_later_one() {
    let queue = JobQueue::new(0);
    let start = Instant::now();
    queue.push(batch(), start + LATE_AFTER);
    queue.push(batch(), start);
    let mut inner = lock(&queue.inner);
    assert_eq!(check(&mut inner, start + LATE_AFTER), (Some(LATE_AFTER), 0));
}

/// The check after the dispatch may have come before it.
#[test]
fn a_worker_that_takes_a_job_calls_for_a_check() {
    let now = Instant::now();
    let soon = now + LATE_AFTER;
    for (at, since, expected) in [(None, now, true), (None, now - LATE_AFTER, true), (Some(soon), now, false)] {
        let queue = JobQueue::new(0);
        queue.push(batch(), since);
        let is_woken = Arc::new(AtomicBool::new(false));
        let woken = is_woken.clone();
        queue.set_waker(move || woken.store(true, Ordering::Relaxed));
        let mut inner = lock(&queue.inner);
        inner.check_at = at;
        assert!(take(&mut inner, now).is_some());
        assert_eq!((is_woken.load(Ordering::Relaxed), inner.check_at), (expected, Some(soon)), "{at:?}");
    }
}

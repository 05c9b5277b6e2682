//! Unit tests of `jobs`.

use super::super::JobQueue;
use super::*;
use crate::executor::batch::tests::Callbacks;
use crate::sync::{AtomicBool, Ordering, lock, thread};

/// For tests of other rooms.
impl JobQueue {
    /// Calls `f` under the lock.
    pub(crate) fn while_locked<R>(&self, f: impl FnOnce() -> R) -> R {
        let _locked = lock(&self.jobs);
        f()
    }

    /// Counts an extra thread that a test starts.
    pub(crate) fn expect_extra(&self) {
        lock(&self.jobs).growth.extras += 1;
    }
}

fn batch() -> Arc<Callbacks> {
    Arc::new(Callbacks::of(1, || ()))
}

/// Takes the next job, and returns its batch and whether it is late.
fn take(jobs: &mut Jobs, now: Instant) -> Option<(Arc<dyn Batch>, bool)> {
    let (batch, place, is_late) = jobs.take(now, None, &mut Vec::new())?;
    jobs.end(place);
    Some((batch, is_late))
}

fn check(jobs: &mut Jobs, now: Instant) -> (Option<Duration>, usize) {
    let added = jobs.check(now, &mut Vec::new());
    (jobs.check_at.map(|at| at - now), added)
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
    let mut jobs = lock(&queue.jobs);
    jobs.idle.extend([(); 2].map(|()| thread::current()));
    assert!(is(take(&mut jobs, now), &late, true));
    assert_eq!(jobs.idle.len(), 1, "one more worker is woken");
    assert!(is(take(&mut jobs, now), &young, false), "the late one is behind it");
    assert!(is(take(&mut jobs, now), &late, true));
    assert_eq!(jobs.idle.len(), 0);
    late.run(&|| ());
    let mut exhausted = Vec::new();
    assert!(jobs.take(now, None, &mut exhausted).is_none());
    assert_eq!((exhausted.len(), Arc::strong_count(&late)), (1, 2), "the caller drops it");
}

#[test]
fn the_queue_of_a_burst_does_not_keep_its_length() {
    let queue = JobQueue::new(0);
    let start = Instant::now();
    (0..4000).for_each(|_| queue.push(batch(), start));
    let mut jobs = lock(&queue.jobs);
    (0..3990).for_each(|_| assert!(take(&mut jobs, start).is_some()));
    assert!(jobs.waiting.capacity() <= 2 * RETAINED_JOBS, "{}", jobs.waiting.capacity());
}

#[test]
fn a_batch_that_takes_long_is_assisted_once() {
    let queue = JobQueue::new(0);
    let slow = batch();
    let start = Instant::now();
    let now = start + LATE_AFTER;
    queue.push(slow.clone(), start);
    let mut jobs = lock(&queue.jobs);
    assert_eq!(check(&mut jobs, start), (Some(LATE_AFTER), 0), "it may be taken in time");
    let place = jobs.take(start, None, &mut Vec::new()).unwrap().1;
    assert_eq!(check(&mut jobs, start + LATE_AFTER / 2), (Some(LATE_AFTER / 2), 0));
    assert_eq!(check(&mut jobs, now), (None, 1));
    assert_eq!(check(&mut jobs, now), (None, 0), "no worker is idle");
    assert!(is(take(&mut jobs, now), &slow, true));
    assert_eq!(check(&mut jobs, now), (None, 0), "who takes it late puts it back");
    slow.run(&|| ());
    jobs.end(place);
    assert!(take(&mut jobs, now).is_none());
}

#[test]
fn an_exhausted_batch_is_not_assisted() {
    let queue = JobQueue::new(0);
    let slow = batch();
    let start = Instant::now();
    queue.push(slow.clone(), start);
    let mut jobs = lock(&queue.jobs);
    assert!(jobs.take(start, None, &mut Vec::new()).is_some());
    slow.run(&|| ());
    jobs.idle.push(thread::current());
    assert_eq!((check(&mut jobs, start + LATE_AFTER), jobs.waiting.len()), ((None, 0), 0));
}

#[test]
fn a_dispatch_that_comes_late_delays_no_check_of_a_later_one() {
    let queue = JobQueue::new(0);
    let start = Instant::now();
    queue.push(batch(), start + LATE_AFTER);
    queue.push(batch(), start);
    let mut jobs = lock(&queue.jobs);
    assert_eq!(check(&mut jobs, start + LATE_AFTER), (Some(LATE_AFTER), 0));
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
        let mut jobs = lock(&queue.jobs);
        jobs.check_at = at;
        assert!(take(&mut jobs, now).is_some());
        assert_eq!((is_woken.load(Ordering::Relaxed), jobs.check_at), (expected, Some(soon)), "{at:?}");
    }
}

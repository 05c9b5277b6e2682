//! Unit tests of `state`.

use super::super::JobQueue;
use super::*;
use crate::executor::batch::tests::Callbacks;
use crate::sync::{AtomicBool, Ordering, lock};

/// For tests of other rooms.
impl JobQueue {
    /// Calls `f` under the lock.
    pub(crate) fn while_locked<R>(&self, f: impl FnOnce() -> R) -> R {
        let _locked = lock(&self.state);
        f()
    }

    /// Counts an extra worker that a test starts.
    pub(crate) fn expect_extra(&self) {
        lock(&self.state).growth.extras += 1;
    }
}

fn batch() -> Arc<Callbacks> {
    Arc::new(Callbacks::of(1, || ()))
}

/// Takes the next job, and returns its batch and whether it is late.
fn take(state: &mut State, now: Instant) -> Option<(Arc<dyn Batch>, bool)> {
    let (job, run, is_late) = state.take(now, None, &mut Vec::new())?;
    state.end(run);
    Some((job.batch, is_late))
}

fn check(state: &mut State, now: Instant) -> (Option<Duration>, usize) {
    let added = state.check(now, &mut Vec::new());
    (state.watch.at.map(|at| at - now), added)
}

fn is(taken: Option<(Arc<dyn Batch>, bool)>, batch: &Arc<Callbacks>, late: bool) -> bool {
    taken.is_some_and(|(taken, is_late)| std::ptr::addr_eq(Arc::as_ptr(&taken), Arc::as_ptr(batch)) && is_late == late)
}

#[test]
fn a_late_job_is_put_back_until_it_is_exhausted() {
    let queue = JobQueue::new(2, 0);
    let [late, young] = [(); 2].map(|()| batch());
    let start = Instant::now();
    let now = start + LATE_AFTER;
    queue.push(late.clone(), start);
    queue.push(young.clone(), now);
    let mut state = lock(&queue.state);
    state.parked.extend([(); 2].map(|()| Parked::here(0)));
    assert!(is(take(&mut state, now), &late, true));
    assert_eq!(state.parked.len(), 1, "one more worker is woken");
    assert!(is(take(&mut state, now), &young, false), "the late one is behind it");
    assert!(is(take(&mut state, now), &late, true));
    assert_eq!(state.parked.len(), 0);
    late.run();
    let mut exhausted = Vec::new();
    assert!(state.take(now, None, &mut exhausted).is_none());
    assert_eq!((exhausted.len(), Arc::strong_count(&late)), (1, 2), "the caller drops it");
}

#[test]
fn the_queue_of_a_burst_does_not_keep_its_length() {
    let queue = JobQueue::new(1, 0);
    let start = Instant::now();
    (0..4000).for_each(|_| queue.push(batch(), start));
    let mut state = lock(&queue.state);
    (0..3990).for_each(|_| assert!(take(&mut state, start).is_some()));
    assert!(state.jobs.capacity() <= 2 * RETAINED_JOBS, "{}", state.jobs.capacity());
}

#[test]
fn a_batch_that_takes_long_is_assisted_once() {
    let queue = JobQueue::new(1, 0);
    let (slow, start) = (batch(), Instant::now());
    let now = start + LATE_AFTER;
    queue.push(slow.clone(), start);
    let mut state = lock(&queue.state);
    assert_eq!(check(&mut state, start), (Some(LATE_AFTER), 0), "it may be taken in time");
    let run = state.take(start, None, &mut Vec::new()).unwrap().1;
    assert_eq!(check(&mut state, start + LATE_AFTER / 2), (Some(LATE_AFTER / 2), 0));
    assert_eq!(check(&mut state, now), (None, 1));
    assert_eq!(check(&mut state, now), (None, 0), "no worker is parked");
    assert!(is(take(&mut state, now), &slow, true));
    assert_eq!(check(&mut state, now), (None, 0), "who takes it late puts it back");
    slow.run();
    state.end(run);
    assert!(take(&mut state, now).is_none());
}

#[test]
fn an_exhausted_batch_is_not_assisted() {
    let queue = JobQueue::new(2, 0);
    let (slow, start) = (batch(), Instant::now());
    queue.push(slow.clone(), start);
    let mut state = lock(&queue.state);
    assert!(state.take(start, None, &mut Vec::new()).is_some());
    slow.run();
    state.parked.push(Parked::here(0));
    assert_eq!((check(&mut state, start + LATE_AFTER), state.jobs.len()), ((None, 0), 0));
}

/// Returns a queue of a pool of four workers, of which three are parked and one is busy.
fn busy(start: Instant) -> JobQueue {
    let queue = JobQueue::new(4, 0);
    queue.push(batch(), start);
    let mut state = lock(&queue.state);
    state.workers = 4;
    let job = state.take(start, None, &mut Vec::new()).unwrap().0;
    job.batch.run();
    (0..3).for_each(|_| state.park(start));
    drop(state);
    queue
}

/// Records a search of a worker.
fn record_search(state: &mut State, now: Instant, found: bool) {
    let run = state.begin(None, now, false, None);
    let ended = state.end(run).unwrap();
    state.record_search(&ended, found, now);
}

#[test]
fn a_worker_searches_at_growing_intervals_while_a_run_takes_long() {
    let start = Instant::now();
    let queue = busy(start);
    let mut state = lock(&queue.state);
    let mut now = start + LATE_AFTER;
    for interval in [1, 2, 4, 8, 16, 32, 64, 64] {
        assert_eq!(check(&mut state, now), (Some(Duration::from_millis(interval)), 0));
        assert_eq!(state.parked.len(), 2, "the first is called");
        assert!(check(&mut state, now).0.is_some() && state.parked.len() == 2, "only once");
        record_search(&mut state, now, false);
        state.park(now);
        now += Duration::from_millis(interval);
    }
    record_search(&mut state, now, true);
    assert_eq!(check(&mut state, now), (Some(MIN_INTERVAL), 0), "work was found");
    state.interval = MAX_INTERVAL;
    state.begin(None, now, false, None);
    assert_eq!(check(&mut state, now + LATE_AFTER), (Some(MIN_INTERVAL), 0), "another run takes long");
}

#[test]
fn no_check_follows_if_no_worker_can_search() {
    let start = Instant::now();
    let queue = busy(start);
    let mut state = lock(&queue.state);
    let now = start + LATE_AFTER;
    state.parked.clear();
    assert_eq!(check(&mut state, now), (Some(LATE_AFTER), 0), "three come");
    (0..3).for_each(|_| _ = state.begin(None, now, false, None));
    assert_eq!(check(&mut state, now + LATE_AFTER), (None, 0), "none is parked");
    state.running.clear();
    (0..3).for_each(|_| state.park(now));
    assert_eq!(check(&mut state, now), (Some(LATE_AFTER), 0), "none runs anything, and one comes");
    state.park(now);
    assert_eq!(check(&mut state, now), (None, 0), "all are parked");
}

#[test]
fn a_dispatch_that_comes_late_delays_no_check_of_a_later_one() {
    let (queue, start) = (JobQueue::new(0, 0), Instant::now());
    queue.push(batch(), start + LATE_AFTER);
    queue.push(batch(), start);
    let mut state = lock(&queue.state);
    assert_eq!(check(&mut state, start + LATE_AFTER), (Some(LATE_AFTER), 0));
}

#[test]
fn the_first_worker_searches_and_those_that_have_parked_since() {
    let start = Instant::now();
    let queue = busy(start);
    let mut state = lock(&queue.state);
    let run = state.begin(None, start, false, None);
    (0..2).for_each(|_| state.park(start));
    assert!(state.call_searchers(run));
    let left: Vec<_> = state.parked.iter().map(|parked| parked.at < run).collect();
    assert_eq!(left, [true, true]);
    state.parked.clear();
    assert!(!state.call_searchers(run), "no worker is parked");
}

/// Returns whether `f` wakes the leader, which would look at `at`.
fn wakes(queue: &JobQueue, at: Option<Instant>, f: impl FnOnce(&mut State)) -> bool {
    let is_woken = Arc::new(AtomicBool::new(false));
    let woken = is_woken.clone();
    queue.set_waker(move || woken.store(true, Ordering::Relaxed));
    let mut state = lock(&queue.state);
    state.watch.set(None);
    state.watch.at = at;
    f(&mut state);
    is_woken.load(Ordering::Relaxed)
}

#[test]
fn a_worker_that_parks_beside_a_busy_one_calls_for_a_look() {
    let now = Instant::now();
    for (at, workers, expected) in [(None, 2, true), (Some(now), 2, false), (None, 1, false)] {
        let queue = JobQueue::new(2, 0);
        lock(&queue.state).workers = workers;
        assert_eq!(wakes(&queue, at, |state| state.park(now)), expected, "{at:?} {workers}");
    }
}

#[test]
fn work_that_is_found_calls_for_a_look_at_the_time_of_the_next_search() {
    let now = Instant::now();
    let (soon, late) = (now + MIN_INTERVAL, now + MAX_INTERVAL);
    for (at, parked, expected) in [(None, 1, true), (Some(late), 0, true), (Some(soon), 1, false), (None, 0, false)] {
        let queue = busy(now);
        lock(&queue.state).parked.truncate(parked);
        assert_eq!(wakes(&queue, at, |state| record_search(state, now, true)), expected, "{at:?} {parked}");
    }
}

#[test]
fn the_first_look_comes_early_once_callbacks_have_used_rayon() {
    let now = Instant::now();
    let queue = busy(now);
    let first_look_after = |found| {
        let mut state = lock(&queue.state);
        record_search(&mut state, now, found);
        state.watch.at = None;
        drop(state);
        queue.push(batch(), now);
        queue.next_look().unwrap() - now
    };
    assert_eq!([false, true, false].map(first_look_after), [LATE_AFTER, FIRST_CHECK, FIRST_CHECK]);
}

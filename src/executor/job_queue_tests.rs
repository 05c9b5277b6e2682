//! Unit tests of `job_queue`.

use std::iter;
use std::sync::atomic::AtomicUsize;

use super::*;
use crate::sync::{AtomicBool, Ordering};

/// A batch that calls one function a number of times.
pub(crate) struct Callbacks {
    callbacks: Vec<Box<dyn Fn() + Send + Sync>>,
    taken: AtomicUsize,
}

impl Callbacks {
    pub(crate) fn of(callbacks: usize, call: impl Fn() + Clone + Send + Sync + 'static) -> Self {
        let callbacks = (0..callbacks).map(|_| Box::new(call.clone()) as _).collect();
        Self { callbacks, taken: AtomicUsize::new(0) }
    }
}

impl Batch for Callbacks {
    fn run(&self, after_each: &dyn Fn()) {
        while let Some(call) = self.callbacks.get(self.taken.fetch_add(1, Ordering::Relaxed)) {
            call();
            after_each();
        }
    }

    fn is_exhausted(&self) -> bool {
        self.taken.load(Ordering::Relaxed) >= self.callbacks.len()
    }

    fn into_singles(self) -> impl Iterator<Item = Self> {
        iter::empty()
    }
}

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

/// Returns a worker whose batch, of which nothing is left to start, began at `since`.
pub(in crate::executor) fn busy_worker(since: Instant, status: Option<Arc<WorkerStatus>>) -> BusyWorker {
    let batch = Arc::new(Callbacks::of(0, || ()));
    BusyWorker { since, batch, assisted: false, status, asleep: None, is_blocked: false }
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

/// A ticket spawns the next one before it drops what it has found exhausted: that may be the last reference to a shard, and
/// take long.
#[test]
fn a_ticket_spawns_another_before_it_drops_a_batch() {
    /// Has nothing left to start.
    struct Exhausted(Arc<Mutex<Vec<&'static str>>>);
    impl Batch for Exhausted {
        fn run(&self, _: &dyn Fn()) {}

        fn is_exhausted(&self) -> bool {
            true
        }

        fn into_singles(self) -> impl Iterator<Item = Self> {
            iter::empty()
        }
    }
    impl Drop for Exhausted {
        fn drop(&mut self) {
            lock(&self.0).push("drop");
        }
    }
    let queue = JobQueue::new(0);
    let log = Arc::<Mutex<Vec<_>>>::default();
    let long_ago = Instant::now() - Duration::from_secs(1);
    let logs = log.clone();
    let late = Callbacks::of(1, move || lock(&logs).push("run"));
    queue.push(Arc::new(Exhausted(log.clone())), long_ago);
    queue.push(Arc::new(late), long_ago);
    queue.run_ticket(|| lock(&log).push("spawn"));
    assert_eq!(*lock(&log), ["spawn", "drop", "run"]);
}

/// Returns a queue, and how often it has woken the leader.
fn queue_of_a_leader() -> (JobQueue, impl Fn() -> usize) {
    let queue = JobQueue::new(0);
    let count = Arc::new(AtomicUsize::new(0));
    let wakes = count.clone();
    queue.set_waker(move || _ = wakes.fetch_add(1, Ordering::Relaxed));
    (queue, move || count.swap(0, Ordering::Relaxed))
}

#[test]
fn the_leader_checks_after_a_dispatch() {
    let start = Instant::now();
    let micros = |time| start + Duration::from_micros(time);
    for (at, pushed, expected, wakes) in [(None, 0, 1000, 1), (Some(1000), 2000, 1000, 0), (Some(1501), 500, 1500, 1)] {
        let (queue, woken) = queue_of_a_leader();
        lock(&queue.jobs).check_at = at.map(micros);
        queue.push(batch(), micros(pushed));
        assert_eq!((queue.next_check(), woken()), (Some(micros(expected)), wakes), "{at:?}");
    }
}

#[test]
fn an_earlier_check_wakes_the_leader() {
    let (queue, woken) = queue_of_a_leader();
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
    let (queue, _) = queue_of_a_leader();
    let now = Instant::now();
    let check = |now| queue.check(now, |_| unreachable!("it never grows"));
    assert_eq!(check(now), 0, "nothing needs a check");
    queue.push(batch(), now);
    lock(&queue.jobs).take(now, None, &mut Vec::new());
    assert_eq!(check(now + LATE_AFTER / 2), 0, "too early");
    assert_eq!(check(now + LATE_AFTER), 1, "the batch is late");
}

/// The time between two samples.
const INTERVAL: Duration = Duration::from_micros(600);

/// Adds a busy worker whose batch is late, and which is always inside a callback.
fn add_busy(queue: &JobQueue, now: Instant, sample: impl Fn() -> Option<u64> + Send + Sync + 'static) {
    let status = WorkerStatus::new(sample);
    status.enter();
    lock(&queue.jobs).growth.busy.insert(busy_worker(now - LATE_AFTER, Some(status)));
}

/// Returns the queue of a pool of two busy workers, which are asleep, and have not been awake since the start.
fn blocked(now: Instant) -> JobQueue {
    let queue = JobQueue::new(8);
    (0..2).for_each(|_| add_busy(&queue, now, || Some(1)));
    queue
}

/// Adds a batch that was dispatched [`LATE_AFTER`] ago.
fn add_late(queue: &JobQueue, now: Instant) {
    queue.push(Arc::new(Callbacks::of(1, || ())), now - LATE_AFTER);
}

/// Returns the time until the next check.
fn next(queue: &JobQueue, now: Instant) -> Option<Duration> {
    queue.next_check().map(|at| at - now)
}

#[test]
fn checks_follow_until_no_late_job_waits() {
    let start = Instant::now();
    let queue = blocked(start);
    let check = |now| {
        let mut asked = 0;
        let ask = |count| {
            asked += count;
            count
        };
        queue.check(now, ask);
        (asked, next(&queue, now))
    };
    add_late(&queue, start);
    assert_eq!(check(start), (0, Some(Duration::ZERO)), "it has found the job");
    assert_eq!(check(start), (0, Some(INTERVAL)), "one sample");
    assert_eq!(check(start + INTERVAL / 2), (0, Some(INTERVAL / 2)), "too early");
    assert_eq!(check(start + INTERVAL), (4, Some(INTERVAL)), "both are blocked");
    let mut jobs = lock(&queue.jobs);
    (0..4).for_each(|_| _ = jobs.growth.busy.insert(busy_worker(start - LATE_AFTER, None)));
    drop(jobs);
    for (after, interval) in [(600, 600), (2_000, 600), (100_000, 8_000)] {
        let now = start + INTERVAL + Duration::from_micros(after);
        assert_eq!(check(now), (0, Some(Duration::from_micros(interval.max(after / 4).min(8_000)))), "{after}");
    }
    assert_eq!(queue.extra_threads(), (4, 4));
    let taken = lock(&queue.jobs).waiting.pop_front();
    assert!(taken.is_some());
    assert_eq!(check(start + Duration::from_secs(1)), (0, None), "no job waits");
}

#[test]
fn a_batch_that_a_worker_takes_during_a_sample_is_checked() {
    let queue = Arc::new(JobQueue::new(8));
    let start = Instant::now();
    let sampled = Arc::downgrade(&queue);
    // A worker that has read the clock before the job was late.
    let take = move || {
        lock(&sampled.upgrade()?.jobs).take(start - LATE_AFTER / 2, None, &mut Vec::new());
        Some(1)
    };
    add_busy(&queue, start, take);
    add_late(&queue, start);
    (0..2).for_each(|_| _ = queue.check(start, |_| unreachable!("one sample")));
    assert_eq!(next(&queue, start), Some(LATE_AFTER / 2));
}

/// The check that follows its dispatch finds an idle worker, and the growth begins once none is left.
#[test]
fn a_late_job_that_the_last_worker_takes_is_checked() {
    let queue = JobQueue::new(8);
    let now = Instant::now();
    lock(&queue.jobs).idle.extend([(); 2].map(|()| thread::current()));
    add_late(&queue, now);
    queue.check(now, |_| unreachable!());
    assert_eq!(next(&queue, now), None, "one is idle, and one was woken");
    let mut jobs = lock(&queue.jobs);
    (0..2).for_each(|_| _ = jobs.take(now, None, &mut Vec::new()).unwrap());
    drop(jobs);
    assert_eq!(next(&queue, now), Some(LATE_AFTER));
    let now = now + LATE_AFTER;
    queue.check(now, |_| unreachable!());
    assert_eq!(next(&queue, now), Some(Duration::ZERO), "both may be blocked");
}

#[test]
fn threads_that_the_system_refuses_do_not_count() {
    let start = Instant::now();
    let queue = blocked(start);
    add_late(&queue, start);
    (0..2).for_each(|_| _ = queue.check(start, |_| unreachable!("one sample")));
    queue.check(start + INTERVAL, |_| 1);
    assert_eq!(queue.extra_threads(), (1, 1));
}

#[test]
fn nothing_grows_beside_an_idle_worker_or_without_extra_threads() {
    for limit in [0, 8] {
        let queue = JobQueue::new(limit);
        let now = Instant::now();
        add_late(&queue, now);
        let mut jobs = lock(&queue.jobs);
        if limit > 0 {
            jobs.idle.push(thread::current());
        }
        assert!(!jobs.must_sample(now));
        jobs.idle.clear();
        assert_eq!(jobs.must_sample(now), limit > 0);
        assert!(!jobs.must_sample(now - LATE_AFTER), "the job is not late yet");
    }
}

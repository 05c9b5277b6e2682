//! Unit tests of `growth`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::super::JobQueue;
use super::super::jobs::LATE_AFTER;
use super::*;
use crate::executor::batch::tests::Callbacks;
use crate::sync::{Arc, thread};

/// Returns a batch of which nothing is left to start.
fn started() -> Arc<Callbacks> {
    Arc::new(Callbacks::of(0, || ()))
}

/// Returns the queue of a pool of two busy workers. The number is how often both have gone to sleep; zero stands
/// for `None`.
fn busy() -> (JobQueue, Arc<AtomicU64>) {
    let queue = JobQueue::new(8);
    let sleeps = Arc::new(AtomicU64::new(0));
    let mut jobs = lock(&queue.jobs);
    for _ in 0..2 {
        let sleeps = sleeps.clone();
        let status = WorkerStatus::new(move || Some(sleeps.load(Ordering::Relaxed)).filter(|&sleeps| sleeps > 0));
        status.in_foreign_code.store(true, Ordering::Relaxed);
        jobs.begin(started(), Instant::now() - LATE_AFTER, false, Some(&status));
    }
    drop(jobs);
    (queue, sleeps)
}

/// Samples once, and returns how many of the two workers are blocked.
fn sample(jobs: &mut Jobs) -> usize {
    let samples: Vec<_> =
        jobs.next_to_sample().into_iter().map(|(index, id, status)| (index, id, status.sample())).collect();
    jobs.record_samples(&samples);
    jobs.growth.blocked
}

fn set_blocked(jobs: &mut Jobs, place: usize, is_blocked: bool) {
    let was_blocked = std::mem::replace(&mut jobs.busy[place].is_blocked, is_blocked);
    jobs.growth.blocked = jobs.growth.blocked + usize::from(is_blocked) - usize::from(was_blocked);
}

#[test]
fn a_worker_is_blocked_if_it_slept_from_one_sample_to_the_next() {
    let (queue, sleep_count) = busy();
    let mut jobs = lock(&queue.jobs);
    let mut blocked = |sleeps| {
        sleep_count.store(sleeps, Ordering::Relaxed);
        sample(&mut jobs)
    };
    assert_eq!([0, 0, 1].map(&mut blocked), [0, 0, 0], "awake, or asleep at one sample");
    assert_eq!([2, 3].map(&mut blocked), [0, 0], "it has slept twice");
    assert_eq!([3, 3].map(&mut blocked), [2, 2]);
}

#[test]
fn a_worker_that_waits_for_the_queue_is_not_blocked() {
    let (queue, sleep_count) = busy();
    sleep_count.store(1, Ordering::Relaxed);
    let mut jobs = lock(&queue.jobs);
    jobs.busy[0].status.as_ref().unwrap().in_foreign_code.store(false, Ordering::Relaxed);
    assert_eq!((sample(&mut jobs), sample(&mut jobs)), (0, 1));
}

#[test]
fn there_is_room_for_one_more_for_each_blocked_worker() {
    let (queue, _) = busy();
    let mut jobs = lock(&queue.jobs);
    assert_eq!((jobs.make_room(), jobs.room().is_none()), (0, false));
    set_blocked(&mut jobs, 0, true);
    assert_eq!((jobs.make_room(), jobs.make_room(), jobs.room().is_none()), (2, 0, false), "those being started count");
    set_blocked(&mut jobs, 1, true);
    assert_eq!((jobs.make_room(), jobs.room().is_none()), (2, false), "four for two that are blocked");
    set_blocked(&mut jobs, 0, false);
    assert!(jobs.room().is_none(), "four and one are more than three");
    jobs.growth.extras = 2;
    assert!(jobs.room().is_some());
    jobs.growth.limit = 2;
    set_blocked(&mut jobs, 0, true);
    assert_eq!(jobs.make_room(), 0, "the limit is reached");
}

#[test]
fn an_idle_worker_does_not_count_as_running() {
    let (queue, _) = busy();
    let mut jobs = lock(&queue.jobs);
    jobs.growth.extras = 1;
    assert!(jobs.room().is_none());
    jobs.idle.push(thread::current());
    assert!(jobs.room().is_some());
}

/// The leader samples them, and drives meanwhile.
#[test]
fn a_check_samples_a_bounded_number_of_workers_and_each_in_its_turn() {
    const BUSY: usize = 16 * 32;
    let queue = JobQueue::new(BUSY);
    let now = Instant::now();
    let mut jobs = lock(&queue.jobs);
    let sampled = Arc::new(AtomicU64::new(0));
    for _ in 0..BUSY {
        let count = AtomicU64::new(0);
        let sampled = sampled.clone();
        let sample_of_it = move || {
            let is_first = count.fetch_add(1, Ordering::Relaxed) == 0;
            sampled.fetch_add(is_first.into(), Ordering::Relaxed);
            Some(1)
        };
        let status = WorkerStatus::new(sample_of_it);
        status.in_foreign_code.store(true, Ordering::Relaxed);
        jobs.begin(started(), now - LATE_AFTER, false, Some(&status));
    }
    let checks = BUSY.div_ceil(MAX_SAMPLES);
    assert!(checks > 10);
    for check in 1..=checks {
        assert_eq!(sample(&mut jobs), 0, "none is sampled twice before each was sampled once");
        assert_eq!(sampled.load(Ordering::Relaxed) as usize, check * MAX_SAMPLES);
    }
    (0..2 * checks).for_each(|_| _ = sample(&mut jobs));
    assert_eq!(sample(&mut jobs), BUSY);
}

#[test]
fn the_sample_of_a_batch_that_has_ended_is_given_to_no_other() {
    let (queue, sleep_count) = busy();
    sleep_count.store(1, Ordering::Relaxed);
    let mut jobs = lock(&queue.jobs);
    let samples: Vec<_> =
        jobs.next_to_sample().into_iter().take(1).map(|(place, id, _)| (place, id, Some(1))).collect();
    assert_eq!(samples, [(0, jobs.busy[0].since, Some(1))]);
    jobs.end(0);
    jobs.begin(started(), Instant::now(), false, None);
    jobs.record_samples(&samples);
    assert_eq!((jobs.busy.len(), jobs.busy[0].asleep), (2, None));
}

#[test]
fn a_check_wakes_and_starts_a_bounded_number_of_workers() {
    const BUSY: usize = 1000;
    let queue = JobQueue::new(BUSY);
    let now = Instant::now();
    let mut jobs = lock(&queue.jobs);
    (0..BUSY).for_each(|_| _ = jobs.begin(started(), now - LATE_AFTER, false, None));
    (0..BUSY).for_each(|place| set_blocked(&mut jobs, place, true));
    jobs.growth.extras = BUSY / 2;
    jobs.growth.idle.extend((0..BUSY / 2).map(|_| thread::current()));
    let (mut woken, mut started) = (Vec::new(), Vec::new());
    loop {
        let idle = jobs.growth.idle.len();
        started.push(jobs.make_room());
        woken.push(idle - jobs.growth.idle.len());
        if (woken.last(), started.last()) == (Some(&0), Some(&0)) {
            break;
        }
    }
    for by_check in [&woken, &started] {
        assert_eq!(by_check.iter().sum::<usize>(), BUSY / 2, "all of them in the end");
        assert!(by_check.iter().filter(|&&number| number > 0).count() > 10, "{by_check:?}");
    }
}

#[test]
fn one_idle_extra_is_woken_for_a_job_if_there_is_room() {
    let (queue, _) = busy();
    let mut jobs = lock(&queue.jobs);
    jobs.growth.extras = 2;
    jobs.growth.idle.extend([(); 2].map(|()| thread::current()));
    jobs.wake_extra();
    assert_eq!((jobs.growth.idle.len(), jobs.growth.needed), (2, 0), "two run already");
    set_blocked(&mut jobs, 0, true);
    jobs.wake_extra();
    assert_eq!((jobs.growth.idle.len(), jobs.growth.needed), (1, 1));
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
    let (queue, sleep_count) = busy();
    let start = Instant::now();
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
    sleep_count.store(1, Ordering::Relaxed);
    assert_eq!(check(start), (0, Some(Duration::ZERO)), "it has found the job");
    assert_eq!(check(start), (0, Some(MIN_INTERVAL)), "one sample");
    assert_eq!(check(start + MIN_INTERVAL / 2), (0, Some(MIN_INTERVAL / 2)), "too early");
    assert_eq!(check(start + MIN_INTERVAL), (4, Some(MIN_INTERVAL)), "both are blocked");
    let mut jobs = lock(&queue.jobs);
    (0..4).for_each(|_| _ = jobs.begin(started(), start - LATE_AFTER, false, None));
    drop(jobs);
    for (after, interval) in [(600, 600), (2_000, 600), (100_000, 8_000)] {
        let now = start + MIN_INTERVAL + Duration::from_micros(after);
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
    let status = WorkerStatus::new(take);
    status.in_foreign_code.store(true, Ordering::Relaxed);
    lock(&queue.jobs).begin(started(), start - LATE_AFTER, false, Some(&status));
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
    let (queue, sleep_count) = busy();
    sleep_count.store(1, Ordering::Relaxed);
    let start = Instant::now();
    add_late(&queue, start);
    (0..2).for_each(|_| _ = queue.check(start, |_| unreachable!("one sample")));
    queue.check(start + MIN_INTERVAL, |_| 1);
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

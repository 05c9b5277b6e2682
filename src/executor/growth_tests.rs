//! Unit tests of `growth`.

use std::sync::atomic::AtomicU64;

use super::*;
use crate::executor::job_queue::tests::busy_worker;
use crate::sync::thread;

/// For tests of the queue.
impl WorkerStatus {
    /// The worker is inside foreign code from now on.
    pub(in crate::executor) fn enter(&self) {
        self.in_foreign_code.store(true, Ordering::Relaxed);
    }
}

/// A pool that may grow, and its busy workers.
struct Pool {
    growth: Growth,
    since: Instant,
}

impl Pool {
    fn new(limit: usize) -> Self {
        Self { growth: Growth { limit, ..Growth::default() }, since: Instant::now() }
    }

    /// Returns a pool of two busy workers. The number is how often both have gone to sleep; zero stands for `None`.
    fn busy() -> (Self, Arc<AtomicU64>) {
        let mut pool = Self::new(8);
        let sleeps = Arc::new(AtomicU64::new(0));
        for _ in 0..2 {
            let sleeps = sleeps.clone();
            pool.add(move || Some(sleeps.load(Ordering::Relaxed)).filter(|&sleeps| sleeps > 0));
        }
        (pool, sleeps)
    }

    /// Adds a busy worker that is inside a callback.
    fn add(&mut self, sample: impl Fn() -> Option<u64> + Send + Sync + 'static) {
        let status = WorkerStatus::new(sample);
        status.enter();
        self.growth.busy.insert(busy_worker(self.since, Some(status)));
    }

    fn next_to_sample(&mut self) -> Vec<(usize, Instant, Arc<WorkerStatus>)> {
        assert!(self.growth.must_sample(true, self.since));
        self.growth.next_to_sample(self.since).expect("it is time")
    }

    /// Samples once, and returns how many workers are blocked.
    fn sample(&mut self) -> usize {
        let workers = self.next_to_sample();
        let samples: Vec<_> =
            workers.into_iter().map(|(place, since, status)| (place, since, status.sample())).collect();
        self.growth.record_samples(&samples);
        self.growth.blocked
    }

    fn set_blocked(&mut self, place: usize, is_blocked: bool) {
        let was_blocked = std::mem::replace(&mut self.growth.busy[place].is_blocked, is_blocked);
        self.growth.blocked = self.growth.blocked + usize::from(is_blocked) - usize::from(was_blocked);
    }
}

#[test]
fn a_worker_is_blocked_if_it_slept_from_one_sample_to_the_next() {
    let (mut pool, sleep_count) = Pool::busy();
    let mut blocked = |sleeps| {
        sleep_count.store(sleeps, Ordering::Relaxed);
        pool.sample()
    };
    assert_eq!([0, 0, 1].map(&mut blocked), [0, 0, 0], "awake, or asleep at one sample");
    assert_eq!([2, 3].map(&mut blocked), [0, 0], "it has slept twice");
    assert_eq!([3, 3].map(&mut blocked), [2, 2]);
}

#[test]
fn a_worker_that_waits_for_the_queue_is_not_blocked() {
    let (mut pool, sleep_count) = Pool::busy();
    sleep_count.store(1, Ordering::Relaxed);
    pool.growth.busy[0].status.as_ref().unwrap().in_foreign_code.store(false, Ordering::Relaxed);
    assert_eq!((pool.sample(), pool.sample()), (0, 1));
}

#[test]
fn there_is_room_for_one_more_for_each_blocked_worker() {
    let (mut pool, _) = Pool::busy();
    assert_eq!((pool.growth.make_room(), pool.growth.room(0).is_none()), (0, false));
    pool.set_blocked(0, true);
    assert_eq!(
        (pool.growth.make_room(), pool.growth.make_room(), pool.growth.room(0).is_none()),
        (2, 0, false),
        "those being started count"
    );
    pool.set_blocked(1, true);
    assert_eq!((pool.growth.make_room(), pool.growth.room(0).is_none()), (2, false), "four for two that are blocked");
    pool.set_blocked(0, false);
    assert!(pool.growth.room(0).is_none(), "four and one are more than three");
    pool.growth.extras = 2;
    assert!(pool.growth.room(0).is_some());
    pool.growth.limit = 2;
    pool.set_blocked(0, true);
    assert_eq!(pool.growth.make_room(), 0, "the limit is reached");
}

#[test]
fn an_idle_worker_does_not_count_as_running() {
    let (mut pool, _) = Pool::busy();
    pool.growth.extras = 1;
    assert_eq!([0, 1].map(|idle| pool.growth.room(idle)), [None, Some(0)]);
}

/// The leader samples them, and drives meanwhile.
#[test]
fn a_check_samples_a_bounded_number_of_workers_and_each_in_its_turn() {
    const BUSY: usize = 16 * 32;
    let mut pool = Pool::new(BUSY);
    let sampled = Arc::new(AtomicU64::new(0));
    for _ in 0..BUSY {
        let count = AtomicU64::new(0);
        let sampled = sampled.clone();
        pool.add(move || {
            let is_first = count.fetch_add(1, Ordering::Relaxed) == 0;
            sampled.fetch_add(is_first.into(), Ordering::Relaxed);
            Some(1)
        });
    }
    let checks = BUSY.div_ceil(MAX_SAMPLES);
    assert!(checks > 10);
    for check in 1..=checks {
        assert_eq!(pool.sample(), 0, "none is sampled twice before each was sampled once");
        assert_eq!(sampled.load(Ordering::Relaxed) as usize, check * MAX_SAMPLES);
    }
    (0..2 * checks).for_each(|_| _ = pool.sample());
    assert_eq!(pool.sample(), BUSY);
}

#[test]
fn the_sample_of_a_batch_that_has_ended_is_given_to_no_other() {
    let (mut pool, sleep_count) = Pool::busy();
    sleep_count.store(1, Ordering::Relaxed);
    let samples: Vec<_> =
        pool.next_to_sample().into_iter().take(1).map(|(place, id, _)| (place, id, Some(1))).collect();
    assert_eq!(samples, [(0, pool.growth.busy[0].since, Some(1))]);
    pool.growth.busy.remove(0);
    pool.growth.busy.insert(busy_worker(pool.since + MIN_INTERVAL, None));
    pool.growth.record_samples(&samples);
    assert_eq!((pool.growth.busy.len(), pool.growth.busy[0].asleep), (2, None));
}

#[test]
fn a_check_wakes_and_starts_a_bounded_number_of_workers() {
    const BUSY: usize = 1000;
    let mut pool = Pool::new(BUSY);
    (0..BUSY).for_each(|_| _ = pool.growth.busy.insert(busy_worker(pool.since, None)));
    (0..BUSY).for_each(|place| pool.set_blocked(place, true));
    pool.growth.extras = BUSY / 2;
    pool.growth.idle.extend((0..BUSY / 2).map(|_| thread::current()));
    let (mut woken, mut started) = (Vec::new(), Vec::new());
    loop {
        let idle = pool.growth.idle.len();
        started.push(pool.growth.make_room());
        woken.push(idle - pool.growth.idle.len());
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
    let (mut pool, _) = Pool::busy();
    pool.growth.extras = 2;
    pool.growth.idle.extend([(); 2].map(|()| thread::current()));
    pool.growth.wake_extras(1);
    assert_eq!((pool.growth.idle.len(), pool.growth.needed), (2, 0), "two run already");
    pool.set_blocked(0, true);
    pool.growth.wake_extras(1);
    assert_eq!((pool.growth.idle.len(), pool.growth.needed), (1, 1));
}

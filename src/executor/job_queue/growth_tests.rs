//! Unit tests of `growth`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::super::JobQueue;
use super::*;
use crate::sync::{Arc, Condvar, lock};

/// Returns the queue of a pool of two busy workers. The number is what the sleep probes of both return; zero stands
/// for `None`.
fn busy() -> (JobQueue, Arc<AtomicU64>) {
    let (queue, sleeps) = (JobQueue::new(2, 8), Arc::new(AtomicU64::new(0)));
    let mut state = lock(&queue.0);
    for worker in 1..=2 {
        let sleeps = sleeps.clone();
        let sleep_probe = Arc::new(move || Some(sleeps.load(Ordering::Relaxed)).filter(|&sleeps| sleeps > 0));
        let probe = WorkerProbe::new(sleep_probe);
        probe.in_foreign_code.store(true, Ordering::Relaxed);
        let (id, since, batch) = (worker as u64, Instant::now(), None);
        state.active.push(Activity { worker, id, since, batch, probe, sample: SleepSample::default() });
    }
    drop(state);
    (queue, sleeps)
}

/// Samples once, and returns how many of the two workers are blocked.
fn sample(state: &mut State) -> usize {
    let samples: Vec<_> = state.to_sample(0).into_iter().map(|(id, probe)| (id, probe.sample())).collect();
    state.record_samples(&samples);
    state.active.iter().filter(|activity| activity.sample.is_blocked).count()
}

#[test]
fn a_worker_is_blocked_if_it_slept_from_one_sample_to_the_next() {
    let (queue, sleep_count) = busy();
    let mut state = lock(&queue.0);
    let mut blocked = |sleeps| {
        sleep_count.store(sleeps, Ordering::Relaxed);
        sample(&mut state)
    };
    assert_eq!([0, 0, 1].map(&mut blocked), [0, 0, 0], "awake, or asleep at one sample");
    assert_eq!([2, 3].map(&mut blocked), [0, 0], "it has slept twice");
    assert_eq!([3, 3].map(&mut blocked), [2, 2]);
}

#[test]
fn a_worker_that_waits_for_the_queue_is_not_blocked() {
    let (queue, sleep_count) = busy();
    sleep_count.store(1, Ordering::Relaxed);
    let mut state = lock(&queue.0);
    state.active[0].probe.in_foreign_code.store(false, Ordering::Relaxed);
    assert_eq!((sample(&mut state), sample(&mut state)), (0, 1));
}

#[test]
fn the_target_grows_by_one_worker_for_each_blocked_one() {
    let (queue, _) = busy();
    let mut state = lock(&queue.0);
    assert_eq!((state.grow(), state.exceeds_target()), (0, false));
    state.active[0].sample.is_blocked = true;
    assert_eq!((state.grow(), state.grow(), state.exceeds_target()), (2, 0, false), "those being started count");
    state.active[1].sample.is_blocked = true;
    assert_eq!((state.grow(), state.exceeds_target()), (2, false), "four for two that are blocked");
    state.active[0].sample.is_blocked = false;
    assert!(state.exceeds_target(), "four and one are more than three");
    state.not_started(2);
    assert_eq!((state.exceeds_target(), state.growth.extras, state.growth.needed), (false, 2, 2));
    state.growth.limit = 2;
    state.active[0].sample.is_blocked = true;
    assert_eq!(state.grow(), 0, "the limit is reached");
}

#[test]
fn a_blocked_worker_is_sampled_in_one_of_several_rounds() {
    let (queue, _) = busy();
    let mut state = lock(&queue.0);
    let samples = |state: &State| (0..RESAMPLED).map(|round| state.to_sample(round).len()).sum::<usize>();
    assert_eq!(samples(&state), 2 * RESAMPLED as usize);
    state.active[0].sample.is_blocked = true;
    assert_eq!(samples(&state), RESAMPLED as usize + 1);
}

#[test]
fn one_idle_extra_is_woken_for_a_job_if_there_is_room() {
    let (queue, _) = busy();
    let mut state = lock(&queue.0);
    state.growth.extras = 2;
    let idle = |worker| Parked { worker, condvar: Arc::new(Condvar::new()) };
    state.growth.idle.extend([3, 4].map(idle));
    state.wake_extra();
    assert_eq!((state.growth.idle.len(), state.growth.needed), (2, 0), "two run already");
    state.active[0].sample.is_blocked = true;
    state.wake_extra();
    assert_eq!((state.growth.idle.len(), state.growth.needed), (1, 1));
}

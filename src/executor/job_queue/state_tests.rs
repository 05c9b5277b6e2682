//! Unit tests of `state`.

use std::cell::Cell;

use super::super::{JobQueue, SleepProbe, TimedWait};
use super::*;
use crate::executor::batch::tests::Callbacks;
use crate::sync::lock;

/// Returns a worker that has just assisted.
fn assistant() -> Worker {
    Worker {
        id: 7,
        is_extra: false,
        condvar: Arc::new(Condvar::new()),
        probe: WorkerProbe::new(Arc::new(|| None)),
        search_at: Instant::now() + MAX_STINT,
        has_searched: true,
        is_lookout: false,
        just_assisted: true,
    }
}

#[test]
fn a_job_comes_between_two_assists() {
    let (queue, mut worker) = (JobQueue::new(2, 0), assistant());
    let now = Instant::now() + STRAGGLER_AFTER;
    let mut state = lock(&queue.0);
    let batch: Arc<dyn Batch> = Arc::new(Callbacks::of(3, || ()));
    let mut other = Worker { id: 9, ..assistant() };
    state.begin_activity(&mut other, Some(batch.clone()), false, now - STRAGGLER_AFTER);
    assert!(matches!(state.choose(&worker, now), Some(Action::Assist(_))), "no job waits");
    state.jobs.push_back(Job { batch: Arc::new(Callbacks::of(1, || ())), loan: None });
    assert!(matches!(state.choose(&worker, now), Some(Action::Run(_))));
    state.jobs.push_back(Job { batch: Arc::new(Callbacks::of(1, || ())), loan: None });
    worker.just_assisted = false;
    assert!(matches!(state.choose(&worker, now), Some(Action::Assist(_))));
    batch.run();
    assert!(matches!(state.choose(&worker, now), Some(Action::Run(_))), "nothing is left of the straggler");
}

#[test]
fn a_busy_worker_searches_for_rayons_work_only_on_alert() {
    let (queue, mut worker) = (JobQueue::new(2, 0), assistant());
    let now = worker.search_at;
    let mut state = lock(&queue.0);
    let put = |state: &mut State| {
        state.jobs.push_back(Job { batch: Arc::new(Callbacks::of(1, || ())), loan: None });
    };
    put(&mut state);
    assert!(matches!(state.choose(&worker, now), Some(Action::Run(_))), "without an alert");
    state.raise_alert(now, false, None);
    put(&mut state);
    assert!(matches!(state.choose(&worker, now), Some(Action::Search)));
    worker.search_at = now + MAX_STINT;
    assert!(matches!(state.choose(&worker, now), Some(Action::Run(_))), "it has just searched");
    assert!(state.choose(&worker, now).is_none());
    state.begin_activity(&mut worker, Some(Arc::new(Callbacks::of(1, || ()))), false, now);
    assert!(matches!(state.choose(&worker, now), Some(Action::Search)), "it has run a batch since");
}

#[test]
fn an_alert_ends_when_no_worker_is_busy_and_no_work_was_found() {
    let (queue, mut worker) = (JobQueue::new(2, 0), assistant());
    let now = Instant::now();
    let mut state = lock(&queue.0);
    for (is_busy, has_job, found) in [(true, false, false), (false, true, false), (false, false, true)] {
        state.raise_alert(now, found, None);
        if is_busy {
            state.begin_activity(&mut worker, None, false, now);
        }
        if has_job {
            state.jobs.push_back(Job { batch: Arc::new(Callbacks::of(1, || ())), loan: None });
        }
        assert!(!state.try_end_alert() && state.alert.is_some());
        state.end_activity(worker.id);
        state.jobs.clear();
    }
    state.alert = None;
    state.raise_alert(now, false, None);
    assert!(state.try_end_alert() && state.alert.is_none());
    assert!(!state.try_end_alert(), "it has ended");
}

#[test]
fn all_workers_search_before_an_alert_ends() {
    let queue = JobQueue::new(2, 0);
    let now = Instant::now();
    let mut state = lock(&queue.0);
    state.parked.extend([assistant().parked(), Worker { id: 8, ..assistant() }.parked()]);
    state.raise_alert(now, true, None);
    state.hand_over_lookout(now);
    assert_eq!((state.parked.len(), state.lookout_deadline()), (2, Some(now + MIN_INTERVAL)));
    assert!(!state.try_end_alert(), "some have not searched");
    state.alert.as_mut().unwrap().interval = MAX_INTERVAL;
    state.hand_over_lookout(now);
    assert_eq!((state.parked.len(), state.lookout_deadline()), (0, Some(now + MAX_INTERVAL)));
    assert!(state.try_end_alert());
}

/// A thread that is never woken, and the number of rayon's tasks in its own queue.
struct Unwoken(Cell<usize>);

impl TimedWait for Unwoken {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn wait_timeout<'a, T>(&self, _: &Arc<Condvar>, _: MutexGuard<'a, T>, _: Duration) -> MutexGuard<'a, T> {
        unreachable!("the queue is closed")
    }
}

impl WorkerThread for Unwoken {
    fn run_own_task(&self) -> bool {
        let left = self.0.get();
        self.0.set(left.saturating_sub(1));
        left > 0
    }

    fn run_any_task(&self) -> bool {
        false
    }

    fn sleep_probe(&self) -> SleepProbe {
        Arc::new(|| None)
    }
}

#[test]
fn an_assistant_runs_what_its_callbacks_leave_to_rayon() {
    let (queue, thread) = (JobQueue::new(2, 0), Unwoken(Cell::new(2)));
    let batch = Arc::new(Callbacks::of(1, || ()));
    let mut other = assistant();
    lock(&queue.0).begin_activity(&mut other, Some(batch.clone()), false, Instant::now() - STRAGGLER_AFTER);
    queue.close();
    queue.worker_loop(&thread, false);
    assert_eq!((batch.is_exhausted(), thread.0.get()), (true, 0));
}

//! What the queue's lock guards, and what a worker does next by it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::growth::{Growth, Observed, Sight};
use super::thread::WorkerThread;
use super::{MAX_STINT, STRAGGLER_AFTER};
use crate::executor::batch::{Batch, Loan};
use crate::sync::{Arc, Condvar, MutexGuard};

/// Time between two looks of the lookout, at first.
pub(super) const MIN_INTERVAL: Duration = Duration::from_millis(1);
/// The same, at last: a callback that blocks for long makes one thread wake 16 times a second.
pub(super) const MAX_INTERVAL: Duration = Duration::from_millis(64);

pub(super) struct State {
    /// Batches that no worker has begun, in the order of their hand-over.
    pub(super) jobs: VecDeque<Job>,
    /// Loans that have not ended.
    pub(super) loans: Vec<Arc<dyn Loan>>,
    /// What the workers that are busy are in the middle of, in the order of its beginning.
    pub(super) active: Vec<Activity>,
    /// The workers that are parked, in the order in which they did. The first is the lookout.
    pub(super) parked: Vec<Parked>,
    pub(super) alert: Option<Alert>,
    pub(super) growth: Growth,
    /// How many workers there were, ever.
    pub(super) workers: usize,
    /// How many turns there were, ever.
    pub(super) turns: u64,
    pub(super) closed: bool,
}

/// A batch that no worker has begun, and what the worker does afterwards.
pub(super) struct Job {
    pub(super) batch: Arc<dyn Batch>,
    pub(super) loan: Option<Arc<dyn Loan>>,
}

pub(super) struct Activity {
    pub(super) worker: usize,
    pub(super) turn: u64,
    pub(super) since: Instant,
    /// `None`: rayon's work.
    pub(super) batch: Option<Arc<dyn Batch>>,
    pub(super) observed: Observed,
    pub(super) sight: Sight,
}

pub(super) struct Parked {
    pub(super) worker: usize,
    pub(super) call: Arc<Condvar>,
}

pub(super) struct Alert {
    /// When the lookout looks next.
    pub(super) look_at: Instant,
    pub(super) interval: Duration,
    /// Rayon's work was found.
    pub(super) found: bool,
}

/// The worker's own part of its state.
pub(super) struct Worker {
    pub(super) id: usize,
    pub(super) is_extra: bool,
    pub(super) call: Arc<Condvar>,
    pub(super) observed: Observed,
    /// When it looks for rayon's work even if jobs wait.
    pub(super) looks_at: Instant,
    /// It has looked for rayon's work since it ran something.
    pub(super) has_looked: bool,
    /// It is about to look as the lookout.
    pub(super) is_lookout: bool,
    /// Its last turn was a part of a straggler.
    pub(super) has_assisted: bool,
}

pub(super) enum Turn {
    Run(Job),
    Assist(Arc<dyn Batch>),
    Look,
}

impl State {
    pub(super) fn enroll(&mut self, thread: &impl WorkerThread, is_extra: bool) -> Worker {
        self.workers += 1;
        Worker {
            id: self.workers,
            is_extra,
            call: Arc::new(Condvar::new()),
            observed: Observed::new(thread.sleep_probe()),
            looks_at: thread.now() + MAX_STINT,
            has_looked: true,
            is_lookout: false,
            has_assisted: false,
        }
    }

    /// Notes what the worker does from now on.
    pub(super) fn begin(&mut self, worker: &mut Worker, batch: Option<Arc<dyn Batch>>, assists: bool, now: Instant) {
        worker.has_assisted = assists;
        worker.has_looked &= batch.is_none();
        worker.is_lookout &= batch.is_none();
        self.turns += 1;
        let (turn, observed) = (self.turns, worker.observed.clone());
        self.active.push(Activity { worker: worker.id, turn, since: now, batch, observed, sight: Sight::default() });
        self.call_monitor();
    }

    pub(super) fn end_activity(&mut self, worker: usize) {
        if let Some(place) = self.active.iter().position(|activity| activity.worker == worker) {
            self.active.remove(place);
        }
    }

    /// What a worker does next, by the list in the file's head.
    pub(super) fn choose(&mut self, worker: &Worker, now: Instant) -> Option<Turn> {
        if (!worker.has_assisted || self.jobs.is_empty())
            && let Some(batch) = self.straggler(now)
        {
            return Some(Turn::Assist(batch.clone()));
        }
        let on_alert = self.alert.is_some() && !self.closed;
        if on_alert && now >= worker.looks_at {
            return Some(Turn::Look);
        }
        if let Some(job) = self.jobs.pop_front() {
            return Some(Turn::Run(job));
        }
        (on_alert && !worker.has_looked).then_some(Turn::Look)
    }

    /// The batch that was begun first, if that is too long ago.
    pub(super) fn straggler(&self, now: Instant) -> Option<&Arc<dyn Batch>> {
        // Batches that are younger are not looked at: their cursors are hot in the caches of other workers.
        let old = self.active.iter().take_while(|activity| activity.since + STRAGGLER_AFTER <= now);
        old.filter_map(|activity| activity.batch.as_ref()).find(|batch| !batch.is_spent())
    }

    /// Whether a worker may drive one of the `shards`. There must be one for each: the batches of the others shall not wait
    /// for a worker that drives. And it must come soon, as nobody drives until then: each has one job more to do at most.
    pub(super) fn may_lend(&self, shards: usize, now: Instant) -> bool {
        let takes_long = |activity: &&Activity| activity.since + STRAGGLER_AFTER <= now;
        let workers = self.growth.own().saturating_sub(self.active.iter().filter(takes_long).count());
        !self.closed && self.jobs.len() <= self.growth.own() && workers >= shards
    }

    /// When the lookout has something to do, if nobody calls it before.
    pub(super) fn look_at(&self) -> Option<Instant> {
        let alert = self.alert.as_ref()?;
        let unspent = |activity: &&Activity| activity.batch.as_ref().is_some_and(|batch| !batch.is_spent());
        let straggler = self.active.iter().find(unspent).map(|activity| activity.since + STRAGGLER_AFTER);
        straggler.into_iter().chain([alert.look_at]).min()
    }

    /// Has the lookout look at once, and then in short intervals.
    pub(super) fn raise_alert(&mut self, now: Instant, found: bool) {
        let found = found || self.alert.as_ref().is_some_and(|alert| alert.found);
        self.alert = Some(Alert { look_at: now, interval: MIN_INTERVAL, found });
        self.call_lookout();
    }

    /// The lookout leaves its place to the next one.
    pub(super) fn look_again(&mut self, now: Instant) {
        let Some(alert) = &mut self.alert else { return };
        alert.look_at = now + alert.interval;
        if self.active.is_empty() && alert.interval == MAX_INTERVAL {
            // The last look of this alert is everybody's: `rayon::spawn_broadcast` leaves work with each worker.
            alert.found = false;
            self.parked.drain(..).for_each(Parked::call);
        }
        self.call_lookout();
    }

    /// Ends the alert if nobody is busy, and those that are parked know that rayon has no work for them. True if it ended.
    pub(super) fn end_alert(&mut self) -> bool {
        let over =
            self.active.is_empty() && self.jobs.is_empty() && self.alert.as_ref().is_some_and(|alert| !alert.found);
        if over {
            self.alert = None;
        }
        over
    }

    /// Ends the alert if every worker drives, and has nothing to run: then there is no lookout to end it. Each of them does
    /// what rayon leaves in its queue after each batch.
    pub(super) fn end_alert_if_all_drive(&mut self) {
        if self.parked.is_empty() && self.active.is_empty() && self.jobs.is_empty() {
            self.alert = None;
        }
    }

    /// Has the lookout see when it is to look. Without one, those that drive are needed, and the monitor.
    pub(super) fn call_lookout(&mut self) {
        if let Some(lookout) = self.parked.first() {
            return lookout.call.notify_one();
        }
        if self.may_wait() {
            self.loans.drain(..).for_each(|loan| loan.recall());
        }
        self.call_monitor();
    }
}

impl Worker {
    pub(super) fn parked(&self) -> Parked {
        Parked { worker: self.id, call: self.call.clone() }
    }
}

impl Parked {
    pub(super) fn call(self) {
        self.call.notify_one();
    }
}

/// Sleeps until the worker is called, or has something to do as the lookout.
pub(super) fn park<'a>(
    mut state: MutexGuard<'a, State>,
    worker: &mut Worker,
    thread: &impl WorkerThread,
) -> MutexGuard<'a, State> {
    state.parked.push(worker.parked());
    loop {
        // A call takes the worker from the list, which tells it from a wake-up for no reason.
        let Some(place) = state.parked.iter().position(|parked| parked.worker == worker.id) else {
            worker.has_looked = false;
            return state;
        };
        let timeout = match state.look_at().filter(|_| place == 0) {
            None => None,
            Some(at) => {
                let now = thread.now();
                if at <= now {
                    if state.end_alert() {
                        continue;
                    }
                    state.parked.remove(place);
                    worker.is_lookout = true;
                    worker.has_looked = false;
                    state.look_again(now);
                    return state;
                }
                Some(at - now)
            }
        };
        state = match timeout {
            None => worker.call.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner()),
            Some(timeout) => thread.wait_timeout(&worker.call, state, timeout),
        };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;

    use super::super::{JobQueue, SleepProbe, Waits};
    use super::*;
    use crate::executor::batch::tests::Callbacks;

    /// A worker that has just assisted.
    fn assistant() -> Worker {
        Worker {
            id: 7,
            is_extra: false,
            call: Arc::new(Condvar::new()),
            observed: Observed::new(Arc::new(|| None)),
            looks_at: Instant::now() + MAX_STINT,
            has_looked: true,
            is_lookout: false,
            has_assisted: true,
        }
    }

    #[test]
    fn a_job_goes_before_the_second_part_of_a_straggler_in_a_row() {
        let (queue, mut worker) = (JobQueue::new(2, 0), assistant());
        let now = Instant::now() + STRAGGLER_AFTER;
        let mut state = queue.lock();
        let batch: Arc<dyn Batch> = Arc::new(Callbacks::of(3, || ()));
        let mut other = Worker { id: 9, ..assistant() };
        state.begin(&mut other, Some(batch.clone()), false, now - STRAGGLER_AFTER);
        assert!(matches!(state.choose(&worker, now), Some(Turn::Assist(_))), "no job waits");
        state.jobs.push_back(Job { batch: Arc::new(Callbacks::of(1, || ())), loan: None });
        assert!(matches!(state.choose(&worker, now), Some(Turn::Run(_))));
        state.jobs.push_back(Job { batch: Arc::new(Callbacks::of(1, || ())), loan: None });
        worker.has_assisted = false;
        assert!(matches!(state.choose(&worker, now), Some(Turn::Assist(_))));
        batch.run();
        assert!(matches!(state.choose(&worker, now), Some(Turn::Run(_))), "nothing is left of the straggler");
    }

    #[test]
    fn a_worker_that_is_busy_for_long_looks_for_rayons_work_on_alert_alone() {
        let (queue, mut worker) = (JobQueue::new(2, 0), assistant());
        let now = worker.looks_at;
        let mut state = queue.lock();
        let put = |state: &mut State| {
            state.jobs.push_back(Job { batch: Arc::new(Callbacks::of(1, || ())), loan: None });
        };
        put(&mut state);
        assert!(matches!(state.choose(&worker, now), Some(Turn::Run(_))), "without an alert");
        state.raise_alert(now, false);
        put(&mut state);
        assert!(matches!(state.choose(&worker, now), Some(Turn::Look)));
        worker.looks_at = now + MAX_STINT;
        assert!(matches!(state.choose(&worker, now), Some(Turn::Run(_))), "it has just looked");
        assert!(state.choose(&worker, now).is_none());
        state.begin(&mut worker, Some(Arc::new(Callbacks::of(1, || ()))), false, now);
        assert!(matches!(state.choose(&worker, now), Some(Turn::Look)), "it has run something since");
    }
    #[test]
    fn an_alert_ends_when_nobody_is_busy_and_no_work_was_found() {
        let (queue, mut worker) = (JobQueue::new(2, 0), assistant());
        let now = Instant::now();
        let mut state = queue.lock();
        for (is_busy, has_job, found) in [(true, false, false), (false, true, false), (false, false, true)] {
            state.raise_alert(now, found);
            if is_busy {
                state.begin(&mut worker, None, false, now);
            }
            if has_job {
                state.jobs.push_back(Job { batch: Arc::new(Callbacks::of(1, || ())), loan: None });
            }
            assert!(!state.end_alert() && state.alert.is_some());
            state.end_activity(worker.id);
            state.jobs.clear();
        }
        state.alert = None;
        state.raise_alert(now, false);
        assert!(state.end_alert() && state.alert.is_none());
        assert!(!state.end_alert(), "it has ended");
    }

    #[test]
    fn the_last_look_of_an_alert_is_everybodys() {
        let queue = JobQueue::new(2, 0);
        let now = Instant::now();
        let mut state = queue.lock();
        state.parked.extend([assistant().parked(), Worker { id: 8, ..assistant() }.parked()]);
        state.raise_alert(now, true);
        state.look_again(now);
        assert_eq!((state.parked.len(), state.look_at()), (2, Some(now + MIN_INTERVAL)));
        assert!(!state.end_alert(), "some have not looked");
        state.alert.as_mut().unwrap().interval = MAX_INTERVAL;
        state.look_again(now);
        assert_eq!((state.parked.len(), state.look_at()), (0, Some(now + MAX_INTERVAL)));
        assert!(state.end_alert());
    }
    /// A thread that is never called, with so many pieces of rayon's work in its own queue.
    struct Lone(Cell<usize>);

    impl Waits for Lone {
        fn now(&self) -> Instant {
            Instant::now()
        }

        fn wait_timeout<'a, T>(&self, _: &Arc<Condvar>, _: MutexGuard<'a, T>, _: Duration) -> MutexGuard<'a, T> {
            unreachable!("the queue is closed")
        }
    }

    impl WorkerThread for Lone {
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
    fn what_an_assisted_callback_leaves_to_rayon_is_run_by_the_assistant() {
        let (queue, thread) = (JobQueue::new(2, 0), Lone(Cell::new(2)));
        let batch = Arc::new(Callbacks::of(1, || ()));
        let mut other = assistant();
        queue.lock().begin(&mut other, Some(batch.clone()), false, Instant::now() - STRAGGLER_AFTER);
        queue.close();
        queue.worker_loop(&thread, false);
        assert_eq!((batch.is_spent(), thread.0.get()), (true, 0));
    }
}

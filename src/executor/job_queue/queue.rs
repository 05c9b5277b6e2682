//! `JobQueue`, and the loop of its workers: see the [head](super) of the room.

use std::collections::VecDeque;
use std::mem;
use std::time::Instant;

use super::growth::{ExtraThreads, wait_idle};
use super::state::{Action, Growth, Job, MAX_INTERVAL, MAX_STINT, Parked, STRAGGLER_AFTER, State, Worker, park};
use super::thread::WorkerThread;
use crate::executor::batch::{Batch, Loan};
use crate::sync::{Arc, Mutex, lock};

/// The queue of batches of one pool.
pub(crate) struct JobQueue(pub(super) Mutex<State>);

impl JobQueue {
    /// Creates the queue of a pool with this number of threads. While workers are blocked, up to `max_extra` extra ones
    /// run, if a thread runs the [`monitor_loop`](Self::monitor_loop).
    pub(crate) fn new(threads: usize, max_extra: usize) -> Self {
        Self(Mutex::new(State {
            jobs: VecDeque::new(),
            loans: Vec::new(),
            active: Vec::new(),
            parked: Vec::new(),
            alert: None,
            growth: Growth::new(threads, max_extra),
            workers: 0,
            activities: 0,
            closed: false,
        }))
    }

    /// Adds a batch, and wakes a worker for it. Drops the batch if the queue is closed.
    pub(crate) fn push(&self, batch: Arc<dyn Batch>) {
        let mut state = lock(&self.0);
        if state.closed {
            drop(state);
            return drop(batch);
        }
        state.jobs.push_back(Job { batch, loan: None });
        let woken = state.parked.pop();
        if woken.is_none() {
            state.wake_extra();
        }
        drop(state);
        woken.into_iter().for_each(Parked::unpark);
    }

    /// Adds a batch, whose worker then drives one of the `shards` until the loan is over. Returns false if the pool has
    /// too few workers for that: it then runs the batch, and no worker drives.
    pub(crate) fn push_with_loan(
        &self,
        batch: Arc<dyn Batch>,
        loan: Arc<dyn Loan>,
        shards: usize,
        now: Instant,
    ) -> bool {
        let mut state = lock(&self.0);
        if !state.may_lend(shards, now) {
            drop(state);
            self.push(batch);
            return false;
        }
        state.loans.push(loan.clone());
        state.jobs.push_back(Job { batch, loan: Some(loan) });
        let woken = state.parked.pop();
        drop(state);
        woken.into_iter().for_each(Parked::unpark);
        true
    }

    /// Raises the [alert](super#the-alert) for a batch that was not finished [`STRAGGLER_AFTER`] after its dispatch.
    /// Returns whether there is a monitor.
    pub(crate) fn alert(&self, late: Arc<dyn Batch>, now: Instant) -> bool {
        let mut state = lock(&self.0);
        state.raise_alert(now, false, Some(Arc::downgrade(&late)));
        state.growth.has_monitor
    }

    /// Returns the statistics of the extra workers.
    pub(crate) fn extra_threads(&self) -> ExtraThreads {
        let state = lock(&self.0);
        ExtraThreads { threads: state.growth.extras as u64, needed: state.growth.needed }
    }

    /// Drops all jobs and loans.
    #[cfg(test)]
    pub(crate) fn clear(&self) {
        let mut state = lock(&self.0);
        let dropped = (mem::take(&mut state.jobs), mem::take(&mut state.loans));
        drop(state);
        drop(dropped);
    }

    /// Calls `f` under the lock.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn while_locked<R>(&self, f: impl FnOnce() -> R) -> R {
        let _locked = lock(&self.0);
        f()
    }

    /// Closes the queue: the workers end once no job is left.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.0);
        state.closed = true;
        state.parked.drain(..).for_each(Parked::unpark);
        state.growth.close();
    }

    /// Makes the calling thread a worker until the queue is closed. An extra worker also returns after some idle
    /// seconds. Must be called once on each such thread, at the bottom of its stack.
    pub(crate) fn worker_loop(&self, thread: &impl WorkerThread, is_extra: bool) {
        let mut worker = lock(&self.0).register(thread, is_extra);
        while let Some(action) = self.next(&mut worker, thread) {
            match action {
                Action::Run(Job { batch, loan }) => {
                    self.run(batch, &worker, thread);
                    if let Some(loan) = loan {
                        self.drive(&*loan, &mut worker, thread);
                        lock(&self.0).loans.retain(|other| !Arc::ptr_eq(other, &loan));
                    }
                }
                Action::Assist(batch) => {
                    let ends = thread.now() + STRAGGLER_AFTER;
                    worker.probe.run_foreign(|| while batch.run_one() && thread.now() < ends {});
                    self.run_own_tasks(&worker, thread);
                }
                Action::Search => self.search(&mut worker, thread),
            }
        }
    }

    /// Runs a batch, and then the work that it has left to rayon.
    fn run(&self, batch: Arc<dyn Batch>, worker: &Worker, thread: &impl WorkerThread) {
        worker.probe.run_foreign(|| batch.run());
        self.run_own_tasks(worker, thread);
        // The batch counts as unfinished until here, so that its driver raises the alert for the work above, too.
        drop(batch);
    }

    /// Drives a shard until the loan is over, and runs the callbacks that expire there.
    fn drive(&self, loan: &dyn Loan, worker: &mut Worker, thread: &impl WorkerThread) {
        let next = |worker: &mut Worker| {
            // The driver's own thread takes the driver back if the search takes long.
            if lock(&self.0).must_search(worker, thread.now()) {
                self.search(worker, thread);
            }
            let mut state = lock(&self.0);
            state.end_activity(worker.id);
            state.end_alert_if_all_drive();
            drop(state);
            loan.next_batch()
        };
        while let Some(batch) = next(worker) {
            lock(&self.0).begin_activity(worker, Some(batch.clone()), false, thread.now());
            self.run(batch, worker, thread);
        }
    }

    /// Does the work that callbacks left in the worker's own rayon queue.
    fn run_own_tasks(&self, worker: &Worker, thread: &impl WorkerThread) {
        if worker.is_extra {
            // An extra worker is alone in its rayon pool, so no other thread would do the work.
            return worker.probe.run_foreign(|| while thread.run_own_task() {});
        }
        let mut now = thread.now();
        let ends = now + MAX_STINT;
        let mut found = false;
        worker.probe.run_foreign(|| {
            while now < ends && thread.run_own_task() {
                found = true;
                now = thread.now();
            }
        });
        if found {
            // More work may be left: here, or in the queues of parked workers, by `rayon::spawn_broadcast`.
            let mut state = lock(&self.0);
            match &mut state.alert {
                Some(alert) => alert.found = true,
                None => state.raise_alert(now, true, None),
            }
        }
    }

    /// Searches for rayon's work, and does it.
    fn search(&self, worker: &mut Worker, thread: &impl WorkerThread) {
        let began = thread.now();
        let (mut now, mut found) = (began, false);
        worker.has_searched = true;
        worker.probe.run_foreign(|| {
            while thread.run_any_task() {
                found = true;
                now = thread.now();
                if now - began >= MAX_STINT {
                    worker.has_searched = false;
                    break;
                }
            }
        });
        worker.search_at = now + MAX_STINT;
        let was_lookout = mem::take(&mut worker.is_lookout);
        let mut state = lock(&self.0);
        if found {
            state.raise_alert(now, true, None);
        } else if was_lookout && let Some(alert) = &mut state.alert {
            // The next lookout may have parked for the old interval. It then wakes once too early, and parks again.
            alert.search_at += alert.interval;
            alert.interval = (alert.interval * 2).min(MAX_INTERVAL);
        }
    }

    /// Returns the worker's next action. `None`: the queue is closed and empty, or an idle extra worker ends.
    fn next(&self, worker: &mut Worker, thread: &impl WorkerThread) -> Option<Action> {
        let mut now = thread.now();
        let mut state = lock(&self.0);
        state.end_activity(worker.id);
        loop {
            if (!worker.is_extra || !state.exceeds_target())
                && let Some(action) = state.choose(worker, now)
            {
                let batch = match &action {
                    Action::Run(Job { batch, .. }) | Action::Assist(batch) => Some(batch.clone()),
                    Action::Search => None,
                };
                let assists = matches!(action, Action::Assist(_));
                state.begin_activity(worker, batch, assists, now);
                if assists && state.alert.is_none() {
                    // No driver watches a batch that a worker runs while it drives.
                    state.raise_alert(now, false, None);
                }
                return Some(action);
            }
            if state.closed {
                break;
            }
            if worker.is_extra {
                match wait_idle(state, worker, thread) {
                    Ok(woken) => state = woken,
                    Err(ends) => {
                        state = ends;
                        break;
                    }
                }
            } else {
                state = park(state, worker, thread);
            }
            now = thread.now();
        }
        if worker.is_extra {
            state.growth.remove_extra();
        }
        None
    }
}

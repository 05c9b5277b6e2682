//! The job queue: batches wait here for the workers of a timer's own pool, and the workers for batches.
//!
//! # What is a worker
//!
//! A worker is a thread that runs [`worker_loop`](JobQueue::worker_loop) at the bottom of its stack, from its start to
//! its end. Only this loop starts callbacks, and nothing in rayon's queues runs the loop. So a thread is one worker at
//! most. A callback that waits inside `rayon::join` may run other work of rayon meanwhile, but never another callback.
//! While workers are blocked inside callbacks, there are [extra](growth) ones.
//!
//! # A worker's next action
//!
//! A worker takes the first of these that applies, under one lock that it holds for some instructions:
//!
//! 1. It *assists* with a *straggler*, a batch that a worker started over [`STRAGGLER_AFTER`] ago and that has
//!    callbacks left to start. It does not assist twice in a row while a job waits.
//! 2. On [alert](self#the-alert), it *searches* for rayon's work, if its last search is over [`MAX_STINT`] ago.
//! 3. It runs the first *job*, a batch that no worker has started.
//! 4. On alert, it searches, if it has run something since its last search.
//! 5. It parks until it is woken.
//!
//! An extra worker first checks whether there is [room](growth) for it. `push` wakes the worker that parked last, whose
//! caches are warm. So while a worker is parked, no job waits longer than a woken worker takes to come.
//!
//! # Rayon's work
//!
//! A callback gives work to rayon by `spawn`, `join` and so on. The work goes to the rayon queue of the worker that
//! runs the callback, and other workers steal it. After each batch, a worker does the work in its own rayon queue.
//! rayon wakes no thread for the rest, as no worker ever sleeps inside rayon. The alert makes workers search for it.
//!
//! # The alert
//!
//! A driver raises the alert when a batch is not finished [`STRAGGLER_AFTER`] after its dispatch. The cause is a
//! callback that takes long, work that it left to rayon, or a pool whose workers are all busy. The driver raises the
//! alert once for each batch, so a busy pool does not keep a driver awake. Busy workers need no wake-up: each of them
//! reads the alert before it parks. A worker that has run rayon's work raises the alert, too.
//!
//! On alert the worker that parked first is the *lookout*, the leader of a leader-follower pattern: it alone parks with
//! a timeout. It wakes for the next straggler, and searches for rayon's work after 1 ms, 2 ms, 4 ms, and so on, up to
//! 64 ms. Before it does either, it makes the next parked worker the lookout. So idle workers join one after another.
//!
//! The alert ends when a lookout finds no worker busy and no job. If any worker has found rayon's work meanwhile, all
//! parked workers search once more before that. Without an alert, workers park without a timeout.
//!
//! # A worker that drives
//!
//! A job may come with the [`Loan`] of a shard. After the batch, the worker drives that shard and runs the callbacks
//! that expire there. Meanwhile it counts as neither busy nor parked, and takes no job. This requires that few jobs
//! wait, and that the pool has a worker for each shard. Workers that have been in one activity over [`STRAGGLER_AFTER`]
//! do not count. If a batch waits nevertheless and no worker is parked, the alert recalls all loans.

mod growth;
mod probe;
mod state;
mod thread;

use std::collections::VecDeque;
use std::mem;
use std::time::{Duration, Instant};

pub(crate) use growth::ExtraThreads;
use state::{Action, Growth, Job, MAX_INTERVAL, Parked, State, Worker, park};
pub(crate) use thread::{MonitorThread, SleepProbe, TimedWait, WorkerThread};

use super::batch::{Batch, Loan};
use crate::sync::{Arc, Mutex, MutexGuard};

/// Time after which a batch gets more workers. It is the default tick: a driver that wakes for the next tick then
/// checks the batch without a wake-up of its own.
pub(crate) const STRAGGLER_AFTER: Duration = Duration::from_millis(1);
/// Maximum time for which a busy worker serves only jobs, on alert, or only rayon's work.
const MAX_STINT: Duration = Duration::from_millis(10);

/// The queue of batches of one pool.
pub(crate) struct JobQueue(Mutex<State>);

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
        let mut state = self.lock();
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
        let mut state = self.lock();
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

    /// Raises the [alert](self#the-alert): a batch was not finished [`STRAGGLER_AFTER`] after its dispatch. Returns
    /// whether there is a monitor.
    pub(crate) fn alert(&self, now: Instant) -> bool {
        let mut state = self.lock();
        state.raise_alert(now, false);
        state.growth.has_monitor
    }

    /// Drops all jobs and loans.
    #[cfg(test)]
    pub(crate) fn clear(&self) {
        let mut state = self.lock();
        let dropped = (mem::take(&mut state.jobs), mem::take(&mut state.loans));
        drop(state);
        drop(dropped);
    }

    /// Calls `f` under the lock.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn while_locked<R>(&self, f: impl FnOnce() -> R) -> R {
        let _locked = self.lock();
        f()
    }

    /// Closes the queue: the workers end once no job is left.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.parked.drain(..).for_each(Parked::unpark);
        state.growth.close();
    }

    /// Makes the calling thread a worker until the queue is closed. An extra worker also returns after some idle
    /// seconds. Must be called once on each such thread, at the bottom of its stack.
    pub(crate) fn worker_loop(&self, thread: &impl WorkerThread, is_extra: bool) {
        let mut worker = self.lock().register(thread, is_extra);
        while let Some(action) = self.next(&mut worker, thread) {
            match action {
                Action::Run(Job { batch, loan }) => {
                    self.run(batch, &worker, thread);
                    if let Some(loan) = loan {
                        self.drive(&*loan, &mut worker, thread);
                        self.lock().loans.retain(|other| !Arc::ptr_eq(other, &loan));
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
        let next = |worker: &Worker| {
            let mut state = self.lock();
            state.end_activity(worker.id);
            state.end_alert_if_all_drive();
            drop(state);
            loan.next_batch()
        };
        while let Some(batch) = next(worker) {
            self.lock().begin_activity(worker, Some(batch.clone()), false, thread.now());
            self.run(batch, worker, thread);
        }
        // While the worker slept as the driver, other threads may have added to its own rayon queue.
        self.run_own_tasks(worker, thread);
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
            let mut state = self.lock();
            match &mut state.alert {
                Some(alert) => alert.found = true,
                None => state.raise_alert(now, true),
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
        let mut state = self.lock();
        if found {
            state.raise_alert(now, true);
        } else if was_lookout && let Some(alert) = &mut state.alert {
            // The next lookout may have parked for the old interval. It then wakes once too early, and parks again.
            alert.search_at += alert.interval;
            alert.interval = (alert.interval * 2).min(MAX_INTERVAL);
        }
    }

    /// Returns the worker's next action. `None`: the queue is closed and empty, or an idle extra worker ends.
    fn next(&self, worker: &mut Worker, thread: &impl WorkerThread) -> Option<Action> {
        let mut now = thread.now();
        let mut state = self.lock();
        state.end_activity(worker.id);
        loop {
            if (!worker.is_extra || !state.exceeds_target())
                && let Some(action) = state.choose(worker, now)
            {
                let batch = match &action {
                    Action::Run(Job { batch, .. }) | Action::Assist(batch) => Some(batch.clone()),
                    Action::Search => None,
                };
                state.begin_activity(worker, batch, matches!(action, Action::Assist(_)), now);
                return Some(action);
            }
            if state.closed {
                break;
            }
            if worker.is_extra {
                match growth::wait_idle(state, worker, thread) {
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

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

//! Where batches wait for the workers of a timer's own pool, and workers for batches.
//!
//! # Who is a worker
//!
//! A worker is a thread that runs [`worker_loop`](JobQueue::worker_loop) at the bottom of its stack, from its start to
//! its end. The loop is the only place that starts a callback, and rayon's queues hold nothing that starts the loop. So a
//! thread never counts twice, and a callback that waits inside `rayon::join` may run other work of rayon's meanwhile,
//! but never another callback. While workers are blocked inside callbacks there are [extra](growth) ones.
//!
//! # What a worker does next
//!
//! Under one lock, which is held for some instructions, a worker takes the first of these that there is:
//!
//! 1. a part of a *straggler*: a batch that another worker began over [`STRAGGLER_AFTER`] ago and that is not spent, unless
//!    its last turn was such a part and a job waits;
//! 2. rayon's own work, on alert, if its last look at that is over [`MAX_STINT`] ago;
//! 3. the first job;
//! 4. rayon's own work, on alert, if it has run something since its last look;
//! 5. nothing: it parks until it is called.
//!
//! An extra worker does so only while there is [room](growth) for it.
//!
//! `put` calls the worker that parked last, whose caches are warm. So no job waits while a worker is parked, but for the
//! one that is on its way.
//!
//! # Rayon's own work
//!
//! A callback gives work to rayon with `spawn`, `join` and so on. It lies in a queue of the worker that runs the callback,
//! and other workers steal it. A worker does what lies in its own queue after each batch. rayon wakes nobody for the rest,
//! as no worker ever sleeps in rayon: that is what the alert is for.
//!
//! # The alert
//!
//! A driver raises it when a batch is not finished [`STRAGGLER_AFTER`] after its hand-over: a callback takes long, the work
//! that it left to rayon does, or all workers are busy. The driver does so once for each batch, so workers that
//! are all busy wake no driver, and need no waking themselves: each sees the alert before it parks. A worker that has
//! run rayon's work raises the alert, too.
//!
//! On alert the worker that parked first is the *lookout*: it wakes for the next straggler, and looks for rayon's work
//! after a millisecond, two, four, and so on. Before it does either, it calls the next of the parked to be the lookout,
//! so the idle join one after another. The alert ends when a lookout sees that nobody is busy. If rayon's work was found
//! meanwhile, all that are parked look once more before. Without an alert, workers park without a timeout.

//!
//! # A worker that drives
//!
//! A job may come with the [`Loan`] of a shard: after the batch the worker drives that shard, and runs what is due there.
//! Meanwhile it is neither busy nor parked, so it is there for no job. It may do so only while few jobs wait, and there is a
//! worker for each shard, those left out whose turn takes over [`STRAGGLER_AFTER`]. When a batch waits nevertheless, and
//! nobody is parked, the alert ends all loans.

mod growth;
mod state;
mod thread;

use std::collections::VecDeque;
use std::mem;
use std::time::{Duration, Instant};

pub(crate) use growth::ExtraThreads;
use growth::Growth;
use state::{Job, MAX_INTERVAL, Parked, State, Turn, Worker, park};
pub(crate) use thread::{MonitorThread, SleepProbe, Waits, WorkerThread};

use super::batch::{Batch, Loan};
use crate::sync::{Arc, Mutex, MutexGuard};

/// After this time a batch gets more workers: a default tick, as a driver that is awake for the next one looks for
/// nothing.
pub(crate) const STRAGGLER_AFTER: Duration = Duration::from_millis(1);
/// Maximum time that a busy worker goes without a look at the other queue: jobs, or rayon's work on alert.
const MAX_STINT: Duration = Duration::from_millis(10);

/// The queue of batches of one pool.
pub(crate) struct JobQueue(Mutex<State>);

impl JobQueue {
    /// The queue of a pool of so many threads. Up to `max_extra` more are called while workers are blocked, if a thread
    /// runs the [`monitor_loop`](Self::monitor_loop).
    pub(crate) fn new(threads: usize, max_extra: usize) -> Self {
        Self(Mutex::new(State {
            jobs: VecDeque::new(),
            loans: Vec::new(),
            active: Vec::new(),
            parked: Vec::new(),
            alert: None,
            growth: Growth::new(threads, max_extra),
            workers: 0,
            turns: 0,
            closed: false,
        }))
    }

    /// Has a worker run the batch. Drops it if the queue is closed.
    pub(crate) fn put(&self, batch: Arc<dyn Batch>) {
        let mut state = self.lock();
        if state.closed {
            drop(state);
            return drop(batch);
        }
        state.jobs.push_back(Job { batch, loan: None });
        let called = state.parked.pop();
        if called.is_none() {
            state.call_extra();
        }
        drop(state);
        called.into_iter().for_each(Parked::call);
    }

    /// Has a worker run the batch, and then drive one of the `shards` until the loan is over. False if too few workers are
    /// there for that: then the batch is run, and nobody drives.
    pub(crate) fn put_with_loan(
        &self,
        batch: Arc<dyn Batch>,
        loan: Arc<dyn Loan>,
        shards: usize,
        now: Instant,
    ) -> bool {
        let mut state = self.lock();
        if !state.may_lend(shards, now) {
            drop(state);
            self.put(batch);
            return false;
        }
        state.loans.push(loan.clone());
        state.jobs.push_back(Job { batch, loan: Some(loan) });
        let called = state.parked.pop();
        drop(state);
        called.into_iter().for_each(Parked::call);
        true
    }

    /// Raises the alert: a batch was not finished [`STRAGGLER_AFTER`] after its hand-over. Returns whether there is a
    /// monitor.
    pub(crate) fn alert(&self, now: Instant) -> bool {
        let mut state = self.lock();
        state.raise_alert(now, false);
        state.growth.has_monitor()
    }

    /// Drops what no worker has come for.
    #[cfg(test)]
    pub(crate) fn clear(&self) {
        let mut state = self.lock();
        let dropped = (mem::take(&mut state.jobs), mem::take(&mut state.loans));
        drop(state);
        drop(dropped);
    }

    /// Lets the workers end once no job is left.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.parked.drain(..).for_each(Parked::call);
        state.growth.close();
    }

    /// Runs what is due until the queue is closed, or an extra worker is not needed any more. To be called once on each
    /// thread that is to be a worker, at the bottom of its stack.
    pub(crate) fn worker_loop(&self, thread: &impl WorkerThread, is_extra: bool) {
        let mut worker = self.lock().enroll(thread, is_extra);
        while let Some(turn) = self.next(&mut worker, thread) {
            match turn {
                Turn::Run(Job { batch, loan }) => {
                    self.run(batch, &worker, thread);
                    if let Some(loan) = loan {
                        self.drive(&*loan, &mut worker, thread);
                        self.lock().loans.retain(|other| !Arc::ptr_eq(other, &loan));
                    }
                }
                Turn::Assist(batch) => {
                    let ends = thread.now() + STRAGGLER_AFTER;
                    worker.observed.run(|| while batch.run_one() && thread.now() < ends {});
                    self.run_own_tasks(&worker, thread);
                }
                Turn::Look => self.look(&mut worker, thread),
            }
        }
    }

    fn run(&self, batch: Arc<dyn Batch>, worker: &Worker, thread: &impl WorkerThread) {
        worker.observed.run(|| batch.run());
        self.run_own_tasks(worker, thread);
        // Until here it was not finished, whatever its callbacks left to rayon.
        drop(batch);
    }

    /// Drives a shard until the loan is over, and runs what is due there.
    fn drive(&self, loan: &dyn Loan, worker: &mut Worker, thread: &impl WorkerThread) {
        let next = |worker: &Worker| {
            let mut state = self.lock();
            state.end_activity(worker.id);
            state.end_alert_if_all_drive();
            drop(state);
            loan.next_batch()
        };
        while let Some(batch) = next(worker) {
            self.lock().begin(worker, Some(batch.clone()), false, thread.now());
            self.run(batch, worker, thread);
        }
        // It has not looked at its own queue while it slept in the driver's place.
        self.run_own_tasks(worker, thread);
    }

    /// Does what the callbacks of a batch left in the worker's own queue.
    fn run_own_tasks(&self, worker: &Worker, thread: &impl WorkerThread) {
        if worker.is_extra {
            // rayon knows this thread alone: nobody else would do it.
            return worker.observed.run(|| while thread.run_own_task() {});
        }
        let mut now = thread.now();
        let ends = now + MAX_STINT;
        let mut found = false;
        worker.observed.run(|| {
            while now < ends && thread.run_own_task() {
                found = true;
                now = thread.now();
            }
        });
        if found {
            // More may be left, here or where `rayon::spawn_broadcast` has put it: with workers that are parked.
            let mut state = self.lock();
            match &mut state.alert {
                Some(alert) => alert.found = true,
                None => state.raise_alert(now, true),
            }
        }
    }

    /// Looks for rayon's work, and does it.
    fn look(&self, worker: &mut Worker, thread: &impl WorkerThread) {
        let began = thread.now();
        let (mut now, mut found) = (began, false);
        worker.has_looked = true;
        worker.observed.run(|| {
            while thread.run_any_task() {
                found = true;
                now = thread.now();
                if now - began >= MAX_STINT {
                    worker.has_looked = false;
                    break;
                }
            }
        });
        worker.looks_at = now + MAX_STINT;
        let was_lookout = mem::take(&mut worker.is_lookout);
        let mut state = self.lock();
        if found {
            state.raise_alert(now, true);
        } else if was_lookout && let Some(alert) = &mut state.alert {
            // The next lookout may have gone to sleep for the old interval: then it wakes, and sleeps on.
            alert.look_at += alert.interval;
            alert.interval = (alert.interval * 2).min(MAX_INTERVAL);
        }
    }

    /// The worker's next turn. `None` when the queue is closed and empty, or an extra ends.
    fn next(&self, worker: &mut Worker, thread: &impl WorkerThread) -> Option<Turn> {
        let mut now = thread.now();
        let mut state = self.lock();
        state.end_activity(worker.id);
        loop {
            if (!worker.is_extra || !state.is_crowded())
                && let Some(turn) = state.choose(worker, now)
            {
                let batch = match &turn {
                    Turn::Run(Job { batch, .. }) | Turn::Assist(batch) => Some(batch.clone()),
                    Turn::Look => None,
                };
                state.begin(worker, batch, matches!(turn, Turn::Assist(_)), now);
                return Some(turn);
            }
            if state.closed {
                break;
            }
            if worker.is_extra {
                match growth::wait_idle(state, worker, thread) {
                    Ok(called) => state = called,
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
            state.growth.extra_ends();
        }
        None
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

//! The job queue: batches wait here for workers, and the workers of a service's own pool for batches.
//!
//! # Jobs
//!
//! A *job* is a batch that waits for a worker. A dispatch adds the job at the end and wakes the worker that became idle
//! last, whose caches are warm. A worker becomes idle only under the lock under which it finds no job.
//! **So while a worker is idle, no job waits longer than a woken worker takes to come.**
//!
//! A batch is *late* [a millisecond](LATE_AFTER) after its dispatch or after its start. Each worker that takes a
//! late job puts a copy of it back at the end of the queue, under the same lock, and wakes one more worker. So a late
//! batch is in the queue until a worker finds nothing left of it to start, and idle workers join one after another. All
//! copies share the cursor of the batch. A batch that is not late has one worker, because to wake another costs as much
//! as many callbacks.
//!
//! # Workers
//!
//! The *workers* of the own pool are threads that run [`work`](JobQueue::work) at the bottom of their
//! stacks, from their start to their end. Only this loop starts callbacks, and nothing in rayon's queues runs the loop.
//! So a callback that waits inside `rayon::join` may run other work of rayon meanwhile, but never another callback.
//! After each callback, the worker runs what that has `spawn`ed: a later one that blocks does not hold it up. What is
//! broadcast waits for the end of the batch, because to look for it takes a memory barrier. A [borrowed
//! pool](super::borrowed) has no such threads: it runs a ticket for each job instead.
//!
//! While workers are blocked inside callbacks, there are [extra](super::growth) ones.
//!
//! # The check
//!
//! Workers sleep without a timeout. So they do not notice that a batch which was taken in time has become late, or that
//! all workers are blocked. The leader has timeouts, so it [checks](JobQueue::check) the queue. It puts late batches into
//! the queue, once each, and calls for [growth](super::growth) while no worker is idle. Jobs that wait need no check: they
//! are late when they are taken.
//!
//! Each check sets the time of the next. If nothing is left that could need one, it sets none, so a busy pool does not
//! wake the leader. A dispatch, and a worker that takes a job, bring the time forward to [`LATE_AFTER`] later. Usually a
//! dispatch has done so when a worker takes its job.
//!
//! An earlier time wakes the leader by its [alarm](crate::engine::alarm), whose word is lowered under the queue's lock.
//! The leader reads the time under that lock, after it has written the word and before each time it parks. So either
//! the event finds the word, or the leader the time.
//!
//! # The lock
//!
//! One lock guards all of this, for some instructions at a time. Nothing foreign is called or dropped under it. Workers
//! park by the token of their thread. Only the removal from the list of idle workers ends a wait, so a token that is
//! spent elsewhere, or comes too often, does no harm: a worker reads the list before each sleep.
//!
//! Checked by the scenarios of the job queue in `shuttle-tests`. loom cannot explore it, because it has timeouts.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::growth::{Growth, IDLE, WorkerStatus};
use crate::sync::thread::{self, Thread};
use crate::sync::{Arc, Mutex, lock};

/// Time after its dispatch or its start at which a batch is late. It is as long as the default slack: a leader that wakes
/// once in a slack then checks the batch without a wake-up of its own.
const LATE_AFTER: Duration = Duration::from_millis(1);
/// Number of jobs for which the queue always retains memory: 8 KiB.
const RETAINED_JOBS: usize = 1 << 8;

/// Callbacks that expire together. Workers take them one by one from a common cursor, so any number of workers may run
/// the same batch. A batch knows timers and shards; an executor knows neither.
pub(crate) trait Batch: Send + Sync + 'static {
    /// Runs all callbacks that no worker has taken. Calls `after_each` after each of them.
    fn run(&self, after_each: &dyn Fn());
    /// Returns whether no callback is left to take. Callbacks that were taken may still be running.
    fn is_exhausted(&self) -> bool;
    /// Splits the batch into one for each callback, or fewer once the timers are shut down.
    fn into_singles(self) -> impl Iterator<Item = Self>
    where
        Self: Sized;
}

/// A thread that can be a [worker](JobQueue::work). Scenarios implement it with their own clock, without rayon.
pub(crate) trait WorkerThread {
    /// Returns the present.
    fn now(&self) -> Instant {
        Instant::now()
    }

    /// Parks the calling thread until it is unparked, for `timeout` at most. May return spuriously.
    fn park(&self, timeout: Option<Duration>) {
        timeout.map_or_else(thread::park, thread::park_timeout);
    }

    /// Runs what a callback has left to rayon, except for broadcasts. Called after each callback.
    fn after_callback(&self) {}

    /// Runs all that callbacks have left to rayon.
    fn after_batch(&self) {}

    /// Returns a function that any thread may call. It samples the calling thread: how often that has gone to sleep, if
    /// it is asleep. `None` if it is awake or that is unknown.
    fn sample() -> impl Fn() -> Option<u64> + Send + Sync + 'static;
}

/// The queue of batches of one pool.
pub(crate) struct JobQueue {
    jobs: Mutex<Jobs>,
}

impl JobQueue {
    /// Creates the queue of a pool whose threads [`work`](Self::work). While they are blocked, up to `max_extra` extra ones
    /// do, if a thread [checks](Self::check) the queue. A borrowed pool has no such threads: it runs tickets.
    pub(crate) fn new(max_extra: usize) -> Self {
        let mut jobs = Jobs::default();
        jobs.growth.limit = max_extra;
        Self { jobs: Mutex::new(jobs) }
    }

    /// Adds a batch, and wakes a worker for it. A borrowed pool must run one more ticket then. Drops the batch if the
    /// queue is closed.
    pub(crate) fn push(&self, batch: Arc<dyn Batch>, now: Instant) {
        let mut jobs = lock(&self.jobs);
        if jobs.closed {
            // The parameter `batch` is dropped after the guard.
            return;
        }
        // Another thread may have read the clock later, and have come first.
        jobs.dispatched_at = jobs.dispatched_at.max(Some(now));
        jobs.check_by(now + LATE_AFTER);
        jobs.waiting.push_back((batch, now));
        let woken = jobs.call_worker();
        drop(jobs);
        if let Some(thread) = woken {
            thread.unpark();
        }
    }

    /// Runs the first job, as a ticket of a borrowed pool. Before that, calls `spawn` if one more ticket is needed.
    pub(crate) fn run_ticket(&self, spawn: impl FnOnce()) {
        let mut exhausted = Vec::new();
        let taken = lock(&self.jobs).take(Instant::now(), None, &mut exhausted);
        let Some((batch, place, is_late)) = taken else { return };
        if is_late {
            spawn();
        }
        drop(exhausted);
        batch.run(&|| ());
        lock(&self.jobs).end(place);
    }

    /// Makes the calling thread a worker until the queue is closed. An extra one also returns after some idle seconds.
    /// Must be called at the bottom of the thread's stack. No batch unwinds, nor what callbacks leave to rayon.
    pub(crate) fn work<T: WorkerThread>(&self, thread: &T, is_extra: bool) {
        let status = WorkerStatus::new(T::sample());
        // The batch that the worker runs, and its place among the busy ones.
        let mut running: Option<(Arc<dyn Batch>, usize)> = None;
        loop {
            let now = thread.now();
            let mut exhausted = Vec::new();
            let mut jobs = lock(&self.jobs);
            if let Some((_, place)) = running {
                jobs.end(place);
            }
            let may_run = !is_extra || jobs.growth.room(jobs.idle.len()).is_some();
            let taken = if may_run { jobs.take(now, Some(&status), &mut exhausted) } else { None };
            let is_idle = taken.is_none() && !jobs.closed;
            if is_idle {
                jobs.idle_list(is_extra).push(thread::current());
            }
            drop(jobs);
            // Without the lock, as the former batch: it may be the last count, and take long.
            drop(exhausted);
            running = taken.map(|(batch, place, _)| (batch, place));
            if let Some((batch, _)) = &running {
                status.run_foreign(|| {
                    batch.run(&|| thread.after_callback());
                    thread.after_batch();
                });
            } else if !is_idle || !self.wait(thread, is_extra) {
                break;
            }
        }
        lock(&self.jobs).growth.extras -= usize::from(is_extra);
    }

    /// Waits until another thread removes this one from the list of the idle ones, an extra thread for [`IDLE`] at most.
    /// Returns false if that has not happened; then the thread is no longer in the list, either.
    fn wait(&self, thread: &impl WorkerThread, is_extra: bool) -> bool {
        let ends = is_extra.then(|| thread.now() + IDLE);
        loop {
            let left = ends.map(|ends| ends.saturating_duration_since(thread.now()));
            let mut jobs = lock(&self.jobs);
            let list = jobs.idle_list(is_extra);
            let this = thread::current().id();
            let Some(index) = list.iter().position(|thread| thread.id() == this) else { return true };
            if left == Some(Duration::ZERO) {
                list.remove(index);
                return false;
            }
            drop(jobs);
            thread.park(left);
        }
    }

    /// Closes the queue: the workers end once no job is left.
    pub(crate) fn close(&self) {
        let mut jobs = lock(&self.jobs);
        jobs.closed = true;
        let Jobs { idle, growth, .. } = &mut *jobs;
        idle.drain(..).chain(growth.idle.drain(..)).for_each(|thread| thread.unpark());
    }

    /// Sets how to wake the leader. `wake` is called under the lock, and must not call foreign code.
    pub(crate) fn set_waker(&self, wake: impl Fn() + Send + Sync + 'static) {
        lock(&self.jobs).wake_leader = Some(Box::new(wake));
    }

    /// Returns when the leader must check the queue.
    pub(crate) fn next_check(&self) -> Option<Instant> {
        lock(&self.jobs).check_at
    }

    /// Checks the queue, if it is time. Returns the number of jobs that it has added, for each of which a borrowed
    /// pool must run one more ticket.
    ///
    /// `start` starts a number of extra threads, which [`work`](Self::work). It returns how many the system has
    /// started.
    pub(crate) fn check(&self, now: Instant, start: impl FnOnce(usize) -> usize) -> usize {
        let mut jobs = lock(&self.jobs);
        if jobs.check_at.is_none_or(|at| at > now) {
            return 0;
        }
        let workers = jobs.growth.next_to_sample(now);
        drop(jobs);
        if let Some(workers) = workers {
            let sample = |(place, since, status): (_, _, Arc<WorkerStatus>)| (place, since, status.sample());
            let samples: Vec<_> = workers.into_iter().map(sample).collect();
            let mut jobs = lock(&self.jobs);
            jobs.growth.record_samples(&samples);
            let starting = if jobs.must_sample(now) { jobs.growth.make_room() } else { 0 };
            drop(jobs);
            let started = if starting > 0 { start(starting) } else { 0 };
            lock(&self.jobs).growth.end_check(starting, started, now);
        }
        // Last: while the pool grew, a worker may have taken a job, and an event may have asked for a check.
        let mut exhausted = Vec::new();
        lock(&self.jobs).check(now, &mut exhausted)
    }

    /// Returns the number of extra threads, and how often one was woken or started.
    pub(crate) fn extra_threads(&self) -> (u64, u64) {
        let Growth { extras, needed, .. } = lock(&self.jobs).growth;
        (extras as u64, needed)
    }
}

/// What the queue's lock protects.
#[derive(Default)]
struct Jobs {
    /// Batches that wait for a worker, each with the time of its dispatch or of its start.
    waiting: VecDeque<(Arc<dyn Batch>, Instant)>,
    /// The idle workers of the pool; the last one became idle last.
    idle: Vec<Thread>,
    /// Time of the last dispatch.
    dispatched_at: Option<Instant>,
    /// When the leader checks the queue. `None`: nothing could need a check.
    check_at: Option<Instant>,
    /// Wakes the leader.
    wake_leader: Option<Box<dyn Fn() + Send + Sync>>,
    growth: Growth,
    closed: bool,
}

/// A worker that runs a batch.
pub(super) struct BusyWorker {
    /// When it started the batch.
    pub(super) since: Instant,
    batch: Arc<dyn Batch>,
    /// The batch was put back into the queue.
    assisted: bool,
    /// `None` on a borrowed pool.
    pub(super) status: Option<Arc<WorkerStatus>>,
    /// The last sample: how often the worker had gone to sleep. `None` if it was not asleep inside foreign code.
    pub(super) asleep: Option<u64>,
    pub(super) is_blocked: bool,
}

/// Returns whether what began at `since` is late.
fn is_late(since: Instant, now: Instant) -> bool {
    since + LATE_AFTER <= now
}

impl Jobs {
    /// Chooses the worker that became idle last, whose caches are warm, or else wakes an idle extra thread.
    fn call_worker(&mut self) -> Option<Thread> {
        let last = self.idle.pop();
        if last.is_none() {
            self.growth.wake_extras(1);
        }
        last
    }

    /// Returns the list of idle workers, or of idle extra threads, which wait until another thread removes them.
    fn idle_list(&mut self, extra: bool) -> &mut Vec<Thread> {
        if extra { &mut self.growth.idle } else { &mut self.idle }
    }

    /// Takes the next job. A late job is put back, and another worker woken for it. Returns the batch, the place of the
    /// worker among the busy ones, and whether the batch is late. The caller drops `exhausted` without the lock.
    fn take(
        &mut self,
        now: Instant,
        status: Option<&Arc<WorkerStatus>>,
        exhausted: &mut Vec<Arc<dyn Batch>>,
    ) -> Option<(Arc<dyn Batch>, usize, bool)> {
        if !self.has_job(now, exhausted) {
            return None;
        }
        let (batch, since) = self.waiting.pop_front()?;
        let is_late = is_late(since, now);
        if is_late {
            self.add_late(batch.clone(), since);
        }
        self.check_by(now + LATE_AFTER);
        let (taken, status) = (batch.clone(), status.cloned());
        let worker = BusyWorker { since: now, batch, assisted: is_late, status, asleep: None, is_blocked: false };
        Some((taken, self.growth.busy.insert(worker), is_late))
    }

    /// Adds a job that is late, and wakes a worker for it.
    fn add_late(&mut self, batch: Arc<dyn Batch>, since: Instant) {
        self.waiting.push_back((batch, since));
        if let Some(worker) = self.call_worker() {
            worker.unpark();
        }
    }

    /// Removes jobs of which nothing is left to start from the front of the queue. Returns whether a job waits. The caller
    /// drops `exhausted` without the lock.
    fn has_job(&mut self, now: Instant, exhausted: &mut Vec<Arc<dyn Batch>>) -> bool {
        // A young batch is not read: no worker has started it.
        while self.waiting.front().is_some_and(|(batch, since)| is_late(*since, now) && batch.is_exhausted()) {
            exhausted.extend(self.waiting.pop_front().map(|(batch, _)| batch));
        }
        let capacity = self.waiting.capacity();
        if capacity > RETAINED_JOBS && self.waiting.len() < capacity / 4 {
            self.waiting.shrink_to(capacity / 2);
        }
        !self.waiting.is_empty()
    }

    /// Records that a worker has run its batch. The worker has a count of the batch, so the drop here is not the last.
    fn end(&mut self, place: usize) {
        let worker = self.growth.busy.remove(place);
        self.growth.blocked -= usize::from(worker.is_blocked);
    }

    /// Checks the jobs and the busy workers, and sets the time of the next check. Returns the number of jobs that it
    /// has added. The caller drops `exhausted` without the lock.
    fn check(&mut self, now: Instant, exhausted: &mut Vec<Arc<dyn Batch>>) -> usize {
        let has_job = self.has_job(now, exhausted);
        let dispatched_at = self.dispatched_at.filter(|_| has_job);
        let starts = dispatched_at.into_iter().chain(self.growth.busy.iter().map(|(_, worker)| worker.since));
        let late_at = starts.map(|since| since + LATE_AFTER).filter(|&at| at > now).min();
        let assist = |(_, worker): (usize, &mut BusyWorker)| {
            let must = is_late(worker.since, now) && !worker.assisted && !worker.batch.is_exhausted();
            worker.assisted |= must;
            must.then(|| (worker.batch.clone(), worker.since))
        };
        let late: Vec<_> = self.growth.busy.iter_mut().filter_map(assist).collect();
        let added = late.len();
        late.into_iter().for_each(|(batch, since)| self.add_late(batch, since));
        let sample_at = self.must_sample(now).then(|| self.growth.sample_at.unwrap_or(now));
        self.set_check(late_at.into_iter().chain(sample_at).min());
        added
    }

    /// Returns whether the busy workers must be sampled, because callbacks wait for them.
    fn must_sample(&mut self, now: Instant) -> bool {
        let has_late_job = self.waiting.front().is_some_and(|&(_, since)| is_late(since, now));
        self.growth.must_sample(has_late_job && self.idle.is_empty() && !self.closed, now)
    }

    /// Sets the time of the next check.
    fn set_check(&mut self, at: Option<Instant>) {
        self.check_at = at;
        if let (Some(_), Some(wake)) = (at, &self.wake_leader) {
            wake();
        }
    }

    /// Makes the leader check by `at`.
    fn check_by(&mut self, at: Instant) {
        if self.check_at.is_none_or(|old| old > at) {
            self.set_check(Some(at));
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "job_queue_tests.rs"]
pub(super) mod tests;

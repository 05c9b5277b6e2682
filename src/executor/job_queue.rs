//! Where batches wait for the workers of a timer's own pool, and workers for batches.
//!
//! # Who is a worker
//!
//! A worker is a thread that runs [`worker_loop`](JobQueue::worker_loop) at the bottom of its stack, from its start to
//! its end. The loop is the only place that starts a callback, and rayon's queues hold nothing that starts the loop. So a
//! thread never counts twice, and a callback that waits inside `rayon::join` may run other work of rayon's meanwhile,
//! but never another callback.
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

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::batch::Batch;
use crate::sync::{Arc, Condvar, Mutex, MutexGuard};

/// After this time a batch gets more workers: a default tick, as a driver that is awake for the next one looks for
/// nothing.
pub(crate) const STRAGGLER_AFTER: Duration = Duration::from_millis(1);
/// Maximum time that a busy worker goes without a look at the other queue: jobs, or rayon's work on alert.
const MAX_STINT: Duration = Duration::from_millis(10);
/// Time between two looks of the lookout, at first.
const MIN_INTERVAL: Duration = Duration::from_millis(1);
/// The same, at last: a callback that blocks for long makes one thread wake 16 times a second.
const MAX_INTERVAL: Duration = Duration::from_millis(64);

/// What a worker loop asks of the thread that runs it.
pub(crate) trait WorkerThread {
    /// The present.
    fn now(&self) -> Instant;
    /// Runs a piece of rayon's work that lies in the thread's own queue. False if there is none.
    fn run_own_task(&self) -> bool;
    /// The same with any queue of the pool.
    fn run_any_task(&self) -> bool;
    /// Waits for a call, at most that long.
    fn wait_timeout<'a, T>(
        &self,
        call: &Arc<Condvar>,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> MutexGuard<'a, T>;
}

/// The queue of batches of one pool.
pub(crate) struct JobQueue(Mutex<State>);

#[derive(Default)]
struct State {
    /// Batches that no worker has begun, in the order of their hand-over.
    jobs: VecDeque<Arc<dyn Batch>>,
    /// What the workers that are busy are in the middle of, in the order of its beginning.
    active: Vec<Activity>,
    /// The workers that are parked, in the order in which they did. The first is the lookout.
    parked: Vec<Parked>,
    alert: Option<Alert>,
    workers: usize,
    closed: bool,
}

struct Activity {
    worker: usize,
    since: Instant,
    /// `None`: rayon's work.
    batch: Option<Arc<dyn Batch>>,
}

struct Parked {
    worker: usize,
    call: Arc<Condvar>,
}

struct Alert {
    /// When the lookout looks next.
    look_at: Instant,
    interval: Duration,
    /// Rayon's work was found.
    found: bool,
}

/// The worker's own part of its state.
struct Worker {
    id: usize,
    call: Arc<Condvar>,
    /// When it looks for rayon's work even if jobs wait.
    looks_at: Instant,
    /// It has looked for rayon's work since it ran something.
    has_looked: bool,
    /// It is about to look as the lookout.
    is_lookout: bool,
    /// Its last turn was a part of a straggler.
    has_assisted: bool,
}

enum Turn {
    Run(Arc<dyn Batch>),
    Assist(Arc<dyn Batch>),
    Look,
}

impl JobQueue {
    pub(crate) fn new() -> Self {
        Self(Mutex::default())
    }

    /// Has a worker run the batch. Drops it if the queue is closed.
    pub(crate) fn put(&self, batch: Arc<dyn Batch>) {
        let mut state = self.lock();
        if state.closed {
            drop(state);
            return drop(batch);
        }
        state.jobs.push_back(batch);
        let called = state.parked.pop();
        drop(state);
        if let Some(Parked { call, .. }) = called {
            call.notify_one();
        }
    }

    /// Raises the alert: a batch was not finished [`STRAGGLER_AFTER`] after its hand-over.
    pub(crate) fn alert(&self, now: Instant) {
        self.lock().raise_alert(now, false);
    }

    /// Lets the workers end once no job is left.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.parked.drain(..).for_each(|parked| parked.call.notify_one());
    }

    /// Runs what is due until the queue is closed. To be called once on each thread that is to be a worker, at the bottom
    /// of its stack.
    pub(crate) fn worker_loop(&self, thread: &impl WorkerThread) {
        let mut worker = Worker::new(self.lock().enroll(), thread.now());
        while let Some(turn) = self.next(&mut worker, thread) {
            match turn {
                Turn::Run(batch) => {
                    batch.run();
                    self.run_own_tasks(thread);
                    // Until here it was not finished, whatever its callbacks left to rayon.
                    drop(batch);
                }
                Turn::Assist(batch) => {
                    let ends = thread.now() + STRAGGLER_AFTER;
                    while batch.run_one() && thread.now() < ends {}
                    self.run_own_tasks(thread);
                }
                Turn::Look => self.look(&mut worker, thread),
            }
        }
    }

    /// Does what the callbacks of a batch left in the worker's own queue.
    fn run_own_tasks(&self, thread: &impl WorkerThread) {
        if thread.run_own_task() {
            let mut now = thread.now();
            let ends = now + MAX_STINT;
            while now < ends && thread.run_own_task() {
                now = thread.now();
            }
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
        while thread.run_any_task() {
            found = true;
            now = thread.now();
            if now - began >= MAX_STINT {
                worker.has_looked = false;
                break;
            }
        }
        worker.looks_at = now + MAX_STINT;
        let was_lookout = std::mem::take(&mut worker.is_lookout);
        let mut state = self.lock();
        if found {
            state.raise_alert(now, true);
        } else if was_lookout && let Some(alert) = &mut state.alert {
            // The next lookout may have gone to sleep for the old interval: then it wakes, and sleeps on.
            alert.look_at += alert.interval;
            alert.interval = (alert.interval * 2).min(MAX_INTERVAL);
        }
    }

    /// The worker's next turn. `None` when the queue is closed and empty.
    fn next(&self, worker: &mut Worker, thread: &impl WorkerThread) -> Option<Turn> {
        let mut now = thread.now();
        let mut state = self.lock();
        state.end_activity(worker.id);
        loop {
            if let Some(turn) = state.choose(worker, now) {
                let batch = match &turn {
                    Turn::Run(batch) | Turn::Assist(batch) => Some(batch.clone()),
                    Turn::Look => None,
                };
                worker.has_assisted = matches!(turn, Turn::Assist(_));
                worker.has_looked &= batch.is_none();
                worker.is_lookout &= batch.is_none();
                state.active.push(Activity { worker: worker.id, since: now, batch });
                return Some(turn);
            }
            if state.closed {
                return None;
            }
            state = park(state, worker, thread);
            now = thread.now();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl State {
    fn enroll(&mut self) -> usize {
        self.workers += 1;
        self.workers
    }

    fn end_activity(&mut self, worker: usize) {
        if let Some(place) = self.active.iter().position(|activity| activity.worker == worker) {
            self.active.remove(place);
        }
    }

    /// What a worker does next, by the list in the file's head.
    fn choose(&mut self, worker: &Worker, now: Instant) -> Option<Turn> {
        if (!worker.has_assisted || self.jobs.is_empty())
            && let Some(batch) = self.straggler(now)
        {
            return Some(Turn::Assist(batch.clone()));
        }
        let on_alert = self.alert.is_some() && !self.closed;
        if on_alert && now >= worker.looks_at {
            return Some(Turn::Look);
        }
        if let Some(batch) = self.jobs.pop_front() {
            return Some(Turn::Run(batch));
        }
        (on_alert && !worker.has_looked).then_some(Turn::Look)
    }

    /// The batch that was begun first, if that is too long ago.
    fn straggler(&self, now: Instant) -> Option<&Arc<dyn Batch>> {
        // Batches that are younger are not looked at: their cursors are hot in the caches of other workers.
        let old = self.active.iter().take_while(|activity| activity.since + STRAGGLER_AFTER <= now);
        old.filter_map(|activity| activity.batch.as_ref()).find(|batch| !batch.is_spent())
    }

    /// When the lookout has something to do, if nobody calls it before.
    fn look_at(&self) -> Option<Instant> {
        let alert = self.alert.as_ref()?;
        let unspent = |activity: &&Activity| activity.batch.as_ref().is_some_and(|batch| !batch.is_spent());
        let straggler = self.active.iter().find(unspent).map(|activity| activity.since + STRAGGLER_AFTER);
        straggler.into_iter().chain([alert.look_at]).min()
    }

    /// Has the lookout look at once, and then in short intervals.
    fn raise_alert(&mut self, now: Instant, found: bool) {
        let found = found || self.alert.as_ref().is_some_and(|alert| alert.found);
        self.alert = Some(Alert { look_at: now, interval: MIN_INTERVAL, found });
        self.call_lookout();
    }

    /// The lookout leaves its place to the next one.
    fn look_again(&mut self, now: Instant) {
        let Some(alert) = &mut self.alert else { return };
        alert.look_at = now + alert.interval;
        if self.active.is_empty() && alert.interval == MAX_INTERVAL {
            // The last look of this alert is everybody's: `rayon::spawn_broadcast` leaves work with each worker.
            alert.found = false;
            self.parked.drain(..).for_each(|parked| parked.call.notify_one());
        }
        self.call_lookout();
    }

    /// Ends the alert if nobody is busy, and those that are parked know that rayon has no work for them. True if it ended.
    fn end_alert(&mut self) -> bool {
        let over =
            self.active.is_empty() && self.jobs.is_empty() && self.alert.as_ref().is_some_and(|alert| !alert.found);
        if over {
            self.alert = None;
        }
        over
    }

    /// Has the lookout see when it is to look.
    fn call_lookout(&self) {
        if let Some(lookout) = self.parked.first() {
            lookout.call.notify_one();
        }
    }
}

impl Worker {
    fn new(id: usize, now: Instant) -> Self {
        Self {
            id,
            call: Arc::new(Condvar::new()),
            looks_at: now + MAX_STINT,
            has_looked: true,
            is_lookout: false,
            has_assisted: false,
        }
    }
}

/// Sleeps until the worker is called, or has something to do as the lookout.
fn park<'a>(
    mut state: MutexGuard<'a, State>,
    worker: &mut Worker,
    thread: &impl WorkerThread,
) -> MutexGuard<'a, State> {
    state.parked.push(Parked { worker: worker.id, call: worker.call.clone() });
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

//! Where the workers of a timer's own pool wait for the next batch.
//!
//! A rayon worker that finds nothing to do looks around and yields dozens of times before it sleeps, which costs as much
//! as many callbacks; and a timer in use has a few callbacks at every tick. So batches lie on a desk, and workers are
//! called to *attend* it: each takes batches until there are none, and then sleeps at the desk until the next one comes,
//! for [`NEXT`] at the most.
//!
//! An attending worker does nothing else, but callbacks may use the pool, too, and it may even be attending in the middle
//! of a callback that waits for its part of such work. So it [leaves](STAY) from time to time: it does all that others
//! have given to the pool first, and is called again if there are batches left.
//!
//! Drivers and workers share a lock here, which is held for some instructions. No caller of the timer comes by.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// For how long a worker waits for the next batch: two default ticks.
const NEXT: Duration = Duration::from_millis(2);
/// After this time it leaves, however many there are.
const STAY: Duration = Duration::from_millis(10);

type Job = Box<dyn FnOnce() + Send>;

pub(crate) struct Desk {
    pool: Arc<rayon::ThreadPool>,
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Workers that attend, or have been called to.
    attending: usize,
    /// Those of them that sleep.
    asleep: usize,
}

impl Desk {
    pub(crate) fn new(pool: Arc<rayon::ThreadPool>) -> Self {
        Self { pool, state: Mutex::default(), news: Condvar::new() }
    }

    /// Has a worker do the job.
    pub(crate) fn put(self: &Arc<Self>, job: Job) {
        let mut state = self.lock();
        state.jobs.push_back(job);
        if state.asleep >= state.jobs.len() {
            drop(state);
            self.news.notify_one();
        } else if state.attending < self.pool.current_num_threads() {
            state.attending += 1;
            drop(state);
            self.call();
        }
    }

    pub(crate) fn pool(&self) -> &Arc<rayon::ThreadPool> {
        &self.pool
    }

    fn call(self: &Arc<Self>) {
        let desk = self.clone();
        self.pool.spawn(move || desk.attend());
    }

    fn attend(self: Arc<Self>) {
        let leaves = Instant::now() + STAY;
        while let Some(job) = self.next() {
            job();
            if Instant::now() >= leaves {
                while rayon::yield_now() == Some(rayon::Yield::Executed) {}
                return self.leave();
            }
        }
    }

    /// The next job; or `None` if none came for so long that the worker does not attend any more.
    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        if state.jobs.is_empty() {
            state.asleep += 1;
            let wait = self.news.wait_timeout_while(state, NEXT, |state| state.jobs.is_empty());
            (state, _) = wait.unwrap_or_else(|poisoned| poisoned.into_inner());
            state.asleep -= 1;
        }
        let job = state.jobs.pop_front();
        if job.is_none() {
            state.attending -= 1;
        }
        job
    }

    fn leave(self: &Arc<Self>) {
        let mut state = self.lock();
        if state.jobs.is_empty() {
            state.attending -= 1;
        } else {
            drop(state);
            self.call();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

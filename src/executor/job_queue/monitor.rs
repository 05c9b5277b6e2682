//! The monitor of a queue: see the head of [`growth`](super::growth).

use std::time::Duration;

use super::queue::JobQueue;
use super::state::State;
use super::thread::MonitorThread;
use crate::sync::{Arc, Condvar, MutexGuard, lock, unpoisoned};

/// Minimum time between two samples of the same worker.
pub(super) const MIN_INTERVAL: Duration = Duration::from_micros(200);
/// Maximum time between two samples while callbacks wait.
pub(super) const MAX_INTERVAL: Duration = Duration::from_millis(8);

impl JobQueue {
    /// Makes the calling thread the monitor, until the queue is closed. There is one such call, on a thread that is no
    /// worker.
    pub(crate) fn monitor_loop(&self, thread: &impl MonitorThread) {
        let mut state = lock(&self.0);
        state.growth.has_monitor = true;
        let condvar = state.growth.monitor.clone();
        while !state.closed {
            state.growth.monitor_is_parked = !state.needs_monitor();
            state = if state.growth.monitor_is_parked {
                unpoisoned(condvar.wait(state))
            } else {
                self.sample_workers(state, &condvar, thread)
            };
        }
    }

    /// Samples the busy workers, and wakes or starts extra workers, until the monitor is not needed.
    fn sample_workers<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        condvar: &Arc<Condvar>,
        thread: &impl MonitorThread,
    ) -> MutexGuard<'a, State> {
        let mut since = thread.now();
        for round in 0.. {
            if state.closed || !state.needs_monitor() {
                break;
            }
            let now = thread.now();
            let timeout = if state.jobs.is_empty() && state.straggler(now).is_none() {
                since = now;
                state.lookout_deadline().map_or(MIN_INTERVAL, |at| at.saturating_duration_since(now))
            } else {
                let workers = state.to_sample(round);
                drop(state);
                let samples: Vec<_> = workers.into_iter().map(|(id, probe)| (id, probe.sample())).collect();
                state = lock(&self.0);
                state.record_samples(&samples);
                if !state.needs_monitor() {
                    break;
                }
                let starting = state.grow();
                if starting > 0 {
                    drop(state);
                    let started = (0..starting).take_while(|_| thread.start_extra()).count();
                    state = lock(&self.0);
                    state.not_started(starting - started);
                    if started > 0 {
                        since = thread.now();
                    }
                }
                (thread.now() - since) / 4
            };
            state = thread.wait_timeout(condvar, state, timeout.clamp(MIN_INTERVAL, MAX_INTERVAL));
        }
        state
    }
}

//! When a pool has more threads than it was given.
//!
//! A callback may block: on a lock, on a disk, on an answer. While each thread of the pool does, timers that are due would
//! wait. So *extra* threads run the worker loop meanwhile, up to a limit.
//!
//! # Blocked, or waiting for a core
//!
//! A worker is *blocked* if two looks of the monitor, [`MIN_INTERVAL`] apart or more, find it inside the same turn, and
//! asleep all the time between. The system tells how often a thread has gone to sleep: if that number is the same, the
//! thread has not run. A worker that waits for a core is not asleep, so overload does not look like this. A flag tells
//! whether the worker is inside a callback or rayon's work: one that waits for the lock of the queue is not.
//!
//! # How many workers may run
//!
//! As many that are not blocked as the pool has threads, and as many more as are blocked: where many callbacks block, the
//! next ones will, too, and there need not be two looks at each before the next runs. So the pool doubles as long as all
//! of it is blocked. Its own threads are never held back. An extra takes a turn only if there is room for it, and otherwise waits idle. One that
//! has been idle for [`IDLE`] ends.
//!
//! # Who calls an extra
//!
//! - `put`, if no thread of the pool is parked, and there is room for an idle one.
//! - The *monitor*, a thread that takes the place of the lookout while the alert is on and nobody is parked. It waits
//!   until a batch is a straggler, or a job waits. Then it looks at the busy workers, calls extras that are idle, and
//!   starts new ones, until nothing waits any more. The longer that takes without a new thread, the rarer are its looks,
//!   up to [`MAX_INTERVAL`]: beside workers that are all busy for long it costs some 20 µs in 8 ms.
//!
//! Every alert, and every transition that may leave nobody parked while it is on, calls the monitor if it is needed. A
//! job for which there is nobody waits for the alert of its driver.

use std::time::Duration;

use super::JobQueue;
use super::state::{Activity, Parked, State, Worker};
use super::thread::{MonitorThread, SleepProbe, Waits};
use crate::sync::{Arc, AtomicBool, Condvar, MutexGuard, Ordering};

/// Shortest time between two looks at the same worker.
const MIN_INTERVAL: Duration = Duration::from_micros(200);
/// Longest time between two looks, while the queue starves.
const MAX_INTERVAL: Duration = Duration::from_millis(8);
/// An extra that has been idle for so long ends.
const IDLE: Duration = Duration::from_secs(5);
/// Of the workers that are known to be blocked, one in so many is looked at each time.
const RECHECKED: u64 = 8;

/// The part of the queue's state that is about its growth.
pub(super) struct Growth {
    /// How many threads the pool has of its own.
    own: usize,
    /// How many extras there may be.
    limit: usize,
    /// How many there are.
    extras: usize,
    /// How often an extra was called or started.
    needed: u64,
    /// Extras that wait, the one that began last at the end.
    idle: Vec<Parked>,
    /// How the monitor is called.
    monitor: Arc<Condvar>,
    has_monitor: bool,
    /// It waits for a call, and not for its next look.
    monitor_waits: bool,
}

/// What there is, and was, of extra threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExtraThreads {
    /// How many there are.
    pub(crate) threads: u64,
    /// How often one was called or started.
    pub(crate) needed: u64,
}

/// What the monitor looks at in a worker.
#[derive(Clone)]
pub(super) struct Observed {
    probe: SleepProbe,
    /// It is inside a callback, or rayon's work.
    inside: Arc<AtomicBool>,
}

/// What the monitor has seen of a worker in its present turn.
#[derive(Default)]
pub(super) struct Sight {
    /// How often it had gone to sleep, if it was asleep at the last look.
    asleep: Option<u64>,
    pub(super) is_blocked: bool,
}

impl Growth {
    pub(super) fn new(own: usize, limit: usize) -> Self {
        Self {
            own,
            limit,
            extras: 0,
            needed: 0,
            idle: Vec::new(),
            monitor: Arc::new(Condvar::new()),
            has_monitor: false,
            monitor_waits: false,
        }
    }

    pub(super) fn own(&self) -> usize {
        self.own
    }

    pub(super) fn has_monitor(&self) -> bool {
        self.has_monitor
    }

    /// An extra ends.
    pub(super) fn extra_ends(&mut self) {
        self.extras -= 1;
    }

    /// Lets everybody end.
    pub(super) fn close(&mut self) {
        self.idle.drain(..).for_each(Parked::call);
        self.monitor.notify_one();
    }
}

impl Observed {
    pub(super) fn new(probe: SleepProbe) -> Self {
        Self { probe, inside: Arc::new(AtomicBool::new(false)) }
    }

    /// Runs `f`, which is foreign code.
    pub(super) fn run(&self, f: impl FnOnce()) {
        // Relaxed, as in `look`: a hint, by which at worst an extra thread more or less runs.
        self.inside.store(true, Ordering::Relaxed);
        f();
        self.inside.store(false, Ordering::Relaxed);
    }

    /// How often the thread has gone to sleep, if it is asleep inside foreign code.
    fn look(&self) -> Option<u64> {
        let is_inside = || self.inside.load(Ordering::Relaxed);
        is_inside().then(|| (self.probe)()).flatten().filter(|_| is_inside())
    }
}

impl State {
    /// Whether fewer workers should run.
    pub(super) fn is_crowded(&self) -> bool {
        let (running, most) = self.running();
        running > most
    }

    /// Returns how many workers are neither blocked nor waiting for a call, and how many there should be at most.
    fn running(&self) -> (usize, usize) {
        let Growth { own, extras, idle, .. } = &self.growth;
        let blocked = self.active.iter().filter(|activity| activity.sight.is_blocked).count();
        // Those that were called, or started, and have not come yet, are among them.
        (own + extras - self.parked.len() - idle.len() - blocked, own + blocked)
    }

    /// Calls an idle extra for a job, if there is room for it.
    pub(super) fn call_extra(&mut self) {
        if !self.growth.idle.is_empty() {
            let (running, most) = self.running();
            self.call_extras(most.saturating_sub(running).min(1));
        }
    }

    /// Calls so many idle extras at most, and returns how many there were.
    fn call_extras(&mut self, most: usize) -> usize {
        let growth = &mut self.growth;
        let called = most.min(growth.idle.len());
        let first = growth.idle.len() - called;
        growth.idle.drain(first..).for_each(Parked::call);
        growth.needed += called as u64;
        called
    }

    /// Calls the monitor if it is needed. To be called whenever that may have become true.
    pub(super) fn call_monitor(&mut self) {
        if self.growth.monitor_waits && self.needs_monitor() {
            self.growth.monitor_waits = false;
            self.growth.monitor.notify_one();
        }
    }

    /// Whether callbacks may come to wait while there is no lookout to see it.
    fn needs_monitor(&self) -> bool {
        self.alert.is_some() && self.parked.is_empty() && self.may_wait()
    }

    /// Whether callbacks wait, or may come to.
    pub(super) fn may_wait(&self) -> bool {
        let is_unspent = |activity: &Activity| activity.batch.as_ref().is_some_and(|batch| !batch.is_spent());
        !self.jobs.is_empty() || self.active.iter().any(is_unspent)
    }

    /// Calls idle extras for which there is room, and returns how many are to be started.
    fn grow(&mut self) -> usize {
        let (running, most) = self.running();
        let room = most.saturating_sub(running);
        let called = self.call_extras(room);
        let growth = &mut self.growth;
        let starting = (room - called).min(growth.limit - growth.extras);
        growth.extras += starting;
        growth.needed += starting as u64;
        starting
    }

    /// So many threads that [`grow`](Self::grow) has asked for could not be started.
    fn not_started(&mut self, count: usize) {
        self.growth.extras -= count;
        self.growth.needed -= count as u64;
    }

    /// The busy workers that the monitor looks at this time.
    fn to_look_at(&self, look: u64) -> Vec<(u64, Observed)> {
        let is_due =
            |activity: &&Activity| !activity.sight.is_blocked || (activity.turn + look).is_multiple_of(RECHECKED);
        self.active.iter().filter(is_due).map(|activity| (activity.turn, activity.observed.clone())).collect()
    }

    fn saw(&mut self, seen: &[(u64, Option<u64>)]) {
        for activity in &mut self.active {
            if let Some(&(_, asleep)) = seen.iter().find(|(turn, _)| *turn == activity.turn) {
                let is_blocked = asleep.is_some() && asleep == activity.sight.asleep;
                activity.sight = Sight { asleep, is_blocked };
            }
        }
    }
}

impl JobQueue {
    /// What there is of extra threads now.
    pub(crate) fn extra_threads(&self) -> ExtraThreads {
        let state = self.lock();
        ExtraThreads { threads: state.growth.extras as u64, needed: state.growth.needed }
    }

    /// Has more threads run while workers are blocked, until the queue is closed. To be called on one thread, which is no
    /// worker.
    pub(crate) fn monitor_loop(&self, thread: &impl MonitorThread) {
        let mut state = self.lock();
        state.growth.has_monitor = true;
        let call = state.growth.monitor.clone();
        while !state.closed {
            state.growth.monitor_waits = !state.needs_monitor();
            state = if state.growth.monitor_waits {
                call.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner())
            } else {
                self.watch(state, &call, thread)
            };
        }
    }

    /// Looks at the busy workers while callbacks wait.
    fn watch<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        call: &Arc<Condvar>,
        thread: &impl MonitorThread,
    ) -> MutexGuard<'a, State> {
        let mut since = thread.now();
        for look in 0.. {
            if state.closed || !state.needs_monitor() {
                break;
            }
            let now = thread.now();
            let timeout = if state.jobs.is_empty() && state.straggler(now).is_none() {
                since = now;
                state.look_at().map_or(MIN_INTERVAL, |at| at.saturating_duration_since(now))
            } else {
                let workers = state.to_look_at(look);
                drop(state);
                let seen: Vec<_> = workers.into_iter().map(|(turn, observed)| (turn, observed.look())).collect();
                state = self.lock();
                state.saw(&seen);
                if !state.needs_monitor() {
                    break;
                }
                let starting = state.grow();
                if starting > 0 {
                    drop(state);
                    let started = (0..starting).take_while(|_| thread.start_extra()).count();
                    state = self.lock();
                    state.not_started(starting - started);
                    if started > 0 {
                        since = thread.now();
                    }
                }
                (thread.now() - since) / 4
            };
            state = thread.wait_timeout(call, state, timeout.clamp(MIN_INTERVAL, MAX_INTERVAL));
        }
        state
    }
}

/// Waits until the extra is called. An error: it has been idle for so long that it ends.
pub(super) fn wait_idle<'a>(
    mut state: MutexGuard<'a, State>,
    worker: &Worker,
    thread: &impl Waits,
) -> Result<MutexGuard<'a, State>, MutexGuard<'a, State>> {
    let ends = thread.now() + IDLE;
    state.growth.idle.push(worker.parked());
    loop {
        // A call takes it from the list, which tells that from a wake-up for no reason.
        let Some(place) = state.growth.idle.iter().position(|parked| parked.worker == worker.id) else {
            return Ok(state);
        };
        let left = ends.saturating_duration_since(thread.now());
        if left.is_zero() {
            state.growth.idle.remove(place);
            return Err(state);
        }
        state = thread.wait_timeout(&worker.call, state, left);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::time::Instant;

    use super::*;

    /// A queue of a pool of two, whose workers are busy. The number is what the system says of both: how often they have
    /// gone to sleep, if they are asleep; else zero.
    fn busy() -> (JobQueue, Arc<AtomicU64>) {
        let (queue, says) = (JobQueue::new(2, 8), Arc::new(AtomicU64::new(0)));
        let mut state = queue.lock();
        for worker in 1..=2 {
            let says = says.clone();
            let probe = Arc::new(move || Some(says.load(Ordering::Relaxed)).filter(|&sleeps| sleeps > 0));
            let observed = Observed::new(probe);
            observed.inside.store(true, Ordering::Relaxed);
            let (turn, since, batch) = (worker as u64, Instant::now(), None);
            state.active.push(Activity { worker, turn, since, batch, observed, sight: Sight::default() });
        }
        drop(state);
        (queue, says)
    }

    /// Looks once, and returns how many of the two are blocked.
    fn look(state: &mut State) -> usize {
        let seen: Vec<_> = state.to_look_at(0).into_iter().map(|(turn, observed)| (turn, observed.look())).collect();
        state.saw(&seen);
        state.active.iter().filter(|activity| activity.sight.is_blocked).count()
    }

    #[test]
    fn a_worker_is_blocked_if_it_was_asleep_all_the_time_between_two_looks() {
        let (queue, says) = busy();
        let mut state = queue.lock();
        let mut looks = |sleeps| {
            says.store(sleeps, Ordering::Relaxed);
            look(&mut state)
        };
        assert_eq!([0, 0, 1].map(&mut looks), [0, 0, 0], "awake, or asleep at one look");
        assert_eq!([2, 3].map(&mut looks), [0, 0], "it has slept twice");
        assert_eq!([3, 3].map(&mut looks), [2, 2]);
    }

    #[test]
    fn a_worker_that_waits_for_the_queue_is_not_blocked() {
        let (queue, says) = busy();
        says.store(1, Ordering::Relaxed);
        let mut state = queue.lock();
        state.active[0].observed.inside.store(false, Ordering::Relaxed);
        assert_eq!((look(&mut state), look(&mut state)), (0, 1));
    }

    #[test]
    fn as_many_workers_run_as_the_pool_has_threads_and_as_many_as_are_blocked() {
        let (queue, _) = busy();
        let mut state = queue.lock();
        assert_eq!((state.grow(), state.is_crowded()), (0, false));
        state.active[0].sight.is_blocked = true;
        assert_eq!((state.grow(), state.grow(), state.is_crowded()), (2, 0, false), "those that are on their way run");
        state.active[1].sight.is_blocked = true;
        assert_eq!((state.grow(), state.is_crowded()), (2, false), "four for two that are blocked");
        state.active[0].sight.is_blocked = false;
        assert!(state.is_crowded(), "four and one are more than three");
        state.not_started(2);
        assert_eq!((state.is_crowded(), state.growth.extras, state.growth.needed), (false, 2, 2));
        state.growth.limit = 2;
        state.active[0].sight.is_blocked = true;
        assert_eq!(state.grow(), 0, "there are as many as there may be");
    }

    #[test]
    fn a_worker_that_is_blocked_is_looked_at_now_and_then() {
        let (queue, _) = busy();
        let mut state = queue.lock();
        let looks = |state: &State| (0..RECHECKED).map(|look| state.to_look_at(look).len()).sum::<usize>();
        assert_eq!(looks(&state), 2 * RECHECKED as usize);
        state.active[0].sight.is_blocked = true;
        assert_eq!(looks(&state), RECHECKED as usize + 1);
    }

    #[test]
    fn one_idle_extra_is_called_for_a_job_if_there_is_room() {
        let (queue, _) = busy();
        let mut state = queue.lock();
        state.growth.extras = 2;
        let idle = |worker| Parked { worker, call: Arc::new(Condvar::new()) };
        state.growth.idle.extend([3, 4].map(idle));
        state.call_extra();
        assert_eq!((state.growth.idle.len(), state.growth.needed), (2, 0), "two run already");
        state.active[0].sight.is_blocked = true;
        state.call_extra();
        assert_eq!((state.growth.idle.len(), state.growth.needed), (1, 1));
    }
}

//! Shards in virtual time, with little in them but what the clock and a driver have to do with each other.

use std::mem;
use std::time::Duration;

use crate::quiescence::{Quiesce, Quiescence, Quiet, wait_for_all};
use crate::shard::bell::Bell;
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Arc, AtomicU64, Mutex, Ordering};

pub(crate) type Callback = Box<dyn FnOnce() + Send>;

/// Where a clock stands, as a tick.
#[derive(Clone)]
pub(crate) struct Clock(Arc<AtomicU64>);

/// A shard that lives by a clock.
#[derive(Clone)]
pub(crate) struct OnClock(Arc<State>);

struct State {
    clock: Clock,
    /// Timers by their deadlines: the intake and the wheel.
    timers: Mutex<Vec<(u64, Callback)>>,
    bell: Bell,
    quiescence: Quiescence,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicU64::new(0)))
    }

    pub(crate) fn now(&self) -> u64 {
        // As if under the clock's lock.
        self.0.load(Ordering::Acquire)
    }

    /// Has the shards do what is due where the clock stands.
    pub(crate) fn settle(&self, shards: &[OnClock]) -> Option<u64> {
        wait_for_all(|| shards.iter().collect())
    }

    /// Moves to the next tick.
    pub(crate) fn step(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

impl OnClock {
    pub(crate) fn new(clock: &Clock) -> Self {
        Self(Arc::new(State {
            clock: clock.clone(),
            timers: Mutex::new(Vec::new()),
            bell: Bell::new(),
            quiescence: Quiescence::new(),
        }))
    }

    /// Schedules a callback, as `Shard::schedule` does.
    pub(crate) fn schedule(&self, deadline: u64, callback: impl FnOnce() + Send + 'static) {
        self.0.timers.lock().unwrap().push((deadline, Box::new(callback)));
        if deadline <= self.0.clock.now() {
            self.0.quiescence.request();
            self.0.bell.ring(0);
        }
    }

    /// Starts the driver, which gives what is due to an executor, and ends after so many callbacks. For each that has run
    /// [`run`](Self::run) tells the clock.
    pub(crate) fn start(
        &self,
        callbacks: usize,
        executor: impl FnMut(&Self, Vec<Callback>) + Send + 'static,
    ) -> JoinHandle<()> {
        let shard = self.clone();
        thread::spawn(move || shard.drive(callbacks, executor))
    }

    /// As `Driver::run`.
    fn drive(&self, mut left: usize, mut executor: impl FnMut(&Self, Vec<Callback>)) {
        let State { clock, timers, bell, quiescence } = &*self.0;
        bell.attach();
        // At rest, as after its first round.
        let (mut request, mut now) = (0, 0);
        while left > 0 {
            let timeout = |tick| (tick == 0).then_some(Duration::ZERO);
            bell.sleep(now, 1, timeout, || quiescence.last_request() == request);
            request = quiescence.begin_round();
            now = clock.now();
            let mut guard = timers.lock().unwrap();
            let (due, later): (Vec<_>, Vec<_>) = mem::take(&mut *guard).into_iter().partition(|&(at, _)| at <= now);
            let next = later.iter().map(|&(at, _)| at).min().unwrap_or(u64::MAX);
            *guard = later;
            drop(guard);
            if !due.is_empty() {
                left -= due.len();
                quiescence.begin(due.len());
                executor(self, due.into_iter().map(|(_, callback)| callback).collect());
            }
            quiescence.end_round(request, next);
        }
        quiescence.driver_ended();
    }

    /// Runs callbacks on the calling thread.
    pub(crate) fn run(&self, callbacks: Vec<Callback>) {
        for callback in callbacks {
            callback();
            self.0.quiescence.end();
        }
    }
}

impl Quiesce for OnClock {
    type Time = u64;

    fn request(&self) -> Option<u64> {
        let now = self.0.clock.now();
        let is_empty = || self.0.timers.lock().unwrap().iter().all(|&(at, _)| at > now);
        self.0.quiescence.request_unless_quiet(now, is_empty, || self.0.bell.ring(0))
    }

    fn wait(&self, request: Option<u64>) -> Quiet<u64> {
        let Quiet { next, worked } = self.0.quiescence.wait(request);
        Quiet { next: next.filter(|&next| next != u64::MAX), worked }
    }

    fn needs_this_thread(&self) -> bool {
        false
    }
}

//! A shard's core with a driver, workers and a clock.

use shuttle::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use shuttle::sync::{Arc, Mutex, mpsc};
use shuttle::thread::{self, JoinHandle};

use crate::engine::driver::ShardDriver;
use crate::engine::memory::Cache;
use crate::fixture::{Fixture, sleep};

const WORKERS: usize = 2;
/// A tick after all others.
const END: u64 = 1000;

/// Expired timers, and the tick at which the driver found them.
type Batch = (Vec<u32>, u64);

#[derive(Clone)]
pub(super) struct Harness {
    pub(super) fixture: Fixture,
    state: Arc<State>,
}

struct State {
    now: AtomicU64,
    /// The scenario has ended, so the driver ends.
    ended: AtomicBool,
    driver: Mutex<Option<ShardDriver>>,
    scheduled: AtomicUsize,
    refused: AtomicUsize,
}

impl Harness {
    pub(super) fn new(fixture: Fixture) -> Self {
        let state = State {
            now: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            driver: Mutex::new(Some(fixture.driver())),
            scheduled: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
        };
        Self { fixture, state: Arc::new(state) }
    }

    pub(super) fn now(&self) -> u64 {
        self.state.now.load(SeqCst)
    }

    pub(super) fn count_scheduled(&self) {
        self.state.scheduled.fetch_add(1, SeqCst);
    }

    pub(super) fn count_refused(&self) {
        self.state.refused.fetch_add(1, SeqCst);
    }

    pub(super) fn close(&self) {
        self.fixture.close(self.now());
    }

    /// Advances the clock by `ticks` while clients run. After they end, expires all timers that are left. Returns all
    /// caches.
    pub(super) fn run<const N: usize>(&self, ticks: u64, clients: [JoinHandle<Cache>; N]) -> Vec<Cache> {
        let (sender, receiver) = mpsc::channel();
        let receiver = Arc::new(Mutex::new(receiver));
        let driver = self.spawn(move |harness| harness.drive(&sender));
        let workers = [(); WORKERS].map(|()| {
            let receiver = receiver.clone();
            self.spawn(move |harness| harness.work(&receiver))
        });
        let clock = self.spawn(move |harness| (1..=ticks).for_each(|tick| harness.set_time(tick)));
        let mut caches: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
        clock.join().unwrap();
        self.state.ended.store(true, SeqCst);
        self.set_time(END);
        driver.join().unwrap();
        caches.extend(workers.into_iter().flat_map(|worker| worker.join().unwrap()));
        caches
    }

    /// Starts a thread that uses this harness.
    pub(super) fn spawn<T: Send + 'static>(&self, f: impl FnOnce(&Self) -> T + Send + 'static) -> JoinHandle<T> {
        let harness = self.clone();
        thread::spawn(move || f(&harness))
    }

    fn set_time(&self, tick: u64) {
        self.state.now.store(tick, SeqCst);
        self.fixture.core.wakeup.wake_by(0);
    }

    fn drive(&self, workers: &mpsc::Sender<Batch>) {
        let core = &self.fixture.core;
        core.wakeup.alarm().bell.attach();
        let mut driver = self.state.driver.lock().unwrap().take().unwrap();
        loop {
            let last = self.has_ended();
            let now = self.now();
            self.fixture.drive_with(&mut driver, now, |batch| workers.send((batch, now)).unwrap());
            if last {
                break;
            }
            let idle = || !driver.has_chores(core) && core.intake.is_empty() && !self.has_ended() && self.now() == now;
            sleep(&core.wakeup, || self.now(), driver.next_round(), idle);
        }
        *self.state.driver.lock().unwrap() = Some(driver);
    }

    fn has_ended(&self) -> bool {
        self.state.ended.load(SeqCst) || self.fixture.core.is_closing()
    }

    fn work(&self, batches: &Mutex<mpsc::Receiver<Batch>>) -> Vec<Cache> {
        let mut caches = Vec::new();
        loop {
            let batch = batches.lock().unwrap().recv();
            let Ok((batch, now)) = batch else { return caches };
            let worker = self.fixture.worker(now);
            worker.run(&batch);
            caches.push(worker.into_cache());
        }
    }

    /// Asserts that every timer ran or was cancelled, and that every entry is free.
    pub(super) fn assert_accounted(&self, caches: Vec<Cache>) {
        self.assert_free(caches);
        let counts = &self.fixture.counts;
        let scheduled = self.state.scheduled.load(SeqCst);
        assert_eq!(counts.completed() + counts.cancelled(), scheduled, "each timer ends once");
        assert_eq!(counts.dropped(), scheduled, "each callback is dropped once");
    }

    /// Runs the timers that are left, and asserts that every entry is free.
    pub(super) fn assert_free(&self, mut caches: Vec<Cache>) {
        let mut driver = self.state.driver.lock().unwrap().take().unwrap();
        // A repeating timer that ran while the driver ended may still be in the intake.
        loop {
            let worker = self.fixture.worker(END);
            self.fixture.drive(&mut driver, &worker);
            let ran = !worker.ran.borrow().is_empty();
            caches.push(worker.into_cache());
            if !ran {
                break;
            }
        }
        self.fixture.assert_all_free(&mut driver, &mut caches);
    }

    /// Asserts that a shutdown ended every timer once, and that one thread dropped the last handle of the shard.
    pub(super) fn assert_closed(&self) {
        let counts = &self.fixture.counts;
        let scheduled = self.state.scheduled.load(SeqCst);
        assert_eq!(counts.completed() + counts.cancelled() + counts.unfired(), scheduled, "each timer ends once");
        let made = scheduled + self.state.refused.load(SeqCst);
        assert_eq!(counts.dropped(), made, "each callback is dropped once");
        self.assert_freed_once();
    }

    /// Asserts that exactly one release or shutdown found that it dropped the last handle.
    pub(super) fn assert_freed_once(&self) {
        assert_eq!(self.fixture.counts.freed(), 1, "one thread frees the shard");
    }
}

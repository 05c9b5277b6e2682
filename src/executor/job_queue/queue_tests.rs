//! Unit tests of `queue`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread as system_thread;

use super::super::thread::SleepProbe;
use super::*;
use crate::executor::batch::tests::Callbacks;

/// A worker's thread with a clock of its own, on which rayon has no work.
struct Logging {
    start: Instant,
    millis: Arc<AtomicU64>,
    log: Arc<Mutex<Vec<&'static str>>>,
}

impl WorkerThread for Logging {
    fn now(&self) -> Instant {
        self.start + Duration::from_millis(self.millis.load(Ordering::SeqCst))
    }

    fn run_own_task(&self) -> bool {
        false
    }

    fn run_any_task(&self) -> bool {
        lock(&self.log).push("search");
        false
    }

    fn sleep_probe(&self) -> SleepProbe {
        Arc::new(|| None)
    }
}

/// A ticket spawns the next one before it drops what it has found exhausted: that may be the last reference to a shard, and
/// take long.
#[test]
fn a_ticket_spawns_another_before_it_drops_a_batch() {
    /// Has nothing left to start.
    struct Exhausted(Arc<Mutex<Vec<&'static str>>>);
    impl Batch for Exhausted {
        fn run(&self) {}

        fn is_exhausted(&self) -> bool {
            true
        }

        fn into_singles(self) -> impl Iterator<Item = Self> {
            std::iter::empty()
        }
    }
    impl Drop for Exhausted {
        fn drop(&mut self) {
            lock(&self.0).push("drop");
        }
    }
    let (queue, log) = (JobQueue::new(0, 0), Arc::<Mutex<Vec<_>>>::default());
    let long_ago = Instant::now() - Duration::from_secs(1);
    let logs = log.clone();
    let late = Callbacks::of(1, move || lock(&logs).push("run"));
    queue.push(Arc::new(Exhausted(log.clone())), long_ago);
    queue.push(Arc::new(late), long_ago);
    queue.run_ticket(|| lock(&log).push("spawn"));
    assert_eq!(*lock(&log), ["spawn", "drop", "run"]);
}

/// Rayon's work may take long, and the job has no other worker.
#[test]
fn a_worker_that_is_woken_for_a_job_runs_it_before_it_searches() {
    let (queue, log) = (Arc::new(JobQueue::new(2, 0)), Arc::<Mutex<Vec<_>>>::default());
    let (start, millis) = (Instant::now(), Arc::new(AtomicU64::new(0)));
    // Another worker is in a long run.
    lock(&queue.state).begin(None, start, false, None);
    let (thread, served) = (Logging { start, millis: millis.clone(), log: log.clone() }, queue.clone());
    let worker = system_thread::spawn(move || served.worker_loop(&thread, false));
    let eventually = |is_so: &dyn Fn() -> bool| {
        while !is_so() {
            assert!(start.elapsed() < Duration::from_secs(20));
            system_thread::yield_now();
        }
    };
    eventually(&|| !lock(&queue.state).parked.is_empty());
    millis.store(1000, Ordering::SeqCst);
    let logs = log.clone();
    let batch = Arc::new(Callbacks::of(1, move || lock(&logs).push("job")));
    queue.push(batch, start + Duration::from_millis(1000));
    eventually(&|| lock(&log).contains(&"job"));
    assert_eq!(lock(&log)[0], "job");
    queue.close();
    worker.join().unwrap();
}

//! A pool's queue together with the loans of a driver.
//!
//! The queue and the loans are the crate's. The driver's own thread and the worker call them in the order of
//! `src/shard/driver/drive.rs`; the driver itself is replaced by a list of what it will do. A worker that waits in a callback, or in a
//! task of rayon that it found, does not come back. Then the driver's own thread takes the driver and lends it to the
//! next worker.
//!
//! Fails under mutations: `loan-running-lost`, `loan-rest-lost`, `queue-late-forgotten`, `queue-assist-no-alert`.

use std::collections::VecDeque;
use std::time::Duration;

use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use shuttle::thread::{self, JoinHandle};

use super::explore;
use super::pool::{Barrier, Callback, Callbacks, Pool};
use crate::engine::loan::Loans;
use crate::executor::batch::{Batch, Loan};
use crate::executor::job_queue::STRAGGLER_AFTER;
use crate::sync::{Arc, Condvar, MutexGuard};

/// What the driver will do.
type Driver = VecDeque<Step>;

enum Step {
    /// These callbacks expire.
    Expire(Vec<Callback>),
    /// The driver sleeps: it comes to the first barrier, and then waits at the other.
    Sleep(Barrier, Barrier),
}

type Slot = crate::engine::loan::Slot<Driver, Arc<Callbacks>>;

/// A shard that lends its driver.
struct Shard {
    pool: Arc<Pool>,
    loans: Loans<Driver, Arc<Callbacks>>,
    ended: AtomicBool,
}

/// One loan, as the worker sees it.
struct Lent {
    shard: Arc<Shard>,
    number: u64,
}

impl Shard {
    fn new(pool: &Arc<Pool>) -> Arc<Self> {
        Arc::new(Self { pool: pool.clone(), loans: Loans::new(), ended: AtomicBool::new(false) })
    }

    /// Starts the driver's own thread.
    fn start(self: &Arc<Self>, steps: impl Into<Driver>) -> JoinHandle<()> {
        let (shard, driver) = (self.clone(), steps.into());
        thread::spawn(move || shard.drive(driver))
    }

    /// Drives on the calling thread, the driver's own, and lends the driver with each batch.
    fn drive(self: &Arc<Self>, mut driver: Driver) {
        while let Some(batch) = self.next_batch(&mut driver) {
            let number = self.loans.lend(driver, batch.clone());
            let loan = Arc::new(Lent { shard: self.clone(), number });
            if !self.pool.queue.push_with_loan(batch, loan.clone(), 1, self.pool.now()) {
                loan.recall();
            }
            let returned = self.loans.wait(wait_for_time, || false);
            driver = returned.driver;
            returned.running.iter().for_each(|batch| self.pool.alert_if_unfinished(batch));
        }
        self.ended.store(true, Ordering::SeqCst);
    }

    /// Drives until callbacks expire.
    fn next_batch(&self, driver: &mut Driver) -> Option<Arc<Callbacks>> {
        loop {
            match driver.pop_front()? {
                Step::Expire(callbacks) => return Some(Arc::new(Callbacks::new(&self.pool, callbacks))),
                Step::Sleep(begun, ended) => {
                    drop(begun.arrive());
                    ended.wait();
                }
            }
        }
    }

    /// Advances the clock and wakes the driver's own thread, until that has ended.
    fn pass_time(&self) {
        while !self.ended.load(Ordering::SeqCst) {
            self.pool.advance(Duration::from_millis(1));
            // Only wakes the thread: no loan has this number.
            self.loans.recall(u64::MAX);
            thread::yield_now();
        }
    }
}

/// Waits until time has passed or the driver has come back. Either counts as a timeout.
fn wait_for_time<'a>(returned: &'a Condvar, slot: MutexGuard<'a, Slot>) -> (MutexGuard<'a, Slot>, bool) {
    (returned.wait(slot).unwrap(), true)
}

impl Loan for Lent {
    fn next_batch(&self) -> Option<Arc<dyn Batch>> {
        let Shard { loans, .. } = &*self.shard;
        let mut driver = loans.borrow(self.number)?;
        let next = if loans.is_over(self.number) { None } else { self.shard.next_batch(&mut driver) };
        let Some(batch) = next else {
            let rest = Arc::new(Callbacks::new(&self.shard.pool, Vec::new()));
            loans.give_up(driver, rest.clone());
            return Some(rest);
        };
        loans.put_back(self.number, driver, batch.clone());
        Some(batch)
    }

    fn recall(&self) {
        self.shard.loans.recall(self.number);
    }
}

/// A callback waits for the other one of its batch, and then for the last batch. So does a task that it gave to rayon. So
/// two workers do not come back, one of them from a search, and the third runs the last batch.
#[test]
fn a_driver_is_taken_from_each_worker_that_does_not_come_back() {
    explore(|| {
        let (pool, threads) = Pool::start(3);
        let shard = Shard::new(&pool);
        let (pair, last, quick) = (Barrier::new(2), Barrier::new(3), Arc::new(AtomicUsize::new(0)));
        let quickly = || {
            let quick = quick.clone();
            let count: Callback = Box::new(move |_| _ = quick.fetch_add(1, Ordering::SeqCst));
            vec![count]
        };
        let (other, task, end) = (pair.clone(), last.clone(), Barrier::new(2));
        let ending = end.clone();
        let slow: Callback = Box::new(move |pool| {
            let inside = task.clone();
            pool.spawn(Box::new(move |_| inside.wait()));
            other.wait();
            task.wait();
            drop(ending.arrive());
        });
        let open: Callback = Box::new(move |_| drop(last.arrive()));
        let batches = [quickly(), vec![slow, pair.callback()], quickly(), quickly(), vec![open], quickly()];
        let driver = shard.start(batches.map(Step::Expire));
        shard.pass_time();
        driver.join().unwrap();
        end.wait();
        pool.shut_down(threads);
        assert_eq!(quick.load(Ordering::SeqCst), 4);
    });
}

/// A callback gives each worker a task, while one of them sleeps as the driver. That worker does its task when the loan
/// ends, and the task waits for one that the other worker must do.
#[test]
fn the_work_of_a_broadcast_is_done_after_a_loan() {
    explore(|| {
        let (pool, threads) = Pool::start(2);
        let shard = Shard::new(&pool);
        let (asleep, awake, end) = (Barrier::new(2), Barrier::new(2), Barrier::new(2));
        let nothing = vec![Box::new(|_: &Pool| ()) as Callback];
        let driver = shard.start([Step::Expire(nothing), Step::Sleep(asleep.clone(), awake.clone())]);
        asleep.wait();
        let ending = end.clone();
        pool.push(vec![Box::new(move |pool| {
            let (origin, end) = (thread::current().id(), ending.clone());
            pool.broadcast(move |pool| {
                if thread::current().id() != origin {
                    pool.wait_for_task();
                    drop(end.arrive());
                }
            });
        })]);
        // The alert may end: the worker that sleeps is not busy.
        for _ in 0..10 {
            pool.advance(Duration::from_millis(100));
            thread::yield_now();
        }
        awake.wait();
        shard.pass_time();
        driver.join().unwrap();
        end.wait();
        pool.shut_down(threads);
    });
}

/// A worker that drives is slow to begin the second callback of a batch. Another runs it, and it waits for a task that it
/// gave to rayon. The worker that drives does not know of it, and finds nothing else to do.
#[test]
fn the_work_of_an_assistant_is_done_after_a_loan() {
    explore(|| {
        let (pool, threads) = Pool::start(2);
        let shard = Shard::new(&pool);
        let (begun, assisted, end) = (Barrier::new(2), Barrier::new(2), Barrier::new(2));
        let (begins, first, second, ending) = (begun.clone(), assisted.clone(), assisted, end.clone());
        let slow: Callback = Box::new(move |_| {
            drop(begins.arrive());
            first.wait();
        });
        let assist: Callback = Box::new(move |pool| {
            drop(second.arrive());
            pool.wait_for_task();
            drop(ending.arrive());
        });
        let nothing = || vec![Box::new(|_: &Pool| ()) as Callback];
        let driver = shard.start([nothing(), vec![slow, assist]].map(Step::Expire));
        begun.wait();
        pool.advance(STRAGGLER_AFTER);
        // The worker that comes for this finds the straggler.
        pool.push(nothing());
        shard.pass_time();
        driver.join().unwrap();
        end.wait();
        pool.shut_down(threads);
    });
}

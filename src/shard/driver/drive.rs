//! `drive`: the threads that call a [`Driver`], its own thread and the worker to which it is on loan.
//!
//! A driver belongs to one of two threads:
//!
//! | the driver is  | on its own thread                          | on a worker                                        |
//! |----------------|--------------------------------------------|----------------------------------------------------|
//! | not lent       | drives; dispatches each batch to the executor | runs batches                                    |
//! | [lent](Loans)  | checks every 2 ms whether the worker is stuck | drives until a batch is ready, runs it, and so on |
//!
//! The driver's thread lends when a batch is ready and the driver [is busy](super::load). Only the timer's own pool
//! takes loans, if it has a worker for each shard. Pinned drivers and those of a virtual clock are never lent. The loan
//! ends when one of these holds:
//!
//! - the worker is stuck in a callback for 2 to 4 ms: then the driver's thread takes the driver, and watches the batch;
//! - the driver is no longer busy, or has a burst;
//! - the pool recalls the loan, because a batch waits and no worker is parked;
//! - the shard is closed, or the driver panics.
//!
//! The protocol is at the head of [`loan`](crate::engine::loan). This file adds the executor, time, the inherited
//! scheduling of threads, and panics.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use core_affinity::CoreId;

use super::batch::Batch;
use super::rounds::{Driver, Stop};
use super::thread::DriverStatus;
use crate::engine::loan::{Loans, Returned};
use crate::executor::{self, JobQueue, Loan as _};
use crate::shard::Shard;
use crate::shard::thread_state;
use crate::system::Scheduling;
use crate::wheel::Levels;

/// Interval at which the driver's thread checks whether the worker has come back.
///
/// This is how often the thread wakes during a loan. Timers are late by one to two intervals when a callback suddenly
/// takes long.
const CHECK_INTERVAL: Duration = Duration::from_millis(2);

/// A driver on loan, with the payload of its panic if it has panicked.
type Lent = (Box<Driver>, Option<Box<dyn Any + Send>>);

/// What the driver's thread and the worker share.
struct Lending {
    shard: Arc<Shard>,
    /// Number of shards that lend their drivers.
    shards: usize,
    queue: Arc<JobQueue>,
    loans: Loans<Lent, Arc<Batch>>,
}

/// One loan, as the worker sees it.
struct Loan {
    lending: Arc<Lending>,
    number: u64,
}

/// Drives the shard until it is closed. Must be called on the driver's own thread.
///
/// `core`: the core to which the thread is pinned. `lending_shards`: the number of shards that may lend their drivers
/// to the pool, or `None` if this service does not lend.
pub(crate) fn drive(
    shard: Arc<Shard>,
    levels: Levels,
    dispatcher: executor::Dispatcher,
    core: Option<CoreId>,
    lending_shards: Option<usize>,
    status: &DriverStatus,
) {
    shard.core.wakeup.attach();
    let lending = lending_shards.zip(dispatcher.own_queue()).map(|(shards, queue)| {
        let (shard, queue) = (shard.clone(), queue.clone());
        Arc::new(Lending { shard, shards, queue, loans: Loans::new() })
    });
    let driver = Some(Box::new(Driver::new(shard.clone(), levels, dispatcher)));
    let mut thread = Thread { scheduling: Scheduling::new(core), status, lending, driver };
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| thread.run()));
    // What follows may call foreign code: wakers, `on_panic`, and the drop of a custom executor.
    thread.scheduling.restore();
    if let Err(payload) = outcome {
        Shard::driver_panicked(&shard, payload);
        thread.driver.iter_mut().for_each(|driver| driver.abandon());
    }
    if let Some(quiescence) = shard.quiescence() {
        quiescence.driver_ended();
    }
}

/// The driver's own thread.
struct Thread<'a> {
    scheduling: Scheduling,
    status: &'a DriverStatus,
    lending: Option<Arc<Lending>>,
    /// `None` during a loan.
    driver: Option<Box<Driver>>,
}

impl Thread<'_> {
    /// Drives, dispatches and lends until the shard is closed.
    fn run(&mut self) {
        while let Some(driver) = &mut self.driver {
            match driver.advance(&mut self.scheduling) {
                Stop::Dispatch(batch) => match self.lending.clone().filter(|_| driver.load.is_busy()) {
                    Some(lending) => self.lend(&lending, batch),
                    None => self.dispatch(batch),
                },
                Stop::Idle => driver.sleep(&mut self.scheduling, None, || false),
                Stop::Closed => return,
            }
        }
    }

    /// Gives the batch to the executor.
    fn dispatch(&mut self, batch: Batch) {
        let Some(driver) = &mut self.driver else { return };
        let dispatcher = driver.dispatcher();
        if dispatcher.runs_foreign_code() {
            self.scheduling.restore();
        }
        let shard = &driver.shard;
        let call = || dispatcher.dispatch(batch, |payload| shard.report_panic(payload));
        let watched = if dispatcher.may_block() { self.status.execute(call) } else { call() };
        watched.into_iter().for_each(|batch| driver.watch(batch));
    }

    /// Lends the driver to a worker, which runs the batch and then drives. Waits for the end of the loan.
    fn lend(&mut self, lending: &Arc<Lending>, batch: Batch) {
        let Some(driver) = self.driver.take() else { return };
        let batch = Arc::new(batch);
        let number = lending.loans.lend((driver, None), batch.clone());
        let loan = Arc::new(Loan { lending: lending.clone(), number });
        let lent = lending.queue.push_with_loan(batch, loan.clone(), lending.shards, Instant::now());
        if !lent {
            loan.recall();
        }
        let mut checks = 0;
        let wait = |returned, slot| {
            checks += 1;
            crate::engine::loan::wait_timeout(returned, slot, CHECK_INTERVAL)
        };
        let Returned { driver: (driver, panicked), running } =
            lending.loans.wait(wait, || lending.shard.core.is_closing());
        thread_state::with(&lending.shard, |thread| thread.add(|counters| &counters.wakeups, checks));
        let driver = self.driver.insert(driver);
        if let Some(payload) = panicked {
            panic::resume_unwind(payload);
        }
        driver.shard.core.wakeup.attach();
        if lent {
            driver.load.loan_ended();
            match running {
                Some(rest) if rest.is_empty() => driver.watch(rest),
                running => running.into_iter().for_each(|batch| driver.watch_straggler(batch)),
            }
        } else {
            driver.load.loan_refused();
            running.into_iter().for_each(|batch| driver.watch(batch));
        }
    }
}

impl executor::Loan for Loan {
    /// Drives on the calling worker until a batch is ready, or gives the driver back. `None`: the loan is over.
    fn next_batch(&self) -> Option<Arc<dyn executor::Batch>> {
        let loans = &self.lending.loans;
        let (mut driver, _) = loans.borrow(self.number)?;
        let shard = &self.lending.shard;
        if !shard.core.wakeup.is_attached_here() {
            shard.core.wakeup.attach();
        }
        let mut scheduling = Scheduling::new(None);
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| self.advance(&mut driver, &mut scheduling)));
        scheduling.restore();
        match outcome {
            Ok(Some(batch)) => {
                let batch = Arc::new(batch);
                loans.put_back(self.number, (driver, None), batch.clone());
                Some(executor::erase(batch))
            }
            Ok(None) => Some(self.give_up((driver, None))),
            Err(payload) => Some(self.give_up((driver, Some(payload)))),
        }
    }

    /// Ends the loan, whether the worker runs callbacks, drives or sleeps.
    fn recall(&self) {
        self.lending.loans.recall(self.number);
        // The worker checks for a recall before it sleeps: see `Driver::sleep`.
        self.lending.shard.core.wakeup.wake_by(0);
    }
}

impl Loan {
    /// Gives the driver back. Returns an empty batch, which lasts until the worker has done the work in its own rayon
    /// queue: while it slept as the driver, other threads may have added to that. The driver watches this batch, too.
    fn give_up(&self, driver: Lent) -> Arc<dyn executor::Batch> {
        let rest = Arc::new(Batch::new(self.lending.shard.clone(), 0, Vec::new()));
        self.lending.loans.give_up(driver, rest.clone());
        executor::erase(rest)
    }

    /// Drives until a batch is ready. `None`: the loan is over, or should end.
    fn advance(&self, driver: &mut Driver, scheduling: &mut Scheduling) -> Option<Batch> {
        let is_over = || self.lending.loans.is_over(self.number);
        while !is_over() && !driver.load.is_burst() {
            match driver.advance(scheduling) {
                Stop::Dispatch(batch) => return Some(batch),
                Stop::Idle => {
                    let longest = Some(driver.load.longest_pause()?);
                    driver.sleep(scheduling, longest, is_over);
                }
                Stop::Closed => return None,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::clock::Ticks;
    use crate::executor::Dispatcher;

    /// Returns a driver's thread that may lend to a pool of one, whose worker has not started yet.
    fn thread(status: &DriverStatus, shards: usize) -> (Thread<'_>, Arc<Lending>) {
        let shard = Shard::new(Ticks::new(None, Duration::from_millis(1)), None, None, None, || false);
        let queue = Arc::new(JobQueue::new(1, 0));
        let levels = Levels::new_ahead(0, &[64]).expect("a valid level");
        let dispatcher = Dispatcher::Own { queue: queue.clone(), extras: None };
        let driver = Some(Box::new(Driver::new(shard.clone(), levels, dispatcher)));
        let lending = Arc::new(Lending { shard, shards, queue, loans: Loans::new() });
        (Thread { scheduling: Scheduling::new(None), status, lending: Some(lending.clone()), driver }, lending)
    }

    #[test]
    fn a_batch_that_went_with_the_driver_is_watched_when_only_the_driver_comes_back() {
        // The one worker is enough for one shard, but does not come; and it is not enough for two.
        for (shards, kind) in [(1, "lent"), (2, "refused")] {
            let status = DriverStatus::default();
            let (mut thread, lending) = thread(&status, shards);
            // There is no timer to run.
            let batch = Batch::new(lending.shard.clone(), 0, vec![0]);
            batch.leave_to_shutdown();
            thread.lend(&lending, batch);
            assert_eq!(thread.driver.map(|driver| driver.watched()), Some(1), "{kind}");
            lending.queue.clear();
        }
    }

    #[test]
    fn what_a_worker_does_after_it_gave_the_driver_back_is_watched() {
        let status = DriverStatus::default();
        // If the worker comes so late that it is not lent the driver, it comes to another.
        let gives_back = || {
            let (mut thread, lending) = thread(&status, 1);
            let (loan, ended) = (Loan { lending: lending.clone(), number: 1 }, AtomicBool::new(false));
            let rest = std::thread::scope(|scope| {
                let worker = scope.spawn(|| {
                    let come = || (!ended.load(Ordering::SeqCst)).then(|| loan.next_batch());
                    std::iter::from_fn(come).flatten().next()
                });
                thread.lend(&lending, Batch::new(lending.shard.clone(), 0, Vec::new()));
                ended.store(true, Ordering::SeqCst);
                worker.join().unwrap()
            });
            lending.queue.clear();
            rest.map(|_| thread.driver.map(|driver| driver.watched()))
        };
        let watched = std::iter::repeat_with(gives_back).flatten().next();
        assert_eq!(watched, Some(Some(1)));
    }

    #[test]
    fn the_thread_that_drives_is_the_one_that_is_woken() {
        let status = DriverStatus::default();
        let (mut thread, lending) = thread(&status, 1);
        let wakeup = &lending.shard.core.wakeup;
        wakeup.attach();
        let lent = (thread.driver.take().expect("it is not lent"), None);
        let batch = Arc::new(Batch::new(lending.shard.clone(), 0, Vec::new()));
        let loan = Loan { lending: lending.clone(), number: lending.loans.lend(lent, batch) };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!(loan.next_batch().is_some(), "nothing is due, so it gives the driver back");
                assert!(loan.next_batch().is_none(), "the loan is over");
                assert!(wakeup.is_attached_here(), "a worker");
            });
        });
        assert!(!wakeup.is_attached_here());
        let wait = |returned, slot| crate::engine::loan::wait_timeout(returned, slot, CHECK_INTERVAL);
        thread.driver = Some(lending.loans.wait(wait, || false).driver.0);
        thread.lend(&lending, Batch::new(lending.shard.clone(), 0, Vec::new()));
        assert!(wakeup.is_attached_here(), "the driver's own thread, when the driver has come back");
        lending.queue.clear();
    }
}

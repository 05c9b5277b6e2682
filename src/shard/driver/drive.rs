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

use super::batch::TimerBatch;
use super::rounds::{Driver, Stop};
use super::thread::DriverStatus;
use crate::engine::loan::{Loans, Returned};
use crate::executor::{self, JobQueue, Loan};
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
    loans: Loans<Lent, Arc<TimerBatch>>,
}

/// One loan, as the worker sees it.
struct DriverLoan {
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
    fn dispatch(&mut self, batch: TimerBatch) {
        let Some(driver) = &mut self.driver else { return };
        let dispatcher = &driver.dispatcher;
        if dispatcher.runs_foreign_code() {
            self.scheduling.restore();
        }
        let shard = &driver.shard;
        let call = || dispatcher.dispatch(batch, |payload| shard.report_panic(payload));
        let watched = if dispatcher.may_block() { self.status.execute(call) } else { call() };
        watched.into_iter().for_each(|batch| driver.stragglers.add(batch));
    }

    /// Lends the driver to a worker, which runs the batch and then drives. Waits for the end of the loan.
    fn lend(&mut self, lending: &Arc<Lending>, batch: TimerBatch) {
        let Some(driver) = self.driver.take() else { return };
        let batch = Arc::new(batch);
        let number = lending.loans.lend((driver, None), batch.clone());
        let loan = Arc::new(DriverLoan { lending: lending.clone(), number });
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
                Some(rest) if rest.is_empty() => driver.stragglers.add(rest),
                running => running.into_iter().for_each(|batch| driver.stragglers.add_straggler(batch)),
            }
        } else {
            driver.load.loan_refused();
            running.into_iter().for_each(|batch| driver.stragglers.add(batch));
        }
    }
}

impl Loan for DriverLoan {
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

impl DriverLoan {
    /// Gives the driver back. Returns an empty batch, which lasts until the worker has done the work in its own rayon
    /// queue: while it slept as the driver, other threads may have added to that. The driver watches this batch, too.
    fn give_up(&self, driver: Lent) -> Arc<dyn executor::Batch> {
        let rest = Arc::new(TimerBatch::new(self.lending.shard.clone(), 0, Vec::new()));
        self.lending.loans.give_up(driver, rest.clone());
        executor::erase(rest)
    }

    /// Drives until a batch is ready. `None`: the loan is over, or should end.
    fn advance(&self, driver: &mut Driver, scheduling: &mut Scheduling) -> Option<TimerBatch> {
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
#[path = "drive_tests.rs"]
mod tests;

//! The threads that drive: the driver's own, and a worker to which the driver is on loan.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use core_affinity::CoreId;

use super::batch::Batch;
use super::binding::Shard;
use super::driver::{Driver, Stop};
use super::driver_thread::Whereabouts;
use super::thread_state;
use crate::engine::loan::{Loans, Returned};
use crate::executor::{self, JobQueue, Loan as _};
use crate::system::Scheduling;
use crate::wheel::Levels;

/// How often the driver's thread looks whether the worker has come back. As often it wakes while much is to do, and as
/// long, or twice, timers wait if a callback takes long all of a sudden.
const LOOK: Duration = Duration::from_millis(2);

/// A driver, and why it has come back if it has panicked.
type Lent = (Box<Driver>, Option<Box<dyn Any + Send>>);

/// What the driver's thread and a worker share.
pub(crate) struct Lending {
    shard: Arc<Shard>,
    /// How many shards lend their drivers.
    shards: usize,
    queue: Arc<JobQueue>,
    loans: Loans<Lent, Arc<Batch>>,
}

/// One loan.
struct Loan {
    lending: Arc<Lending>,
    number: u64,
}

/// Drives the shard until it is closed. To be called on a thread of its own. While there is much to do, a worker may drive,
/// if `lends` says how many shards there are that do the same.
pub(crate) fn drive(
    shard: Arc<Shard>,
    levels: Levels,
    dispatcher: executor::Dispatcher,
    core: Option<CoreId>,
    lends: Option<usize>,
    whereabouts: &Whereabouts,
) {
    shard.core.wakeup.attach();
    let lending = lends.zip(dispatcher.own_queue()).map(|(shards, queue)| {
        let (shard, queue) = (shard.clone(), queue.clone());
        Arc::new(Lending { shard, shards, queue, loans: Loans::new() })
    });
    let driver = Some(Box::new(Driver::new(shard.clone(), levels, dispatcher)));
    let mut thread = Thread { scheduling: Scheduling::new(core), whereabouts, lending, driver };
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| thread.run()));
    // The executor, which may be dropped here, is foreign code, and so are wakers and the hook for panics.
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
    whereabouts: &'a Whereabouts,
    lending: Option<Arc<Lending>>,
    /// `None` while it is on loan.
    driver: Option<Box<Driver>>,
}

impl Thread<'_> {
    fn run(&mut self) {
        while let Some(driver) = &mut self.driver {
            match driver.advance(&mut self.scheduling) {
                Stop::Dispatch(batch) => match self.lending.clone().filter(|_| driver.load.is_much()) {
                    Some(lending) => self.lend(&lending, batch),
                    None => self.hand_over(batch),
                },
                Stop::Idle => driver.sleep(&mut self.scheduling, None, || false),
                Stop::Closed => return,
            }
        }
    }

    /// Has the executor run the batch.
    fn hand_over(&mut self, batch: Batch) {
        let Some(driver) = &mut self.driver else { return };
        let dispatcher = driver.dispatcher();
        if dispatcher.runs_foreign_code() {
            self.scheduling.restore();
        }
        let shard = &driver.shard;
        let dispatch = || dispatcher.dispatch(batch, |payload| shard.report_panic(payload));
        let watched = if dispatcher.may_block() { self.whereabouts.execute(dispatch) } else { dispatch() };
        watched.into_iter().for_each(|batch| driver.watch(batch));
    }

    /// Has a worker run the batch, and then drive.
    fn lend(&mut self, lending: &Arc<Lending>, batch: Batch) {
        let Some(driver) = self.driver.take() else { return };
        let batch = Arc::new(batch);
        let number = lending.loans.lend((driver, None), batch.clone());
        let loan = Arc::new(Loan { lending: lending.clone(), number });
        let lent = lending.queue.push_with_loan(batch, loan.clone(), lending.shards, Instant::now());
        if !lent {
            loan.recall();
        }
        let mut looks = 0;
        let pause = |returned, place| {
            looks += 1;
            crate::engine::loan::pause(returned, place, LOOK)
        };
        let Returned { driver: (driver, panicked), running } =
            lending.loans.wait(pause, || lending.shard.core.is_closing());
        thread_state::with(&lending.shard, |thread| thread.count_more(|counters| &counters.wakeups, looks));
        let driver = self.driver.insert(driver);
        if let Some(payload) = panicked {
            panic::resume_unwind(payload);
        }
        driver.shard.core.wakeup.attach();
        if lent {
            driver.load.start_again();
            running.into_iter().for_each(|batch| driver.watch_straggler(batch));
        } else {
            driver.load.retry();
            running.into_iter().for_each(|batch| driver.watch(batch));
        }
    }
}

impl executor::Loan for Loan {
    /// Drives until there are callbacks to run, with the calling worker as the driver's thread.
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
            Ok(None) => {
                loans.give_up((driver, None));
                None
            }
            Err(payload) => {
                loans.give_up((driver, Some(payload)));
                None
            }
        }
    }

    fn recall(&self) {
        self.lending.loans.recall(self.number);
        // The worker looks whether the loan is over before it sleeps.
        self.lending.shard.core.wakeup.wake_by(0);
    }
}

impl Loan {
    /// Drives until callbacks are due. `None`: the loan is over, or little is left to do.
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
    use super::*;
    use crate::clock::{Clock, Ticks};
    use crate::executor::Dispatcher;

    /// A driver's thread that may lend to a pool of one, of which no thread has come yet.
    fn thread(whereabouts: &Whereabouts, shards: usize) -> (Thread<'_>, Arc<Lending>) {
        let shard = Shard::new(Ticks::new(Clock::system(), Duration::from_millis(1)), None, None, None, || false);
        let queue = Arc::new(JobQueue::new(1, 0));
        let levels = Levels::new_ahead(0, &[64]).expect("a valid level");
        let dispatcher = Dispatcher::Own { queue: queue.clone(), extras: None };
        let driver = Some(Box::new(Driver::new(shard.clone(), levels, dispatcher)));
        let lending = Arc::new(Lending { shard, shards, queue, loans: Loans::new() });
        (Thread { scheduling: Scheduling::new(None), whereabouts, lending: Some(lending.clone()), driver }, lending)
    }

    #[test]
    fn a_batch_that_went_with_the_driver_is_watched_when_only_the_driver_comes_back() {
        // The one worker is enough for one shard, but does not come; and it is not enough for two.
        for (shards, kind) in [(1, "lent"), (2, "refused")] {
            let whereabouts = Whereabouts::default();
            let (mut thread, lending) = thread(&whereabouts, shards);
            thread.lend(&lending, Batch::new(lending.shard.clone(), 0, Vec::new()));
            assert_eq!(thread.driver.map(|driver| driver.watched()), Some(1), "{kind}");
            lending.queue.clear();
        }
    }

    #[test]
    fn the_thread_that_drives_is_the_one_that_is_woken() {
        let whereabouts = Whereabouts::default();
        let (mut thread, lending) = thread(&whereabouts, 1);
        let wakeup = &lending.shard.core.wakeup;
        wakeup.attach();
        let lent = (thread.driver.take().expect("it is not lent"), None);
        let batch = Arc::new(Batch::new(lending.shard.clone(), 0, Vec::new()));
        let loan = Loan { lending: lending.clone(), number: lending.loans.lend(lent, batch) };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!(loan.next_batch().is_none(), "nothing is due");
                assert!(wakeup.is_attached_here(), "a worker");
            });
        });
        assert!(!wakeup.is_attached_here());
        let pause = |returned, place| crate::engine::loan::pause(returned, place, LOOK);
        thread.driver = Some(lending.loans.wait(pause, || false).driver.0);
        thread.lend(&lending, Batch::new(lending.shard.clone(), 0, Vec::new()));
        assert!(wakeup.is_attached_here(), "the driver's own thread, when the driver has come back");
        lending.queue.clear();
    }
}

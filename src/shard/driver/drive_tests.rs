//! Unit tests of `drive`.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::clock::Ticks;
use crate::executor::Dispatcher;
use crate::shard::ShardSettings;

/// Returns a driver's thread that may lend to a pool of one, whose worker has not started yet.
fn thread(status: &DriverStatus, shards: usize) -> (Thread<'_>, Arc<Lending>) {
    let shard = Shard::new(ShardSettings::new(Ticks::new(None, Duration::from_millis(1))));
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
        let batch = TimerBatch::new(lending.shard.clone(), 0, vec![0]);
        batch.leave_to_shutdown();
        thread.lend(&lending, batch);
        assert_eq!(thread.driver.map(|driver| driver.stragglers.len()), Some(1), "{kind}");
        lending.queue.clear();
    }
}

#[test]
fn what_a_worker_does_after_it_gave_the_driver_back_is_watched() {
    let status = DriverStatus::default();
    // If the worker comes so late that it is not lent the driver, it comes to another.
    let gives_back = || {
        let (mut thread, lending) = thread(&status, 1);
        let (loan, ended) = (DriverLoan { lending: lending.clone(), number: 1 }, AtomicBool::new(false));
        let rest = std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let come = || (!ended.load(Ordering::SeqCst)).then(|| loan.next_batch());
                std::iter::from_fn(come).flatten().next()
            });
            thread.lend(&lending, TimerBatch::new(lending.shard.clone(), 0, Vec::new()));
            ended.store(true, Ordering::SeqCst);
            worker.join().unwrap()
        });
        lending.queue.clear();
        rest.map(|_| thread.driver.map(|driver| driver.stragglers.len()))
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
    let batch = Arc::new(TimerBatch::new(lending.shard.clone(), 0, Vec::new()));
    let loan = DriverLoan { lending: lending.clone(), number: lending.loans.lend(lent, batch) };
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
    thread.lend(&lending, TimerBatch::new(lending.shard.clone(), 0, Vec::new()));
    assert!(wakeup.is_attached_here(), "the driver's own thread, when the driver has come back");
    lending.queue.clear();
}

//! Explores a driver on loan against its recall.
//!
//! The types ensure that one thread has the driver. The model explores its return: a recall finds the driver asleep, in
//! the middle of a round, or returned.
//!
//! Invariant: each recall and each push wakes the thread that drives, and the driver returns once.
//!
//! Fails under mutations:
//!
//! - `loan-recall-no-wake`: a recall does not wake the thread that waits for the driver;
//! - `loan-put-back-no-wake`: a worker does not notify that thread after it has put back a recalled driver;
//! - `loan-give-up-no-wake`: a worker does not notify that thread after it has given up a driver;
//! - `loan-borrow-any`: a worker may borrow the driver in a loan other than its own;
//! - `wakeup-attached-not-released`, `wakeup-attached-not-acquired`: a push may wake the thread that drove before.

use std::sync::Arc;
use std::time::Duration;

use loom::sync::atomic::{AtomicU64, Ordering::Relaxed};
use loom::sync::{Condvar, MutexGuard};
use loom::thread;

use super::explore;
use crate::engine::loan::{Loans, Slot};
use crate::engine::wakeup::DriverWakeup;

/// The driver is represented by the number of the loan in which a worker last borrowed it.
type Driver = u64;

struct Shard {
    loans: Loans<Driver, &'static str>,
    wakeup: DriverWakeup,
}

type Guard<'a> = MutexGuard<'a, Slot<Driver, &'static str>>;

impl Shard {
    fn new() -> Arc<Self> {
        Arc::new(Self { loans: Loans::new(), wakeup: DriverWakeup::new() })
    }

    fn recall(&self, loan: u64) {
        self.loans.recall(loan);
        self.wakeup.wake_by(0);
    }

    /// What a worker does in a loan. Callbacks are due in each of the first `rounds` rounds, and none afterwards.
    fn work(&self, loan: u64, rounds: usize) {
        for round in 0.. {
            let Some(driver) = self.loans.borrow(loan) else { return };
            assert!(driver == 0 || driver == loan, "the driver is in another loan");
            if round < rounds {
                self.loans.put_back(loan, loan, "callbacks");
            } else {
                let is_over = || self.loans.is_over(loan);
                let timeout = |tick| (tick == 0).then_some(Duration::ZERO);
                while !is_over() {
                    self.wakeup.sleep(0, u64::MAX, timeout, || !is_over());
                }
                return self.loans.give_up(driver, "the rest");
            }
        }
    }
}

/// A worker drives, and then the driver's own thread. A push wakes each of them from its sleep.
#[test]
fn a_push_wakes_the_thread_that_drives() {
    explore(|| {
        let shard = Shard::new();
        let pushed = Arc::new(AtomicU64::new(0));
        let sleep_until_pushed = |shard: &Shard, pushed: &AtomicU64, count| {
            shard.wakeup.attach();
            while pushed.load(Relaxed) < count {
                let timeout = |tick| (tick <= 1).then_some(Duration::ZERO);
                shard.wakeup.sleep(0, 9, timeout, || pushed.load(Relaxed) < count);
            }
        };
        let loan = shard.loans.lend(0, "");
        let (worker_shard, pushes) = (shard.clone(), pushed.clone());
        let worker = thread::spawn(move || {
            let driver = worker_shard.loans.borrow(loan).expect("the loan is not over");
            sleep_until_pushed(&worker_shard, &pushes, 1);
            worker_shard.loans.give_up(driver, "the rest");
        });
        let (caller_shard, pushes) = (shard.clone(), pushed.clone());
        let caller = thread::spawn(move || {
            for _ in 0..2 {
                pushes.fetch_add(1, Relaxed);
                caller_shard.wakeup.wake_by(1);
            }
        });
        shard.loans.wait(wait_for_return, || false);
        sleep_until_pushed(&shard, &pushed, 2);
        worker.join().unwrap();
        caller.join().unwrap();
    });
}

/// Waits until the driver is returned.
fn wait_for_return<'a>(call: &'a Condvar, place: Guard<'a>) -> (Guard<'a>, bool) {
    (call.wait(place).unwrap(), false)
}

#[test]
fn a_recall_returns_the_driver_in_every_phase() {
    for rounds in 0..=1 {
        explore(move || {
            let shard = Shard::new();
            let loan = shard.loans.lend(0, "the first callbacks");
            let (worker, caller) = (shard.clone(), shard.clone());
            let worker = thread::spawn(move || worker.work(loan, rounds));
            let caller = thread::spawn(move || caller.recall(loan));
            shard.loans.wait(wait_for_return, || false);
            worker.join().unwrap();
            caller.join().unwrap();
        });
    }
}

/// The driver is not borrowed for so long that its own thread takes it, and lends it to another worker.
#[test]
fn a_late_worker_cannot_borrow_in_the_next_loan() {
    explore(|| {
        let shard = Shard::new();
        let first = shard.loans.lend(0, "long callbacks");
        let late = shard.clone();
        let late = thread::spawn(move || late.work(first, 1));
        let mut polls = 0;
        // The first two polls follow at once, and the next one waits, because the worker may come in between.
        let poll = |call, place| {
            polls += 1;
            if polls == 1 { (place, true) } else { wait_for_return(call, place) }
        };
        let caller = shard.clone();
        let caller = thread::spawn(move || caller.recall(first));
        shard.loans.wait(poll, || false);
        let second = shard.loans.lend(0, "more callbacks");
        let other = shard.clone();
        let other = thread::spawn(move || other.work(second, 1));
        shard.recall(second);
        shard.loans.wait(wait_for_return, || false);
        late.join().unwrap();
        other.join().unwrap();
        caller.join().unwrap();
    });
}

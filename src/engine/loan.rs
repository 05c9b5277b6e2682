//! A driver on loan: a slot in which the driver lies while no thread drives.
//!
//! A driver that hands its batches over wakes a worker for each, and the two threads compete for a core. So a driver
//! with much to do lends itself to a worker of the pool. The worker drives the shard *and* runs the expired callbacks,
//! one after the other.
//!
//! ```text
//! driver's own thread            slot       worker
//! ───────────────────            ────       ──────
//! lend the driver, with a batch  driver     run the batch
//! wait                           empty      borrow the driver, and drive until callbacks expire
//!   :                            driver     put the driver back, and run the callbacks
//!   :                            empty      borrow the driver, and drive; and so on
//! take the driver at the end     empty      find that the loan is over
//! ```
//!
//! # Who has the driver
//!
//! The driver is a value, so it is in one place: with the worker while the worker drives, and in the slot while
//! callbacks run. So a callback that takes long does not keep the shard from being driven.
//!
//! The driver's own thread wakes at intervals (`CHECK_INTERVAL` in `shard/drive.rs`). If it finds the driver in the
//! slot twice, and the worker has not borrowed it in between, it takes the driver. When that worker returns, it finds
//! the loan over, and goes to the job queue like any other worker.
//!
//! # How a loan ends
//!
//! | reason                                     | which thread ends it                                             |
//! |--------------------------------------------|------------------------------------------------------------------|
//! | the worker has not come back for a while   | the driver's own thread, which takes the driver from the slot    |
//! | the shard is closed                        | either: the worker gives it up, or the driver's own thread takes it |
//! | there is little to do                      | the worker, which gives it up                                    |
//! | a recall                                   | any thread: the driver's own thread then gets the driver         |
//!
//! A recall clears the number of the current loan. Then it wakes two threads: the driver's own, in case the driver lies
//! in the slot, and the worker, in case it sleeps as the driver. The worker checks before each sleep whether the loan
//! is over, as it checks everything else that it may be woken for: see [`wakeup`](super::wakeup).
//!
//! With the driver, its own thread gets the batch that the worker has not finished, and watches it. A worker that gives the
//! driver up may have work of rayon left to do. That counts as a batch without callbacks.
//!
//! Each loan has a number of its own. So a worker that returns late cannot borrow the driver in another loan.
//!
//! Loom model `loan` checks this, and the shuttle scenarios of `lending` the loans together with the job queue.

use std::time::Duration;

use crate::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering, lock, unpoisoned};

/// The number of no loan.
const NONE: u64 = 0;

/// The loans of one shard. `D` is the driver, and `T` the batch that a worker is running.
pub(crate) struct Loans<D, T> {
    slot: Mutex<Slot<D, T>>,
    /// Notifies the driver's own thread that it should take the driver out of the slot.
    returned: Condvar,
    /// Number of the current loan, or `NONE`. Written under the lock.
    current: AtomicU64,
}

/// Where the driver lies while no thread drives.
pub(crate) struct Slot<D, T> {
    driver: Option<D>,
    /// The batch that the worker runs while the driver lies here.
    running: Option<T>,
    /// How often the driver was put into the slot.
    puts: u64,
    /// Number of the last loan.
    last_loan: u64,
}

/// What the driver's own thread gets at the end of a loan.
pub(crate) struct Returned<D, T> {
    pub(crate) driver: D,
    /// The batch that the worker has not finished.
    pub(crate) running: Option<T>,
}

impl<D, T> Loans<D, T> {
    pub(crate) fn new() -> Self {
        let slot = Slot { driver: None, running: None, puts: 0, last_loan: NONE };
        Self { slot: Mutex::new(slot), returned: Condvar::new(), current: AtomicU64::new(NONE) }
    }

    /// Begins a loan. Returns its number, with which a worker may [`borrow`](Self::borrow) the driver from now on.
    pub(crate) fn lend(&self, driver: D, running: T) -> u64 {
        let mut slot = lock(&self.slot);
        slot.last_loan += 1;
        self.set_current(slot.last_loan);
        slot.put(driver, running);
        slot.last_loan
    }

    /// Waits for the end of the loan, and takes the driver.
    ///
    /// `wait_once` waits on the condition variable for some time, and returns whether it timed out. The loan also ends
    /// when the driver is in the slot and `stops` returns true.
    pub(crate) fn wait<'a>(
        &'a self,
        mut wait_once: impl FnMut(&'a Condvar, MutexGuard<'a, Slot<D, T>>) -> (MutexGuard<'a, Slot<D, T>>, bool),
        stops: impl Fn() -> bool,
    ) -> Returned<D, T> {
        let mut slot = lock(&self.slot);
        let mut seen = None;
        loop {
            let is_stuck = seen == Some(slot.puts);
            if (self.is_over(slot.last_loan) || is_stuck || stops())
                && let Some(driver) = slot.driver.take()
            {
                self.set_current(NONE);
                return Returned { driver, running: slot.running.take() };
            }
            let puts = slot.driver.is_some().then_some(slot.puts);
            let timed_out;
            (slot, timed_out) = wait_once(&self.returned, slot);
            seen = puts.filter(|_| timed_out);
        }
    }

    /// Takes the driver out of the slot. Returns `None` if the loan is over.
    pub(crate) fn borrow(&self, loan: u64) -> Option<D> {
        let mut slot = lock(&self.slot);
        if self.is_over(loan) {
            return None;
        }
        slot.running = None;
        slot.driver.take()
    }

    /// Puts the driver into the slot, while the worker runs callbacks.
    pub(crate) fn put_back(&self, loan: u64, driver: D, running: T) {
        let mut slot = lock(&self.slot);
        slot.put(driver, running);
        let is_over = self.is_over(loan);
        drop(slot);
        if is_over {
            self.returned.notify_one();
        }
    }

    /// Ends the loan. The calling worker gives the driver back, and then finishes the batch `running`.
    pub(crate) fn give_up(&self, driver: D, running: T) {
        let mut slot = lock(&self.slot);
        self.set_current(NONE);
        slot.put(driver, running);
        drop(slot);
        self.returned.notify_one();
    }

    /// Ends the loan, if it is the current one. The worker may be asleep as the driver, so the caller must wake the
    /// driver afterwards.
    pub(crate) fn recall(&self, loan: u64) {
        let slot = lock(&self.slot);
        if !self.is_over(loan) {
            self.set_current(NONE);
        }
        drop(slot);
        self.returned.notify_one();
    }

    /// Whether the loan of this number has ended.
    pub(crate) fn is_over(&self, loan: u64) -> bool {
        // Relaxed: under the lock the value is exact. Without the lock, the wake-up after a recall publishes the write.
        self.current.load(Ordering::Relaxed) != loan
    }

    fn set_current(&self, loan: u64) {
        // Relaxed: as in `is_over`.
        self.current.store(loan, Ordering::Relaxed);
    }
}

/// Waits on a condition variable for `timeout` at most. Returns whether it timed out.
pub(crate) fn wait_timeout<'a, T>(
    condvar: &Condvar,
    guard: MutexGuard<'a, T>,
    timeout: Duration,
) -> (MutexGuard<'a, T>, bool) {
    let (guard, result) = unpoisoned(condvar.wait_timeout(guard, timeout));
    (guard, result.timed_out())
}

impl<D, T> Slot<D, T> {
    fn put(&mut self, driver: D, running: T) {
        self.driver = Some(driver);
        self.running = Some(running);
        self.puts += 1;
    }
}

//! A driver on loan: where the half of a shard that drives it lies while nobody drives.
//!
//! A driver that hands its batches over wakes a worker for each, and the two compete for a core. So a driver that has
//! much to do lends itself to a worker of the pool. The worker drives the shard *and* runs what is due, one after the other.
//!
//! ```text
//! driver's thread                     worker
//! ───────────────                     ──────
//! lend: put the driver here
//! wait                                run the batch that came with the loan
//!                                     borrow: take the driver
//!                                     drive until callbacks are due
//!                                     put it back, and run them; and so on
//! take it when the loan is over
//! ```
//!
//! The driver is in one place at any time: in the hands of the worker while it drives, or here while callbacks run. So a
//! callback that takes long keeps nobody from driving: the driver's own thread looks here every [`LOOK`], and takes the
//! driver if the worker has not come back since the last look. The worker, when it does come back, finds the loan over,
//! and goes to the queue of jobs like any other.
//!
//! The loan also ends when it is recalled, when the shard is closed, and when the worker finds that little is left to do:
//! then nobody has to look here. A recall sets a flag, and then wakes both: the worker, which may be asleep
//! in the driver's place, and the driver's thread, if the driver lies here. The worker looks at the flag before it sleeps,
//! as at all that it may be woken for.
//!
//! Loom model `loan`.

use std::time::Duration;

use crate::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering};

/// No loan has this number.
const NONE: u64 = 0;

/// The place of one shard's driver, a `D`. `T` goes with it while callbacks run.
pub(crate) struct Loans<D, T> {
    place: Mutex<Place<D, T>>,
    /// The driver lies here, and its thread shall take it.
    returned: Condvar,
    /// The loan that has not ended, or `NONE`. Written under the lock.
    current: AtomicU64,
}

pub(crate) struct Place<D, T> {
    driver: Option<D>,
    running: Option<T>,
    /// How often the driver was put here.
    turn: u64,
    /// The number of the last loan.
    last: u64,
}

/// What comes back at the end of a loan.
pub(crate) struct Returned<D, T> {
    pub(crate) driver: D,
    /// What the worker has not finished.
    pub(crate) running: Option<T>,
}

impl<D, T> Loans<D, T> {
    pub(crate) fn new() -> Self {
        let place = Place { driver: None, running: None, turn: 0, last: NONE };
        Self { place: Mutex::new(place), returned: Condvar::new(), current: AtomicU64::new(NONE) }
    }

    /// Begins a loan, and returns its number: from now on a worker that knows it may [`borrow`](Self::borrow).
    pub(crate) fn lend(&self, driver: D, running: T) -> u64 {
        let mut place = self.lock();
        place.last += 1;
        self.set_current(place.last);
        place.put(driver, Some(running));
        place.last
    }

    /// Waits for the end of the loan. `pause` waits for a call for some time, and tells whether that time is over. The loan
    /// ends also when `stops` says so.
    pub(crate) fn wait<'a>(
        &'a self,
        mut pause: impl FnMut(&'a Condvar, MutexGuard<'a, Place<D, T>>) -> (MutexGuard<'a, Place<D, T>>, bool),
        stops: impl Fn() -> bool,
    ) -> Returned<D, T> {
        let mut place = self.lock();
        let mut seen = None;
        loop {
            let is_stuck = seen == Some(place.turn);
            if (self.is_over(place.last) || is_stuck || stops())
                && let Some(driver) = place.driver.take()
            {
                self.set_current(NONE);
                return Returned { driver, running: place.running.take() };
            }
            let turn = place.driver.is_some().then_some(place.turn);
            let timed_out;
            (place, timed_out) = pause(&self.returned, place);
            seen = turn.filter(|_| timed_out);
        }
    }

    /// Takes the driver, unless the loan is over.
    pub(crate) fn borrow(&self, loan: u64) -> Option<D> {
        let mut place = self.lock();
        if self.is_over(loan) {
            return None;
        }
        place.running = None;
        place.driver.take()
    }

    /// Puts the driver here while callbacks run.
    pub(crate) fn put_back(&self, loan: u64, driver: D, running: T) {
        let mut place = self.lock();
        place.put(driver, Some(running));
        let is_over = self.is_over(loan);
        drop(place);
        if is_over {
            self.returned.notify_one();
        }
    }

    /// Ends the loan: the worker has the driver, and gives it back.
    pub(crate) fn give_up(&self, driver: D) {
        let mut place = self.lock();
        self.set_current(NONE);
        place.put(driver, None);
        drop(place);
        self.returned.notify_one();
    }

    /// Has the loan end soon. The worker may be asleep in the driver's place, so the caller must wake it afterwards.
    pub(crate) fn recall(&self, loan: u64) {
        let place = self.lock();
        if !self.is_over(loan) {
            self.set_current(NONE);
        }
        drop(place);
        self.returned.notify_one();
    }

    /// Whether the worker should give the driver up.
    pub(crate) fn is_over(&self, loan: u64) -> bool {
        // Relaxed: under the lock it is exact. Without it, the wake-up that follows a recall publishes that.
        self.current.load(Ordering::Relaxed) != loan
    }

    fn set_current(&self, loan: u64) {
        // Relaxed: as above.
        self.current.store(loan, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Place<D, T>> {
        self.place.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Waits for a call, at most that long, and tells whether that time is over.
pub(crate) fn pause<'a, T>(call: &Condvar, guard: MutexGuard<'a, T>, most: Duration) -> (MutexGuard<'a, T>, bool) {
    let (guard, result) = call.wait_timeout(guard, most).unwrap_or_else(|poisoned| poisoned.into_inner());
    (guard, result.timed_out())
}

impl<D, T> Place<D, T> {
    fn put(&mut self, driver: D, running: Option<T>) {
        self.driver = Some(driver);
        self.running = running;
        self.turn += 1;
    }
}

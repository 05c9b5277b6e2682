//! Lending: a worker of the timer's own pool drives for a while.
//!
//! The protocol is at the head of [`seat`](crate::engine::seat). This file adds the worker's side: it drives until
//! callbacks have expired, puts the role back, and runs them. It gives the role up when it is not busy any more, has a
//! burst, is needed for a job, or when the shards are closed.

use std::sync::Arc;
use std::thread::Thread;

use super::drivers::{Drivers, Role};
use super::expired::Expired;
use crate::executor::{self, Batch, Holder};
use crate::system::Scheduling;

/// A role on loan, as the worker sees it.
pub(super) struct Loan {
    pub(super) drivers: Arc<Drivers>,
    pub(super) number: u32,
    /// The role's own thread.
    pub(super) own: Thread,
}

impl executor::Role for Loan {
    fn next_batch(&self, holder: &dyn Holder) -> Option<Arc<dyn Batch>> {
        let (seat, alarm) = (&self.drivers.seats[self.number as usize], self.drivers.alarms.get(self.number));
        let drive = |role: &mut Box<Role>| {
            let mut scheduling = Scheduling::new(None);
            let expired = self.drive(role, &mut scheduling, holder);
            scheduling.restore();
            expired
        };
        let hand_out = |Expired { shards, callbacks, wakers }| {
            let mut runs = Some(callbacks).filter(|callbacks| !callbacks.is_empty());
            // Another worker runs them if wakers are called: one may wait for a callback.
            if let Some(callbacks) = runs.take_if(|_| !wakers.is_empty()) {
                self.drivers.dispatch(callbacks);
            }
            Expired::handed_out(shards, self.number);
            wakers.run();
            runs.map(|callbacks| executor::erase(Arc::new(callbacks)))
        };
        seat.drive(alarm, drive, hand_out, |role| self.return_role(role))
    }

    fn give_up(&self) {
        if let Some(role) = self.drivers.seats[self.number as usize].take() {
            self.return_role(role);
        }
    }
}

impl Loan {
    /// Drives until anything has expired. `None`: the role should be given up.
    fn drive(&self, role: &mut Role, scheduling: &mut Scheduling, holder: &dyn Holder) -> Option<Expired> {
        while !role.load.is_burst() && !self.drivers.are_closed(self.number) {
            let expired = self.drivers.next(role);
            if expired.is_some() {
                return expired;
            }
            let (longest, mut is_needed) = (role.load.longest_pause()?, false);
            self.drivers.sleep(role, scheduling, Some(longest), |_, timeout| {
                is_needed |= holder.park(timeout);
                is_needed
            });
            if is_needed {
                break;
            }
        }
        None
    }

    fn return_role(&self, mut role: Box<Role>) {
        role.load.loan_ended();
        self.drivers.seats[self.number as usize].give_up(role);
        self.own.unpark();
    }
}

//! `ShardDriver`: turns the wheel of a shard.
//!
//! A timer comes here from the intake, waits in the wheel, and leaves when it is due. A `ShardDriver` is a plain value
//! that lies in its shard's driver cell. Any thread that has the [role](crate::engine::role) takes it out for one turn:
//!
//! | turn               | the driver                              | then                          |
//! |--------------------|-----------------------------------------|-------------------------------|
//! | first of a round   | reads the clock, and takes the intake   | makes the turn                |
//! | of a round         | links what came in, and steps the wheel | the timers that expired leave |
//! | of non-urgent work | cascades ahead, trims memory            | begins a round, or sleeps     |
//!
//! - Each turn is bounded to some 50 µs, and expired timers go out after each. So many timers that are due do not
//!   delay the first of them.
//! - A round is one reading of the clock and the turns after it: it handles all that has expired by then. At its end the
//!   shard sleeps until its next deadline, and the thread turns to other shards. If none is due, it comes back for the
//!   non-urgent work.
//!
//! A panic of the driver is a defect of the crate, as no turn runs foreign code. The wheel may then be broken, so the
//! shard is [closed](crate::shard::close), and the panic is reported. Other shards go on.

use std::mem;
use std::panic::{self, AssertUnwindSafe};

use crate::engine::deliveries::Deliveries;
use crate::engine::expired_entries::ExpiredEntries;
use crate::engine::role::{Driven, DriverCell, TurnOutcome};
use crate::engine::turn::DriverCore;
use crate::engine::wakeup::DriverWakeup;
use crate::shard::Shard;
use crate::wheel::Levels;

/// The driver of one shard.
pub(crate) struct ShardDriver {
    core: DriverCore,
    /// A round has begun and is not over.
    pub(crate) in_round: bool,
    /// Timers that have left the wheel, and have not left the driver.
    expired: ExpiredEntries,
}

impl ShardDriver {
    pub(crate) fn new(levels: Levels) -> Self {
        Self { core: DriverCore::new(levels), in_round: false, expired: ExpiredEntries::default() }
    }

    /// Makes a bounded turn: of a round, or of non-urgent work.
    fn turn(&mut self, shard: &Shard, is_due: bool) -> TurnOutcome<ExpiredEntries> {
        let again = if is_due {
            if !self.in_round {
                shard.core.wakeup.begin_to_present();
            }
            self.advance_round(shard, || shard.ticks.now_tick());
            false
        } else {
            self.work(shard)
        };
        self.finish(shard, again)
    }

    /// Begins a round to the tick that `now` returns, unless one has begun, and makes a turn of it.
    fn advance_round(&mut self, shard: &Shard, now: impl FnOnce() -> u64) {
        if !self.in_round {
            self.core.begin(&shard.core, now);
        }
        self.in_round = !self.core.advance_round(&shard.core, &mut self.expired);
    }

    /// Does a bounded piece of non-urgent work. Returns whether more is left.
    fn work(&mut self, shard: &Shard) -> bool {
        let core = &shard.core;
        self.core.cascade_ahead(core, &mut self.expired) || self.core.reclaim(core)
    }

    /// Links what has come in, and does a piece of non-urgent work. What is due by the tick `due` stays here until the next
    /// turn of a round.
    pub(crate) fn collect(&mut self, shard: &Shard, due: u64) -> TurnOutcome<ExpiredEntries> {
        self.advance_round(shard, || due);
        if self.in_round || self.work(shard) || !self.expired.is_empty() {
            TurnOutcome::More
        } else {
            self.rest(shard, false)
        }
    }

    /// Ends a turn. `again`: it has left non-urgent work.
    fn finish(&mut self, shard: &Shard, again: bool) -> TurnOutcome<ExpiredEntries> {
        if !self.expired.is_empty() {
            #[cfg(test)]
            assert!(!shard.fault.load(std::sync::atomic::Ordering::Relaxed), "a test has broken the wheel");
            shard.begin_in_flight(self.expired.len());
            let expired = mem::take(&mut self.expired);
            let has_work = !self.in_round && matches!(self.rest(shard, again), TurnOutcome::Asleep { has_work: true });
            return TurnOutcome::Expired { expired, has_work };
        }
        if self.in_round { TurnOutcome::More } else { self.rest(shard, again) }
    }

    /// Lets the shard sleep, unless something has come in.
    fn rest(&mut self, shard: &Shard, again: bool) -> TurnOutcome<ExpiredEntries> {
        let core = &shard.core;
        self.core.drain_cache(core);
        let has_work = again || self.core.has_work(core);
        let is_idle = || core.intake_is_empty() && !core.is_closing() && (has_work || !self.core.has_work(core));
        let sleeps = core.wakeup.fall_asleep(self.core.now, self.core.next_round(), is_idle);
        if sleeps { TurnOutcome::Asleep { has_work } } else { TurnOutcome::More }
    }

    /// Leaves the expired timers to the shutdown, after the driver has panicked. The driver must not be used
    /// afterwards.
    fn abandon(&mut self, shard: &Shard) {
        shard.begin_in_flight(self.expired.len());
        // The shard is closed. So `run` only takes each timer out of its batch, and the shutdown ends it.
        mem::take(&mut self.expired).into_all().for_each(|index| shard.run(index, 0, &mut Deliveries::default()));
    }
}

impl Shard {
    /// Makes a turn, unless the shard is closed. Closes it if the turn panics.
    pub(crate) fn guarded(
        &self,
        driver: &mut ShardDriver,
        turn: impl FnOnce(&mut ShardDriver) -> TurnOutcome<ExpiredEntries>,
    ) -> TurnOutcome<ExpiredEntries> {
        if self.core.is_closing() {
            return TurnOutcome::Closed;
        }
        panic::catch_unwind(AssertUnwindSafe(|| turn(driver))).unwrap_or_else(|payload| {
            self.driver_panicked(payload);
            driver.abandon(self);
            TurnOutcome::Closed
        })
    }
}

impl Driven for Shard {
    type Driver = Box<ShardDriver>;
    type Expired = ExpiredEntries;

    fn wakeup(&self) -> &DriverWakeup {
        &self.core.wakeup
    }

    fn driver_cell(&self) -> &DriverCell<Box<ShardDriver>> {
        &self.driver_cell
    }

    fn due_tick(&self) -> u64 {
        self.ticks.now_tick()
    }

    fn turn(&self, driver: &mut Box<ShardDriver>, is_due: bool) -> TurnOutcome<ExpiredEntries> {
        self.guarded(driver, |driver| driver.turn(self, is_due))
    }

    fn may_rest(&self) {
        self.wake_clock();
    }
}

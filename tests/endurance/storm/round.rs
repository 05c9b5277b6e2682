//! What the threads of a round share.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use corewheel::{ScheduleError, TimerHandle, Unfired, WeakTimer};

use crate::fault;
use crate::record::{Probe, Records, TimerRecord, earliest, mark};
use crate::tally::Tally;

/// A handle that several threads use, and its timer's record.
pub type Shared = (Arc<TimerHandle>, &'static TimerRecord);

/// State that the threads of a round share.
pub struct Round {
    pub records: &'static Records,
    /// The thread that takes the record of this number shuts the timer down.
    pub shutdown_at: usize,
    /// The shutdown comes only after all timers have ended.
    pub drains: bool,
    pub resets_sleeps: bool,
    pub tick: Duration,
    pub limited: bool,
    pub timer: WeakTimer,
    pub shared: Mutex<Vec<Shared>>,
    pub tally: Mutex<Tally>,
}

impl Round {
    pub fn shared(&self) -> MutexGuard<'_, Vec<Shared>> {
        self.shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Keeps the timers that a shutdown has handed back.
    pub fn collect(&self, unfired: Unfired) {
        let mut tally = self.tally();
        tally.shutdowns += u32::from(unfired.len() > 0);
        tally.unfired.extend(unfired);
    }

    /// Records that a timer was refused.
    pub fn refused(&self, error: &ScheduleError<()>, record: &TimerRecord) {
        record.mark(mark::REFUSED);
        let expected = error.is_shutdown() || error.is_full() && self.limited;
        if !expected {
            fault::note(|| format!("a timer was refused for no reason: {error}"));
        }
    }

    /// Schedules one more timer, from inside a callback.
    pub fn continue_inside(&self) {
        if let Some(timer) = self.timer.upgrade()
            && let Some((_, [record])) = self.records.take(1)
        {
            let probe = Probe::new(record);
            let delay = self.tick;
            record.set_earliest(earliest(delay));
            match timer.schedule(delay, move || probe.run()) {
                Ok(_) => _ = record.mark(mark::ACCEPTED),
                Err(error) => self.refused(&error.without_closure(), record),
            }
        }
    }
}

//! The claimed holds, each with its timer.

use std::collections::HashMap;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use corewheel::{Executor, Timer, TimerHandle};

use crate::Result;
use crate::claim::Claimed;
use crate::clock::{DatabaseClock, Measured};

/// A hold whose timer has fired, and the lease under which it was claimed.
pub struct Due {
    pub id: i64,
    pub epoch: i64,
}

struct Entry {
    hold: Claimed,
    epoch: i64,
    handle: TimerHandle,
}

/// Fires each hold into a channel at its deadline by the database's clock.
pub struct Armed {
    timer: Timer,
    clock: Mutex<DatabaseClock>,
    sender: Sender<Due>,
    /// Locked before `clock`.
    entries: Mutex<HashMap<i64, Entry>>,
}

impl Armed {
    pub fn new(clock: DatabaseClock, sender: Sender<Due>) -> Result<Self> {
        // The callbacks only send, which does not block.
        let timer = Timer::builder().shards(1).executor(Executor::Inline).build()?;
        Ok(Self { timer, clock: Mutex::new(clock), sender, entries: Mutex::default() })
    }

    /// Arms each hold for the lease `epoch`. A hold that has a timer gets another one.
    pub fn arm(&self, epoch: i64, holds: &[Claimed]) -> Result<()> {
        self.arm_after(epoch, holds, Instant::now())
    }

    /// Arms holds that were not released though their timer had fired. Leaves a pause, so that the worker does not spin.
    pub fn arm_again(&self, epoch: i64, holds: &[Claimed]) -> Result<()> {
        self.arm_after(epoch, holds, Instant::now() + Duration::from_millis(5))
    }

    fn arm_after(&self, epoch: i64, holds: &[Claimed], earliest: Instant) -> Result<()> {
        let mut entries = lock(&self.entries);
        for &hold in holds {
            let at = lock(&self.clock).instant(hold.due).max(earliest);
            let (id, sender) = (hold.id, self.sender.clone());
            let fire = move || sender.send(Due { id, epoch }).unwrap_or(());
            let handle = self.timer.schedule_at(at, fire).map_err(|refused| refused.without_closure())?;
            if let Some(before) = entries.insert(id, Entry { hold, epoch, handle }) {
                before.handle.cancel();
            }
        }
        Ok(())
    }

    /// Removes holds that have ended or that the lease `epoch` has lost. Those of a later lease stay.
    pub fn remove(&self, epoch: i64, ids: &[i64]) {
        let mut entries = lock(&self.entries);
        for id in ids {
            if entries.get(id).is_some_and(|entry| entry.epoch == epoch) {
                entries.remove(id);
            }
        }
    }

    /// Removes all holds, because their lease is lost. Returns how many there were.
    pub fn clear(&self) -> usize {
        let entries = std::mem::take(&mut *lock(&self.entries));
        for entry in entries.values() {
            entry.handle.cancel();
        }
        entries.len()
    }

    /// Removes from `holds` those that have a timer.
    pub fn retain_unknown(&self, holds: &mut Vec<Claimed>) {
        let entries = lock(&self.entries);
        holds.retain(|hold| !entries.contains_key(&hold.id));
    }

    /// Takes a measurement into account. If a clock was set, every timer gets its new instant; returns whether.
    pub fn measured(&self, measured: Measured) -> bool {
        let entries = lock(&self.entries);
        let mut clock = lock(&self.clock);
        let set = clock.update(measured);
        if set {
            for entry in entries.values() {
                entry.handle.reset_at(clock.instant(entry.hold.due));
            }
        }
        set
    }

    /// Returns the local clock that deadlines are translated to.
    pub fn local_clock(&self) -> crate::clock::LocalClock {
        lock(&self.clock).local()
    }

    /// Returns the offset of the database's clock, and its bound, in microseconds.
    pub fn offset(&self) -> (i64, i64) {
        lock(&self.clock).offset()
    }
}

/// No holder panics with a half-made change.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

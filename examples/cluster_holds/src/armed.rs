//! The claimed holds, each with its timer.

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use corewheel::{Executor, Timer, TimerHandle};

use crate::Result;
use crate::claim::Claimed;
use crate::clock::{DatabaseClock, LocalClock, Measured};

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

    /// Arms each hold for the lease `epoch`. Cancels the timer of a hold for this lease or an earlier one.
    pub fn arm(&self, epoch: i64, holds: &[Claimed]) -> Result<()> {
        self.arm_after(epoch, holds, Instant::now())
    }

    /// Arms holds that were not released though their timer had fired, after a pause: the worker does not spin.
    pub fn arm_again(&self, epoch: i64, holds: &[Claimed]) -> Result<()> {
        self.arm_after(epoch, holds, Instant::now() + Duration::from_millis(5))
    }

    fn arm_after(&self, epoch: i64, holds: &[Claimed], earliest: Instant) -> Result<()> {
        let mut entries = lock(&self.entries);
        for &hold in holds {
            // The keeper may have lost the lease, and taken the hold over under the next one.
            if entries.get(&hold.id).is_some_and(|entry| entry.epoch > epoch) {
                continue;
            }
            let at = lock(&self.clock).instant(hold.due).max(earliest);
            let id = hold.id;
            let sender = self.sender.clone();
            let fire = move || sender.send(Due { id, epoch }).unwrap_or(());
            let handle = self.timer.schedule_at(at, fire)?;
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

    /// Removes all holds, because their lease is lost.
    pub fn clear(&self) {
        for entry in std::mem::take(&mut *lock(&self.entries)).into_values() {
            entry.handle.cancel();
        }
    }

    /// Returns the holds that have a timer, or whose timers have fired and that have not ended yet.
    pub fn ids(&self) -> HashSet<i64> {
        lock(&self.entries).keys().copied().collect()
    }

    /// Takes a measurement into account. If a clock was set, gives every timer its new instant and returns true.
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
    pub fn local_clock(&self) -> LocalClock {
        lock(&self.clock).local()
    }
}

/// No thread panics in the middle of a change, so a poisoned lock guards valid data.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);
    /// A hold that has been due for long.
    const DUE: Claimed = Claimed { id: 7, due: 0 };
    /// A hold that is due in a thousand years.
    const AHEAD: Claimed = Claimed { id: 8, due: 31_556_952_000_000_000 };

    fn armed() -> (Armed, Receiver<Due>) {
        let (sender, due) = channel();
        (Armed::new(DatabaseClock::local_only(LocalClock::new(0)), sender).unwrap(), due)
    }

    #[test]
    fn a_release_that_was_refused_does_not_replace_the_timer_of_a_later_lease() {
        let (armed, due) = armed();
        armed.arm(2, &[AHEAD]).unwrap();
        armed.arm_again(1, &[AHEAD]).unwrap();
        armed.remove(1, &[AHEAD.id]);
        assert!(armed.ids().contains(&AHEAD.id));
        armed.arm_again(2, &[DUE]).unwrap();
        assert_eq!(due.recv_timeout(LIMIT).map(|due| (due.id, due.epoch)), Ok((DUE.id, 2)));
    }
}

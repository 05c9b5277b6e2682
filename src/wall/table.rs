//! The deadlines of a wall timer in the order of both clocks, with their closures. The table knows no clock and no lock.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::mem;
use std::time::{Duration, SystemTime};

use super::looks::Start;
use crate::clock::{COUNTING_SUSPEND, Readings, TIME_OF_DAY, Ticks, duration_of, nanos_since_epoch};

/// A time by one of the clocks that jump, in the nanoseconds of its reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WallTime {
    clock: usize,
    nanos: i128,
}

impl WallTime {
    pub(super) fn at(time: SystemTime) -> Self {
        Self { clock: TIME_OF_DAY, nanos: nanos_since_epoch(time) }
    }

    pub(super) fn after(ticks: &Ticks, delay: Duration) -> Self {
        Self { clock: COUNTING_SUSPEND, nanos: ticks.read_jumping()[COUNTING_SUSPEND] + delay.as_nanos() as i128 }
    }

    /// Returns how long the time is ahead. Zero: it has come.
    pub(super) fn left(&self, now: Readings) -> Duration {
        duration_of((self.nanos - now[self.clock]).max(0) as u128)
    }
}

pub(super) type Closure = Box<dyn FnOnce() + Send>;

pub(super) struct Entry {
    at: WallTime,
    start: Start,
    f: Closure,
}

#[derive(Default)]
pub(super) struct Table {
    /// Under keys that are never used again, in the order in which they were inserted.
    pub(super) entries: BTreeMap<u64, Entry>,
    /// The entries that wait: all but those whose run was given to the service.
    waiting: BTreeSet<(WallTime, u64)>,
    /// Number of changes after which an earlier time may be the earliest. After others, a look may come in vain.
    pub(super) changes: u64,
}

impl Table {
    /// Adds a closure. Returns its key.
    pub(super) fn insert(&mut self, at: WallTime, start: Start, f: Closure) -> u64 {
        let key = self.changes;
        self.entries.insert(key, Entry { at, start, f });
        self.reset(key, at);
        key
    }

    /// Sets a new time. Returns whether the entry exists.
    pub(super) fn reset(&mut self, key: u64, at: WallTime) -> bool {
        let Some(entry) = self.entries.get_mut(&key) else { return false };
        self.waiting.remove(&(mem::replace(&mut entry.at, at), key));
        self.waiting.insert((at, key));
        self.changes += 1;
        true
    }

    pub(super) fn remove(&mut self, key: u64) -> Option<Closure> {
        let entry = self.entries.remove(&key)?;
        self.waiting.remove(&(entry.at, key));
        Some(entry.f)
    }

    /// Returns the entry that is due first: the nanoseconds that are left, or negative those that have passed.
    fn first(&self, now: Readings) -> Option<(i128, u64, WallTime)> {
        let firsts = [TIME_OF_DAY, COUNTING_SUSPEND].map(|clock| {
            let &(at, key) = self.waiting.range((WallTime { clock, nanos: i128::MIN }, 0)..).next()?;
            Some((at.nanos - now[at.clock], key, at))
        });
        firsts.into_iter().flatten().min()
    }

    /// Returns how long the time of the entry that is due first is ahead.
    pub(super) fn left(&self, now: Readings) -> Option<Duration> {
        self.first(now).map(|(.., at)| at.left(now))
    }

    /// Takes what is due, in the order of the times. The entries stay until they are [claimed](Self::claim).
    pub(super) fn take_due(&mut self, now: Readings) -> Vec<(u64, Start)> {
        let next = || {
            let (_, key, at) = self.first(now).filter(|&(left, ..)| left <= 0)?;
            self.waiting.remove(&(at, key));
            Some((key, self.entries[&key].start))
        };
        iter::from_fn(next).collect()
    }

    /// Takes the closure of a run that was given to the service. If its clock was set back meanwhile, it waits anew.
    pub(super) fn claim(&mut self, key: u64, now: Readings) -> Option<Closure> {
        let at = self.entries.get(&key)?.at;
        if at.left(now).is_zero() {
            return self.remove_given(key);
        }
        self.reset(key, at);
        None
    }

    /// Takes the closure of a run that was given to the service, unless it was reset meanwhile.
    pub(super) fn remove_given(&mut self, key: u64) -> Option<Closure> {
        let at = self.entries.get(&key)?.at;
        if self.waiting.contains(&(at, key)) { None } else { self.remove(key) }
    }

    /// Takes all closures, in the order in which they were inserted.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Closure> + use<> {
        self.waiting.clear();
        mem::take(&mut self.entries).into_values().map(|entry| entry.f)
    }
}

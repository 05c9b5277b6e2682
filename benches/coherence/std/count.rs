//! Counts accesses and transfers, with the source lines that cause them.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::{Mutex, MutexGuard};

use super::mesi::{Access, LINE, Lines};
use super::schedule;

/// The counts between [`begin`] and [`end`].
#[derive(Clone, Debug, Default)]
pub struct Count {
    /// Transfers to threads that are [callers](caller).
    pub callers: u64,
    /// Transfers to all other threads.
    pub others: u64,
    /// Accesses to shared memory by all threads.
    pub accesses: u64,
    /// Transfers by the source line of the access: file and line number.
    pub locations: BTreeMap<(&'static str, u32), u64>,
}

impl Count {
    pub fn transfers(&self) -> u64 {
        self.callers + self.others
    }
}

struct State {
    lines: Option<Lines>,
    /// `None` outside of a count; accesses then still change the states of lines.
    count: Option<Count>,
}

static STATE: Mutex<State> = Mutex::new(State { lines: None, count: None });

thread_local! {
    static IS_CALLER: Cell<bool> = const { Cell::new(false) };
    static IS_SILENT: Cell<bool> = const { Cell::new(false) };
}

/// Forgets all lines, as if all caches were empty.
pub(crate) fn reset() {
    *state() = State { lines: Some(Lines::default()), count: None };
}

/// Marks the calling thread as a caller, whose transfers are counted in [`Count::callers`].
pub fn caller() {
    IS_CALLER.set(true);
}

/// Starts a count.
pub fn begin() {
    state().count = Some(Count::default());
}

/// Ends the count, and returns it.
pub fn end() -> Count {
    state().count.take().expect("a count that was begun")
}

/// Calls `f`, whose accesses are not recorded because they belong to the harness.
pub fn silently<R>(f: impl FnOnce() -> R) -> R {
    let before = IS_SILENT.replace(true);
    let result = f();
    IS_SILENT.set(before);
    result
}

/// Records an access of the calling thread to all lines of a range of memory.
#[track_caller]
pub fn record(address: usize, size: usize, access: Access) {
    if IS_SILENT.get() || schedule::this().is_none() {
        return;
    }
    schedule::yield_perhaps();
    record_now(address, size, access, Location::caller());
}

fn record_now(address: usize, size: usize, access: Access, location: &'static Location<'static>) {
    let (Some(this), mut state) = (schedule::this(), state()) else { return };
    let State { lines: Some(lines), count } = &mut *state else { return };
    let last = address + size.max(1) - 1;
    for line in address / LINE..=last / LINE {
        let transferred = lines.access(line, this, access);
        let Some(count) = count else { continue };
        count.accesses += 1;
        if transferred {
            if IS_CALLER.get() {
                count.callers += 1
            } else {
                count.others += 1
            }
            *count.locations.entry((location.file(), location.line())).or_default() += 1;
        }
    }
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

//! `AtomicDuration`: a time that one thread at a time sets, and any thread reads without a lock.
//!
//! A `Duration` has more bits than an atomic. So there are two cells, and a version whose lowest bit says which of them
//! is valid. The writer fills the other cell, and then publishes the next version. A reader checks the version after it
//! has read the cell: the writer overwrites that cell only after it has published a newer version. So a read is
//! lock-free: it is repeated only if the time has changed meanwhile.
//!
//! A driver first publishes until when it sleeps, and then reads the time. The thread that advances the clock
//! first sets the time, and then looks for such sleeps, with a fence in between on both sides. So one of the two sees
//! the other. Loom models `elapsed` and `quiescence`.

use std::time::Duration;

use crate::sync::{AtomicU64, Ordering, fence};

/// A time that one thread at a time sets, at first zero.
#[derive(Default)]
pub(crate) struct AtomicDuration {
    version: AtomicU64,
    cells: [Cell; 2],
}

#[derive(Default)]
struct Cell {
    secs: AtomicU64,
    nanos: AtomicU64,
}

impl AtomicDuration {
    /// Returns the time. Lock-free.
    pub(crate) fn get(&self) -> Duration {
        loop {
            // Acquire: pairs with `set`.
            let version = self.version.load(Ordering::Acquire);
            let cell = &self.cells[(version % 2) as usize];
            let (secs, nanos) = (cell.secs.load(Ordering::Relaxed), cell.nanos.load(Ordering::Relaxed));
            // Acquire: if a later `set` has written one of the two, the load below sees a later version; pairs with the
            // fence of the `set` before that.
            fence(Ordering::Acquire);
            if self.version.load(Ordering::Relaxed) == version {
                return Duration::new(secs, nanos as u32);
            }
        }
    }

    /// Sets the time. One thread at a time may call this.
    pub(crate) fn set(&self, time: Duration) {
        let next = self.version.load(Ordering::Relaxed) + 1;
        let cell = &self.cells[(next % 2) as usize];
        cell.secs.store(time.as_secs(), Ordering::Relaxed);
        cell.nanos.store(time.subsec_nanos().into(), Ordering::Relaxed);
        // Release: publishes the cell; pairs with `get`.
        self.version.store(next, Ordering::Release);
        // SeqCst: the time is set before the caller looks for sleeps; see the file's head. The fence also publishes
        // this version with what the next call writes into a cell.
        fence(Ordering::SeqCst);
    }
}

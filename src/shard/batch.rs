//! Timers that are due, on their way through the executor.
//!
//! Workers take the timers of a batch one by one from a common cursor, so they start in the order of their deadlines.
//! At first there is one worker, as to wake another costs as much as many callbacks. The driver
//! [looks after](super::stragglers) batches that take long: idle workers then take timers from the same cursor. So a slow
//! callback holds up no other for long while a worker is idle. Halving the batch with `rayon::join` instead would take
//! fewer steps, but a worker that waits for a stolen half runs other batches meanwhile, one on top of the other, and
//! their callbacks end up waiting for each other on one stack.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::binding::Shard;
use crate::executor;

/// Entries with the flag `DISPATCHED`, in the order of their deadlines. Dropping it ends their timers unrun, but for those that
/// were reset to a later deadline since.
pub(crate) struct Batch {
    shard: Arc<Shard>,
    due: u64,
    entries: Vec<u32>,
    /// How many of the entries have been taken.
    taken: AtomicUsize,
}

impl Batch {
    /// What was due at the tick `due`.
    pub(crate) fn new(shard: Arc<Shard>, due: u64, entries: Vec<u32>) -> Self {
        Self { shard, due, entries, taken: AtomicUsize::new(0) }
    }

    /// Takes the next entry. Wait-free.
    fn next(&self) -> Option<u32> {
        // Relaxed: the entries came with the batch, and each is taken once.
        self.entries.get(self.taken.fetch_add(1, Ordering::Relaxed)).copied()
    }

    /// Takes all that is left, and leaves it to the shutdown, which ends every timer.
    fn leave_to_shutdown(&self) {
        // Relaxed: as above.
        self.taken.store(self.entries.len(), Ordering::Relaxed);
    }
}

impl executor::Batch for Batch {
    fn run(&self) {
        while self.run_one() {}
    }

    fn run_one(&self) -> bool {
        let next = self.next();
        if let Some(index) = next {
            self.shard.run(index, self.due);
        }
        next.is_some()
    }

    fn is_started(&self) -> bool {
        // Relaxed: a hint.
        self.taken.load(Ordering::Relaxed) > 0
    }

    fn is_exhausted(&self) -> bool {
        // Relaxed: a hint.
        self.taken.load(Ordering::Relaxed) >= self.entries.len()
    }

    fn into_singles(self) -> impl Iterator<Item = Self> {
        std::iter::from_fn(move || {
            if self.shard.core.is_closing() {
                self.leave_to_shutdown();
            }
            self.next().map(|index| Self::new(self.shard.clone(), self.due, vec![index]))
        })
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        while let Some(index) = self.next() {
            self.shard.discard(index, self.due);
        }
    }
}

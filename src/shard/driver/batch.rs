//! `TimerBatch`: up to 256 expired timers on their way through the executor.
//!
//! The driver makes a batch, and either dispatches it to the executor or lends itself to a worker together with it.
//! Each entry in it is `DISPATCHED`, until a worker [runs](crate::shard::hooks) it or the drop of the batch discards it.
//!
//! Workers take the entries one by one from a shared cursor, so callbacks start in the order of their deadlines. A
//! batch has one worker at first, because waking another costs as much as many callbacks. The driver
//! [watches](super::stragglers) the batch. If it takes too long, idle workers take entries from the same cursor. So a
//! slow callback delays no other for long while a worker is idle.
//!
//! Rejected: to halve the batch with `rayon::join`, which needs fewer steps. A worker that waits for a stolen half runs
//! other batches meanwhile, on top of the first. Their callbacks then wait for each other on one stack.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::executor;
use crate::shard::Shard;

/// Dispatched entries in the order of their deadlines.
///
/// Dropping a batch cancels the timers that no worker has taken, except those that were reset to a later deadline.
pub(super) struct TimerBatch {
    shard: Arc<Shard>,
    /// The tick at which the entries expired.
    due: u64,
    entries: Vec<u32>,
    /// The cursor: index of the next entry. It may exceed the length, when several workers find the end.
    taken: AtomicUsize,
}

impl TimerBatch {
    /// Creates a batch of entries that expired at tick `due`.
    pub(super) fn new(shard: Arc<Shard>, due: u64, entries: Vec<u32>) -> Self {
        Self { shard, due, entries, taken: AtomicUsize::new(0) }
    }

    /// Returns whether the batch was created without entries.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Takes the next entry. Wait-free.
    fn next(&self) -> Option<u32> {
        // Relaxed: the `Arc` of the batch publishes its entries, and `fetch_add` returns each index once.
        self.entries.get(self.taken.fetch_add(1, Ordering::Relaxed)).copied()
    }

    /// Leaves the remaining entries to the shutdown, which ends every timer.
    pub(super) fn leave_to_shutdown(&self) {
        // Relaxed: as above.
        self.taken.store(self.entries.len(), Ordering::Relaxed);
    }
}

impl executor::Batch for TimerBatch {
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

impl Drop for TimerBatch {
    fn drop(&mut self) {
        while let Some(index) = self.next() {
            self.shard.discard(index, self.due);
        }
    }
}

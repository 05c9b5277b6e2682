//! `TimerBatch`: some hundred expired timers on their way through the executor.
//!
//! A batch has what expired in some turns, of one shard or of several. Each entry in it is `DISPATCHED`, until a worker
//! [runs](crate::shard::Shard::run) it or the drop of the batch discards it.
//!
//! Workers take the entries one by one from a shared cursor, so callbacks start in the order of their deadlines. A
//! batch has one worker at first, because waking another costs as much as many callbacks. If it takes long, the
//! [queue](crate::executor) gives it to idle workers, too, which take entries from the same cursor. So a slow callback
//! delays no other for long while a worker is idle.
//!
//! Rejected: to halve the batch with `rayon::join`, which needs fewer steps. A worker that waits for a stolen half runs
//! other batches meanwhile, on top of the first. Their callbacks then wait for each other on one stack.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::engine::deliveries::Deliveries;
use crate::executor;
use crate::shard::Shard;

/// How far ahead of the cursor a worker fetches an entry, of which the driver's core has the latest copy. With a million
/// timers within a second, a firing takes a tenth less CPU time.
const AHEAD: usize = 4;

/// Dispatched entries. Those of one shard are in the order of their deadlines.
///
/// Dropping a batch cancels the timers that no worker has taken, except those that were reset to a later deadline.
#[derive(Default)]
pub(super) struct TimerBatch {
    /// For each turn: the shard, the tick at which its timers expired, and the index after its last entry.
    parts: Vec<(Arc<Shard>, u64, usize)>,
    entries: Vec<u32>,
    /// The cursor: index of the next entry. It may exceed the length, when several workers find the end.
    taken: AtomicUsize,
}

impl TimerBatch {
    /// Takes the entries that expired in one turn, at tick `due`.
    pub(super) fn append(&mut self, shard: &Arc<Shard>, due: u64, entries: &mut Vec<u32>) {
        if !entries.is_empty() {
            self.entries.append(entries);
            self.parts.push((shard.clone(), due, self.entries.len()));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Runs all entries that no thread has taken.
    pub(super) fn run(&self) {
        executor::Batch::run(self, &|| ());
    }

    /// Takes the next entry, with its shard and the tick at which its timer expired. Wait-free.
    #[inline(always)]
    fn next_entry(&self) -> Option<(&Arc<Shard>, u64, u32)> {
        // Relaxed: the `Arc` of the batch publishes its entries, and `fetch_add` returns each index once.
        let at = self.taken.fetch_add(1, Ordering::Relaxed);
        let &index = self.entries.get(at)?;
        let (shard, due) = self.part(at);
        // The child of a fork may have a job of a custom executor. The timers stay with the parent.
        if shard.is_inherited() {
            return None;
        }
        // The first of a batch fetches those that follow.
        let next = if at == 0 { 1 } else { at + AHEAD };
        for ahead in next..=at + AHEAD {
            if let Some(&index) = self.entries.get(ahead) {
                self.part(ahead).0.core.slab.get(index).prefetch();
            }
        }
        Some((shard, due, index))
    }

    /// Returns the shard of the entry at this index, and the tick at which its timer expired.
    #[inline(always)]
    fn part(&self, at: usize) -> (&Arc<Shard>, u64) {
        let (shard, due, _) = &self.parts[self.parts.partition_point(|&(.., end)| end <= at)];
        (shard, *due)
    }
}

impl executor::Batch for TimerBatch {
    fn run(&self, after_each: &dyn Fn()) {
        while let Some((shard, due, index)) = self.next_entry() {
            shard.run(index, due, &mut Deliveries::default());
            after_each();
        }
    }

    fn is_exhausted(&self) -> bool {
        // Relaxed: a hint.
        self.taken.load(Ordering::Relaxed) >= self.entries.len()
    }

    fn into_singles(self) -> impl Iterator<Item = Self> {
        std::iter::from_fn(move || {
            let (shard, due, index) = self.next_entry()?;
            let single =
                Self { parts: vec![(shard.clone(), due, 1)], entries: vec![index], taken: AtomicUsize::new(0) };
            if shard.core.is_closing() {
                // The shutdown ends every timer that is left here.
                self.taken.store(self.entries.len(), Ordering::Relaxed);
                single.taken.store(1, Ordering::Relaxed);
                return None;
            }
            Some(single)
        })
    }
}

impl Drop for TimerBatch {
    fn drop(&mut self) {
        while let Some((shard, due, index)) = self.next_entry() {
            shard.discard(index, due);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::{ManualClock, Ticks};
    use crate::engine::memory::Slab;
    use crate::engine::wakeup::DriverWakeup;
    use crate::shard::ShardSettings;

    #[test]
    fn each_entry_has_the_tick_of_its_turn() {
        let ticks = Ticks::new(Some(ManualClock::new()), Duration::from_millis(1));
        let slab = Slab::new().unwrap();
        assert!(slab.alloc(|_| ()).is_ok());
        let shard = Shard::new(slab, DriverWakeup::alone(), ticks, ShardSettings::default());
        let appended = [(1, 10), (1, 11), (2, 12)];
        let mut batch = TimerBatch::default();
        batch.append(&shard, 1, &mut vec![10, 11]);
        batch.append(&shard, 2, &mut vec![12]);
        let lengths = (batch.entries.len(), batch.parts.len());
        // Before anything can fail: the drop of the batch discards what is left.
        let taken: Vec<_> = std::iter::from_fn(|| batch.next_entry().map(|(_, due, index)| (due, index))).collect();
        assert_eq!((lengths, &taken[..]), ((3, 2), &appended[..]));
    }
}

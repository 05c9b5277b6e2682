//! Timers that are due, on their way through the executor.

use std::sync::Arc;

use super::Shard;
use crate::executor::Work;

/// Entries with the flag `QUEUED`, in the order of their deadlines. Dropping it ends their timers unrun.
pub(crate) struct Batch {
    hold: Hold,
    due: u64,
    entries: Vec<u32>,
}

/// Keeps the shard alive, and lets whoever settles it know that a batch is under way.
struct Hold(Arc<Shard>);

impl Hold {
    fn new(shard: Arc<Shard>) -> Self {
        shard.settling.begin();
        Self(shard)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.settling.end();
    }
}

impl Batch {
    /// What was due at the tick `due`.
    pub(crate) fn new(shard: Arc<Shard>, due: u64, entries: Vec<u32>) -> Self {
        Self { hold: Hold::new(shard), due, entries }
    }

    fn run_one(&self, index: u32) {
        let shard = &*self.hold.0;
        shard.core.run(index, self.due, &shard);
    }

    fn take_entries(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.entries)
    }
}

impl Work for Batch {
    fn run(mut self) {
        for index in self.take_entries() {
            self.run_one(index);
        }
    }

    fn run_shared(mut self) {
        fn split(batch: &Batch, entries: &[u32]) {
            match entries {
                [] => {}
                &[index] => batch.run_one(index),
                _ => {
                    let (first, second) = entries.split_at(entries.len() / 2);
                    rayon::join(|| split(batch, first), || split(batch, second));
                }
            }
        }
        let entries = self.take_entries();
        split(&self, &entries);
    }

    fn singles(mut self) -> impl Iterator<Item = Self> {
        let entries = self.take_entries();
        entries.into_iter().map(move |index| Self::new(self.hold.0.clone(), self.due, vec![index]))
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        for index in self.take_entries() {
            self.hold.0.core.discard(index, &&*self.hold.0);
        }
    }
}

//! The roll: which threads count and keep entries for a shard, as they come and go.
//!
//! ```text
//! page ──► { the sum of those who left, [record of thread A, record of thread B, ..] }
//! ```
//!
//! The roll is one page, never changed: who joins or leaves writes a new page and puts it in place of the old by one
//! compare-exchange. So who leaves takes his record off the page and puts his counts onto it in the same step, and a
//! reader, who reads one page from beginning to end, never misses a count or sees it twice. The old page may still be read
//! by others: it is retired through [`crossbeam_epoch`]. A record lives as long as a page names it, or its thread counts on
//! it, which may be a little longer than the shard.
//!
//! Joining and leaving copy the page, which costs by the number of threads: they happen once a thread. They are
//! lock-free: an attempt fails only where another succeeded. Reading is wait-free. Loom model `roll`, which is explored with
//! an epoch that loom knows.

use crossbeam_epoch::{self as epoch, Atomic, Owned};

use crate::stats::{Record, ShardStats};
use crate::sync::{Arc, Ordering};

pub(crate) struct Roll(Atomic<Page>);

struct Page {
    left: Arc<ShardStats>,
    present: Vec<Arc<Record>>,
}

impl Roll {
    pub(crate) fn new() -> Self {
        Self(Atomic::new(Page { left: Arc::default(), present: Vec::new() }))
    }

    /// Enters a new record.
    pub(crate) fn join(&self) -> Arc<Record> {
        let record = Arc::new(Record::default());
        self.turn_page(|page| Page {
            left: page.left.clone(),
            present: page.present.iter().chain([&record]).cloned().collect(),
        });
        record
    }

    /// Takes a record off, and keeps its counts. Nobody must count on it any more.
    pub(crate) fn leave(&self, record: &Arc<Record>) {
        let counts = record.read();
        self.turn_page(|page| {
            let mut left = (*page.left).clone();
            left += &counts;
            Page {
                left: Arc::new(left),
                present: page.present.iter().filter(|other| !Arc::ptr_eq(other, record)).cloned().collect(),
            }
        });
    }

    /// The sum of all that was counted.
    pub(crate) fn read(&self) -> ShardStats {
        let guard = epoch::pin();
        // Acquire: pairs with the release of the page.
        let page = self.0.load(Ordering::Acquire, &guard);
        // SAFETY: there always is a page, and the guard keeps it from being freed.
        let page = unsafe { page.deref() };
        let mut sum = (*page.left).clone();
        for record in &page.present {
            sum += &record.read();
        }
        sum
    }

    fn turn_page(&self, write: impl Fn(&Page) -> Page) {
        let guard = epoch::pin();
        loop {
            let old = self.0.load(Ordering::Acquire, &guard);
            // SAFETY: there always is a page, and the guard keeps it from being freed.
            let new = Owned::new(write(unsafe { old.deref() }));
            // Release: publishes the new page, and the record on it.
            let turned = self.0.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire, &guard);
            if turned.is_ok() {
                // SAFETY: it is out of reach for those that come, and retired once.
                unsafe { guard.defer_destroy(old) };
                guard.flush();
                return;
            }
        }
    }
}

impl Drop for Roll {
    fn drop(&mut self) {
        // SAFETY: nobody else has the roll, so nobody else reads its page.
        drop(unsafe { std::mem::take(&mut self.0).into_owned() });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn counts_stay_when_their_thread_leaves() {
        let roll = Roll::new();
        let (stays, leaves) = (roll.join(), roll.join());
        stays.scheduled.add(1, false);
        leaves.scheduled.add(10, false);
        roll.leave(&leaves);
        stays.scheduled.add(100, false);
        assert_eq!(roll.read().scheduled, 111);
    }

    #[test]
    fn threads_that_come_and_go_lose_no_count() {
        let roll = Roll::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let record = roll.join();
                        record.fired.add(1, false);
                        roll.leave(&record);
                    }
                });
            }
            let mut last = 0;
            while last < 800 {
                let now = roll.read().fired;
                assert!((last..=800).contains(&now));
                last = now;
            }
        });
    }
}

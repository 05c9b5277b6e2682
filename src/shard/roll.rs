//! The roll: which threads count and keep entries for a shard, as they come and go.
//!
//! ```text
//! page ──► { the sum of those who left, [record of thread A, record of thread B, ..] }
//! ```
//!
//! The roll is one page, never changed: who joins or leaves writes a new page and puts it in place of the old by one
//! compare-exchange. So who leaves takes his record off the page and puts his counts onto it in the same step, and a
//! reader, who reads one page from beginning to end, never misses a count or sees it twice. The old page, and the record
//! of one who left, may still be read by others: they are retired through [`crossbeam_epoch`].
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
    present: Vec<*const Record>,
}

// SAFETY: a page owns nothing that its thread could not share: the records are `Sync`.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Roll {
    pub(crate) fn new() -> Self {
        Self(Atomic::new(Page { left: Arc::default(), present: Vec::new() }))
    }

    /// Enters a new record, which is valid until it [leaves](Self::leave), or the roll is dropped.
    pub(crate) fn join(&self) -> *const Record {
        let record = Box::into_raw(Box::<Record>::default()).cast_const();
        self.turn_page(|page| Page {
            left: page.left.clone(),
            present: page.present.iter().copied().chain([record]).collect(),
        });
        record
    }

    /// Takes a record off, and keeps its counts.
    ///
    /// # Safety
    /// The record must be one that joined this roll and has not left, and nobody may count on it any more.
    pub(crate) unsafe fn leave(&self, record: *const Record) {
        // SAFETY: it is on the roll, so it is valid.
        let counts = unsafe { &*record }.read();
        self.turn_page(|page| {
            let mut left = (*page.left).clone();
            left += &counts;
            Page {
                left: Arc::new(left),
                present: page.present.iter().copied().filter(|&other| other != record).collect(),
            }
        });
        let guard = epoch::pin();
        let record = record.cast_mut() as usize;
        // SAFETY: no page names it any more but those that readers pinned earlier are in the middle of, and it is
        // retired once.
        unsafe { guard.defer_unchecked(move || drop(Box::from_raw(record as *mut Record))) };
        guard.flush();
    }

    /// The sum of all that was counted.
    pub(crate) fn read(&self) -> ShardStats {
        let guard = epoch::pin();
        // Acquire: pairs with the release of the page.
        let page = self.0.load(Ordering::Acquire, &guard);
        // SAFETY: there always is a page, and the guard keeps it and the records on it from being freed.
        let page = unsafe { page.deref() };
        let mut sum = (*page.left).clone();
        for &record in &page.present {
            // SAFETY: as above.
            sum += &unsafe { &*record }.read();
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
        // SAFETY: nobody else has the roll, so nobody else reads its page, or the records on it.
        unsafe {
            let page = std::mem::take(&mut self.0).into_owned().into_box();
            for record in page.present {
                drop(Box::from_raw(record.cast_mut()));
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn counts_stay_when_their_thread_leaves() {
        let roll = Roll::new();
        let (stays, leaves) = (roll.join(), roll.join());
        // SAFETY: both are on the roll.
        let count = |record: *const Record, by| unsafe { &*record }.scheduled.add(by, false);
        count(stays, 1);
        count(leaves, 10);
        // SAFETY: it joined, and nobody counts on it any more.
        unsafe { roll.leave(leaves) };
        count(stays, 100);
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
                        // SAFETY: it has just joined, and leaves after.
                        unsafe {
                            (*record).fired.add(1, false);
                            roll.leave(record);
                        }
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

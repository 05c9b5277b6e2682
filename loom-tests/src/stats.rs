//! Counts whose memory loom watches: loom does not see a plain allocation that is read too late, but it sees that the drop
//! of what is in it is not ordered after the reading.

use crate::sync::{AtomicU64, Ordering, UnsafeCell};

/// Every reader of the value that it is a part of touches it; the thread that makes or frees that value changes it.
struct Watched(UnsafeCell<()>);

impl Watched {
    fn look(&self) {
        self.0.with(|_| ());
    }

    fn change(&self) {
        self.0.with_mut(|_| ());
    }
}

// SAFETY: that is what loom watches.
unsafe impl Send for Watched {}
// SAFETY: as above.
unsafe impl Sync for Watched {}

impl Default for Watched {
    fn default() -> Self {
        let watched = Self(UnsafeCell::new(()));
        watched.change();
        watched
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.change();
    }
}

#[derive(Default)]
pub(crate) struct Record {
    scheduled: AtomicU64,
    watched: Watched,
    /// Changed by every thread that counts: loom reports two that have the same record at once.
    owner: Watched,
}

impl Record {
    pub(crate) fn count(&self) {
        self.owner.change();
        // Only its own thread counts on it.
        self.scheduled.store(self.scheduled.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub(crate) fn add_to(&self, sum: &mut ShardStats) {
        self.watched.look();
        sum.scheduled += self.scheduled.load(Ordering::Relaxed);
    }
}

#[derive(Default)]
pub(crate) struct ShardStats {
    pub(crate) scheduled: u64,
    watched: Watched,
}

impl Clone for ShardStats {
    fn clone(&self) -> Self {
        self.watched.look();
        Self { scheduled: self.scheduled, ..Self::default() }
    }
}
